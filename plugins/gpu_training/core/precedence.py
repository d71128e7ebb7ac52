"""Which trainings go first where GPUs are short: priority classes by what started a run, and Airflow's pools.

The classes are those of include/manifests/priority-classes.yaml, which says how they stand to each other; the pools
those of include/pools.json.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

NIGHTLY_POOL: Final = "gpu_nightly"
BACKFILL_POOL: Final = "gpu_backfill"


class PriorityClass(StrEnum):
    """Names of the PriorityClasses that a run's pods get. A public value: clusters have them by these names."""

    NIGHTLY = "gpu-training-nightly"
    ON_DEMAND = "gpu-training-on-demand"
    BACKFILL = "gpu-training-backfill"


# Airflow's names of run types (airflow.utils.types.DagRunType). What is not here is started by a person, or by a DAG
# that a person started: manual, operator_triggered, asset_materialization.
_OF_RUN_TYPE: Final[Mapping[str, PriorityClass]] = MappingProxyType(
    {
        "scheduled": PriorityClass.NIGHTLY,
        "asset_triggered": PriorityClass.NIGHTLY,
        "backfill": PriorityClass.BACKFILL,
    }
)

_FIELD: Final = "priority_class"
_BY_RUN_TYPE: Final = (
    f"{{{{ {json.dumps({kind: str(name) for kind, name in _OF_RUN_TYPE.items()})}"
    f".get(dag_run.run_type, '{PriorityClass.ON_DEMAND}') }}}}"
)


def priority_class_of(run_type: str) -> PriorityClass:
    """Give the class of the pods of a run whose model names none.

    :param run_type: as Airflow has it: `scheduled`, `backfill`, …
    """
    return _OF_RUN_TYPE.get(run_type, PriorityClass.ON_DEMAND)


def with_precedence(training: Mapping[str, object]) -> dict[str, object]:
    """Give the training document with a template of its run's priority class, where it does not speak of one.

    A document that has the key keeps what it says, be that nothing: its pods then get the cluster's own default.
    """
    return {_FIELD: _BY_RUN_TYPE, **training}
