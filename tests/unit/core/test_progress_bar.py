"""A tqdm bar is read as far as it goes, and no other line is taken for one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_training.core.progress_bar import LONGEST_BAR, may_hold_bars, parse_bar

pytestmark = pytest.mark.core

# What tqdm 4.70.1 printed, with its arguments.
BARS = [
    # total=200, desc="train", ascii=True, postfix="loss=0.31, acc=0.9"
    ("train:  45%|####5     | 90/200 [00:30<00:36,  3.02it/s, loss=0.31, acc=0.9]", (90, 200, 0.31, 3.02, 30)),
    # total=200
    ("  0%|          | 0/200 [00:00<?, ?it/s]", (0, 200, None, None, 0)),
    (" 45%|████▌     | 90/200 [00:30<00:36,  3.00it/s]", (90, 200, None, 3.0, 30)),
    ("100%|██████████| 200/200 [01:06<00:00,  3.03it/s]", (200, 200, None, 3.03, 66)),
    (" 45%|████▌     | 90.5/200 [1:01:40<1:14:36, 40.88s/it]", (90, 200, None, 1 / 40.88, 3700)),
    (" 45%|████▌     | 90/200 [00:30<00:36,  3.00it/s, x=[1, 2]]", (90, 200, None, 3.0, 30)),
    # total=200, postfix="val_loss=0.5, loss=nan"
    (" 45%|████▌     | 90/200 [00:30<00:36,  3.00it/s, val_loss=0.5, loss=nan]", (90, 200, None, 3.0, 30)),
    # total=200, postfix="v_num=0, train_loss=2.3e-05", as Lightning does it
    (" 45%|████▌     | 90/200 [00:30<00:36,  3.00it/s, v_num=0, train_loss=2.3e-05]", (90, 200, 2.3e-05, 3.0, 30)),
    # total=200, desc="loss 0.3123"
    ("loss 0.3123:  45%|████▌     | 90/200 [00:30<00:36,  3.00it/s]", (90, 200, 0.3123, 3.0, 30)),
    # total=200, ncols=0
    (" 45% 90/200 [111:06:40<135:48:08, 4444.44s/it]", (90, 200, None, 1 / 4444.44, 400000)),
    ("x:  45% 90/200 [00:30<00:36,  3.00it/s]", (90, 200, None, 3.0, 30)),
    # total=200, desc="Epoch 3/10", ncols=80, colour="green"
    (
        "Epoch 3/10:  45%|\x1b[32m███████████▋              \x1b[0m| 90/200 [1:01:40<1:15:22, 41.11s/it]\x1b[0m",
        (90, 200, None, 1 / 41.11, 3700),
    ),
    # total=200, unit=" examples", as the Hub's datasets do it
    ("Map:   0%|          | 0/1000 [00:00<?, ? examples/s]", (0, 1000, None, None, 0)),
    (" 45%|████▌     | 90/200 [00:30<00:36,  3.00 examples/s]", (90, 200, None, 3.0, 30)),
    # total=3400, unit_scale=True
    (" 36%|███▋      | 1.23k/3.40k [00:30<00:00, 12.3kit/s]", (1230, 3400, None, 12300.0, 30)),
    # total=3e9, unit="B", unit_scale=True, unit_divisor=1024
    (" 50%|█████     | 1.40G/2.79G [1:06:40<1:06:40, 375kB/s]", (1400000000, 2790000000, None, 375000.0, 4000)),
    # no total
    ("0it [00:00, ?it/s]", (0, 0, None, None, 0)),
    ("90it [00:30,  3.02it/s]", (90, 0, None, 3.02, 30)),
    ("x: 90it [00:30,  3.00it/s]", (90, 0, None, 3.0, 30)),
    ("5it [08:20, 100.00s/it]", (5, 0, None, 0.01, 500)),
    ("1.40GB [1:06:40, 375kB/s]", (1400000000, 0, None, 375000.0, 4000)),
    ("90 examples [00:30,  3.00 examples/s]", (90, 0, None, 3.0, 30)),
    # no total, with a bar_format that has blocks
    ("Epoch 0: |          | 90/? [00:30<00:00,  3.02it/s, v_num=0]", (90, 0, None, 3.02, 30)),
    # the second of two nested bars, which goes back up
    ("\rbatch:  50%|#####     | 1/2 [00:00<00:00, 262144.00it/s]\x1b[A", (1, 2, None, 262144.0, 0)),
    # shorter than the drawing before
    (" 67%|######6   | 2/3 [00:00<00:00, 22478.93it/s, loss=0.5] ", (2, 3, 0.5, 22478.93, 0)),
]


@pytest.mark.parametrize(("line", "read"), BARS)
def test_a_bar_tells_how_far_it_is_how_fast_and_its_loss(
    line: str, read: tuple[int, int, float | None, float | None, int]
) -> None:
    assert may_hold_bars(f"before\n{line}\nafter")
    bar = parse_bar(line)
    assert bar is not None
    progress = bar.progress
    assert (progress.step, progress.total, progress.loss, progress.throughput, bar.elapsed) == read
    assert (progress.checkpoint_step, progress.first_step) == (None, None)


OTHERS = [
    "",
    "45%",
    "90/200",
    "step 90/200 [00:30] done",
    "loss: 90/200 [00:30<00:36]",
    "Downloaded 90 files [00:30, 3.02MB/s]",
    "[00:30:12] INFO 5/10 batches, 3.02it/s",
    " 45%|████▌     | 90/200 [00:30<00:36,  3.00it/s] and more",
    " 45%|████▌     | 90/200 [00:30<00:36,  3.00it/s",
    "45% of 90/200 [00:30<00:36, 3.00it/s]",
    " 45%|████▌     | 90/200 [00:30<00:36, fast]",
    " -2%|          | -5/200 [00:30<-20:30, -0.17it/s]",
    " 45%|#| 9000000000000000000E/200 [00:30<00:36, 1it/s]",
    "x" * LONGEST_BAR + ":  45%|####5     | 90/200 [00:30<00:36,  3.02it/s]",
]


@pytest.mark.parametrize("line", OTHERS)
def test_any_other_line_is_none(line: str) -> None:
    assert parse_bar(line) is None


def test_the_drawings_of_one_bar_bear_one_name_and_others_another() -> None:
    names = [
        bar.name
        for line in (
            "Epoch 1, loss 0.5:  45%|#| 90/200 [00:30<00:36, 3.0it/s]",
            "Epoch 12, loss 0.25:  50%|#| 100/200 [00:30<00:36, 3.0it/s]",
            "Validate:  50%|#| 100/200 [00:30<00:36, 3.0it/s]",
        )
        if (bar := parse_bar(line)) is not None
    ]
    assert names == ["Epoch #, loss #.#", "Epoch #, loss #.#", "Validate"]


pieces = st.sampled_from(["1/2 [00:00<00:00, 1it/s]", "45%|", "|", " 9", "[00:00", ", loss=", "1" * 30, "\x1b[A", "k"])


@given(st.text(max_size=60) | st.lists(pieces, max_size=12).map("".join))
def test_no_line_makes_the_reader_fail_and_no_bar_is_missed_by_the_cheap_look(line: str) -> None:
    assert parse_bar(line) is None or may_hold_bars(line)


PAST = "x: 50%|## | 1/2 [00:00<00:00, 1.00it/s"


@pytest.mark.parametrize(
    ("line", "loss"),
    [
        (PAST + ", loss" + " " * 900 + "0.5]", 0.5),
        (PAST + ", loss =  0.5]", 0.5),
        (PAST + ", loss: -1e3]", -1000.0),
        (PAST + ", loss" + " " * 900 + "y]", None),
        (PAST + ", loss0.5]", None),
        (PAST + ", loss=0.5x]", None),
        (PAST + ", " + "loss " * 100 + "0.5]", 0.5),
    ],
)
def test_a_loss_is_found_however_far_its_number_is_set_apart(line: str, loss: float | None) -> None:
    bar = parse_bar(line)
    assert bar is not None
    assert bar.progress.loss == loss


def test_of_many_bars_in_one_line_the_last_one_counts() -> None:
    bar = parse_bar("1/2 [00:00<00:00, 1it/s, x: " * 20 + "x: 50%|#| 90/200 [00:30<00:36, 3.0it/s]")
    assert bar is not None
    assert (bar.progress.step, bar.progress.total) == (90, 200)
