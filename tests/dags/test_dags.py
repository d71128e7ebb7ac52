"""Every DAG of the project: it loads, it keeps the house rules, and it has the shape that its promises need."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.dags

ROOT = Path(__file__).resolve().parent.parent.parent
MODELS = ("air-time", "flight-delay")
USES = ("nightly_retraining", "train_on_demand")
DAG_IDS = tuple(f"{use}__{model}" for use in USES for model in MODELS)


def load(folder: Path) -> Any:
    from airflow.dag_processing.dagbag import DagBag

    return DagBag(dag_folder=folder, bundle_name="dags-folder")


@pytest.fixture(scope="module")
def dagbag() -> Any:
    return load(ROOT / "dags")


@pytest.fixture
def dag(dagbag: Any, request: pytest.FixtureRequest) -> Any:
    return dagbag.dags[request.param]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the DAG files and the model files, to be broken."""
    shutil.copytree(ROOT / "dags", tmp_path / "dags", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "include" / "models", tmp_path / "include" / "models")
    return tmp_path


every_dag = pytest.mark.parametrize("dag", DAG_IDS, indirect=True)


def test_every_model_has_both_dags_and_nothing_fails_to_import(dagbag: Any) -> None:
    assert dagbag.import_errors == {}
    assert sorted(dagbag.dag_ids) == sorted(DAG_IDS)


@every_dag
def test_a_dag_keeps_the_house_rules(dag: Any) -> None:
    assert dag.catchup is False
    assert {"gpu-training"} < set(dag.tags)
    assert dag.doc_md.startswith("# ")
    assert dag.description
    for task in dag.tasks:
        assert task.owner == dag.default_args["owner"] != "airflow"
        assert task.retries >= 1
        assert task.retry_delay.total_seconds() > 0


@every_dag
def test_tasks_stand_in_this_order(dag: Any) -> None:
    edges = {task.task_id: task.downstream_task_ids for task in dag.tasks}
    assert edges == {"resolve": {"train"}, "train": {"register", "clean_up"}, "register": set(), "clean_up": set()}


@every_dag
def test_clean_up_runs_on_every_outcome_and_its_own_failure_counts(dag: Any) -> None:
    clean_up = dag.get_task("clean_up")
    assert clean_up.is_teardown
    assert clean_up.on_failure_fail_dagrun
    # Were it behind register, its success would be the run's, whatever became of the training.
    assert "register" not in clean_up.upstream_task_ids


@pytest.mark.parametrize(
    ("dag", "cron", "zone"),
    [
        ("nightly_retraining__flight-delay", "30 2 * * *", "America/New_York"),
        ("nightly_retraining__air-time", "0 5 * * 1", "Europe/Amsterdam"),
    ],
    indirect=["dag"],
)
def test_nightly_runs_are_due_by_the_clock_of_a_named_zone_one_at_a_time(dag: Any, cron: str, zone: str) -> None:
    from airflow.serialization.encoders import coerce_to_core_timetable

    timetable = coerce_to_core_timetable(dag.timetable)
    assert timetable.summary == cron
    assert timetable.serialize()["timezone"] == zone
    assert dag.max_active_runs == 1


@every_dag
def test_a_nightly_training_is_in_its_pool_and_nothing_else_waits_on_a_pool(dag: Any) -> None:
    nightly = dag.dag_id.startswith("nightly_retraining__")
    pools = {task.task_id: task.pool for task in dag.tasks}
    usual = dict.fromkeys(("resolve", "register", "clean_up"), "default_pool")
    assert pools == {**usual, "train": "gpu_nightly" if nightly else "default_pool"}


@pytest.mark.parametrize("model", MODELS)
def test_on_demand_is_not_scheduled_and_nightly_has_no_form(dagbag: Any, model: str) -> None:
    assert dagbag.dags[f"train_on_demand__{model}"].schedule is None
    assert dict(dagbag.dags[f"nightly_retraining__{model}"].params) == {}


FORM = ("data_version", "gpus", "rounds", "learning_rate", "deadline_seconds", "image", "dry_run")


@pytest.mark.parametrize("model", MODELS)
def test_the_form_describes_types_and_limits_of_every_field(dagbag: Any, model: str) -> None:
    params = dagbag.dags[f"train_on_demand__{model}"].params
    assert set(FORM) <= set(params)
    for name in params:
        param = params.get_param(name)
        assert param.description, name
        assert param.schema["title"], name
        kind = param.schema["type"]
        if kind in ("integer", "number"):
            assert "enum" in param.schema or {"minimum", "maximum"} <= set(param.schema), name
    params.validate()


