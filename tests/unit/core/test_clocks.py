"""The section `clocks` of a training spec: defaults, bounds, contradictions in words, and its way over the Job."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.core.damage import anything, damaged
from tests.unit.core.ledgers import BUDGET
from tests.unit.core.specs import SETTINGS, document, identity, spec

from gpu_training.core.clocks import (
    DEFAULT_QUEUE_S,
    DEFAULT_STARTUP_S,
    MAXIMUM_CLOCK_S,
    Clock,
    Clocks,
    clocks_annotation,
    clocks_of,
    work_seconds_of,
)
from gpu_training.core.errors import ConfigurationError
from gpu_training.core.manifest import build_job
from gpu_training.core.naming import ANNOTATION_CLOCKS
from gpu_training.core.recovery import recovered
from gpu_training.core.spec import parse_training_spec
from gpu_training.core.terms import Terms
from gpu_training.rule_table import built_in_rules

pytestmark = pytest.mark.core

_T = "{{ params.x }}"
_NAMES = ("queue_seconds", "startup_seconds", "run_seconds", "stall_seconds", "total_seconds")

limits = st.none() | st.integers(min_value=1, max_value=MAXIMUM_CLOCK_S)
some_clocks = st.builds(Clocks, **dict.fromkeys(_NAMES, limits))
work = st.integers(min_value=1, max_value=MAXIMUM_CLOCK_S)


def clocks(**section: Any) -> Clocks:
    return spec(clocks=section).clocks


def refusal(section: Any, **options: Any) -> ConfigurationError:
    with pytest.raises(ConfigurationError) as caught:
        parse_training_spec(document(clocks=section, **options.pop("changes", {})), **options)
    return caught.value


# The section.


@pytest.mark.parametrize("section", [{}, {"clocks": None}, {"clocks": {}}])
def test_without_a_word_a_queue_ends_after_a_day_and_a_start_after_an_hour(section: dict[str, Any]) -> None:
    assert spec(**section).clocks == Clocks(
        queue_seconds=24 * 3600, startup_seconds=3600, run_seconds=None, stall_seconds=None, total_seconds=None
    )


@pytest.mark.parametrize("name", _NAMES[:4])
@pytest.mark.parametrize(
    ("value", "limit"), [(0, None), ("0", None), (1, 1), ("90", 90), (MAXIMUM_CLOCK_S, MAXIMUM_CLOCK_S)]
)
def test_each_clock_is_set_in_seconds_and_zero_means_no_limit(name: str, value: object, limit: int | None) -> None:
    assert getattr(clocks(**{name: value}), name) == limit


def test_a_field_that_is_left_out_keeps_its_default_beside_one_that_is_set() -> None:
    assert clocks(run_seconds=600) == Clocks(
        queue_seconds=DEFAULT_QUEUE_S, startup_seconds=DEFAULT_STARTUP_S, run_seconds=600
    )


@pytest.mark.parametrize("name", _NAMES)
@pytest.mark.parametrize("value", [-1, MAXIMUM_CLOCK_S + 1, 1.5, True, "1h", "soon", [], {"seconds": 5}, _T], ids=repr)
def test_what_is_no_number_of_seconds_is_refused_naming_field_value_and_what_is_allowed(
    name: str, value: object
) -> None:
    error = refusal({name: value})
    assert (error.field, error.value) == (f"training.clocks.{name}", value)
    assert error.allowed.startswith("a whole number from 0 to 2592000 seconds, 0 for no limit is expected")


def test_an_unknown_clock_is_refused_naming_the_nearest() -> None:
    error = refusal({"queue_second": 5})
    assert error.field == "training.clocks.queue_second"
    assert "unknown key" in error.allowed
    assert "queue_seconds" in error.allowed


@pytest.mark.parametrize("section", [5, "fast", [], ["queue_seconds"]])
def test_a_section_that_is_none_is_refused(section: object) -> None:
    assert refusal(section).field == "training.clocks"


# Contradictions.


@pytest.mark.parametrize(
    ("section", "least"),
    [
        ({"total_seconds": 1799, "queue_seconds": 0}, 1800),
        ({"total_seconds": 1859, "queue_seconds": 60}, 1860),
        ({"total_seconds": 7200}, 24 * 3600 + 1800),
        ({"total_seconds": "1", "queue_seconds": "3600"}, 5400),
    ],
)
def test_a_total_that_the_queue_may_use_up_is_refused_with_the_least_that_is_allowed(
    section: dict[str, Any], least: int
) -> None:
    error = refusal(section)
    assert (error.field, error.value) == ("training.clocks.total_seconds", int(section["total_seconds"]))
    assert f"at least {least} is allowed, or a shorter queue_seconds" in error.allowed
    assert "deadline_seconds (1800)" in error.allowed


@pytest.mark.parametrize(
    "section",
    [
        {"total_seconds": 1800, "queue_seconds": 0},
        {"total_seconds": 1860, "queue_seconds": 60},
        {"total_seconds": 24 * 3600 + 1800},
        {"total_seconds": 0, "queue_seconds": 60},
        {"startup_seconds": 7200},
        {"run_seconds": 7200},
    ],
)
def test_clocks_at_their_bounds_are_meant(section: dict[str, int]) -> None:
    read = clocks(**section)
    assert {name: getattr(read, name) or 0 for name in section} == section


# Templates.


@pytest.mark.parametrize("name", _NAMES)
def test_a_template_passes_when_the_dag_is_parsed_and_what_it_renders_to_when_it_runs(name: str) -> None:
    assert parse_training_spec(document(clocks={name: _T}), templates=True) is None
    rendered = parse_training_spec(document(clocks={name: "200000"}))
    assert getattr(rendered.clocks, name) == 200000


@pytest.mark.parametrize(
    ("section", "changes", "field"),
    [
        ({"queue_seconds": _T, "total_seconds": 5}, {}, "total_seconds"),
        ({"queue_seconds": _T, "run_seconds": -1}, {}, "run_seconds"),
        ({"queue_seconds": _T, "runs": 5}, {}, "runs"),
    ],
)
def test_all_that_is_known_is_checked_beside_a_template(
    section: dict[str, Any], changes: dict[str, Any], field: str
) -> None:
    assert refusal(section, changes=changes, templates=True).field == f"training.clocks.{field}"


@pytest.mark.parametrize(
    ("section", "changes"),
    [
        ({"total_seconds": _T}, {}),
        ({"total_seconds": 5}, {"deadline_seconds": _T}),
        ({"total_seconds": _T, "queue_seconds": 60}, {}),
    ],
)
def test_a_contradiction_with_a_template_waits_until_it_is_rendered(
    section: dict[str, Any], changes: dict[str, Any]
) -> None:
    assert parse_training_spec(document(clocks=section, **changes), templates=True) is None


# What the Job bears, and what a trigger is given.


@given(some_clocks, work)
def test_the_clocks_are_read_back_from_the_annotation(declared: Clocks, seconds: int) -> None:
    text = clocks_annotation(declared, seconds)
    assert clocks_of(text) == declared
    assert work_seconds_of(text) == seconds


@given(some_clocks)
def test_a_triggers_arguments_keep_the_clocks(declared: Clocks) -> None:
    terms = Terms(budget=BUDGET, has_fallback=False, memory_cap="8Gi", clocks=declared)
    assert Terms.from_document(json.loads(json.dumps(terms.to_document()))) == terms
    assert Clocks.from_document(declared.to_document()) == declared


def test_a_trigger_of_a_release_without_clocks_goes_on_with_the_default_ones() -> None:
    terms = Terms(budget=BUDGET, has_fallback=False, memory_cap="8Gi").to_document()
    del terms["clocks"]
    assert Terms.from_document(terms).clocks == Clocks()


@pytest.mark.parametrize("clock", list(Clock))
def test_each_clock_has_a_limit_of_its_own(clock: Clock) -> None:
    declared = Clocks(queue_seconds=1, startup_seconds=2, run_seconds=3, stall_seconds=4, total_seconds=5)
    assert declared.limit(clock) == list(Clock).index(clock) + 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "soon",
        "5",
        "[]",
        "[" * 100_000,
        '{"queue_seconds": ' + "9" * 5000 + "}",
        '{"queue_seconds": "60"}',
        '{"queue_seconds": true}',
        '{"queue_seconds": 1.5}',
        '{"queue_seconds": -5}',
        '{"queue_seconds": 0}',
        '{"queue_seconds": 1e3}',
        '{"queue_seconds": NaN}',
        '{"queue_seconds": 99999999}',
        '{"queue_seconds": 60, "run_seconds": []}',
    ],
    ids=lambda text: text[:40],
)
def test_what_somebody_else_wrote_there_reads_as_the_defaults(text: str) -> None:
    assert clocks_of(text) == Clocks()
    assert work_seconds_of(text) is None


@pytest.mark.parametrize("value", [None, True, 0, -1, 1.5, "600", 10**400])
def test_work_seconds_that_can_not_be_are_not_known(value: object) -> None:
    assert work_seconds_of(json.dumps({"work_seconds": value})) is None


def test_one_limit_written_by_a_later_release_is_no_harm_and_one_that_is_missing_is_a_default() -> None:
    assert clocks_of('{"queue_seconds": 60, "idle_seconds": 5}') == Clocks(queue_seconds=60)
    assert clocks_of('{"queue_seconds": null}') == Clocks(queue_seconds=None)


@given(damaged(Clocks(run_seconds=5).to_document()) | anything)
def test_whatever_stands_there_is_clocks_that_can_be(value: Any) -> None:
    text = json.dumps(value)
    read = clocks_of(text)
    for clock in Clock:
        limit = read.limit(clock)
        assert limit is None or (type(limit) is int and 0 < limit <= MAXIMUM_CLOCK_S)
    work_seconds = work_seconds_of(text)
    assert work_seconds is None or 0 < work_seconds <= MAXIMUM_CLOCK_S


def test_a_job_bears_its_specs_clocks_and_what_it_may_take_outside_of_the_queue() -> None:
    declared = spec(clocks={"queue_seconds": 600, "stall_seconds": 900})
    built = build_job({}, declared, identity(declared), SETTINGS, built_in_rules())
    text = built["metadata"]["annotations"][ANNOTATION_CLOCKS]
    assert clocks_of(text) == declared.clocks
    assert work_seconds_of(text) == SETTINGS.work_seconds


@pytest.mark.parametrize(
    ("annotations", "wall_seconds"),
    [
        ({ANNOTATION_CLOCKS: clocks_annotation(Clocks(), 900)}, 900.0),
        ({ANNOTATION_CLOCKS: "mine"}, 5000.0),
        ({ANNOTATION_CLOCKS: json.dumps({"work_seconds": 10**400})}, 5000.0),
        ({}, 5000.0),
    ],
    ids=["as it bears", "edited", "edited beyond a number", "of an earlier release"],
)
def test_a_job_whose_ledger_is_gone_may_take_what_it_bears_and_not_the_queue_in_its_deadline(
    annotations: dict[str, str], wall_seconds: float
) -> None:
    body = {"metadata": {"uid": "u", "annotations": annotations}, "spec": {"activeDeadlineSeconds": 5000}}
    assert recovered(body, number=1, generation=1, now=0.0).allowance.wall_seconds == wall_seconds
