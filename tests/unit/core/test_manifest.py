"""The whole Job document, and what becomes of a base document's own wishes."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.unit.core.specs import SETTINGS, full_document, identity, spec

from gpu_training.core.errors import ConfigurationError
from gpu_training.core.failure_policy import build_failure_policy
from gpu_training.core.manifest import build_job
from gpu_training.core.naming import ANNOTATION_WAITERS, LABEL_MODEL, QUEUE_LABEL
from gpu_training.core.spec import parse_training_spec
from gpu_training.core.waiters import waiters_of
from gpu_training.rule_table import built_in_rules, rules_for

pytestmark = pytest.mark.core

FULL = parse_training_spec(full_document())
GOLDEN = Path(__file__).parent / "golden" / "full_job.json"

IGNORE = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
RULES = built_in_rules()
FINAL = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [80, 81, 82, 83]}}


def build(base: Mapping[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    of = spec(**changes)
    return build_job(base or {}, of, identity(of), SETTINGS, RULES)


def pod_base(**fields: Any) -> dict[str, Any]:
    return {"spec": {"template": {"spec": fields}}}


def pod_of(job: dict[str, Any]) -> dict[str, Any]:
    pod: dict[str, Any] = job["spec"]["template"]["spec"]
    return pod


def training_of(job: dict[str, Any]) -> dict[str, Any]:
    container: dict[str, Any] = next(c for c in pod_of(job)["containers"] if c["name"] == "training")
    return container


@pytest.mark.case("C013")
@pytest.mark.case("C028")
def test_a_full_spec_gives_exactly_this_job() -> None:
    assert build_job({}, FULL, identity(FULL), SETTINGS, rules_for(FULL.failure_rules)) == json.loads(
        GOLDEN.read_text()
    )


def test_the_smallest_spec_leaves_out_what_it_does_not_ask_for() -> None:
    job = build()
    pod, container = pod_of(job), training_of(job)
    for absent in ("nodeSelector", "imagePullSecrets", "runtimeClassName", "priorityClassName", "initContainers"):
        assert absent not in pod
    assert QUEUE_LABEL not in job["metadata"]["labels"]
    assert [volume["name"] for volume in pod["volumes"]] == ["shared-memory"]
    assert container["args"] == ["--data-version=2026-03-01"]
    assert "GPU_TRAINING_CHECKPOINT_URI" not in [entry["name"] for entry in container["env"]]


@pytest.mark.parametrize(
    ("base", "changes", "seconds"),
    [
        ({}, {}, 30),
        ({}, {"grace_seconds": 120}, 120),
        ({"terminationGracePeriodSeconds": 60}, {}, 60),
        ({"terminationGracePeriodSeconds": 0}, {}, 0),
        ({"terminationGracePeriodSeconds": 120}, {"grace_seconds": 120}, 120),
    ],
)
def test_the_program_is_told_how_long_it_has_after_the_notice_of_a_reclaim(
    base: dict[str, Any], changes: dict[str, Any], seconds: int
) -> None:
    job = build(pod_base(**base), **changes)
    assert pod_of(job)["terminationGracePeriodSeconds"] == seconds
    told = {entry["name"]: entry.get("value") for entry in training_of(job)["env"]}
    assert told["GPU_TRAINING_GRACE_SECONDS"] == str(seconds)


@pytest.mark.parametrize(
    ("base", "changes"),
    [(60, {"grace_seconds": 120}), (7200, {}), ("60", {}), (True, {}), (-1, {})],
)
def test_a_base_with_another_grace_period_or_none_that_can_be_is_refused(base: object, changes: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="terminationGracePeriodSeconds"):
        build(pod_base(terminationGracePeriodSeconds=base), **changes)


def test_shared_memory_can_be_left_out() -> None:
    job = build(shared_memory="0")
    assert pod_of(job)["volumes"] == []
    assert training_of(job)["volumeMounts"] == []


def test_who_waits_stands_on_the_job_alone() -> None:
    """A pod template can not change, and others come and go."""
    job = build()
    assert ANNOTATION_WAITERS in job["metadata"]["annotations"]
    assert ANNOTATION_WAITERS not in job["spec"]["template"]["metadata"]["annotations"]


def test_an_argument_is_one_word_so_that_no_value_becomes_an_option() -> None:
    arguments = {"note": "--data-version=other --x", "lines": "a\nb"}
    assert training_of(build(arguments=arguments))["args"] == [
        "--data-version=2026-03-01",
        "--lines=a\nb",
        "--note=--data-version=other --x",
    ]


def test_building_twice_gives_the_same_and_shares_nothing() -> None:
    base = pod_base(initContainers=[{"name": "download"}], containers=[{"name": "proxy"}])
    kept = copy.deepcopy(base)
    first, second = build(base), build(base)
    assert base == kept
    assert first == second
    training_of(first)["securityContext"]["capabilities"]["drop"].append("x")
    pod_of(first)["initContainers"][0]["securityContext"]["capabilities"]["drop"].append("x")
    assert pod_of(second)["initContainers"][0]["securityContext"]["capabilities"]["drop"] == ["ALL"]
    assert build(base) == second


# A base document: what KubernetesJobOperator builds from its parameters and full_job_spec.


@pytest.mark.case("C087")
def test_what_only_the_base_says_is_kept() -> None:
    base = {
        "metadata": {"labels": {"team": "flights"}, "annotations": {"note": "x"}},
        "spec": {
            "parallelism": 4,
            "completions": 4,
            "completionMode": "Indexed",
            "suspend": False,
            "template": {
                "metadata": {"labels": {"team": "flights"}, "annotations": {"sidecar.istio.io/inject": "false"}},
                "spec": {
                    "terminationGracePeriodSeconds": 120,
                    "automountServiceAccountToken": True,
                    "nodeSelector": {"gpu": "h200"},
                    "tolerations": [{"key": "spot", "operator": "Exists"}],
                    "imagePullSecrets": [{"name": "mine"}],
                    "securityContext": {"runAsUser": 2000, "supplementalGroups": [7]},
                    "volumes": [{"name": "data", "emptyDir": {}}],
                    "initContainers": [{"name": "download", "securityContext": {"privileged": False}}],
                    "containers": [
                        {"name": "proxy", "image": "proxy:1"},
                        {
                            "name": "training",
                            "workingDir": "/app",
                            "env": [{"name": "MINE", "value": "$(DATA_VERSION)"}],
                            "envFrom": [{"secretRef": {"name": "mine"}}],
                            "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                            "lifecycle": {"preStop": {"sleep": {"seconds": 5}}},
                        },
                    ],
                },
            },
        },
    }
    job = build(base, node_selector={"workload": "gpu-training"}, image_pull_secrets=["registry"])
    assert {key: job["spec"][key] for key in ("parallelism", "completions", "completionMode", "suspend")} == {
        "parallelism": 4,
        "completions": 4,
        "completionMode": "Indexed",
        "suspend": False,
    }
    assert job["metadata"]["labels"].items() >= {"team": "flights", LABEL_MODEL: "flight-delay"}.items()
    assert job["metadata"]["annotations"]["note"] == "x"
    template = job["spec"]["template"]
    assert template["metadata"]["labels"]["team"] == "flights"
    assert template["metadata"]["annotations"]["sidecar.istio.io/inject"] == "false"
    pod, container = pod_of(job), training_of(job)
    assert (pod["terminationGracePeriodSeconds"], pod["automountServiceAccountToken"]) == (120, True)
    assert pod["nodeSelector"] == {"gpu": "h200", "workload": "gpu-training"}
    assert [entry["key"] for entry in pod["tolerations"]] == ["spot", "nvidia.com/gpu"]
    assert pod["imagePullSecrets"] == [{"name": "mine"}, {"name": "registry"}]
    assert pod["securityContext"].items() >= {"runAsUser": 2000, "runAsNonRoot": True, "fsGroup": 1000}.items()
    assert [volume["name"] for volume in pod["volumes"]] == ["shared-memory", "data"]
    assert pod["initContainers"][0]["securityContext"].items() >= {"privileged": False}.items()
    assert pod["initContainers"][0]["securityContext"]["allowPrivilegeEscalation"] is False
    assert [entry["name"] for entry in pod["containers"]] == ["proxy", "training"]
    assert (container["workingDir"], container["lifecycle"]) == ("/app", {"preStop": {"sleep": {"seconds": 5}}})
    # Behind the operator's own, whose values it may name.
    assert [entry["name"] for entry in container["env"]][-1] == "MINE"
    assert container["envFrom"] == [{"secretRef": {"name": "mine"}}]
    assert [mount["mountPath"] for mount in container["volumeMounts"]] == ["/dev/shm", "/data"]  # noqa: S108


def test_identity_is_always_the_operators() -> None:
    base = {
        "apiVersion": "batch/v1beta1",
        "metadata": {
            "name": "mine",
            "generateName": "mine-",
            "namespace": "elsewhere",
            "labels": {LABEL_MODEL: "other"},
            "annotations": {ANNOTATION_WAITERS: "me"},
        },
        "spec": {
            "template": {"metadata": {"name": "mine", "namespace": "elsewhere", "labels": {LABEL_MODEL: "other"}}}
        },
    }
    job = build(base)
    assert (job["apiVersion"], job["metadata"]["namespace"]) == ("batch/v1", "gpu-training")
    assert job["metadata"]["name"].startswith("flight-delay-")
    assert job["metadata"]["labels"][LABEL_MODEL] == "flight-delay"
    assert waiters_of(job["metadata"]["annotations"][ANNOTATION_WAITERS]) == (identity(spec()).owner,)
    assert "generateName" not in job["metadata"]
    template = job["spec"]["template"]["metadata"]
    assert template["labels"][LABEL_MODEL] == "flight-delay"
    assert template.keys() == {"labels", "annotations"}


def test_what_a_builder_leaves_unset_is_no_contradiction() -> None:
    """The stock operator writes null, empty texts and empty lists for parameters that nobody gave."""
    container = {"name": "training", "image": None, "command": [], "args": [], "env": [], "resources": {}}
    base = pod_base(restartPolicy="Never", serviceAccountName=None, tolerations=[], volumes=[], containers=[container])
    assert build(base) == build()


def test_what_the_base_says_alike_is_no_contradiction() -> None:
    of = spec(arguments={"rounds": 5}, node_selector={"a": "b"})
    settings = replace(SETTINGS, backoff_limit=of.backoff_limit, deadline_seconds=of.deadline_seconds)
    first = build_job({}, of, identity(of), settings, RULES)
    assert build_job(first, of, identity(of), settings, RULES) == first


def test_what_is_left_of_the_budget_bounds_the_job_whatever_the_spec_says() -> None:
    of = spec(backoff_limit=2, deadline_seconds=1800)
    settings = replace(SETTINGS, backoff_limit=1, deadline_seconds=90)
    job = build_job({"spec": {"backoffLimit": 2, "activeDeadlineSeconds": 1800}}, of, identity(of), settings, RULES)
    assert (job["spec"]["backoffLimit"], job["spec"]["activeDeadlineSeconds"]) == (1, 90)


def test_nodes_on_which_it_failed_are_kept_off_beside_what_the_base_asks_for() -> None:
    of = spec()
    zone = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    base = pod_base(
        affinity={
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [zone]}},
            "podAntiAffinity": {},
        }
    )
    pod = pod_of(build_job(base, of, identity(of), replace(SETTINGS, avoid_nodes=("gpu-7",)), RULES))
    off = {"key": "metadata.name", "operator": "NotIn", "values": ["gpu-7"]}
    required = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert required == {"nodeSelectorTerms": [{**zone, "matchFields": [off]}]}
    assert "podAntiAffinity" in pod["affinity"]


def training_base(**fields: Any) -> dict[str, Any]:
    return pod_base(containers=[{"name": "training", **fields}])


_POD = "full_job_spec.spec.template.spec"
_TRAINING = f"{_POD}.containers[training]"


@pytest.mark.case("C015")
@pytest.mark.case("C028")
@pytest.mark.case("C087")
@pytest.mark.parametrize(
    ("base", "field", "allowed"),
    [
        (pod_base(restartPolicy="OnFailure"), f"{_POD}.restartPolicy", "to 'Never'"),
        ({"spec": {"podReplacementPolicy": "TerminatingOrFailed"}}, "full_job_spec.spec.podReplacementPolicy",
         "to 'Failed'"),
        # A value that is false is a value.
        ({"spec": {"backoffLimit": 0}}, "full_job_spec.spec.backoffLimit", "to 2: leave it out here"),
        ({"spec": {"activeDeadlineSeconds": 60}}, "full_job_spec.spec.activeDeadlineSeconds", "to 1800"),
        ({"spec": {"ttlSecondsAfterFinished": 0}}, "full_job_spec.spec.ttlSecondsAfterFinished", "to 3600"),
        (pod_base(activeDeadlineSeconds=60), f"{_POD}.activeDeadlineSeconds", "to 1800"),
        (pod_base(serviceAccountName="default"), f"{_POD}.serviceAccountName", "to 'training'"),
        (pod_base(nodeSelector={"workload": "cpu"}), f"{_POD}.nodeSelector.workload", "to 'gpu-training'"),
        (pod_base(runtimeClassName="runc"), f"{_POD}.runtimeClassName", "to 'nvidia'"),
        (pod_base(volumes=[{"name": "shared-memory", "emptyDir": {}}]), f"{_POD}.volumes[shared-memory]", "leave it"),
        ({"metadata": {"labels": {QUEUE_LABEL: "cpu"}}}, f"full_job_spec.metadata.labels.{QUEUE_LABEL}", "to 'gpu'"),
        (training_base(image="other:1"), f"{_TRAINING}.image", "leave it out"),
        (training_base(command=["sh"]), f"{_TRAINING}.command", "leave it out"),
        (training_base(args=["--rounds=9"]), f"{_TRAINING}.args", "leave it out"),
        (training_base(resources={"limits": {"memory": "1Gi"}}), f"{_TRAINING}.resources", "leave it out"),
        (training_base(terminationMessagePolicy="FallbackToLogsOnError"), f"{_TRAINING}.terminationMessagePolicy",
         "to 'File'"),
        (training_base(env=[{"name": "DATA_VERSION", "value": "x"}]), f"{_TRAINING}.env[DATA_VERSION]", "leave it out"),
        (training_base(volumeMounts=[{"name": "x", "mountPath": "/dev/shm"}]),  # noqa: S108
         f"{_TRAINING}.volumeMounts[/dev/shm]", "leave it out"),
        ({"spec": {"parallelism": 2, "completions": 1}}, "full_job_spec.spec.parallelism", "at most completions (1)"),
        # Not a Job at all.
        ({"metadata": []}, "full_job_spec.metadata", "a mapping is expected"),
        ({"spec": {"template": "x"}}, "full_job_spec.spec.template", "a mapping is expected"),
        (pod_base(containers=["x"]), f"{_POD}.containers", "a list of mappings"),
        (pod_base(containers={}), f"{_POD}.containers", "a list of mappings"),
        (pod_base(initContainers=[7]), f"{_POD}.initContainers", "a list of mappings"),
        (pod_base(volumes="x"), f"{_POD}.volumes", "a list of mappings"),
        (training_base(env={"A": "b"}), f"{_TRAINING}.env", "a list of mappings"),
    ],
)  # fmt: skip
def test_a_base_that_contradicts_is_refused_and_not_overruled_in_silence(
    base: dict[str, Any], field: str, allowed: str
) -> None:
    changes = {"node_selector": {"workload": "gpu-training"}, "runtime_class": "nvidia", "queue": "gpu"}
    kept = copy.deepcopy(base)
    with pytest.raises(ConfigurationError) as caught:
        build(base, **changes)
    assert caught.value.field == field
    assert allowed in caught.value.allowed
    assert base == kept


@pytest.mark.case("C085")
def test_an_indexed_job_leaves_room_for_its_pods_index() -> None:
    for mode, room in (("NonIndexed", 0), ("Indexed", len("-99999"))):
        job = build({"spec": {"completionMode": mode}}, model="a" * 40)
        assert len(job["metadata"]["name"]) + room <= 63


# podFailurePolicy.


@pytest.mark.case("C026")
@pytest.mark.parametrize(
    ("own", "rules"),
    [
        (None, [IGNORE, FINAL]),
        ({"rules": []}, [IGNORE, FINAL]),
        ({"rules": [IGNORE, FINAL]}, [IGNORE, FINAL]),
        (
            {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [143]}}]},
            [IGNORE, {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [143]}}, FINAL],
        ),
        (
            {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]},
            [IGNORE, {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}, FINAL],
        ),
    ],
)
def test_disruptions_are_ignored_before_any_rule_of_the_base(own: Any, rules: list[dict[str, Any]]) -> None:
    """An evicted pod's 143 would fail the Job by the base's rule if that came first."""
    assert build({"spec": {"podFailurePolicy": own}})["spec"]["podFailurePolicy"] == {"rules": rules}


@pytest.mark.parametrize(
    ("own", "allowed"),
    [
        ([], "a list of rules is expected"),
        ({}, "a list of rules is expected"),
        ({"rules": [7]}, "a list of rules is expected"),
        (
            {"rules": [{"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]},
            "DisruptionTarget is always ignored",
        ),
        (
            {"rules": [{"action": "Count", "onExitCodes": {"operator": "In", "values": [n]}} for n in range(1, 20)]},
            "at most 18 rules",
        ),
    ],
)
def test_a_policy_that_can_not_be_joined_is_refused(own: Any, allowed: str) -> None:
    with pytest.raises(ConfigurationError, match="podFailurePolicy") as caught:
        build_failure_policy(own, RULES)
    assert allowed in caught.value.allowed
