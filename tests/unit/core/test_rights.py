"""The verbs that we use, what they are for, and the manifests that grant just these."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_training.core.check_up import State
from gpu_training.core.rights import KUEUE_GROUP, RIGHTS, VISIBILITY_GROUP, Right, check_rights, rights_for

pytestmark = pytest.mark.core

MANIFESTS = Path(__file__).parents[3] / "include" / "manifests"


def granted() -> set[tuple[str, ...]]:
    """Give group, resource, verb and object name of everything that the manifests grant."""
    found = set()
    for name in yaml.safe_load((MANIFESTS / "kustomization.yaml").read_text())["resources"]:
        for document in yaml.safe_load_all((MANIFESTS / name).read_text()):
            for rule in document.get("rules", ()) if document["kind"] in ("Role", "ClusterRole") else ():
                found |= set(_of_rule(rule))
    return found


def _of_rule(rule: dict[str, Any]) -> list[tuple[str, ...]]:
    return [
        (group, resource, verb, name)
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    ]


def test_the_manifests_grant_what_is_used_and_nothing_else() -> None:
    used = {(each.group, each.resource, each.verb, each.name) for each in RIGHTS if each.granted}
    assert granted() == used


def test_no_right_reads_a_secret_or_deletes_a_pod() -> None:
    assert not [each for each in RIGHTS if each.resource.startswith("secrets")]
    assert not [
        each for each in RIGHTS if each.resource == "pods" and each.verb not in ("get", "list", "watch", "create")
    ]


def test_every_right_says_what_it_is_for() -> None:
    assert all(each.use for each in RIGHTS)
    assert len(set(RIGHTS)) == len(RIGHTS)


@pytest.mark.parametrize(("served", "asked"), [((), False), ((KUEUE_GROUP, VISIBILITY_GROUP), True)])
def test_rights_on_kueue_are_asked_for_where_there_is_kueue(served: tuple[str, ...], asked: bool) -> None:
    groups = {each.group for each in rights_for(served)}
    assert (KUEUE_GROUP in groups) is asked
    assert {"", "batch"} <= groups


JOBS = [right for right in RIGHTS if right.resource == "jobs"]
NODES = [right for right in RIGHTS if right.resource == "nodes"]


@pytest.mark.parametrize(
    ("rights", "refused", "state", "said", "remedy"),
    [
        (JOBS, (), State.OK, "may create, get, list, watch, patch, delete jobs", ""),
        (JOBS, ("create",), State.BROKEN, "may not create jobs (create: start a training)", "allow create on jobs"),
        (JOBS, ("watch", "patch"), State.BROKEN, "may not watch, patch jobs", "allow watch, patch on jobs"),
        (NODES, ("list",), State.WARNING, "trainings run, but nobody is told which nodes", "apply include/manifests"),
    ],
)
def test_a_missing_verb_is_told_with_its_use_and_its_remedy(
    rights: list[Right], refused: tuple[str, ...], state: State, said: str, remedy: str
) -> None:
    (check,) = check_rights({right: right.verb not in refused for right in rights}, "namespace gpu-training")
    assert check.state is state
    assert said in check.said
    assert remedy in check.remedy
    assert bool(check.remedy) is (state is not State.OK)


def test_pods_of_other_namespaces_are_a_choice_and_not_a_fault() -> None:
    (right,) = [each for each in RIGHTS if not each.granted]
    (check,) = check_rights({right: False}, "namespace gpu-training")
    assert (check.name, check.state) == ("rights/pods/everywhere", State.WARNING)
    assert check.remedy.startswith("leave it")


def test_no_answer_is_no_right_and_no_fault() -> None:
    (check,) = check_rights(dict.fromkeys(JOBS), "namespace gpu-training")
    assert check.state is State.UNKNOWN
