"""What is heard of a training in its pods' logs: progress, steps, results and causes, and since when nothing new."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.core.damage import anything, damaged

from gpu_training.contract import PROGRESS_PREFIX, RESULT_PREFIX, Progress, render_progress
from gpu_training.core import hearing as hearing_module
from gpu_training.core.hearing import Hearing
from gpu_training.core.hearing_document import LONGEST, LONGEST_RESULT, is_whole
from gpu_training.core.log_lines import Batch, text_of
from gpu_training.core.log_parser import LogParser
from gpu_training.core.naming import TRAINING_CONTAINER
from gpu_training.core.steps import Steps
from gpu_training.rule_table import built_in_rules

pytestmark = pytest.mark.core

NOW = 1796066700.0
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB."


def at(second: float, text: str) -> str:
    """Give a line that was said so many seconds before NOW, as the kubelet gives it."""
    return f"{datetime.fromtimestamp(NOW - second, UTC):%Y-%m-%dT%H:%M:%S.%f}789Z {text}"


def step(done: int, **more: object) -> str:
    return PROGRESS_PREFIX + json.dumps({"v": 1, "step": done, "total": 200, **more})


def bar(done: int, total: int = 200, *, name: str = "train", elapsed: int = 30) -> str:
    return (
        f"{name}:  {100 * done // total}%|####      | {done}/{total} "
        f"[{elapsed // 60:02}:{elapsed % 60:02}<00:36,  3.02it/s, loss=0.31]"
    )


RESULT = RESULT_PREFIX + '{"v":1,"status":"trained","pod_uid":"u"}'


def new() -> Hearing:
    return Hearing(built_in_rules())


def take(
    hearing: Hearing,
    *texts: str,
    pod: str = "p",
    live: bool = True,
    now: float = NOW,
    ago: float = 0,
    frame: str | None = None,
) -> Sequence[str]:
    """Give the texts that are left."""
    batch = Batch(
        pod=pod,
        container=TRAINING_CONTAINER,
        lines=[at(ago, text) for text in texts],
        frame=frame,
        live=live,
        now=now,
    )
    return [line.partition(" ")[2] for line in hearing.take(batch)]


# What is left for the task log.


def test_progress_bars_and_results_are_taken_out_and_all_else_is_left_in_order() -> None:
    left = take(new(), "a", step(1), "b", bar(2), bar(3), RESULT, "", "c", frame=bar(4))
    assert left == ["a", "b", "", "c"]


def test_what_looks_like_it_and_can_not_be_read_is_left_for_a_person_to_see() -> None:
    lines = [
        PROGRESS_PREFIX + '{"v":1,"st',
        PROGRESS_PREFIX + '{"v":2,"step":1}',
        'print(f"GPU_TRAINING_PROGRESS {json.dumps(body)}")',
        'print(f"GPU_TRAINING_RESULT {json.dumps(body)}")',
        RESULT_PREFIX + '{"v":1,"cut he',
        RESULT[:-1],
        # Nobody's: a result line counts with its pod's UID.
        RESULT_PREFIX + '{"v":1,"status":"trained"}',
        # What the program shows of others.
        f"sample 17: the docs say {RESULT}",
        f"user text: {step(1, first_step=1)}",
        bar(4) + " and more",
    ]
    assert take(new(), *lines) == lines


def test_of_other_containers_all_is_left_and_nothing_heard() -> None:
    hearing = new()
    lines = [at(0, step(1)), at(0, OOM), at(0, bar(2)), at(0, RESULT_PREFIX + "{}")]
    batch = Batch(pod="p", container="init", lines=lines, frame=bar(3), live=True, now=NOW)
    assert hearing.take(batch) == lines
    assert (hearing.progress, hearing.findings, hearing.steps, hearing.told_results) == (None, {}, {}, {})


# How far it is.


def test_the_newest_progress_of_any_pod_is_shown() -> None:
    hearing = new()
    take(hearing, step(5), pod="a")
    take(hearing, step(4, loss=0.5), pod="b", now=NOW + 1)
    assert (hearing.progress, hearing.progress_pod) == (Progress(step=4, total=200, loss=0.5), "b")


def test_what_an_earlier_pod_said_that_is_read_late_is_not_the_newest() -> None:
    hearing = new()
    take(hearing, step(120), pod="second")
    take(hearing, step(60), pod="first", live=False, ago=500)
    assert (hearing.progress_pod, hearing.steps["first"].last) == ("second", 60)


def test_loss_total_and_checkpoint_stay_known_until_the_pod_says_others() -> None:
    hearing = new()
    take(hearing, step(5, loss=0.5, checkpoint_step=4, throughput=2), PROGRESS_PREFIX + '{"step": 6}')
    assert hearing.progress == Progress(step=6, total=200, loss=0.5, checkpoint_step=4)
    take(hearing, step(7, loss=0.25), pod="another")
    assert hearing.progress == Progress(step=7, total=200, loss=0.25)


def test_a_bar_shows_how_far_it_is_and_is_no_evidence_of_steps() -> None:
    hearing = new()
    assert take(hearing, frame=bar(90)) == []
    assert hearing.progress == Progress(step=90, total=200, loss=0.31, throughput=3.02)
    assert hearing.steps == {}


@pytest.mark.parametrize("texts", [[step(5), bar(90)], [bar(90), step(5)], [bar(90), step(5), bar(91)]])
def test_where_a_program_prints_both_its_lines_are_shown(texts: list[str]) -> None:
    hearing = new()
    for n, text in enumerate(texts):
        take(hearing, text, now=NOW + n)
    assert hearing.progress == Progress(step=5, total=200)


def test_of_nested_bars_the_outer_one_is_shown_which_began_first() -> None:
    hearing = new()
    take(hearing, bar(3, 10, name="Epoch", elapsed=600))
    take(hearing, bar(90, 200, name="batch", elapsed=20), now=NOW + 1)
    assert hearing.progress is not None
    assert (hearing.progress.step, hearing.progress.total) == (3, 10)
    take(hearing, bar(4, 10, name="Epoch", elapsed=602), now=NOW + 2)
    assert hearing.progress.step == 4


def test_an_outer_bar_that_does_not_move_for_a_minute_gives_way() -> None:
    hearing = new()
    take(hearing, bar(3, 10, name="Epoch", elapsed=600))
    take(hearing, bar(90, 200, name="batch", elapsed=81), now=NOW + 61)
    assert hearing.progress is not None
    assert hearing.progress.step == 90
    take(hearing, bar(4, 10, name="Epoch", elapsed=662), now=NOW + 62)
    assert hearing.progress.step == 4


def test_a_bar_after_one_that_is_full_is_shown() -> None:
    hearing = new()
    take(hearing, bar(10, 10, name="Downloading", elapsed=600))
    take(hearing, bar(1, 200, elapsed=1), now=NOW + 1)
    assert hearing.progress is not None
    assert hearing.progress.total == 200


# What tqdm 4.70.1 wrote of two nested bars of two steps each, the inner one below the outer one, and gone in the end.
NESTED = (
    b"\repoch:   0%|          | 0/2 [00:00<?, ?it/s]"
    b"\n\rbatch:   0%|          | 0/2 [00:00<?, ?it/s]\x1b[A"
    b"\n\rbatch:  50%|#####     | 1/2 [00:00<00:00, 262144.00it/s]\x1b[A"
    b"\n\rbatch: 100%|##########| 2/2 [00:00<00:00, 35263.68it/s] \x1b[A"
    b"\n\r                                                       \x1b[A"
    b"\repoch:  50%|#####     | 1/2 [00:00<00:00, 6000.43it/s]"
    b"\n\rbatch:   0%|          | 0/2 [00:00<?, ?it/s]\x1b[A"
    b"\n\rbatch: 100%|##########| 2/2 [00:00<00:00, 55836.47it/s] \x1b[A"
    b"\n\r                                                       \x1b[A"
    b"\repoch: 100%|##########| 2/2 [00:00<00:00, 6410.43it/s]"
    b"\repoch: 100%|##########| 2/2 [00:00<00:00, 5769.33it/s]\n"
)


@given(st.lists(st.integers(min_value=1, max_value=60), max_size=20))
def test_of_nested_bars_as_tqdm_writes_them_nothing_is_left_and_the_outer_one_is_shown(sizes: list[int]) -> None:
    """However the stream is cut."""
    stamp = b"2026-11-30T19:24:20.123456789Z "
    raw = stamp + b"begun\n" + b"".join(stamp + line + b"\n" for line in NESTED.split(b"\n")[:-1]) + stamp + b"done\n"
    parser, hearing, left = LogParser(), new(), []
    for size in [*sizes, len(raw)]:
        lines, frame = parser.feed(raw[:size])
        raw = raw[size:]
        batch = Batch(pod="p", container=TRAINING_CONTAINER, lines=lines, frame=frame, live=True, now=NOW)
        left += [text_of(line) for line in hearing.take(batch)]
    assert left == ["begun", "done"]
    assert hearing.progress == Progress(step=2, total=2, throughput=5769.33)


# Since when there was none.


def test_what_is_said_now_is_dated_by_the_clock_of_the_api_server_and_what_was_said_before_by_its_own() -> None:
    hearing = new()
    take(hearing, step(1), live=False, ago=100)
    assert hearing.progress_at == pytest.approx(NOW - 100)
    take(hearing, step(2), live=True, ago=50)
    assert hearing.progress_at == NOW


@pytest.mark.parametrize("ago", [-3600, 0])
def test_a_node_whose_clock_is_ahead_dates_nothing_into_the_future(ago: float) -> None:
    hearing = new()
    take(hearing, step(1), live=False, ago=ago)
    assert hearing.progress_at == NOW


def test_a_line_without_a_stamp_was_said_now() -> None:
    hearing = new()
    hearing.take(Batch(pod="p", container=TRAINING_CONTAINER, lines=[" " + step(1)], now=NOW))
    assert hearing.progress_at == NOW


@pytest.mark.parametrize(
    ("before", "after", "moves"),
    [
        (step(5), step(5), False),
        (step(5), step(5, loss=0.1, throughput=9), False),
        (step(5, checkpoint_step=4), step(5), False),
        (step(5), step(6), True),
        (step(5), step(5, checkpoint_step=5), True),
        (step(5), step(4), False),
        (step(5, first_step=1), step(4), False),
        (step(5, first_step=1), step(0, first_step=1), False),
        # It began anew in the same pod, from its checkpoint.
        (step(60, first_step=1, checkpoint_step=40), step(40, first_step=41), True),
        (step(60, checkpoint_step=60), step(60, checkpoint_step=40), False),
        # tqdm draws a bar again that does not move.
        (bar(90), bar(90, elapsed=31), False),
        (bar(90, name="loss 0.5"), bar(90, name="loss 0.4"), False),
        (bar(90), bar(91), True),
        (bar(200, name="Epoch 1"), bar(0, name="Epoch 2", elapsed=0), True),
        # What fails at its begin and begins anew for ever.
        (bar(0, name="Downloading", elapsed=0), bar(0, name="Downloading", elapsed=0), False),
        (bar(90), bar(90, name="validate"), True),
        (step(5), bar(90), True),
        (bar(90), step(5), True),
        (step(5), "words", False),
        (step(5), RESULT_PREFIX + "{}", False),
        (step(5), PROGRESS_PREFIX + "{", False),
    ],
)
def test_only_what_was_not_reported_before_is_progress(before: str, after: str, moves: bool) -> None:
    for as_frame in (False, True):
        hearing = new()
        take(hearing, before)
        if as_frame and parse_is_bar(after):
            take(hearing, frame=after, now=NOW + 60)
        else:
            take(hearing, after, now=NOW + 60)
        assert hearing.progress_at == (NOW + 60 if moves else NOW)


def later(text: str, seconds: int) -> str:
    """Give a bar as it is drawn so much later."""
    return re.sub(r"00:(\d\d)<", lambda found: f"00:{int(found[1]) + seconds}<", text)


def parse_is_bar(text: str) -> bool:
    return "it/s" in text


@pytest.mark.parametrize(
    "said",
    [
        # Two processes that hang at different steps, and go on printing them.
        [step(5), step(6)],
        [step(5, first_step=1), step(6, first_step=6), step(6)],
        [step(40, first_step=41, checkpoint_step=40), step(0, first_step=1)],
        [step(5, checkpoint_step=4), step(5, checkpoint_step=5)],
        [bar(5), bar(6)],
        [bar(5, name="rank 1", elapsed=30), bar(6, name="rank 2", elapsed=50), bar(7, name="rank 3", elapsed=10)],
        # Many bars, drawn again and again in turn.
        [bar(5, name=name) for name in "abcdefghijklmnopqrstuvwxyz"],
    ],
)
def test_what_is_said_in_turns_again_and_again_is_no_progress(said: list[str]) -> None:
    hearing = new()
    moments = []
    for turn in range(5):
        for text in said:
            take(hearing, later(text, 2 * turn), now=NOW + 2 * turn)
        moments.append(hearing.progress_at)
    # The second turn may be news where one of them began after the others.
    assert moments[2:] == [moments[1]] * 3
    assert moments[1] == NOW or "rank" in said[0]


def test_files_that_come_side_by_side_under_one_name_are_progress_each() -> None:
    """The name of a bar is without its digits."""
    hearing = new()
    take(hearing, bar(200, name="model-1"), bar(90, name="model-2"))
    take(hearing, bar(91, name="model-2", elapsed=60), now=NOW + 30)
    assert hearing.progress_at == NOW + 30


def test_the_steps_of_each_epoch_are_progress_however_few_there_are() -> None:
    hearing = new()
    for epoch in range(5):
        for done in range(4):
            now = NOW + epoch * 40 + done * 10
            take(hearing, frame=bar(done, 3, name="batch", elapsed=done * 10), now=now)
            assert hearing.progress_at == now


def test_what_a_bar_without_an_end_showed_before_it_was_listened_to_is_shown_and_dates_nothing() -> None:
    hearing = new()
    take(hearing, frame=bar(50), live=False)
    assert (hearing.progress_at, hearing.told) == (None, None)
    assert hearing.progress is not None
    assert hearing.progress.step == 50
    take(hearing, frame=bar(50, elapsed=40), now=NOW + 10)
    assert hearing.progress_at is None
    take(hearing, frame=bar(51, elapsed=40), now=NOW + 10)
    assert hearing.progress_at == NOW + 10
    take(hearing, frame=bar(60, elapsed=50), live=False, now=NOW + 20)
    assert (hearing.progress_at, hearing.progress.step) == (NOW + 10, 60)


def test_a_bar_of_unknown_age_does_not_hide_what_another_pod_tells() -> None:
    hearing = new()
    take(hearing, bar(90), pod="second")
    take(hearing, frame=bar(60), pod="first", live=False, now=NOW + 10)
    assert (hearing.progress_pod, hearing.progress_at) == ("second", NOW)


def test_bars_beside_progress_lines_tell_that_the_program_lives() -> None:
    hearing = new()
    take(hearing, step(5))
    take(hearing, frame=bar(90), now=NOW + 60)
    take(hearing, frame=bar(90, elapsed=90), now=NOW + 120)
    assert hearing.progress_at == NOW + 60


def test_the_last_progress_never_goes_back() -> None:
    hearing = new()
    take(hearing, step(5))
    take(hearing, step(4), step(6), pod="q", live=False, ago=300)
    assert hearing.progress_at == NOW


# Steps, results and causes.


def test_the_steps_of_each_pod_are_kept_apart() -> None:
    hearing = new()
    take(hearing, step(1, first_step=1), step(60, checkpoint_step=60), step(75), pod="a")
    take(hearing, step(62, first_step=61, checkpoint_step=60), pod="b")
    assert hearing.steps == {
        "a": Steps(first=1, least=1, last=75, checkpoint=60),
        "b": Steps(first=61, least=62, last=62, checkpoint=60),
    }


def test_the_last_result_that_a_pod_printed_counts() -> None:
    hearing = new()
    assert take(hearing, RESULT, f'INFO:root:{RESULT_PREFIX}{{"pod_uid":"u","v":1}} ', pod="a") == []
    take(hearing, "none", pod="b")
    assert hearing.told_results == {"a": '{"pod_uid":"u","v":1}'}


@pytest.mark.parametrize(
    "text",
    [
        f"sample 17: the docs say {RESULT_PREFIX}{{}}",
        f"sample 17: the docs say {RESULT.replace('trained', 'failed')}",
        RESULT_PREFIX + '{"v":1,"status":"failed"}',
        RESULT_PREFIX + "cut",
    ],
)
def test_what_a_program_shows_of_another_result_does_not_take_the_place_of_its_own(text: str) -> None:
    for texts in ([RESULT, text], [text, RESULT]):
        hearing = new()
        take(hearing, *texts)
        assert hearing.told_results == {"p": RESULT.removeprefix(RESULT_PREFIX)}


def test_what_a_program_shows_of_another_log_is_no_evidence_of_its_steps() -> None:
    hearing = new()
    shown = f"user text: {step(0, first_step=1, checkpoint_step=9000)}"
    assert take(hearing, shown, f"[rank0]: {step(41, first_step=41, checkpoint_step=40)}", shown) == [shown, shown]
    assert hearing.steps == {"p": Steps(first=41, least=41, last=41, checkpoint=40)}


def test_a_result_that_is_too_long_stays_too_long_and_takes_no_more_memory() -> None:
    hearing = new()
    take(hearing, RESULT_PREFIX + "{" + "x" * 100_000 + "}")
    assert len(hearing.told_results["p"]) == LONGEST_RESULT


def test_a_progress_line_takes_back_what_was_found_before_it_and_a_bar_does_not() -> None:
    hearing = new()
    take(hearing, OOM, bar(90))
    assert hearing.findings == {"p": "cuda-out-of-memory"}
    take(hearing, frame=bar(91))
    assert hearing.findings == {"p": "cuda-out-of-memory"}
    take(hearing, step(5))
    assert hearing.findings == {}


texts = st.sampled_from(
    [
        *("words", "", OOM, "NCCL WARN timed out", "NVRM: Xid 79", RESULT_PREFIX + '{"v":1}', RESULT_PREFIX + "{"),
        *(step(1, first_step=1), step(2), step(3, checkpoint_step=2), PROGRESS_PREFIX + "{"),
        *(bar(1), bar(2), bar(1, 10, name="epoch", elapsed=90)),
    ]
)
lines = st.lists(st.tuples(texts, st.integers(min_value=0, max_value=500)), max_size=20)


@given(lines, st.lists(st.integers(min_value=1, max_value=5), max_size=20), st.booleans())
def test_how_a_log_is_cut_into_batches_makes_no_difference(
    said: list[tuple[str, int]], sizes: list[int], live: bool
) -> None:
    stamped = [at(ago, text) for text, ago in said]
    whole, cut = new(), new()
    left = list(whole.take(Batch(pod="p", container=TRAINING_CONTAINER, lines=stamped, live=live, now=NOW)))
    pieces, rest = [], stamped
    for size in sizes:
        pieces, rest = [*pieces, rest[:size]], rest[size:]
    left_of_pieces = [
        line
        for piece in [*pieces, rest]
        for line in cut.take(Batch(pod="p", container=TRAINING_CONTAINER, lines=piece, live=live, now=NOW))
    ]
    assert left_of_pieces == left
    assert cut.to_document() == whole.to_document()


# Bounds, and a triggerer that starts anew.


def test_pods_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hearing_module, "MOST_PODS", 3)
    hearing = new()
    for n in range(10):
        take(hearing, step(n), RESULT_PREFIX + "{}", pod=f"p-{n}")
    take(hearing, step(20), pod="p-7")
    assert list(hearing.steps) == list(hearing.told_results) == ["p-8", "p-9", "p-7"]


def test_bars_do_not_pile_up() -> None:
    hearing = new()
    for n in range(1000):
        take(hearing, frame=bar(1, name="x" * (n % 40) + "y" * 1000))
    assert len(json.dumps(hearing.to_document())) < 3000


def test_who_goes_on_where_another_stopped_knows_all_that_the_other_knew() -> None:
    first = new()
    take(first, step(60, first_step=1, loss=0.5, checkpoint_step=60), OOM, RESULT_PREFIX + '{"v":1}', pod="a")
    take(first, step(62, first_step=61), frame=bar(7), pod="b", now=NOW + 1)
    second = new()
    second.recall(json.loads(json.dumps(first.to_document())))
    assert (second.progress, second.progress_pod, second.progress_at) == (first.progress, "b", NOW + 1)
    assert (second.steps, second.told_results, second.findings) == (first.steps, first.told_results, first.findings)
    assert second.told == first.told
    take(second, step(62), frame=bar(7), pod="b", now=NOW + 60)
    assert second.progress_at == NOW + 1
    take(second, bar(8), pod="b", now=NOW + 60)
    assert (second.progress_at, second.progress) == (NOW + 60, first.progress)


def test_what_somebody_dated_into_the_future_holds_no_clock_back() -> None:
    document = json.loads(json.dumps(heard_a_lot()).replace(str(NOW), str(NOW + 1e6)))
    hearing = new()
    hearing.recall(document, now=NOW)
    assert hearing.progress_at == NOW
    take(hearing, step(3), pod="q", now=NOW + 1)
    assert (hearing.progress_pod, hearing.progress_at) == ("q", NOW + 1)


def test_a_rule_that_the_table_does_not_have_any_more_is_forgotten() -> None:
    hearing = new()
    pods = {"a": {"finding": "no-such-rule"}, "b": {"finding": "gpu-hardware"}}
    hearing.recall({**hearing.to_document(), "pods": pods})
    assert hearing.findings == {"b": "gpu-hardware"}


def test_what_many_pods_told_is_cut_to_a_size_that_an_annotation_can_hold() -> None:
    hearing = new()
    for n in range(300):
        pod = f"{'long-name' * 20}-{n}"
        take(hearing, step(n), OOM, RESULT_PREFIX + "{" + "é" * 900 + "}", frame=bar(n), pod=pod)
    document = hearing.to_document()
    assert len(json.dumps(document)) <= LONGEST
    again = new()
    again.recall(document)
    assert again.progress == hearing.progress
    assert again.progress_pod == pod
    assert list(again.told_results) == [f"{'long-name' * 20}-{n}" for n in range(300 - len(again.told_results), 300)]
    for name in hearing.steps:
        if is_whole(document, name):
            assert again.told_results[name] == hearing.told_results[name]
            assert again.steps[name] == hearing.steps[name]
    # Of the others those that were heard of last are known by what they did and what ended them.
    assert len(again.steps) > 4 * len(again.told_results) > 4
    assert list(again.findings) == list(again.steps)


def test_where_all_fits_every_pod_is_whole_also_one_that_told_nothing() -> None:
    assert is_whole(new().to_document(), "p")
    assert is_whole(heard_a_lot(), "q")


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 2100), st.booleans()), max_size=24))
def test_what_is_written_down_as_whole_is_all_there_was(said: list[tuple[str, int, bool]]) -> None:
    hearing = new()
    for n, (pod, size, is_cause) in enumerate(said):
        take(hearing, step(n, first_step=1), bar(n), RESULT_PREFIX + '{"x":"' + "é" * size + '"}', pod=pod)
        if is_cause:
            take(hearing, OOM, pod=pod)
    document = json.loads(json.dumps(hearing.to_document()))
    again = new()
    again.recall(document)
    assert len(json.dumps(document)) <= LONGEST
    for pod in hearing.steps:
        if is_whole(document, pod):
            assert again.steps[pod] == hearing.steps[pod]
            assert again.told_results[pod] == hearing.told_results[pod]
            assert again.findings.get(pod) == hearing.findings.get(pod)


def test_nothing_heard_is_nothing_to_tell() -> None:
    hearing = new()
    take(hearing, "words")
    assert (hearing.progress, hearing.progress_pod, hearing.progress_at, hearing.told) == (None, None, None, None)


def heard_a_lot() -> dict[str, object]:
    hearing = new()
    take(hearing, step(60, loss=0.5), OOM, RESULT_PREFIX + '{"v":1}', bar(7))
    return hearing.to_document()


@given(damaged(heard_a_lot()) | anything, lines)
def test_whatever_somebody_wrote_there_the_hearing_goes_on(document: object, said: list[tuple[str, int]]) -> None:
    hearing = new()
    hearing.recall(document)
    take(hearing, *(text for text, _ in said), step(150))
    assert hearing.steps["p"].last is not None
    json.dumps(hearing.to_document(), allow_nan=False)


@given(st.lists(st.text(max_size=40) | texts, max_size=10), st.text(max_size=40) | texts)
def test_no_log_makes_it_fail_and_only_what_is_understood_is_taken_out(said: list[str], frame: str) -> None:
    hearing = new()
    batch = Batch(
        pod="p", container=TRAINING_CONTAINER, lines=[" " + text for text in said], frame=frame, live=True, now=NOW
    )
    left = [line[1:] for line in hearing.take(batch)]
    gone = [text for text in said if text not in left]
    assert all("GPU_TRAINING_" in text or "it/s" in text for text in gone)
    assert [text for text in said if text in left] == left


@given(st.integers(min_value=0, max_value=2**63 - 1), st.floats(allow_nan=True))
def test_what_the_contract_renders_is_heard(done: int, loss: float) -> None:
    hearing = new()
    assert take(hearing, render_progress(Progress(step=done, loss=loss, first_step=1))) == []
    assert hearing.steps == {"p": Steps(first=1, least=done or None, last=done)}
