"""Every trigger comes back from the database as it went in."""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
from typing import Any

import pytest
from airflow.sdk.serde import deserialize, serialize
from airflow.triggers.base import BaseTrigger

import gpu_training.triggers

pytestmark = pytest.mark.unit

EXAMPLES: dict[str, list[dict[str, Any]]] = {
    "gpu_training.triggers.training.TrainingJobTrigger": [
        {
            "cluster": {"conn_id": "c", "in_cluster": None, "cluster_context": "x", "config_file": None},
            "job": {"namespace": "n", "name": "j", "uid": "u"},
            "work": {
                "model": "m",
                "image": "i:1",
                "fingerprint": "sha256:0",
                "lineage": "0123456789abcdef",
                "generation": 2,
                "data_version": "v",
                "data_digest": "sha256:1",
                "mlflow_run_id": "r",
            },
            "number": 3,
            "waiter": '["d","r","t",3,2]',
            "deployment": "airflow",
            "terms": {
                "budget": {"attempts": 3, "disruptions": 10, "gpu_seconds": None, "wall_seconds": 3600},
                "has_fallback": True,
                "memory_cap": "8Gi",
            },
            "rules": [{"name": "x", "exit_codes": [1]}],
            "mlflow_conn_id": "mlflow",
            "contact_limit_seconds": 3600,
            "get_logs": False,
            "result_required": False,
        }
    ]
}


def triggers() -> set[str]:
    found = set()
    for module in pkgutil.iter_modules(gpu_training.triggers.__path__, "gpu_training.triggers."):
        for _, kind in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if issubclass(kind, BaseTrigger) and kind.__module__ == module.name:
                found.add(f"{kind.__module__}.{kind.__qualname__}")
    return found


def test_there_is_an_example_of_every_trigger() -> None:
    assert triggers() == set(EXAMPLES)


@pytest.mark.case("C058")
@pytest.mark.parametrize(("path", "arguments"), [(path, each) for path, all_ in EXAMPLES.items() for each in all_])
def test_every_argument_survives_the_database(path: str, arguments: dict[str, Any]) -> None:
    module, _, name = path.rpartition(".")
    kind = getattr(importlib.import_module(module), name)
    parameters = set(inspect.signature(kind.__init__).parameters) - {"self"}
    stored_path, stored = kind(**arguments).serialize()
    restored = deserialize(json.loads(json.dumps(serialize(stored))))

    assert stored_path == path
    assert stored == arguments
    assert set(stored) == parameters
    assert kind(**restored).serialize() == (path, arguments)
