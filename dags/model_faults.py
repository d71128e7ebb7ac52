"""Say in Airflow's UI which model files are broken, and why: as this file's import error.

The other DAG files build what is sound, so that one team's mistake stops no other team's training; that it is not
passed over is this file's only purpose. It defines no DAG.
"""

from __future__ import annotations

from pathlib import Path

from gpu_training.model_files import raise_faults, read_model_files

raise_faults(read_model_files(Path(__file__).resolve().parent.parent / "include" / "models"))
