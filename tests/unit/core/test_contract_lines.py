"""Progress lines and result lines are told from what else a program prints, though that holds the same words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_training.contract import PROGRESS_PREFIX, RESULT_PREFIX, Progress
from gpu_training.core.contract_lines import progress_in, result_in

pytestmark = pytest.mark.core

PREFIXES = [
    "",
    # torchrun, mpirun --tag-output, srun --label, Ray, docker compose
    "[rank0]: ",
    "[default0]:",
    "[1,0]<stdout>:",
    "0: ",
    "(RayTrainWorker pid=123, ip=10.0.0.1) ",
    "worker-3 | ",
    "rank 0: ",
    # logging.basicConfig, and its usual formats
    "INFO:root:",
    "INFO:trainer.main: ",
    "2026-12-01 19:00:00,123 - trainer.main - INFO - ",
    "2026-12-01 19:00:00,123 INFO ",
    "2026-12-01 19:00:00 [INFO] trainer: ",
    "[2026-12-01 19:00:00,123][trainer][INFO] - ",
    "12/01/2026 19:00:00 - WARNING - __main__ -   ",
    "[rank1]: INFO:root:",
    # loguru, absl, Go, Rust
    "2026-12-01 19:00:00.123 | INFO     | __main__:main:12 - ",
    "I1201 19:00:00.123456 140735 train.py:55] ",
    "2026/12/01 19:00:00 ",
    "2026-12-01T19:00:00.123456Z  INFO train: ",
    # a terminal, where a bar stands on the same line
    "train:  45%|####5     | 90/200 [00:30<00:36,  3.02it/s]",
]

OTHERS = [
    "sample 17: the docs say ",
    "user text: ",
    "text: ",
    "INFO:root:sample: ",
    "2026-12-01 19:00:00 INFO user said: ",
    "INFO the docs say ",
    "step 3: ",
    "> ",
    "- ",
    "    ",
    "`",
    '{"message": "',
    "print('",
    "100% ",
    "x" * 200,
    "[rank0]: sample ",
    "[" * 100,
]


@pytest.mark.parametrize("before", PREFIXES)
def test_a_marker_counts_at_the_begin_or_behind_what_launchers_and_loggers_write(before: str) -> None:
    assert progress_in(before + PROGRESS_PREFIX + '{"step":3}') == Progress(step=3)
    assert result_in(before + RESULT_PREFIX + '{"v":1} ') == '{"v":1}'


@pytest.mark.parametrize("before", OTHERS)
def test_behind_text_of_the_program_it_is_text_of_the_program(before: str) -> None:
    assert progress_in(before + PROGRESS_PREFIX + '{"step":3}') is None
    assert result_in(before + RESULT_PREFIX + '{"v":1}') is None


@given(
    st.lists(st.text(max_size=9) | st.sampled_from([*PREFIXES, *OTHERS, PROGRESS_PREFIX, RESULT_PREFIX]), max_size=6)
)
def test_no_line_makes_the_reader_fail(parts: list[str]) -> None:
    progress_in("".join(parts))
    result_in("".join(parts))
