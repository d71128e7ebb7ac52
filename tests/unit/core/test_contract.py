"""The contract holds in both directions, and what breaks it is named."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_training.contract import (
    PROGRESS_PREFIX,
    RESULT_LIMIT_BYTES,
    ContractError,
    Environment,
    ExitCode,
    Manifest,
    ManifestFile,
    Progress,
    Result,
    ResultStatus,
    Variable,
    content_digest,
    parse_manifest,
    parse_progress,
    parse_result,
    read_environment,
    render_manifest,
    render_progress,
    render_result,
)

pytestmark = pytest.mark.core

FINITE = st.floats(allow_nan=False, allow_infinity=False)
COUNTS = st.integers(min_value=0, max_value=2**63 - 1)
SHORT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
PROGRESS = st.builds(
    Progress,
    step=COUNTS,
    total=COUNTS,
    loss=st.none() | FINITE,
    throughput=st.none() | FINITE,
    checkpoint_step=st.none() | COUNTS,
    first_step=st.none() | COUNTS,
)
RESULTS = st.builds(
    Result,
    status=st.sampled_from(ResultStatus),
    data_version=st.none() | SHORT,
    data_digest=st.none() | SHORT,
    mlflow_run_id=st.none() | SHORT,
    model_uri=st.none() | SHORT,
    metrics=st.dictionaries(SHORT, FINITE, max_size=4),
    first_step=st.none() | COUNTS,
    last_step=st.none() | COUNTS,
    checkpoint_step=st.none() | COUNTS,
    pod_uid=st.none() | SHORT,
    device=st.none() | SHORT,
    error=st.none() | SHORT,
)
NAMES = st.text(st.sampled_from("abcXYZ019._+-"), min_size=1, max_size=12).filter(lambda name: name not in (".", ".."))
FILES = st.builds(
    ManifestFile,
    path=st.lists(NAMES, min_size=1, max_size=3).map("/".join),
    size=COUNTS,
    sha256=st.text(st.sampled_from("0123456789abcdef"), min_size=64, max_size=64),
)
MANIFESTS = st.builds(
    Manifest,
    id=st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,127}", fullmatch=True),
    created_at=st.datetimes(timezones=st.timezones()).map(lambda time: time.isoformat()),
    files=st.lists(FILES, min_size=1, max_size=4, unique_by=lambda entry: entry.path).map(tuple),
)


# --- environment ------------------------------------------------------------------------------------------------------


def test_environment_of_no_operator_is_one_where_nothing_is_known() -> None:
    assert read_environment({}) == Environment()
    assert read_environment(dict.fromkeys(Variable, "")) == Environment()
    assert Environment().grace_seconds == 30


def test_each_variable_has_its_field() -> None:
    values = {
        Variable.DATA_VERSION: "2013-03-11",
        Variable.DATA_URI: "s3://data/manifest.json",
        Variable.DATA_DIGEST: "sha256:" + "0" * 64,
        Variable.CHECKPOINT_URI: "file:///checkpoints",
        Variable.FINGERPRINT: "f",
        Variable.POD_UID: "5ad0f6e8-7c3e-4b57-9f0e-2f6d1f0a8d11",
        Variable.TERMINATION_LOG: "/tmp/result",  # noqa: S108
        Variable.MLFLOW_TRACKING_URI: "http://mlflow",
        Variable.MLFLOW_RUN_ID: "run",
        Variable.GRACE_SECONDS: "120",
    }
    assert set(values) == set(Variable)
    environment = read_environment(values)
    assert {variable: getattr(environment, variable.name.lower()) for variable in Variable} == {
        **values,
        Variable.GRACE_SECONDS: 120.0,
    }


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        (Variable.DATA_DIGEST, "0" * 64, "DATA_DIGEST='000.*: sha256: and 64 lower-case hex digits"),
        (Variable.POD_UID, "..", r"POD_UID='\.\.': the name of a folder"),
        (Variable.POD_UID, "a/b", "POD_UID='a/b': the name of a folder"),
        (Variable.GRACE_SECONDS, "-1", "GRACE_SECONDS='-1': a number of seconds from 0"),
        (Variable.GRACE_SECONDS, "nan", "GRACE_SECONDS='nan'"),
        (Variable.GRACE_SECONDS, "1e400", "GRACE_SECONDS='1e400'"),
    ],
)
def test_variable_that_breaks_the_contract_is_named(variable: Variable, value: str, message: str) -> None:
    with pytest.raises(ContractError, match=message):
        read_environment({variable: value})


def test_variable_that_a_program_can_not_do_without_is_named() -> None:
    environment = read_environment({Variable.DATA_URI: "s3://data/manifest.json"})
    assert environment.require(Variable.DATA_URI) == "s3://data/manifest.json"
    with pytest.raises(ContractError, match="GPU_TRAINING_CHECKPOINT_URI is absent: the operator sets it"):
        environment.require(Variable.CHECKPOINT_URI)


# --- progress ---------------------------------------------------------------------------------------------------------


@given(PROGRESS)
def test_progress_survives_the_log(progress: Progress) -> None:
    line = render_progress(progress)
    assert "\n" not in line
    assert parse_progress(f"2013-03-04T00:00:00Z {line}\n") == progress


@given(st.text() | st.binary().map(lambda content: content.decode(errors="surrogateescape")))
def test_no_log_line_raises(line: str) -> None:
    parse_progress(line)
    parse_progress(PROGRESS_PREFIX + line)


@pytest.mark.parametrize(
    "tail",
    [
        "",
        "{}",
        "[]",
        "1",
        "{",
        '{"step":-1}',
        '{"step":1.5}',
        '{"step":true}',
        '{"step":"1"}',
        '{"step":1,"total":null}',
        '{"step":9223372036854775808}',
        '{"v":2,"step":1}',
        '{"v":"1","step":1}',
        '{"v":true,"step":1}',
        "[" * 4000,
        '{"step":1,"note":"' + "x" * 4096 + '"}',
    ],
)
def test_line_that_breaks_the_contract_is_only_a_log_line(tail: str) -> None:
    assert parse_progress(PROGRESS_PREFIX + tail) is None


def test_odd_numbers_in_a_good_line_are_left_out() -> None:
    line = PROGRESS_PREFIX + '{"step":3,"loss":NaN,"throughput":"fast","checkpoint_step":-2,"more":1}'
    assert parse_progress(line) == Progress(step=3)


@pytest.mark.parametrize("loss", [math.nan, math.inf, -math.inf])
def test_loss_that_is_not_finite_is_not_printed(loss: float) -> None:
    assert parse_progress(render_progress(Progress(step=1, loss=loss))) == Progress(step=1)


@given(PROGRESS)
def test_share_and_time_left_are_sane_whatever_a_trainer_reports(progress: Progress) -> None:
    fraction, left = progress.fraction, progress.seconds_left
    assert fraction is None or 0 <= fraction <= 1
    assert left is None or (left >= 0 and math.isfinite(left))


@pytest.mark.parametrize(
    ("progress", "fraction", "left"),
    [
        (Progress(step=80, total=200, throughput=10), 0.4, 12),
        (Progress(step=80), None, None),
        (Progress(step=80, total=200), 0.4, None),
        (Progress(step=80, total=200, throughput=0), 0.4, None),
        (Progress(step=80, total=200, throughput=-1), 0.4, None),
        (Progress(step=0, total=200, throughput=1e-320), 0, None),
        (Progress(step=300, total=200, throughput=10), 1, 0),
    ],
)
def test_share_and_time_left(progress: Progress, fraction: float | None, left: float | None) -> None:
    assert (progress.fraction, progress.seconds_left) == (fraction, left)


# --- result document --------------------------------------------------------------------------------------------------


@given(RESULTS)
def test_result_survives_the_termination_message(result: Result) -> None:
    text = render_result(result)
    assert len(text.encode()) <= RESULT_LIMIT_BYTES
    assert parse_result(text) == result


@given(st.text(max_size=6000), st.integers(min_value=0, max_value=40))
def test_long_error_is_cut_and_leaves_the_rest_whole(error: str, metrics: int) -> None:
    result = Result(status=ResultStatus.FAILED, metrics={f"metric_{n}": 1 / 3 for n in range(metrics)}, error=error)
    parsed = parse_result(render_result(result))
    assert dataclasses.replace(parsed, error=None) == dataclasses.replace(result, error=None)
    cleaned = error.encode(errors="replace").decode().replace("\0", "?")
    assert parsed.error == cleaned or (parsed.error or "").endswith("…")
    assert cleaned.startswith((parsed.error or "").removesuffix("…"))


def test_cut_error_uses_most_of_the_room() -> None:
    text = render_result(Result(status=ResultStatus.FAILED, error="é" * 5000))
    assert RESULT_LIMIT_BYTES * 0.9 < len(text.encode()) <= RESULT_LIMIT_BYTES


@pytest.mark.parametrize("odd", ["\udcff", "a\0b", "\ud800\udfff"])
def test_text_that_a_database_refuses_is_replaced_on_both_sides(odd: str) -> None:
    rendered = parse_result(render_result(Result(status=ResultStatus.FAILED, error=odd))).error
    parsed = parse_result(json.dumps({"v": 1, "status": "failed", "error": odd})).error
    for text in (rendered, parsed):
        assert text is not None
        assert "\0" not in text.encode().decode()


@pytest.mark.parametrize("odd", ["\udcff", "a\0b"])
def test_a_metric_s_name_that_a_database_refuses_is_replaced_on_both_sides(odd: str) -> None:
    rendered = parse_result(render_result(Result(status=ResultStatus.TRAINED, metrics={odd: 1})))
    parsed = parse_result(json.dumps({"v": 1, "status": "trained", "metrics": {odd: 1}}))
    assert rendered.metrics == parsed.metrics == {odd.replace("\0", "?").replace("\udcff", "?"): 1.0}


def test_metrics_whose_names_become_one_are_refused() -> None:
    with pytest.raises(ContractError, match="'a\\?' stands twice"):
        render_result(Result(status=ResultStatus.TRAINED, metrics={"a\0": 1, "a?": 2}))


@pytest.mark.parametrize("metric", [math.nan, math.inf])
def test_metric_that_is_not_finite_is_refused_by_name(metric: float) -> None:
    with pytest.raises(ContractError, match=r"metrics\.rmse=(nan|inf): .*finite"):
        render_result(Result(status=ResultStatus.TRAINED, metrics={"rmse": metric}))


def test_too_many_metrics_are_refused() -> None:
    with pytest.raises(ContractError, match="at most 2048 fit; report fewer metrics"):
        render_result(Result(status=ResultStatus.TRAINED, metrics={f"metric_{n}": 0.1 for n in range(300)}))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "absent"),
        (" \n", "absent"),
        ("{" + " " * 2048, "has 2049 bytes: at most 2048"),
        ("no", "is not JSON"),
        ("[" * 2000, "is not JSON"),
        ("[]", "is a JSON list: an object is expected"),
        ('{"status":"trained"}', "v=None: this release reads versions 1 to 1"),
        ('{"v":2,"status":"trained"}', "v=2: this release"),
        ('{"v":true,"status":"trained"}', "v=True: this release"),
        ('{"v":1}', "status=None: allowed are trained, failed"),
        ('{"v":1,"status":"done"}', "status='done': allowed are trained, failed"),
        ('{"v":1,"status":"trained","model_uri":1}', "model_uri=1: a text is expected"),
        ('{"v":1,"status":"trained","last_step":-1}', "last_step=-1: a whole number from 0"),
        ('{"v":1,"status":"trained","metrics":[]}', r"metrics=\[\]: an object of numbers"),
        ('{"v":1,"status":"trained","metrics":{"rmse":NaN}}', r"metrics\.rmse=nan: a finite number"),
        ('{"v":1,"status":"trained","metrics":{"rmse":"1"}}', r"metrics\.rmse='1': a finite number"),
        ('{"v":1,"status":"failed","status":"trained"}', "key 'status' stands twice in one object"),
        ('{"v":1,"status":"trained","metrics":{"rmse":1,"rmse":2}}', "key 'rmse' stands twice in one object"),
        ('{"v":1,"status":"trained","metrics":{"\\ud800":1,"?":2}}', r"key '\?' stands twice in one object"),
        ('{"v":1,"status":"trained","metrics":{"rmse":1' + "0" * 400 + "}}", "a finite number is expected"),
    ],
)
def test_result_that_breaks_the_contract_is_named(text: str, message: str) -> None:
    with pytest.raises(ContractError, match=message):
        parse_result(text)


@given(st.text(max_size=300))
def test_any_other_text_raises_nothing_but_the_contracts_error(text: str) -> None:
    try:
        parse_result(text)
    except ContractError:
        return
    assert json.loads(text)["status"] in list(ResultStatus)


def test_fields_of_a_newer_trainer_are_ignored() -> None:
    assert parse_result('{"v":1,"status":"trained","colour":"blue"}') == Result(status=ResultStatus.TRAINED)


def test_exit_codes_are_distinct_from_those_of_shells_and_signals() -> None:
    assert {code.value for code in ExitCode} == {0, 1, *range(80, 86)}


# --- manifest ---------------------------------------------------------------------------------------------------------


@given(MANIFESTS)
def test_manifest_survives_the_store(manifest: Manifest) -> None:
    assert parse_manifest(render_manifest(manifest)) == manifest


@given(MANIFESTS, st.randoms(use_true_random=False))
def test_digest_depends_on_the_content_alone(manifest: Manifest, random: Any) -> None:
    shuffled = list(manifest.files)
    random.shuffle(shuffled)
    assert dataclasses.replace(manifest, id="other", files=tuple(shuffled)).digest == manifest.digest


@given(MANIFESTS)
def test_digest_tells_every_change_of_a_file(manifest: Manifest) -> None:
    first, *rest = manifest.files
    changed = [
        dataclasses.replace(first, size=first.size + 1),
        dataclasses.replace(first, path=f"{first.path}x"),
        dataclasses.replace(first, sha256=("1" if first.sha256[0] == "0" else "0") + first.sha256[1:]),
    ]
    digests = {content_digest((file, *rest)) for file in (first, *changed)}
    assert len(digests) == 4


SHA = "0" * 64


def body(**changes: Any) -> str:
    files = [ManifestFile(path="a.csv", size=1, sha256=SHA)]
    document = json.loads(
        render_manifest(Manifest(id="v1", created_at="2013-03-04T00:00:00+00:00", files=tuple(files)))
    )
    return json.dumps({**document, **changes})


def file(**changes: Any) -> dict[str, Any]:
    return {"path": "a.csv", "size": 1, "sha256": SHA, **changes}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no", "manifest is not JSON"),
        (body(v=2), "v=2"),
        (body(id=""), "id='': 1 to 128"),
        (body(id="-a"), "id='-a'"),
        (body(id="a/b"), "id='a/b'"),
        (body(id="a" * 129), "1 to 128"),
        (body(id="a\n"), "1 to 128"),
        (body(id=7), "id=7"),
        (body(created_at="2013-03-04T00:00:00"), "created_at=.*offset"),
        (body(created_at="Monday"), "created_at='Monday'"),
        (body(created_at=None), "created_at=None"),
        (body(digest="sha256:0"), "digest='sha256:0': the files listed have sha256:"),
        (body(digest=None), "digest=None"),
        (body(files=[]), r"files=\[\]: a list of at least one file"),
        (body(files={}), "files={}"),
        (body(files=["a.csv"]), r"files\[0\]='a.csv': an object"),
        (body(files=[file(), file()]), "named twice"),
        (body(files=[file(size=-1)]), r"files\[0\].size=-1: bytes"),
        (body(files=[file(size=True)]), r"files\[0\].size=True"),
        (body(files=[file(sha256="0" * 63)]), r"files\[0\].sha256="),
        (body(files=[file(sha256="A" * 64)]), "lower-case"),
        *(
            (body(files=[file(path=path)]), r"files\[0\]\.path=.*: a relative path")
            for path in ("", "/a", "../a", "a/../b", "a//b", ".", "s3://b/a", "a\\b", "a\n", "a\ud800", None)
        ),
    ],
)
def test_manifest_that_breaks_the_contract_is_named(text: str, message: str) -> None:
    with pytest.raises(ContractError, match=message):
        parse_manifest(text)


@given(st.text(max_size=300))
def test_any_text_as_a_manifest_raises_nothing_but_the_contracts_error(text: str) -> None:
    with pytest.raises(ContractError):
        parse_manifest(text)


def test_whole_number_counts_however_json_writes_it() -> None:
    """40.0 is an integer by JSON Schema, and what Lua, R or jq may write."""
    progress = parse_progress(PROGRESS_PREFIX + '{"v":1.0,"step":40.0,"total":2e2,"first_step":1.0}')
    assert progress == Progress(step=40, total=200, first_step=1)
    assert isinstance(progress.step, int)
    assert parse_result('{"v":1.0,"status":"trained","last_step":200.0}').last_step == 200
    assert parse_progress(PROGRESS_PREFIX + '{"step":40.5}') is None
