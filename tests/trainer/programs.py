"""Training programs as processes, each as the pod of a number: they end as a container would be ended."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tests.trainer.harness import ROOT, Running, environment

PREAMBLE = """
import os, signal, sys, time
from gpu_training.attempt import Attempt, Failure
from gpu_training.contract import ExitCode
"""


@dataclass
class Programs:
    """Starts pods of one lineage.

    :ivar folder: what they leave.
    """

    folder: Path
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def checkpoints(self) -> Path:
        return self.folder / "checkpoints"

    def marker(self, pod: int, step: int) -> Path:
        return self.checkpoints / f"pod-{pod}" / f"step-{step:08d}" / "COMPLETE"

    def result_file(self, pod: int) -> Path:
        return self.folder / f"result-{pod}.json"

    def start(self, *command: str, **variables: str) -> Running:
        number = len(self.started) + 1
        given = {
            "DATA_VERSION": "2013-03-11",
            "GPU_TRAINING_CHECKPOINT_URI": self.checkpoints.as_uri(),
            "GPU_TRAINING_FINGERPRINT": "f" * 64,
            "GPU_TRAINING_POD_UID": f"pod-{number}",
            "GPU_TRAINING_TERMINATION_LOG": str(self.result_file(number)),
            "GPU_TRAINING_GRACE_SECONDS": "30",
            "PYTHONUNBUFFERED": "1",
        }
        process = subprocess.Popen(
            command,
            env={**environment(**given), **variables},
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.started.append(process)
        return Running(process, self.result_file(number))

    def python(self, body: str, **variables: str) -> Running:
        """Start a program of the test's own, below the imports that all of them need."""
        return self.start(sys.executable, "-c", PREAMBLE + body, **variables)

    def end(self) -> None:
        for process in self.started:
            if process.poll() is None:
                process.kill()
                process.wait()


PYTHON_EXAMPLE = (sys.executable, str(ROOT / "include" / "examples" / "python" / "train.py"))
SHELL_EXAMPLE = ("sh", str(ROOT / "include" / "examples" / "shell" / "train.sh"))
