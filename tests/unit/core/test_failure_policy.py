"""The two layers that apply one table say the same: Kubernetes by the podFailurePolicy, and the classification."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.core.kubernetes_documents import (
    Document,
    condition,
    container,
    disruption,
    failed_pod,
    pod,
    terminated,
)

from gpu_training.core.classify import classify_pod
from gpu_training.core.errors import ConfigurationError
from gpu_training.core.failure_policy import build_failure_policy
from gpu_training.core.pods import observe_pod
from gpu_training.core.rule_documents import parse_team_rules
from gpu_training.core.rules import RuleTable
from gpu_training.core.verdict import Action
from gpu_training.rule_table import built_in_rules, rules_for

pytestmark = pytest.mark.core

IGNORE = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
_EVICTED = [disruption(9)]

# What the cluster does where the table says so.
DONE_BY = {
    Action.FAIL: "FailJob",
    Action.RETRY_ELSEWHERE: "FailJob",
    Action.RETRY_LARGER: "FailJob",
    Action.WAIT: "Ignore",
    Action.RETRY: "Count",
}


def row(name: str, action: str, **matchers: Any) -> dict[str, Any]:
    return {
        "name": name,
        "category": "application_error",
        "owner": "application",
        "action": action,
        "remedy": "r",
        **matchers,
    }


def table_of(*rows: dict[str, Any]) -> RuleTable:
    return rules_for(parse_team_rules(list(rows), "r"))


def on_codes(action: str, *codes: int) -> dict[str, Any]:
    return {"action": action, "onExitCodes": {"operator": "In", "values": list(codes)}}


def on_conditions(action: str, *types: str) -> dict[str, Any]:
    return {"action": action, "onPodConditions": [{"type": type_, "status": "True"} for type_ in types]}


def applied(policy: dict[str, Any], document: Document) -> str:
    """Give what the Job controller does with a failed pod: the action of the first rule that matches, else Count.

    https://kubernetes.io/docs/concepts/workloads/controllers/job/#pod-failure-policy
    """
    status = document["status"]
    codes = {
        entry["state"]["terminated"]["exitCode"]
        for entry in (*status.get("containerStatuses", ()), *status.get("initContainerStatuses", ()))
        if "terminated" in entry["state"]
    } - {0}
    for rule in policy["rules"]:
        patterns = rule.get("onPodConditions", ())
        if any(c["type"] == p["type"] and c["status"] == p["status"] for c in status["conditions"] for p in patterns):
            return str(rule["action"])
        on_exit_codes = rule.get("onExitCodes")
        if on_exit_codes is not None and codes & set(on_exit_codes["values"]):
            return str(rule["action"])
    return "Count"


def judged(table: RuleTable, document: Document, finding: str | None = None) -> str:
    verdict = classify_pod(observe_pod(document), table, finding=finding)
    assert verdict is not None
    return DONE_BY[verdict.action]


MIXED = table_of(
    row("once-more", "retry", exit_codes=[7, 8]),
    row("other-node", "retry_elsewhere", exit_codes=[91], pod_conditions=["GpuLost"]),
    row("larger", "retry_larger", exit_codes=[92]),
    row("node-busy", "wait", pod_conditions=["NodeBusy"]),
    row("timeouts-end-it", "fail", exit_codes=[84], overrides=["communication-timeout"], log_patterns=["gave up"]),
)
HALVES = [
    (table, rule, failed_pod(code))
    for table in (built_in_rules(), MIXED)
    for rule in table
    for code in rule.exit_codes
    if table.for_exit_code(code) is rule
] + [
    (table, rule, failed_pod(1, conditions=[condition(type_, second=9)]))
    for table in (built_in_rules(), MIXED)
    for rule in table
    for type_ in rule.pod_conditions
]


@pytest.mark.case("C026")
@pytest.mark.parametrize(
    ("table", "rule", "document"), HALVES, ids=[f"{rule.name}-{n}" for n, (_, rule, _) in enumerate(HALVES)]
)
def test_both_layers_do_what_the_row_says(table: RuleTable, rule: Any, document: Document) -> None:
    policy = build_failure_policy(None, table)
    assert applied(policy, document) == judged(table, document) == DONE_BY[rule.action]
    evicted = {
        **document,
        "status": {**document["status"], "conditions": [*document["status"]["conditions"], *_EVICTED]},
    }
    assert applied(policy, evicted) == judged(table, evicted) == "Ignore"


def test_every_row_that_the_cluster_can_match_was_looked_at() -> None:
    halves = {rule.name for _, rule, _ in HALVES}
    both = {
        rule.name for table in (built_in_rules(), MIXED) for rule in table if rule.exit_codes or rule.pod_conditions
    }
    assert both - halves == set()
    assert len(both) > 10


CODES = [1, 7, 8, 80, 82, 84, 85, 91, 92, 137]
ACTIONS = ["fail", "retry", "retry_elsewhere", "retry_larger"]


@st.composite
def tables(draw: st.DrawFn) -> RuleTable:
    """Give a table whose team rules take each code and condition at most once, in any order."""
    codes = draw(st.permutations(CODES))
    rows = []
    for n in range(draw(st.integers(0, 4))):
        mine = [code for code in codes[2 * n : 2 * n + 2] if draw(st.booleans())]
        matchers = {"exit_codes": mine} if mine else {}
        if draw(st.booleans()) or not mine:
            matchers["pod_conditions"] = [f"Condition{n}"]
        over = [rule.name for rule in built_in_rules() if set(rule.exit_codes) & set(mine)]
        action = draw(st.sampled_from(ACTIONS if mine else [*ACTIONS, "wait"]))
        rows.append(row(f"team-{n}", action, **matchers, **({"overrides": over} if over else {})))
    return table_of(*rows)


@st.composite
def failed_pods(draw: st.DrawFn) -> Document:
    codes = draw(st.lists(st.sampled_from([0, *CODES]), min_size=1, max_size=3))
    reasons = draw(st.lists(st.sampled_from(["Error", "OOMKilled", "StartError"]), min_size=3, max_size=3))
    names = ["training", "proxy", "logger"]
    states = [
        container(terminated(code, reason=reason), name=name)
        for code, reason, name in zip(codes, reasons, names, strict=False)
    ]
    types = draw(st.sets(st.sampled_from([f"Condition{n}" for n in range(4)]), max_size=2))
    conditions = [condition(type_) for type_ in sorted(types)] + (_EVICTED if draw(st.booleans()) else [])
    return pod("Failed", *states, conditions=conditions)


@given(tables(), failed_pods(), st.sampled_from([None, "gpu-hardware", "cuda-out-of-memory"]))
def test_what_the_cluster_can_match_is_judged_as_the_cluster_does_it(
    table: RuleTable, document: Document, finding: str | None
) -> None:
    policy = build_failure_policy(None, table)
    assert len(policy["rules"]) <= 20
    statuses = document["status"]["containerStatuses"]
    codes = {entry["state"]["terminated"]["exitCode"] for entry in statuses}
    types = {entry["type"] for entry in document["status"]["conditions"]}
    if any(codes & set(rule.exit_codes) or types & set(rule.pod_conditions) for rule in table):
        assert applied(policy, document) == judged(table, document, finding)
    else:
        assert applied(policy, document) == "Count"


def test_the_built_in_rules_compile_to_two() -> None:
    """What retries at the end is left out: Kubernetes counts it anyway."""
    assert build_failure_policy(None, built_in_rules()) == {"rules": [IGNORE, on_codes("FailJob", 80, 81, 82, 83)]}


def test_rules_of_one_action_that_follow_one_another_become_one_and_keep_their_place() -> None:
    table = table_of(
        row("a", "fail", exit_codes=[99, 90]),
        row("b", "retry_elsewhere", exit_codes=[91], pod_conditions=["GpuLost"]),
        row("c", "retry", exit_codes=[5]),
        row("d", "retry_larger", exit_codes=[4]),
        row("e", "wait", pod_conditions=["NodeBusy"]),
    )
    assert build_failure_policy(None, table)["rules"] == [
        IGNORE,
        on_conditions("FailJob", "GpuLost"),
        on_codes("FailJob", 90, 91, 99),
        on_codes("Count", 5),
        on_codes("FailJob", 4),
        on_conditions("Ignore", "NodeBusy"),
        on_codes("FailJob", 80, 81, 82, 83),
    ]


def test_a_code_that_a_team_took_is_not_judged_again() -> None:
    table = table_of(row("a", "retry", exit_codes=[83], overrides=["nan-loss"]))
    assert build_failure_policy(None, table)["rules"] == [
        IGNORE,
        on_codes("Count", 83),
        on_codes("FailJob", 80, 81, 82),
    ]


def test_all_exit_codes_fit_into_one_rule() -> None:
    names = ["bad-configuration", "bad-data", "nan-loss", "cuda-out-of-memory", "communication-timeout", "interrupted"]
    table = table_of(row("a", "fail", exit_codes=list(range(255, 0, -1)), overrides=names))
    assert build_failure_policy(None, table)["rules"] == [IGNORE, on_codes("FailJob", *range(1, 256))]


def test_rules_of_a_base_come_between_and_what_is_built_may_be_built_upon() -> None:
    own = on_codes("FailJob", 42)
    built = build_failure_policy({"rules": [own]}, built_in_rules())
    assert built["rules"] == [IGNORE, own, on_codes("FailJob", 80, 81, 82, 83)]
    assert build_failure_policy(built, built_in_rules()) == built


def _alternating(count: int) -> list[dict[str, Any]]:
    return [row(f"r-{n}", ["fail", "retry"][n % 2], exit_codes=[n + 1]) for n in range(count)]


def test_more_rules_than_a_policy_takes_are_refused_before_a_job_is_made() -> None:
    assert len(build_failure_policy(None, table_of(*_alternating(18)))["rules"]) == 20
    with pytest.raises(ConfigurationError) as caught:
        table_of(*_alternating(20))
    assert str(caught.value) == (
        "training.failure_rules=22: the rules compile to more than the 20 that a podFailurePolicy takes: put rules "
        "with exit codes that have one action next to one another"
    )
    with pytest.raises(ConfigurationError, match="at most 0 rules are allowed beside the operator's") as caught:
        build_failure_policy({"rules": [on_codes("FailJob", 42)]}, table_of(*_alternating(18)))
    assert caught.value.field == "full_job_spec.spec.podFailurePolicy.rules"
