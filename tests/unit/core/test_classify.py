"""What an attempt's end means, row by row of the built-in rules, and of a team's before them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.core.kubernetes_documents import (
    Document,
    condition,
    container,
    disruption,
    failed_pod,
    pod,
    running,
    succeeded_pod,
    terminated,
    waiting,
)

from gpu_training.contract import ExitCode, Result, ResultStatus, render_result
from gpu_training.core.classify import classify_pod
from gpu_training.core.pods import observe_pod
from gpu_training.core.rule_documents import parse_team_rules
from gpu_training.core.rules import RuleTable
from gpu_training.core.verdict import Action, Category, Owner, Verdict
from gpu_training.rule_table import built_in_rules, rules_for

pytestmark = pytest.mark.core

_EVICTED = [disruption(9)]


def verdict_of(
    document: Document, *, gone: bool = False, rules: RuleTable | None = None, finding: str | None = None
) -> Verdict:
    verdict = classify_pod(observe_pod(document, gone=gone), rules or built_in_rules(), finding=finding)
    assert verdict is not None
    return verdict


ROWS: list[tuple[str, Document, Category, Owner, Action]] = [
    ("bad configuration", failed_pod(80), Category.BAD_CONFIGURATION, Owner.CONFIGURATION, Action.FAIL),
    ("bad data", failed_pod(81), Category.BAD_DATA, Owner.APPLICATION, Action.FAIL),
    ("CUDA out of memory", failed_pod(82), Category.CUDA_OUT_OF_MEMORY, Owner.APPLICATION, Action.FAIL),
    ("NaN loss", failed_pod(83), Category.NAN_LOSS, Owner.APPLICATION, Action.FAIL),
    ("NCCL time-out", failed_pod(84), Category.COMMUNICATION_TIMEOUT, Owner.INFRASTRUCTURE, Action.RETRY),
    ("interrupted", failed_pod(85), Category.INTERRUPTED, Owner.INFRASTRUCTURE, Action.RETRY),
    ("any other code", failed_pod(1), Category.APPLICATION_ERROR, Owner.APPLICATION, Action.RETRY),
    ("exit(-1), which is no signal", failed_pod(255), Category.APPLICATION_ERROR, Owner.APPLICATION, Action.RETRY),
    ("segmentation fault", failed_pod(139), Category.APPLICATION_ERROR, Owner.APPLICATION, Action.RETRY),
    ("killed", failed_pod(137), Category.KILLED, Owner.INFRASTRUCTURE, Action.RETRY),
    ("deleted by hand", failed_pod(143, deleting=True), Category.KILLED, Owner.INFRASTRUCTURE, Action.RETRY),
    # Out of memory: of the whole container, and of a child whose parent noticed.
    ("OOM", failed_pod(137, reason="OOMKilled"), Category.OUT_OF_MEMORY, Owner.CONFIGURATION, Action.RETRY_LARGER),
    ("OOM of a child", failed_pod(1, reason="OOMKilled"),
     Category.OUT_OF_MEMORY, Owner.CONFIGURATION, Action.RETRY_LARGER),
    ("a code of ours comes before OOMKilled", failed_pod(82, reason="OOMKilled"),
     Category.CUDA_OUT_OF_MEMORY, Owner.APPLICATION, Action.FAIL),
    ("command not found", pod("Failed", container(terminated(128, reason="StartError", started=None))),
     Category.START_ERROR, Owner.CONFIGURATION, Action.FAIL),
    ("the pod's own deadline", failed_pod(137, status={"reason": "DeadlineExceeded"}),
     Category.DEADLINE_EXCEEDED, Owner.CONFIGURATION, Action.FAIL),
    ("the pod's own deadline, SIGTERM trapped", failed_pod(7, status={"reason": "DeadlineExceeded"}),
     Category.DEADLINE_EXCEEDED, Owner.CONFIGURATION, Action.FAIL),
    ("turned away by the node", pod("Failed", scheduled=None, status={"reason": "NodeAffinity", "message": "rejected"}),
     Category.ADMISSION_FAILED, Owner.INFRASTRUCTURE, Action.WAIT),
    ("turned away by the device plugin", pod("Failed", status={"reason": "UnexpectedAdmissionError"}),
     Category.ADMISSION_FAILED, Owner.INFRASTRUCTURE, Action.WAIT),
    ("the pod's own deadline, before it had containers", pod("Failed", status={"reason": "DeadlineExceeded"}),
     Category.DEADLINE_EXCEEDED, Owner.CONFIGURATION, Action.FAIL),
    ("turned away once its kubelet had started again", failed_pod(137, status={"reason": "UnexpectedAdmissionError"}),
     Category.ADMISSION_FAILED, Owner.INFRASTRUCTURE, Action.WAIT),
    ("put out before it had containers", pod("Failed", status={"reason": "Evicted"}),
     Category.ADMISSION_FAILED, Owner.INFRASTRUCTURE, Action.WAIT),
    ("any other reason of a pod that had containers", failed_pod(1, status={"reason": "Evicted"}),
     Category.APPLICATION_ERROR, Owner.APPLICATION, Action.RETRY),
    # Disruptions come first, whatever the program made of its SIGTERM.
    ("evicted", failed_pod(143, conditions=_EVICTED), Category.DISRUPTED, Owner.INFRASTRUCTURE, Action.WAIT),
    ("evicted, checkpoint taken", failed_pod(85, conditions=_EVICTED),
     Category.DISRUPTED, Owner.INFRASTRUCTURE, Action.WAIT),
    ("evicted, memory let go too late", failed_pod(137, reason="OOMKilled", conditions=_EVICTED),
     Category.DISRUPTED, Owner.INFRASTRUCTURE, Action.WAIT),
    ("node lost", pod("Failed", container(running()), conditions=[disruption(60, "DeletionByPodGC")]),
     Category.DISRUPTED, Owner.INFRASTRUCTURE, Action.WAIT),
    ("failed by itself, tainted later", failed_pod(1, conditions=[disruption(30, "DeletionByTaintManager")]),
     Category.APPLICATION_ERROR, Owner.APPLICATION, Action.RETRY),
    # Nothing that explains it.
    ("Failed without a word", pod("Failed"), Category.UNKNOWN, Owner.INFRASTRUCTURE, Action.RETRY),
    ("all containers ended with 0", pod("Failed", container(terminated(0))),
     Category.UNKNOWN, Owner.INFRASTRUCTURE, Action.RETRY),
    ("an end without a code", pod("Failed", container({"terminated": {"reason": "Error"}})),
     Category.UNKNOWN, Owner.INFRASTRUCTURE, Action.RETRY),
]  # fmt: skip


@pytest.mark.case("C022")
@pytest.mark.case("C026")
@pytest.mark.parametrize(
    ("document", "category", "owner", "action"), [row[1:] for row in ROWS], ids=[r[0] for r in ROWS]
)
def test_an_end_has_a_category_an_owner_and_an_action(
    document: Document, category: Category, owner: Owner, action: Action
) -> None:
    verdict = verdict_of(document)
    assert (verdict.category, verdict.owner, verdict.action) == (category, owner, action)
    assert verdict.remedy


@pytest.mark.parametrize(
    "document",
    [
        pod("Pending", scheduled=None),
        pod("Running", container(running())),
        pod("Running", container(terminated(1))),  # the pod's phase follows a second later
        succeeded_pod(),
        succeeded_pod(conditions=_EVICTED),
        pod("Succeeded", container(terminated(0, reason="OOMKilled"))),
    ],
)
def test_what_goes_on_and_what_succeeded_has_no_verdict(document: Document) -> None:
    assert classify_pod(observe_pod(document), built_in_rules(), finding="gpu-hardware") is None


def test_a_pod_that_is_being_evicted_is_judged_while_it_still_runs() -> None:
    verdict = verdict_of(pod("Running", container(running()), conditions=_EVICTED, deleting=True))
    assert verdict.category is Category.DISRUPTED
    assert "EvictionByEvictionAPI" in verdict.summary


def test_a_pod_that_is_gone_unseen_is_unknown_and_never_a_success() -> None:
    verdict = verdict_of(pod("Running", container(running())), gone=True)
    assert verdict.category is Category.UNKNOWN
    assert "its end was not seen" in verdict.summary


def test_an_init_container_that_failed_explains_the_pod() -> None:
    document = pod(
        "Failed", container(waiting("PodInitializing")), init=[container(terminated(1), name="download-data")]
    )
    assert "container download-data exited with 1" in verdict_of(document).summary


def test_the_training_container_explains_before_a_sidecar_that_died_with_it() -> None:
    document = pod("Failed", container(terminated(143), name="proxy"), container(terminated(83)))
    assert verdict_of(document).category is Category.NAN_LOSS


@pytest.mark.case("C070")
@pytest.mark.parametrize(
    ("document", "words"),
    [
        (failed_pod(137, reason="OOMKilled"), ["on gpu-1", "training exited with 137", "SIGKILL", "OOMKilled"]),
        (failed_pod(139), ["exited with 139 (SIGSEGV)"]),
        (failed_pod(7, status={"reason": "DeadlineExceeded"}), ["exited with 7 (DeadlineExceeded)"]),
        (failed_pod(143, conditions=_EVICTED), ["was taken away: EvictionByEvictionAPI (Eviction API: evicting)"]),
        (
            pod("Failed", scheduled=None, status={"reason": "OutOfnvidia.com/gpu", "message": "Pod was rejected: …"}),
            ["failed (OutOfnvidia.com/gpu): Pod was rejected: …"],
        ),
        # What the program itself says: as a result document, or in any other form.
        (
            failed_pod(81, message=render_result(Result(status=ResultStatus.FAILED, error="week 7\nis missing"))),
            ["exited with 81: week 7 is missing"],
        ),
        (failed_pod(1, message="Traceback …\nKeyError: 'dep_delay'\n\n"), ["exited with 1: KeyError: 'dep_delay'"]),
    ],
)
def test_a_summary_tells_the_facts(document: Document, words: list[str]) -> None:
    summary = verdict_of(document).summary
    for word in words:
        assert word in summary


def test_a_summary_is_one_line_of_bounded_length_whatever_the_program_wrote() -> None:
    summary = verdict_of(failed_pod(1, message="\0\x1b[31m" + "x" * 4000 + "\r\n" * 50)).summary
    assert len(summary) < 600
    assert summary.isprintable()


@pytest.mark.parametrize("code", [code for code in ExitCode if code not in (ExitCode.TRAINED, ExitCode.OTHER)])
def test_every_exit_code_of_the_contract_has_a_row(code: ExitCode) -> None:
    assert verdict_of(failed_pod(code)).category.value == code.name.lower()


@pytest.mark.parametrize(
    ("document", "finding", "category", "action"),
    [
        # More is known than that the program ended, or that somebody killed it.
        (failed_pod(1), "gpu-hardware", Category.GPU_HARDWARE, Action.RETRY_ELSEWHERE),
        (failed_pod(134), "communication-timeout", Category.COMMUNICATION_TIMEOUT, Action.RETRY),
        (failed_pod(137), "cuda-out-of-memory", Category.CUDA_OUT_OF_MEMORY, Action.FAIL),
        (pod("Failed"), "gpu-hardware", Category.GPU_HARDWARE, Action.RETRY_ELSEWHERE),
        # The cluster has acted on these before anybody could read a log.
        (failed_pod(84), "gpu-hardware", Category.COMMUNICATION_TIMEOUT, Action.RETRY),
        (failed_pod(83), "communication-timeout", Category.NAN_LOSS, Action.FAIL),
        (failed_pod(1, conditions=_EVICTED), "gpu-hardware", Category.DISRUPTED, Action.WAIT),
        # Reasons and log patterns go by the table's order.
        (failed_pod(137, reason="OOMKilled"), "cuda-out-of-memory", Category.OUT_OF_MEMORY, Action.RETRY_LARGER),
        # What is no rule's name, or a rule's that no log can tell.
        (failed_pod(1), "no-such-rule", Category.APPLICATION_ERROR, Action.RETRY),
        (failed_pod(1), "out-of-memory", Category.APPLICATION_ERROR, Action.RETRY),
        (failed_pod(1), "", Category.APPLICATION_ERROR, Action.RETRY),
    ],
)
def test_what_the_log_says_comes_after_what_the_cluster_can_match(
    document: Document, finding: str, category: Category, action: Action
) -> None:
    verdict = verdict_of(document, finding=finding)
    assert (verdict.category, verdict.action) == (category, action)


def test_a_verdict_by_the_log_says_so() -> None:
    summary = verdict_of(failed_pod(1), finding="gpu-hardware").summary
    assert summary.endswith("container training exited with 1; its log says so: gpu-hardware")
    assert "its log" not in verdict_of(failed_pod(84), finding="gpu-hardware").summary


def team(**matchers: Any) -> RuleTable:
    row = {
        "name": "ours",
        "category": "application_error",
        "owner": "application",
        "action": "fail",
        "remedy": "ask the team",
        **matchers,
    }
    return rules_for(parse_team_rules([row], "r"))


@pytest.mark.parametrize(
    ("matchers", "document", "holds"),
    [
        ({"exit_codes": [91]}, failed_pod(91), True),
        ({"exit_codes": [91]}, failed_pod(92), False),
        ({"exit_codes": [137]}, failed_pod(137, reason="OOMKilled"), True),
        ({"exit_codes": [84], "overrides": ["communication-timeout"]}, failed_pod(84), True),
        ({"pod_conditions": ["GpuLost"]}, failed_pod(83, conditions=[condition("GpuLost")]), True),
        ({"pod_conditions": ["GpuLost"]}, failed_pod(83, conditions=[condition("GpuLost", status="False")]), False),
        ({"container_reasons": ["ContainerStatus*"]}, failed_pod(137, reason="ContainerStatusUnknown"), True),
        ({"container_reasons": ["OOMKilled"], "overrides": ["out-of-memory"]}, failed_pod(1, reason="OOMKilled"), True),
        ({"pod_reasons": ["Preempting"]}, failed_pod(143, status={"reason": "Preempting"}), True),
        ({"pod_reasons": ["*"], "overrides": ["pod-deadline", "admission-failed"]}, failed_pod(143), False),
        ({"admission_reasons": ["OutOf*"]}, pod("Failed", status={"reason": "OutOfcpu"}), True),
        ({"admission_reasons": ["OutOf*"]}, pod("Failed", status={"reason": "NodeAffinity"}), False),
        ({"admission_reasons": ["Evicted"]}, failed_pod(1, status={"reason": "Evicted"}), False),
        # Disruptions stay first.
        ({"exit_codes": [91]}, failed_pod(91, conditions=_EVICTED), False),
        ({"pod_conditions": ["GpuLost"]}, failed_pod(1, conditions=[condition("GpuLost"), *_EVICTED]), False),
    ],
)
def test_a_teams_rule_comes_before_the_built_in_ones(matchers: Any, document: Document, holds: bool) -> None:
    assert (verdict_of(document, rules=team(**matchers)).remedy == "ask the team") is holds


def test_a_teams_log_pattern_comes_before_the_built_in_reasons() -> None:
    table = team(log_patterns=["loader died"])
    assert verdict_of(failed_pod(137, reason="OOMKilled"), rules=table, finding="ours").remedy == "ask the team"
    assert verdict_of(failed_pod(83), rules=table, finding="ours").category is Category.NAN_LOSS


def test_a_condition_of_another_kind_disturbs_no_verdict() -> None:
    document = failed_pod(83, conditions=[condition("Ready", status="False", reason="PodFailed", second=11)])
    assert verdict_of(document).category is Category.NAN_LOSS


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("no way to postgresql://reader:hunter2@db/flights", "no way to postgresql://…@db/flights"),
        ("no way to https://hunter2@host:80/x and s3://a:hunter2@b/", "no way to https://…@host:80/x and s3://…@b/"),
        ("no object s3://flights/by@week", "no object s3://flights/by@week"),
    ],
)
def test_credentials_in_an_address_that_a_program_ends_with_are_not_told(said: str, shown: str) -> None:
    assert verdict_of(failed_pod(1, message=said)).summary.endswith(f": {shown}")
