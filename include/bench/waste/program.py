"""The training that all three columns run: a step a second, its progress kept in a folder, from which a retry resumes.

Standard library only: it runs on the machine's own python3. What goes wrong inside a training is done here, by the name
of the row; what is done to it from outside is not its business.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

STEP_S = 1.0
STEPS = 60
BROKEN_STEP = 5
"""After which a training that is to fail does so; one that resumes from there fails at once."""
HANG_STEP = 10
START_S = 2.0
"""What imports and the reading of arguments take before a wrong one is noticed."""
NEEDED_MEMORY = 100 << 20
"""Bytes without which the row of the host's memory can not go on."""

BAD_CONFIGURATION, CUDA_OUT_OF_MEMORY, INTERRUPTED = 80, 82, 85
TERMINATION_LOG = Path("/dev/termination-log")
RESULT = {"v": 1, "status": "trained", "metrics": {"mae": 1.5}, "model_uri": "models:/m-1", "device": "cpu"}


def register(url: str, name: str) -> None:
    """Leave a registered model of this name in MLflow; again is no harm.

    :raises OSError: MLflow does not answer, or refuses.
    """
    body = json.dumps({"name": name}).encode()
    path = f"{url}/api/2.0/mlflow/registered-models/create"
    request = urllib.request.Request(path, body, {"Content-Type": "application/json"})  # noqa: S310 - http alone
    try:
        urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=5).close()
    except urllib.error.HTTPError as error:
        if b"RESOURCE_ALREADY_EXISTS" not in error.read():
            raise


class Training:
    """One attempt: begins where the last step of any attempt before it was."""

    def __init__(self) -> None:
        self.row = os.environ["WASTE_ROW"]
        given = os.environ.get("GPU_TRAINING_CHECKPOINT_URI", "").removeprefix("file://")
        self._file = Path(given or os.environ["WASTE_CHECKPOINTS"]) / "step"
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._done = float(self._file.read_text()) if self._file.exists() else 0.0
        self._since: float | None = None
        signal.signal(signal.SIGTERM, self._interrupted)

    @property
    def step(self) -> int:
        """Steps that are complete."""
        return int(self._done)

    def run(self) -> int:
        """Train to the end, and give the exit code."""
        if self.row == "bad-configuration":
            time.sleep(START_S)
            return BAD_CONFIGURATION
        # By the clock, so that a busy machine makes no training longer.
        self._since = time.monotonic() - self._done * STEP_S
        while self.step < STEPS:
            if self.row == "cuda-oom" and self.step >= BROKEN_STEP:
                return CUDA_OUT_OF_MEMORY
            self._stick()
            time.sleep(max(0.0, self._since + (self.step + 1) * STEP_S - time.monotonic()))
            self._keep(self.step + 1)
            print(f"step {self.step}/{STEPS}", flush=True)
        return self._finish()

    def _stick(self) -> None:
        if self.row == "hang" and self.step >= HANG_STEP:
            self._since = None
            time.sleep(3600)
        if (
            self.row == "host-oom"
            and self.step >= BROKEN_STEP
            and int(os.environ["WASTE_MEMORY_BYTES"]) < NEEDED_MEMORY
        ):
            # Nodes of kind `process` count memory and do not enforce it: whoever sees this file is the kernel.
            self._since = None
            (Path(os.environ["WASTE_SIGNALS"]) / os.environ["WASTE_POD"]).touch()
            time.sleep(3600)

    def _keep(self, done: float) -> None:
        self._done = done
        draft = self._file.with_name(f"step.{os.environ['WASTE_POD']}")
        draft.write_text(str(done))
        draft.replace(self._file)

    def _interrupted(self, *_: object) -> None:
        """Take a last checkpoint of what there is, also of half a step, and end."""
        if self._since is not None:
            # Never more than the step that was being made, however late the signal is seen to.
            self._keep(min((time.monotonic() - self._since) / STEP_S, self._done + 1))
        os._exit(INTERRUPTED)

    def _finish(self) -> int:
        if url := os.environ.get("WASTE_REGISTER_URL"):
            register(url, f"waste-{self.row}")
        TERMINATION_LOG.write_text(json.dumps(RESULT))
        return 0


def main() -> int:
    return Training().run()


if __name__ == "__main__":
    sys.exit(main())
