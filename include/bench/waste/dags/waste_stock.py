"""The column `stock` of the benchmark."""

from __future__ import annotations

# Airflow looks for DAGs only in files that have these two words: airflow, DAG.
from bench.waste.dag_shape import build_dags
from bench.waste.rows import Column
from bench.waste.stock import by_default as train

globals().update(build_dags(Column.STOCK, train))
