"""What ends a training maps to one exit code, and to one line for a person."""

from __future__ import annotations

import pytest

from gpu_training.attempt import Interrupted, exit_code_of, summary_of
from gpu_training.contract import ExitCode
from trainer.failures import (
    ConfigurationFailure,
    DataFailure,
    LossFailure,
    StorageFailure,
    TrackingFailure,
)

pytestmark = pytest.mark.trainer

OUT_OF_MEMORY = """[20:03:15] /src/device_helpers.cu:25: Memory allocation error on worker 0: bad allocation
- Free memory: 1.2GB
- Requested memory: 4.8GB
Stack trace:
  [bt] (0) libxgboost.so"""


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigurationFailure("x"), ExitCode.BAD_CONFIGURATION),
        (DataFailure("x"), ExitCode.BAD_DATA),
        (LossFailure("x"), ExitCode.NAN_LOSS),
        (Interrupted("x"), ExitCode.INTERRUPTED),
        (StorageFailure("x"), ExitCode.OTHER),
        (TrackingFailure("x"), ExitCode.OTHER),
        (RuntimeError(OUT_OF_MEMORY), ExitCode.CUDA_OUT_OF_MEMORY),
        (RuntimeError("std::bad_alloc: cudaErrorMemoryAllocation: out of memory"), ExitCode.CUDA_OUT_OF_MEMORY),
        (RuntimeError("parallel_for failed: cudaErrorMemoryAllocation"), ExitCode.CUDA_OUT_OF_MEMORY),
        (RuntimeError("CUDA error: out of memory"), ExitCode.CUDA_OUT_OF_MEMORY),
        # A text of the data's own that happens to say so is the data's failure.
        (DataFailure("a.csv: cudaErrorMemoryAllocation"), ExitCode.BAD_DATA),
        # Memory of the host: a larger GPU would not help.
        (MemoryError("std::bad_alloc"), ExitCode.OTHER),
        (RuntimeError("std::bad_alloc"), ExitCode.OTHER),
        (RuntimeError("cudaErrorIllegalAddress: an illegal memory access"), ExitCode.OTHER),
        (ZeroDivisionError(), ExitCode.OTHER),
    ],
)
def test_exit_code_of_each_cause(error: Exception, code: ExitCode) -> None:
    assert exit_code_of(error) is code


@pytest.mark.parametrize(
    ("error", "summary"),
    [
        (DataFailure("a.csv: 3 bytes: the manifest says 4"), "a.csv: 3 bytes: the manifest says 4"),
        (RuntimeError("\n first \n second"), "RuntimeError: first"),
        (ZeroDivisionError(), "ZeroDivisionError"),
    ],
)
def test_summary_is_one_line(error: Exception, summary: str) -> None:
    assert summary_of(error) == summary
