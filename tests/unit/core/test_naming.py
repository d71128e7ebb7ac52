"""Names and labels are always ones that Kubernetes takes, and tell apart what is not the same work."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.unit.core.specs import DATA_DIGEST, IMAGE, OWNER, full_document, identity, spec

from gpu_training.core.naming import (
    PREFIX,
    TaskTry,
    fingerprint,
    identity_annotations,
    identity_labels,
    is_ours,
    is_pinned,
    job_name,
    label_value,
    ledger_name,
    lineage_hash,
    run_hash,
    task_hash,
)

pytestmark = pytest.mark.core

DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")

SPEC = spec()
models = st.text("a0-", max_size=38).map(lambda middle: f"m{middle}z")
digests = st.integers(min_value=0, max_value=2**256 - 1).map("sha256:{:064x}".format)
counters = st.integers(min_value=1, max_value=10**9 - 1)
texts = st.text(max_size=80)
tries = st.builds(
    TaskTry,
    dag_id=texts,
    run_id=texts,
    task_id=texts,
    map_index=st.integers(min_value=-1, max_value=10**6),
    try_number=st.integers(min_value=0, max_value=10**6),
)


def test_a_name_says_model_lineage_generation_and_number() -> None:
    name = job_name(identity(SPEC, fingerprint="sha256:" + "0" * 64, generation=3, number=12))
    assert re.fullmatch(r"flight-delay-[0-9a-f]{16}-g3-12", name)


@pytest.mark.case("C085")
@given(
    model=models,
    deployment=texts,
    digest=digests,
    generation=counters,
    number=counters,
    indexed=st.booleans(),
)
def test_a_name_is_a_dns_label_with_room_for_an_index(
    model: str, deployment: str, digest: str, generation: int, number: int, indexed: bool
) -> None:
    who = identity(SPEC, model=model, deployment=deployment, fingerprint=digest, generation=generation, number=number)
    name = job_name(who, indexed=indexed)
    assert DNS_LABEL.fullmatch(name)
    assert len(name) + (len("-99999") if indexed else 0) <= 63


names = st.tuples(st.sampled_from(["airflow", "airflow-2", "a"]), digests, counters, counters)


@given(model=models, one=names, other=names, indexed=st.booleans())
def test_different_identities_have_different_names(
    model: str, one: tuple[str, str, int, int], other: tuple[str, str, int, int], indexed: bool
) -> None:
    assume(one != other)
    first, second = (
        job_name(
            identity(SPEC, model=model, deployment=who[0], fingerprint=who[1], generation=who[2], number=who[3]),
            indexed=indexed,
        )
        for who in (one, other)
    )
    assert first != second


@pytest.mark.parametrize(("field", "value"), [("generation", 0), ("number", 0), ("number", 10**9), ("generation", -1)])
def test_a_counter_that_would_not_fit_a_name_is_refused(field: str, value: int) -> None:
    with pytest.raises(ValueError, match=f"{field}={value}: from 1"):
        identity(SPEC, **{field: value})


@pytest.mark.case("C086")
@given(model=models, deployment=texts, owner=tries)
def test_labels_are_valid_and_annotations_hold_the_full_values(model: str, deployment: str, owner: TaskTry) -> None:
    who = identity(SPEC, model=model, deployment=deployment, owner=owner)
    for key, value in identity_labels(who).items():
        assert key.startswith(PREFIX)
        assert LABEL_VALUE.fullmatch(value)
        assert len(value.encode()) <= 63
    assert TaskTry.from_text(owner.to_text()) == owner
    assert who.fingerprint in identity_annotations(who).values()


@given(texts)
def test_any_text_has_a_label_value(text: str) -> None:
    value = label_value(text)
    assert value
    assert len(value) <= 63
    assert LABEL_VALUE.fullmatch(value)


@pytest.mark.parametrize("text", ["airflow", "a" * 63, "A.b_c-9"])
def test_a_text_that_is_a_label_value_stays_readable(text: str) -> None:
    assert label_value(text) == text


@pytest.mark.case("C011")
def test_labels_tell_runs_tasks_and_mapped_instances_apart_and_tries_not() -> None:
    def of(**changes: Any) -> TaskTry:
        fields = {name: getattr(OWNER, name) for name in ("dag_id", "run_id", "task_id", "map_index", "try_number")}
        return TaskTry(**{**fields, **changes})

    others = [of(dag_id="x"), of(run_id="x"), of(task_id="x"), of(map_index=0), of(map_index=1)]
    assert len({task_hash("airflow", owner) for owner in (OWNER, *others)}) == 6
    assert task_hash("airflow", of(try_number=2)) == task_hash("airflow", OWNER)
    assert task_hash("airflow-2", OWNER) != task_hash("airflow", OWNER)
    assert run_hash("airflow", "a", "b__c") != run_hash("airflow", "a__b", "c")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "5",
        '"abcde"',
        "[1,2,3,4,5]",
        '["a","b","c",0]',
        '["a","b","c",0,1,2]',
        '["a","b","c","0",1]',
        '["a","b","c",true,1]',
        '["a","b",null,0,1]',
        '{"a":1,"b":2,"c":3,"d":4,"e":5}',
        "[" * 100_000,
        "9" * 5000,
    ],
)
def test_a_text_that_is_no_try_names_nobody(text: str) -> None:
    assert TaskTry.from_text(text) is None


# Adoption.


def marks(**changes: Any) -> tuple[dict[str, str], dict[str, str]]:
    who = identity(SPEC, **changes)
    return identity_labels(who), identity_annotations(who)


def test_a_job_of_another_try_is_ours() -> None:
    earlier = TaskTry(
        dag_id=OWNER.dag_id, run_id=OWNER.run_id, task_id=OWNER.task_id, map_index=OWNER.map_index, try_number=9
    )
    assert is_ours(identity(SPEC), *marks())
    assert is_ours(identity(SPEC), *marks(owner=earlier, number=7))


RUN = (OWNER.dag_id, OWNER.run_id)
OTHER_RUN = TaskTry(dag_id=OWNER.dag_id, run_id="other", task_id=OWNER.task_id, map_index=-1, try_number=1)


@pytest.mark.case("C097")
def test_a_job_of_another_run_is_ours_where_the_image_is_pinned() -> None:
    assert is_ours(identity(SPEC), *marks(owner=OTHER_RUN))
    assert job_name(identity(SPEC)) == job_name(identity(SPEC, owner=OTHER_RUN))


def test_nothing_is_shared_between_runs_where_a_tag_is_all_that_is_known() -> None:
    tagged = spec(image="trainer:1")
    runs = [RUN, (RUN[0], "other"), ("other", RUN[1])]
    assert len({fingerprint(tagged, DATA_DIGEST, run) for run in runs}) == len(runs)
    assert fingerprint(tagged, DATA_DIGEST, RUN) == fingerprint(tagged, DATA_DIGEST, RUN)


def test_what_an_image_known_by_its_digest_trains_is_the_same_work_in_every_run() -> None:
    assert len({fingerprint(SPEC, DATA_DIGEST, run) for run in [RUN, (RUN[0], "other"), ("other", RUN[1])]}) == 1


@pytest.mark.parametrize(
    ("image", "pinned"), [("trainer:1", False), ("trainer@sha256:" + "0" * 64, True), (IMAGE, True)]
)
def test_an_image_is_pinned_by_its_digest_alone(image: str, pinned: bool) -> None:
    assert is_pinned(image) is pinned


@given(st.lists(st.tuples(texts, texts), min_size=2, max_size=2, unique=True))
def test_lineages_are_told_apart(parts: list[tuple[str, str]]) -> None:
    assert lineage_hash(*parts[0]) != lineage_hash(*parts[1])


@given(models, texts)
def test_a_ledgers_name_is_one_that_kubernetes_takes(model: str, deployment: str) -> None:
    who = identity(SPEC, model=model, deployment=deployment)
    name = ledger_name(who.model, who.lineage)
    assert DNS_LABEL.fullmatch(name)
    assert len(name) <= 63 + len("-ledger")


@pytest.mark.parametrize(
    "changes",
    [
        {"deployment": "airflow-2"},
        {"fingerprint": "sha256:" + "0" * 64},
        {"generation": 2},
    ],
)
def test_a_job_of_other_work_is_not(changes: dict[str, Any]) -> None:
    assert not is_ours(identity(SPEC), *marks(**changes))


def test_an_object_without_our_marks_is_not() -> None:
    labels, annotations = marks()
    assert not is_ours(identity(SPEC), {}, {})
    assert not is_ours(identity(SPEC), labels, {})
    assert not is_ours(identity(SPEC), {}, annotations)


# The fingerprint.

FULL = full_document()


def of(**changes: Any) -> str:
    return fingerprint(spec(**{**FULL, **changes}), DATA_DIGEST, RUN)


@pytest.mark.parametrize(
    "changes",
    [
        {"resources": {"limits": {"nvidia.com/gpu": 8, "memory": "8Gi"}}},
        {"deadline_seconds": 60},
        {"backoff_limit": 0},
        {"ttl_seconds_after_finished": 60},
        {"queue": "other"},
        {"priority_class": "other"},
        {"runtime_class": None},
        {"node_selector": {}},
        {"tolerations": []},
        {"namespace": "other"},
        {"service_account": "other"},
        {"shared_memory": "0"},
        {"image_pull_secrets": []},
        {"checkpoint_uri": "s3://elsewhere"},
        {"secret_environment": {}},
        {"environment_from_secrets": []},
        {"volumes": []},
        {"clocks": {}},
        {"clocks": {"queue_seconds": 0, "stall_seconds": 30}},
        {"budget": {"attempts": 9}},
        {"memory_growth": {}},
        {"spot_fallback": {}},
        {"if_trained": "reuse"},
        {"failure_rules": []},
        {"arguments": dict(reversed(FULL["arguments"].items()))},
        {"environment": dict(reversed(FULL["environment"].items()))},
        {"arguments": {**FULL["arguments"], "rounds": "200"}},
        # The same image from another registry.
        {"image": "mirror.example.com/xgboost-trainer@sha256:" + "a" * 64},
    ],
)
def test_the_same_work_has_one_fingerprint_wherever_and_however_long_it_runs(changes: dict[str, Any]) -> None:
    assert of(**changes) == of()


@pytest.mark.parametrize(
    "changes",
    [
        {"model": "air-time"},
        {"image": IMAGE.replace("a" * 64, "b" * 64)},
        {"image": "xgboost-trainer:0.1.0"},
        {"entrypoint": ["python", "-m", "other"]},
        {"arguments": {**FULL["arguments"], "rounds": 201}},
        {"arguments": {}},
        {"environment": {**FULL["environment"], "LOG_LEVEL": "debug"}},
        {"environment_from_config_maps": []},
        {"code_version": "other"},
        {"code_version": None},
    ],
)
def test_other_work_has_another_fingerprint(changes: dict[str, Any]) -> None:
    assert of(**changes) != of()


def test_other_data_is_other_work() -> None:
    assert fingerprint(SPEC, "sha256:" + "0" * 64, RUN) != fingerprint(SPEC, DATA_DIGEST, RUN)


def test_a_fingerprint_outlives_releases() -> None:
    """It is written into registries: when this changes, all that is trained counts as untrained."""
    assert of() == "sha256:4e46a1915aca1cf50e35796d7f63af766f582fb8ed81729d7daac13009fa54ee"


arguments = st.dictionaries(st.text("abc", min_size=1, max_size=4), st.integers(0, 99) | st.text("xy", max_size=2))


@given(arguments, st.randoms(use_true_random=False))
def test_the_order_of_arguments_is_no_part_of_the_work(body: dict[str, Any], random: Any) -> None:
    shuffled = list(body.items())
    random.shuffle(shuffled)
    one, other = spec(arguments=body), spec(arguments=dict(shuffled))
    assert fingerprint(one, DATA_DIGEST, RUN) == fingerprint(other, DATA_DIGEST, RUN)
