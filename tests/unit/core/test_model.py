"""A model's document: what is read from it, and the one message for whatever is wrong with it."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_training.core.errors import ConfigurationError
from gpu_training.core.model import DataSourceKind, Verification, parse_data_settings, parse_model

pytestmark = pytest.mark.core

DOCUMENT: dict[str, Any] = {
    "model": "flight-delay",
    "owner": "flight-operations",
    "description": "How late a flight arrives.",
    "schedule": {"cron": "30 2 * * *", "timezone": "America/New_York"},
    "data": {"source": "object_store_manifest", "uri": "s3://flights/versions", "conn_id": "flights_data"},
    "training": {
        "image": "{{ var.value.get('image', 'trainer:1') }}",
        "entrypoint": ["python", "-m", "trainer"],
        "arguments": {"rounds": 200, "learning-rate": 1.0},
        "resources": {"requests": {"cpu": "1"}, "limits": {"nvidia.com/gpu": 1, "memory": "2Gi"}},
        "deadline_seconds": 1800,
        "backoff_limit": 2,
        "ttl_seconds_after_finished": 3600,
    },
    "registry": {"registered_model": "flight-delay"},
    "parameters": {
        "rounds": {
            "sets": ["arguments", "rounds"],
            "type": "integer",
            "minimum": 1,
            "maximum": 5000,
            "description": "Trees.",
        },
        "image": {"sets": ["image"], "type": "string", "description": "Training image."},
    },
}


def changed(path: str, value: object) -> dict[str, Any]:
    """Give the document with another value at a path; `None` takes the key away."""
    document = copy.deepcopy(DOCUMENT)
    *folders, last = path.split("/")
    body = document
    for folder in folders:
        body = body.setdefault(folder, {})
    if value is None:
        body.pop(last, None)
    else:
        body[last] = value
    return document


def test_a_document_becomes_a_model_with_defaults() -> None:
    model = parse_model(DOCUMENT)
    assert model.name == "flight-delay"
    assert (model.retries, model.retry_delay_seconds) == (2, 60)
    assert model.data.source is DataSourceKind.OBJECT_STORE_MANIFEST
    assert (model.data.ref, model.data.verify) == ("latest", Verification.CONTENT)
    assert (model.registry.alias, model.registry.conn_id) == ("candidate", "mlflow_tracking")
    assert model.registry.experiment == "flight-delay"
    assert model.kubernetes_conn_id == "kubernetes_gpu"
    assert model.training["model"] == "flight-delay"


def test_the_document_given_is_left_as_it_is() -> None:
    document = copy.deepcopy(DOCUMENT)
    parse_model(document).training_on_demand()
    assert document == DOCUMENT


def test_data_settings_survive_the_way_through_a_task_argument() -> None:
    settings = parse_model(DOCUMENT).data
    assert parse_data_settings(settings.to_document()) == settings


def test_a_template_in_the_data_settings_is_kept_for_rendering() -> None:
    model = parse_model(changed("data/uri", "{{ var.value.flights }}"))
    assert model.data.uri == "{{ var.value.flights }}"
    with pytest.raises(ConfigurationError, match=r"data\.uri='\{\{ var"):
        parse_data_settings(model.data.to_document())


BROKEN = [
    ("model", None, "model=None: is required and missing"),
    ("model", "Flight Delay", "model='Flight Delay': a model name"),
    ("owner", "", "owner='': "),
    ("owner", "one, two", "owner='one, two': a team or person without a comma"),
    ("description", " \n", r"description=' \n': a text is expected"),
    ("registry/experiment", "  ", "registry.experiment='  ': a text is expected"),
    ("retries", -1, "retries=-1: a whole number from 0 to 20"),
    ("retries", "often", "retries='often': a whole number"),
    ("retry_delay_seconds", 10**6, "retry_delay_seconds=1000000: "),
    ("ownr", "x", "ownr='x': unknown key (did you mean 'owner'?)"),
    ("schedule", None, "schedule=None: is required and missing"),
    ("schedule/cron", "@daily", "schedule.cron='@daily': five fields"),
    ("schedule/timezone", "../../etc/passwd", "schedule.timezone='../../etc/passwd': an IANA time zone"),
    ("schedule/zone", "UTC", "schedule.zone='UTC': unknown key"),
    ("data", None, "data=None: is required and missing"),
    ("data/source", "object_store", "data.source='object_store': one of object_store_manifest"),
    ("data/uri", "flights", "data.uri='flights': a URI"),
    ("data/ref", "as of yesterday", "data.ref='as of yesterday': "),
    ("data/ref", "{{ params.version }}", "data.ref='{{ params.version }}': "),
    ("data/ref", True, "data.ref=True: `latest`, an id"),
    ("data/verify", "maybe", "data.verify='maybe': one of content, sizes"),
    ("data/conn_id", "two words", "data.conn_id='two words': the id of an Airflow connection"),
    ("training", None, "training=None: is required and missing"),
    ("training", [], "training=[]: a mapping"),
    ("training/model", "other", "training.model='other': is the model's own name"),
    ("training/deadline_secnds", 5, "training.deadline_secnds=5: unknown key (did you mean 'deadline_seconds'?)"),
    ("training/deadline_seconds", None, "training.deadline_seconds=None: is required"),
    ("training/ttl_seconds_after_finished", 59, "training.ttl_seconds_after_finished=59: a whole number from 60"),
    ("training/resources/limits/nvidia.com/gpu", 0.5, ""),
    ("registry/alias", "latest", "registry.alias='latest': an alias other than"),
    ("registry/alias", "v2", "registry.alias='v2': an alias other than"),
    ("registry/registered_model", "a/b", "registry.registered_model='a/b': a registered model name"),
    ("registry/stage", "prod", "registry.stage='prod': unknown key"),
    ("kubernetes/conn_id", "a b", "kubernetes.conn_id='a b': "),
    ("parameters", [1], "parameters=[1]: a mapping"),
    ("parameters/dry_run", {"sets": ["image"]}, "parameters.dry_run='dry_run': a name matching"),
    ("parameters/Rounds", {}, "parameters.Rounds='Rounds': a name matching"),
    ("parameters/rounds/type", "int", "parameters.rounds.type='int': one of integer, number, string, boolean"),
    ("parameters/rounds/sets", ["arguments", "round"], "parameters.rounds.sets=['arguments', 'round']: a path to one"),
    ("parameters/rounds/sets", ["arguments"], "parameters.rounds.sets=['arguments']: a path to one value"),
    ("parameters/rounds/sets", [], "parameters.rounds.sets=[]: a path to one value"),
    ("parameters/rounds/minimum", 201, "parameters.rounds.sets=200: a value from 201 to 5000 is expected"),
    ("parameters/rounds/minimum", "low", "parameters.rounds.minimum='low': a number is expected"),
    ("parameters/rounds/default", 5, "parameters.rounds.default=5: unknown key"),
    ("parameters/rounds/description", None, "parameters.rounds.description=None: is required"),
    ("parameters/rounds/enum", [100, 300], "parameters.rounds.sets=200: one of 100, 300 is expected"),
    ("parameters/rounds/enum", [200, "many"], "parameters.rounds.enum='many': a value of type integer is expected"),
    ("parameters/rounds/enum", [[1]], "parameters.rounds.enum[0]=[1]: a text, a number"),
    ("parameters/image/pattern", "(", "parameters.image.pattern='(': a regular expression is expected"),
    (
        "parameters/twin",
        {"sets": ["image"], "type": "string", "description": "x"},
        "parameters.twin.sets=['image']: is set by image already",
    ),
]


def test_a_form_s_text_never_reads_a_variable_of_the_pod() -> None:
    document = changed("training/arguments/target", "$(AWS_SECRET_ACCESS_KEY)")
    document["parameters"]["target"] = {"sets": ["arguments", "target"], "type": "string", "description": "x"}
    with pytest.raises(ConfigurationError, match=r"parameters\.target\.sets=.*: a text without `\$\(` is expected"):
        parse_model(document)


@pytest.mark.parametrize(("path", "value", "message"), BROKEN, ids=[f"{row[0]}={row[1]}"[:60] for row in BROKEN])
def test_what_is_wrong_is_told_with_field_value_and_what_is_allowed(path: str, value: object, message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_model(changed(path, value))
    assert str(caught.value).startswith(message)


def test_a_limit_that_the_training_would_refuse_is_refused_in_the_file() -> None:
    deadline = {"sets": ["deadline_seconds"], "type": "integer", "minimum": 1, "maximum": 3600, "description": "x"}
    with pytest.raises(ConfigurationError) as caught:
        parse_model(changed("parameters/deadline_seconds", deadline))
    assert str(caught.value).startswith("parameters.deadline_seconds.minimum=1: the training refuses that: ")


def test_a_number_that_yaml_reads_as_text_is_told_how_to_write_it() -> None:
    document = changed("training/arguments/learning-rate", "1e-5")
    document["parameters"]["rate"] = {"sets": ["arguments", "learning-rate"], "type": "number", "description": "x"}
    with pytest.raises(ConfigurationError, match=r"write 1\.0e-5"):
        parse_model(document)


def test_a_parameter_s_usual_value_is_the_training_s_own() -> None:
    rounds, image = parse_model(DOCUMENT).parameters
    assert rounds.default == 200
    assert rounds.json_schema() == {"title": "Rounds", "type": "integer", "minimum": 1, "maximum": 5000}
    assert image.default is None
    assert image.json_schema() == {
        "title": "Image",
        "type": ["null", "string"],
        "minLength": 1,
        "not": {"type": "string", "pattern": r"\$\("},
    }


def test_a_parameter_s_title_is_what_the_form_shows() -> None:
    entry = {**DOCUMENT["parameters"]["rounds"], "title": "Trees"}
    parameters = {**DOCUMENT["parameters"], "rounds": entry}
    rounds, _ = parse_model({**DOCUMENT, "parameters": parameters}).parameters
    assert rounds.json_schema()["title"] == "Trees"


def test_on_demand_opens_the_parameters_and_nothing_else() -> None:
    model = parse_model(DOCUMENT)
    training = model.training_on_demand()
    declared = dict(model.training)
    assert training["arguments"] == {"rounds": "{{ params.rounds | int }}", "learning-rate": 1}
    for opened in ("arguments", "image"):
        del training[opened], declared[opened]
    assert training == declared


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=3),
    max_leaves=8,
)


def paths(body: Mapping[str, Any], prefix: str = "") -> list[str]:
    found = []
    for key, value in body.items():
        if "/" not in key:
            found.append(f"{prefix}{key}")
            if isinstance(value, dict):
                found += paths(value, f"{prefix}{key}/")
    return found


@given(path=st.sampled_from(paths(DOCUMENT)), value=VALUES)
def test_whatever_stands_in_a_field_there_is_a_model_or_one_clear_error(path: str, value: object) -> None:
    with contextlib.suppress(ConfigurationError):
        parse_model(changed(path, value)).training_on_demand()


@given(VALUES)
def test_any_document_at_all_is_refused_with_one_clear_error(document: object) -> None:
    with pytest.raises(ConfigurationError):
        parse_model(document)
