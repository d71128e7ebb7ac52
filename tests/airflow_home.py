"""An Airflow of the tests' own: home, settings and a database that nothing else uses.

Airflow reads its settings once, when it is first imported, so they are made when pytest starts.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def prepare() -> Path | None:
    """Make the home and point Airflow to it; None where Airflow is not installed."""
    if importlib.util.find_spec("airflow") is None:
        return None
    home = Path(tempfile.mkdtemp(prefix="airflow-home-"))
    for name in [name for name in os.environ if name.startswith("AIRFLOW_")]:
        del os.environ[name]
    os.environ |= {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "plugins"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__FERNET_KEY": "",
        "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": "120",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
    }
    return home


def remove(home: Path) -> None:
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="session")
def airflow_database() -> None:
    """Airflow's tables, made once a session."""
    from airflow.utils.db import initdb

    initdb()
