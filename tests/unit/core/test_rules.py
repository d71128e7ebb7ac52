"""Failure rules in YAML are right, or refused with one message that says which, what and why."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.unit.core.specs import document as spec_document
from tests.unit.core.specs import spec

from gpu_training.core.errors import ConfigurationError
from gpu_training.core.rule_documents import join_rules, parse_rules, parse_team_rules
from gpu_training.core.rules import RuleTable
from gpu_training.core.spec import parse_training_spec
from gpu_training.core.verdict import Action, Category, Owner
from gpu_training.rule_table import BUILT_IN, built_in_rules, rules_for

pytestmark = pytest.mark.core

DISRUPTED: dict[str, Any] = {
    "name": "disrupted",
    "category": "disrupted",
    "owner": "infrastructure",
    "action": "wait",
    "remedy": "nothing",
    "pod_conditions": ["DisruptionTarget"],
}


def row(**changes: Any) -> dict[str, Any]:
    """Give the smallest rule, with fields changed or added; None takes one out."""
    body: dict[str, Any] = {
        "name": "ours",
        "category": "application_error",
        "owner": "application",
        "action": "fail",
        "remedy": "ask the team",
        "exit_codes": [91],
        **changes,
    }
    return {name: value for name, value in body.items() if value is not None}


def refusal(*rows: Any) -> ConfigurationError:
    with pytest.raises(ConfigurationError) as caught:
        rules_for(parse_team_rules(list(rows), "r"), "r")
    return caught.value


def test_a_rule_is_read_field_by_field() -> None:
    [rule] = parse_team_rules(
        [
            row(
                action="retry_elsewhere",
                category="gpu_hardware",
                owner="infrastructure",
                exit_codes=[91, 7],
                pod_conditions=["example.com/GpuLost"],
                container_reasons=["ContainerStatus*"],
                pod_reasons=["Preempting"],
                admission_reasons=["OutOf*"],
                log_patterns=["GPU * is lost"],
                overrides=["interrupted"],
            )
        ],
        "r",
    )
    assert (rule.name, rule.category, rule.owner) == ("ours", Category.GPU_HARDWARE, Owner.INFRASTRUCTURE)
    assert (rule.action, rule.remedy) == (Action.RETRY_ELSEWHERE, "ask the team")
    assert (rule.exit_codes, rule.pod_conditions) == ((91, 7), ("example.com/GpuLost",))
    assert (rule.container_reasons, rule.pod_reasons) == (("ContainerStatus*",), ("Preempting",))
    assert (rule.admission_reasons, rule.log_patterns) == (("OutOf*",), ("GPU * is lost",))
    assert rule.overrides == ("interrupted",)


_LONG = "x" * 201


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (7, "r[0]=7: a mapping with text keys is expected"),
        (row(name=None), "r[0].name=None: is required and missing"),
        (row(name="Ours"), "r[0].name='Ours': a name (lower-case letters, digits and `-`, at most 63) is expected"),
        (row(category="bad_luck"), "r[0].category='bad_luck': one of disrupted, bad_configuration, bad_data,"),
        (row(category="bad_dta"), "(did you mean 'bad_data'?)"),
        # How a Job as a whole ended is no verdict on a pod.
        (row(category="budget_spent"), "r[0].category='budget_spent': one of"),
        (row(category="unknown"), "r[0].category='unknown': one of"),
        (row(owner="me"), "r[0].owner='me': one of application, infrastructure, configuration is expected"),
        (row(action="retry_later"),
         "r[0].action='retry_later': one of fail, retry, retry_elsewhere, retry_larger, wait"),
        (row(action=None), "r[0].action=None: is required and missing: one of fail, retry,"),
        (row(remedy=" "), "r[0].remedy=' ': what the owner does next is expected"),
        (row(remedy="a\nb"), "r[0].remedy='a\\nb': one line of plain text is expected"),
        (row(remedy="ask {{ ds }}"), "without Jinja"),
        (row(remedy="x" * 401), "at most 400 characters"),
        (row(exit_code=[91]), "r[0].exit_code=[91]: unknown key (did you mean 'exit_codes'?); known are: action,"),
        # Nothing to match.
        (row(exit_codes=None),
         "r[0].name='ours': this rule matches nothing: give it one of exit_codes, pod_conditions,"),
        (row(exit_codes=[]), "this rule matches nothing"),
        # Values.
        (row(exit_codes=91), "r[0].exit_codes=91: a list is expected"),
        (row(exit_codes=["91"]), "r[0].exit_codes[0]='91': a whole number from 1 to 255 is expected"),
        (row(exit_codes=[91, 0]), "r[0].exit_codes[1]=0: a whole number from 1 to 255 is expected; 0 is success"),
        (row(exit_codes=[True]), "r[0].exit_codes[0]=True"),
        (row(exit_codes=[256]), "r[0].exit_codes[0]=256"),
        (row(exit_codes=[7] * 256), "at most 255 values are allowed"),
        (row(exit_codes=[91, 7, 91]), "r[0].exit_codes=91: is taken by a value before it: leave it out"),
        (row(pod_conditions=["Gpu Lost"]), "r[0].pod_conditions[0]='Gpu Lost': a condition's type is expected"),
        (row(container_reasons=["OOM Killed"]), "r[0].container_reasons[0]='OOM Killed': a reason of at most 200"),
        (row(pod_reasons=[""]), "r[0].pod_reasons[0]='': a reason"),
        (row(pod_reasons=["Evi*", "Evicted"]), "r[0].pod_reasons='Evicted': is taken by a value before it"),
        (row(admission_reasons=[_LONG]), "a reason of at most 200"),
        (row(log_patterns=[5]), "r[0].log_patterns[0]=5: a text is expected: quote it"),
        (row(log_patterns=["* a*b *"]),
         "r[0].log_patterns[0]='* a*b *': at most 200 characters are allowed, and at least 4"),
        (row(log_patterns=[_LONG]), "at most 200 characters are allowed"),
        (row(log_patterns=["one\ntwo"]), "one line of plain text is expected"),
        (row(log_patterns=["loader died", "the loader died"]), "r[0].log_patterns='the loader died': is taken by"),
        # Disruptions.
        (row(pod_conditions=["DisruptionTarget"]),
         "r[0].pod_conditions='DisruptionTarget': is always waited for, by a rule that comes first (action=fail here): "
         "leave it out"),
        (row(action="wait", exit_codes=None, pod_conditions=["DisruptionTarget"]), "(action=wait here)"),
        # Waiting for what the program does would have no end.
        (row(action="wait"), "r[0].exit_codes=[91]: `wait` is for what happens to a pod"),
        (row(action="wait", exit_codes=None, log_patterns=["busy now"]), "r[0].log_patterns=['busy now']: `wait` is"),
        (row(action="wait", exit_codes=None, container_reasons=["OOMKilled"]), "r[0].container_reasons"),
    ],
)  # fmt: skip
def test_a_rule_that_is_wrong_is_refused_in_words(body: Any, message: str) -> None:
    assert message in str(refusal(body))


@pytest.mark.parametrize("body", [None, {}, "x", 7, {"rules": []}])
def test_rules_are_a_list(body: Any) -> None:
    with pytest.raises(ConfigurationError, match="a list of rules is expected"):
        parse_team_rules(body, "r")


def test_too_many_are_refused() -> None:
    many = [row(name=f"r-{n}", exit_codes=None, pod_conditions=[f"C{n}"]) for n in range(101)]
    assert "r=101: at most 100 rules are allowed" in str(refusal(*many))
    assert "r=112: at most 100 rules" in str(refusal(*many[:100]))
    patterns = [row(log_patterns=[f"error {n:03d}." for n in range(201)])]
    assert "r=201: at most 200 reasons and log patterns are allowed in all" in str(refusal(*patterns))


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (row(), row(), "r[1].name='ours': is an earlier rule's: choose another"),
        (row(), row(name="b", exit_codes=[7, 91]),
         "r[1].exit_codes=91: is taken by the rule 'ours', which comes before: leave it out of one of them"),
        (row(pod_conditions=["A", "B"]), row(name="b", exit_codes=None, pod_conditions=["B"]),
         "r[1].pod_conditions='B'"),
        (row(container_reasons=["Err*"]), row(name="b", exit_codes=None, container_reasons=["ErrImage"]),
         "r[1].container_reasons='ErrImage'"),
        (row(pod_reasons=["Evicted"]), row(name="b", exit_codes=None, pod_reasons=["Evicted"]), "r[1].pod_reasons"),
        # A reason of a pod that a node turned away is one of the pod's.
        (row(pod_reasons=["Evicted"]), row(name="b", exit_codes=None, admission_reasons=["Evicted"]),
         "r[1].admission_reasons='Evicted'"),
        (row(log_patterns=["died"]), row(name="b", exit_codes=None, log_patterns=["loader * died"]),
         "r[1].log_patterns='loader * died'"),
        # A team's rule has no business to come before another of its own.
        (row(overrides=["b"]), row(name="b", exit_codes=[7]), "r[0].overrides='b': no such rule"),
    ],
)  # fmt: skip
def test_a_rule_that_another_shadows_is_refused(first: Any, second: Any, message: str) -> None:
    assert message in str(refusal(first, second))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (row(), row(name="b", exit_codes=[92])),
        (row(container_reasons=["ErrImage"]), row(name="b", exit_codes=None, container_reasons=["Err*"])),
        (row(log_patterns=["loader * died"]), row(name="b", exit_codes=None, log_patterns=["died"])),
        (row(admission_reasons=["Evicted"]), row(name="b", exit_codes=None, pod_reasons=["Evicted"])),
        (row(container_reasons=["Evicted"]), row(name="b", exit_codes=None, pod_reasons=["Evicted"])),
    ],
)
def test_a_narrow_rule_may_come_before_a_wide_one(first: Any, second: Any) -> None:
    assert len(parse_team_rules([first, second], "r")) == 2


@pytest.mark.parametrize(
    ("matchers", "built_in", "message"),
    [
        ({"exit_codes": [84]}, "communication-timeout",
         "r[0].exit_codes=84: is what the built-in rule 'communication-timeout' is about: write "
         "`overrides: [communication-timeout]` in this rule if it is meant to come before it, else leave the value "
         "out"),
        ({"container_reasons": ["OOM*"]}, "out-of-memory", "r[0].container_reasons='OOMKilled'"),
        ({"pod_reasons": ["DeadlineExceeded"]}, "pod-deadline", "r[0].pod_reasons='DeadlineExceeded'"),
        ({"admission_reasons": ["*"]}, "admission-failed", "r[0].admission_reasons='*'"),
        ({"log_patterns": ["NVRM*"]}, "gpu-hardware", "r[0].log_patterns='NVRM: Xid'"),
    ],
)  # fmt: skip
def test_a_built_in_rule_is_overridden_knowingly_or_not_at_all(matchers: Any, built_in: str, message: str) -> None:
    body = {**row(exit_codes=None), **matchers}
    assert message in str(refusal(body))
    table = rules_for(parse_team_rules([{**body, "overrides": [built_in]}], "r"))
    assert [rule.name for rule in table][:2] == ["disrupted", "ours"]
    assert parse_rules(json.loads(json.dumps(table.to_document())), "r") == table


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            row(name="nan-loss"),
            "r[0].name='nan-loss': is a built-in rule's: choose another name, and write that one in",
        ),
        (row(overrides=["nan-los"]), "r[0].overrides='nan-los': no such rule (did you mean 'nan-loss'?); known are: "),
        (row(overrides=["disrupted"]), "r[0].overrides='disrupted': no such rule"),
    ],
)
def test_names_of_built_in_rules_are_theirs(body: Any, message: str) -> None:
    assert message in str(refusal(body))


def test_a_teams_rules_come_after_the_one_about_disruptions_in_their_own_order() -> None:
    team = parse_team_rules([row(name="b"), row(name="a", exit_codes=[7])], "r")
    names = [rule.name for rule in rules_for(team)]
    assert names[:3] == ["disrupted", "b", "a"]
    assert names[3:] == [rule.name for rule in built_in_rules()][1:]
    assert rules_for(()) is built_in_rules()


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "r[0]=None: the first rule has to wait for DisruptionTarget alone"),
        ([row()], "r[0]='ours': the first rule has to wait"),
        ([{**DISRUPTED, "action": "fail"}], "r[0]='disrupted': the first rule has to wait"),
        ([{**DISRUPTED, "pod_conditions": ["DisruptionTarget", "Other"]}], "the first rule has to wait"),
        ([DISRUPTED, row(pod_conditions=["DisruptionTarget"])], "r[1].pod_conditions='DisruptionTarget'"),
        ([DISRUPTED, row(), row(name="b")], "r[2].exit_codes=91: is taken by the rule 'ours'"),
        ([DISRUPTED, row(overrides=["b"])], "r[1].overrides='b': no such rule"),
    ],
)
def test_a_table_begins_with_disruptions_and_has_no_shadows(rows: Any, message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_rules(rows, "r")
    assert message in str(caught.value)


def test_a_table_without_anything_else_takes_rules() -> None:
    joined = join_rules(parse_rules([DISRUPTED], "d"), parse_team_rules([row()], "r"), "r")
    assert [rule.name for rule in joined] == ["disrupted", "ours"]


def test_a_table_knows_its_rows() -> None:
    table = built_in_rules()
    oom = table.named("out-of-memory")
    assert oom is not None
    assert oom.action is Action.RETRY_LARGER
    assert (table.named("x"), table.for_exit_code(1), table.for_condition("x")) == (None, None, None)
    assert [
        rule.name if rule else "" for rule in (table.for_exit_code(83), table.for_condition("DisruptionTarget"))
    ] == [
        "nan-loss",
        "disrupted",
    ]


# The built-in rules, and what is written about them.


def test_the_built_in_rules_travel_as_plain_data() -> None:
    table = built_in_rules()
    assert parse_rules(json.loads(json.dumps(table.to_document())), "r") == table
    assert len(json.dumps(table.to_document())) < 8000
    assert yaml.safe_load(BUILT_IN.read_text()) == table.to_document()


@pytest.mark.parametrize(
    ("name", "action"),
    [
        ("disrupted", Action.WAIT),
        ("admission-failed", Action.WAIT),
        ("bad-configuration", Action.FAIL),
        ("bad-data", Action.FAIL),
        ("nan-loss", Action.FAIL),
        ("cuda-out-of-memory", Action.FAIL),
        ("out-of-memory", Action.RETRY_LARGER),
        ("gpu-hardware", Action.RETRY_ELSEWHERE),
        ("communication-timeout", Action.RETRY),
        ("interrupted", Action.RETRY),
    ],
)
def test_what_follows_by_default(name: str, action: Action) -> None:
    rule = built_in_rules().named(name)
    assert rule is not None
    assert rule.action is action


PAGE = (Path(__file__).parents[3] / "docs" / "failure-rules.md").read_text()


def test_the_page_lists_every_built_in_rule_with_its_action() -> None:
    listed = re.findall(r"^\| `([a-z-]+)` \| [^|]+ \| `([a-z_]+)` \|", PAGE, re.MULTILINE)
    table = [(rule.name, rule.action.value) for rule in built_in_rules()]
    assert listed == [*table, ("killed", "retry"), ("application-error", "retry"), ("unknown", "retry")]


def _examples() -> list[Any]:
    blocks = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return [yaml.safe_load(block) for block in blocks]


def test_the_pages_examples_are_rules_of_a_training() -> None:
    examples = _examples()
    assert len(examples) >= 1
    for example in examples:
        body = spec_document(**example["training"])
        rules: RuleTable = rules_for(parse_training_spec(body).failure_rules)
        assert len(rules.rules) == len(built_in_rules().rules) + len(body["failure_rules"])


# In a spec.


def test_a_spec_has_a_teams_rules() -> None:
    assert spec().failure_rules == ()
    assert [rule.name for rule in spec(failure_rules=[row()]).failure_rules] == ["ours"]


def test_a_fault_in_a_spec_is_named_by_its_path() -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_training_spec(spec_document(failure_rules=[row(), row(name="b")]), where="models/a.yaml: training")
    assert caught.value.field == "models/a.yaml: training.failure_rules[1].exit_codes"