NONSENSE = [
    ("data_version", ""),
    ("data_version", "as of yesterday"),
    ("data_version", "../secrets"),
    ("data_version", 7),
    ("gpus", 0),
    ("gpus", -1),
    ("gpus", 0.5),
    ("gpus", "many"),
    ("gpus", 1000),
    ("gpus", None),
    ("rounds", 0),
    ("rounds", 10**9),
    ("rounds", "{{ 1 }}"),
    ("learning_rate", 0),
    ("learning_rate", 2),
    ("learning_rate", "fast"),
    ("deadline_seconds", 5),
    ("deadline_seconds", 10**8),
    ("image", ""),
    ("image", "two words"),
    ("image", "{{ var.value.secret }}"),
    ("dry_run", "perhaps"),
]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(("name", "value"), NONSENSE)
def test_the_form_refuses_nonsense(dagbag: Any, model: str, name: str, value: object) -> None:
    from airflow.sdk.exceptions import ParamValidationError

    with pytest.raises(ParamValidationError):
        dagbag.dags[f"train_on_demand__{model}"].params.get_param(name).resolve(value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("data_version", "latest"),
        ("data_version", "2013-03-04"),
        ("data_version", "as of 2026-03-01T00:00:00+00:00"),
        ("data_version", "as of 2026-03-01T00:00Z"),
        ("gpus", 2),
        ("rounds", 1),
        ("learning_rate", 1),
        ("image", None),
        ("image", f"registry.example.com:5000/team/trainer@sha256:{'0' * 64}"),
        ("dry_run", True),
    ],
)
def test_the_form_takes_what_makes_sense(dagbag: Any, name: str, value: object) -> None:
    assert dagbag.dags["train_on_demand__flight-delay"].params.get_param(name).resolve(value) == value


PROBE = """
import json, socket, sys, time
sys.path[:0] = [{plugins!r}]
import airflow.sdk
import airflow.dag_processing.dagbag as dagbag
import airflow.sdk.execution_time.context as context

def refuse(*_, **__):
    raise AssertionError("a DAG file reached out while it was parsed")

socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse
for name in ("_get_connection", "_get_variable"):
    assert hasattr(context, name)
    setattr(context, name, refuse)
before = set(sys.modules)
started = time.process_time()
bag = dagbag.DagBag(dag_folder={folder!r}, bundle_name="dags-folder")
print(json.dumps({{
    "dags": sorted(bag.dag_ids),
    "errors": bag.import_errors,
    "modules": sorted(name.partition(".")[0] for name in set(sys.modules) - before),
    "seconds": time.process_time() - started,
}}))
"""

HEAVY = {"mlflow", "pandas", "xgboost", "kubernetes_asyncio", "kubernetes", "s3fs", "aiobotocore", "boto3", "numpy"}


def test_parsing_imports_nothing_heavy_and_asks_nothing_of_anybody(capsys: pytest.CaptureFixture[str]) -> None:
    program = PROBE.format(plugins=str(ROOT / "plugins"), folder=str(ROOT / "dags"))
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    seen = json.loads(ended.stdout.splitlines()[-1])
    assert seen["errors"] == {}
    assert seen["dags"] == sorted(DAG_IDS)
    assert not HEAVY & set(seen["modules"])
    with capsys.disabled():
        print(f"\nparsing all DAG files: {seen['seconds']:.2f} s of processor time")


def test_a_broken_model_file_is_told_and_the_other_models_go_on(project: Path) -> None:
    broken = project / "include" / "models" / "air_time.yaml"
    broken.write_text(broken.read_text().replace("deadline_seconds: 900", "deadline_secnds: 900"))
    bag = load(project / "dags")
    assert sorted(bag.dag_ids) == ["nightly_retraining__flight-delay", "train_on_demand__flight-delay"]
    (path, error), *others = bag.import_errors.items()
    assert others == []
    assert Path(path).name == "model_faults.py"
    assert "air_time.yaml: training.deadline_secnds" in error or "air_time.yaml: training.deadline_seconds" in error


def test_dag_files_are_wiring_only() -> None:
    for path in (ROOT / "dags").glob("*.py"):
        assert len(path.read_text().splitlines()) <= 100, path
