"""Which checkpoint counts, which may go, and that there is always a whole one to read."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.core.checkpoint_world import FINGERPRINT, LAST_STEP, Pod, World, candidates_of

from gpu_training.contract import (
    TORN_SECONDS,
    Candidate,
    Marker,
    TornCheckpointError,
    checkpoint_folder,
    find_candidates,
    is_file_name,
    parse_marker,
    plan_pruning,
    render_marker,
)

pytestmark = pytest.mark.core

DIGEST = "sha256:" + "0" * 64


# --- candidates -------------------------------------------------------------------------------------------------------


def test_candidates_of_all_writers_come_newest_first_and_marked_before_others() -> None:
    listing = {
        "pod-b/step-00000020/model": 5.0,
        "pod-a/step-00000040/model": 9.0,
        "pod-a/step-00000040/shards/0.bin": 7.0,
        "pod-c/step-00000040/model": 1.0,
        "pod-c/step-00000040/COMPLETE": 2.0,
    }
    assert find_candidates(listing) == [
        Candidate(folder="pod-c/step-00000040", step=40, names=frozenset({"model"}), is_marked=True, age=1.0),
        Candidate(
            folder="pod-a/step-00000040", step=40, names=frozenset({"model", "shards/0.bin"}), is_marked=False, age=7.0
        ),
        Candidate(folder="pod-b/step-00000020", step=20, names=frozenset({"model"}), is_marked=False, age=5.0),
    ]


@pytest.mark.parametrize(
    "path",
    [
        "COMPLETE",
        "pod/COMPLETE",
        "pod/step-40/COMPLETE",
        "pod/step-00000040",
        "pod/step-0000004x/COMPLETE",
        "folder/pod/step-00000040/COMPLETE",
        "/step-00000040/COMPLETE",
        "pod/step-" + "1" * 19 + "/COMPLETE",
    ],
)
def test_what_lies_beside_is_no_candidate(path: str) -> None:
    assert find_candidates({path: 0.0}) == []


@given(
    st.text("pods-0123456789/ab.", min_size=1, max_size=12).filter(lambda name: "/" not in name), st.integers(0, 10**12)
)
def test_folder_of_every_step_is_found_again(writer: str, step: int) -> None:
    folder = checkpoint_folder(writer, step)
    assert [(found.folder, found.step) for found in find_candidates({f"{folder}/model": 0.0})] == [(folder, step)]


@given(st.lists(st.text(max_size=40), max_size=5))
def test_no_listing_raises(paths: list[str]) -> None:
    find_candidates(dict.fromkeys(paths, 0.0))


# --- marker -----------------------------------------------------------------------------------------------------------

FILE_NAMES = st.text(min_size=1, max_size=20).filter(is_file_name)


@given(
    st.builds(
        Marker,
        step=st.integers(0, 2**63 - 1),
        fingerprint=st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
        files=st.dictionaries(
            FILE_NAMES.filter(lambda name: name.isprintable()), st.just(DIGEST), min_size=1, max_size=3
        ),
    )
)
def test_marker_survives_the_store(marker: Marker) -> None:
    assert parse_marker(render_marker(marker).encode(), marker.step) == marker


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not JSON"),
        (b'{"v":1,"step":40,"fi', "is not JSON"),
        (b"\xff\xfe", "is not JSON"),
        (b"[]", "is a JSON list"),
        (b'{"v":2,"step":40,"files":{"a":"b"}}', "v=2: this release reads"),
        (b'{"v":1,"step":20,"files":{"a":"b"}}', "step=20: the folder says 40"),
        (b'{"v":1,"files":{"a":"b"}}', "step=None: the folder says 40"),
        (b'{"v":1,"step":40}', "files=None: the digest of at least one file"),
        (b'{"v":1,"step":40,"files":{}}', "files={}"),
        (b'{"v":1,"step":40,"files":{"a":1}}', "files="),
        (b'{"v":1,"step":40,"files":{"../a":"b"}}', r"'\.\./a' is not the name of a file in its folder"),
        (b'{"v":1,"step":40,"files":{"/a":"b"}}', "'/a' is not the name"),
        (b'{"v":1,"step":40,"files":{"COMPLETE":"b"}}', "'COMPLETE' is not the name"),
    ],
)
def test_marker_that_says_nothing_makes_a_torn_checkpoint(content: bytes, message: str) -> None:
    with pytest.raises(TornCheckpointError, match=message):
        parse_marker(content, 40)


@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda text: json.dumps({"v": 1, "step": text}).encode()))
def test_any_content_raises_nothing_but_that_it_is_torn(content: bytes) -> None:
    with pytest.raises(TornCheckpointError):
        parse_marker(content, 40)


# --- pruning ----------------------------------------------------------------------------------------------------------


def candidate(folder: str, *, age: float = 0) -> Candidate:
    step = int(folder.rpartition("-")[2])
    return Candidate(folder=folder, step=step, names=frozenset({"model"}), is_marked=True, age=age)


def planned(*folders: str, complete: set[str], **options: object) -> list[str]:
    plan = plan_pruning([candidate(folder) for folder in folders], complete, **options)  # type: ignore[arg-type]
    return [each.folder for each in plan]


ALL = ("b/step-50", "a/step-40", "a/step-30", "b/step-20", "c/step-10")


def test_the_newest_complete_ones_of_any_writer_stay() -> None:
    assert planned(*ALL, complete=set(ALL), keep=2) == ["a/step-30", "b/step-20", "c/step-10"]


def test_torn_ones_do_not_count_among_those_that_stay() -> None:
    assert planned(*ALL, complete=set(ALL[2:]), keep=2) == ["c/step-10"]


def test_the_one_in_use_and_those_of_other_work_stay() -> None:
    assert planned(*ALL, complete=set(ALL), keep=1, in_use="c/step-10", foreign={"a/step-40"}) == [
        "a/step-30",
        "b/step-20",
    ]


@pytest.mark.parametrize(
    ("age", "goes"), [(0.0, False), (TORN_SECONDS, False), (TORN_SECONDS + 1, True), (-5.0, False)]
)
def test_torn_one_goes_when_it_is_so_old_that_nobody_writes_it(age: float, goes: bool) -> None:
    torn = candidate("a/step-40", age=age)
    assert plan_pruning([torn], set()) == ([torn] if goes else [])


def test_age_alone_removes_no_complete_one() -> None:
    assert plan_pruning([candidate("a/step-40", age=10**9)], {"a/step-40"}) == []


# --- many pods at once ------------------------------------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 2), st.integers(1, 8), st.integers(0, 2**32))
def test_whatever_pods_do_at_once_and_wherever_they_die_the_newest_whole_one_stays_and_is_what_is_read(
    keep: int, patience: int, seed: int
) -> None:
    """:param patience: requests that a pod does in a row at most; few mix the pods finely."""
    chance, world = random.Random(seed), World(keep=keep)  # noqa: S311
    events = ["start"] * 2 + ["again"] * 2 + ["kill"] * 3 + ["hours"] + ["go"] * chance.choice([40, 120])
    world.start()
    try:
        for _ in range(300):
            event, living = chance.choice(events), world.living
            if event in ("start", "again") and len(living) < 4:
                world.start(again=event == "again", is_blind=chance.random() < 0.2)
            elif event == "hours":
                world.wait_hours()
            elif living:
                pod = chance.choice(living)
                for _ in range(chance.randint(1, patience)):
                    world.do(pod, pod.kill if event == "kill" else pod.go_on)
        world.start()
        run_to_its_end(world, world.pods[-1])
        assert world.files.newest_step() == LAST_STEP
    finally:
        world.end()


def run_to_its_end(world: World, pod: Pod) -> None:
    while not pod.is_over:
        world.do(pod, pod.go_on)


def test_the_world_would_notice_a_rule_that_removes_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpu_training.checkpoints.plan_pruning", lambda candidates, complete, **options: candidates)
    world = World(keep=1)
    world.start()
    with pytest.raises(AssertionError, match="pod-0 removed pod-0/step-00000001, which it uses"):
        run_to_its_end(world, world.pods[0])
    world.end()


def test_a_lineage_that_ends_well_leaves_as_many_as_are_kept() -> None:
    world = World(keep=2)
    for _ in range(2):
        world.start()
        run_to_its_end(world, world.pods[-1])
    assert candidates_of(world.files) == ["pod-0/step-00000006", "pod-0/step-00000005"]
    assert FINGERPRINT in world.files.contents["pod-0/step-00000006/COMPLETE"].decode()
