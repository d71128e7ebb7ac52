"""Termination messages are cut and cleaned as the kubelet does it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.agent.cri_log import Entry
from sandbox.agent.termination import build_message, valid_text

pytestmark = pytest.mark.unit

LOG = [Entry(timestamp="t", stream="stdout", partial=False, content=b"line %d" % n) for n in range(100)]


def message(file: bytes, policy: str = "File", code: int = 1, containers: int = 1, log: list[Entry] = LOG) -> str:
    return build_message(file, policy=policy, exit_code=code, log_tail=log, containers=containers)


def test_last_4096_bytes_of_the_file_are_kept() -> None:
    assert message(b"a" * 100 + b"b" * 4096) == "b" * 4096


@pytest.mark.parametrize(("containers", "kept"), [(1, 4096), (3, 4096), (4, 3072), (5, 2457)])
def test_many_containers_share_the_room_and_keep_the_head_of_the_tail(containers: int, kept: int) -> None:
    assert (
        message(b"x" + bytes(range(65, 91)) * 200, containers=containers)
        == message(b"x" + bytes(range(65, 91)) * 200)[:kept]
    )


@pytest.mark.parametrize(
    ("file", "policy", "code", "expected"),
    [
        (b"mine", "FallbackToLogsOnError", 1, "mine"),
        (b"", "FallbackToLogsOnError", 0, ""),
        (b"", "File", 1, ""),
        (b"", "FallbackToLogsOnError", 1, "".join(f"line {n}\n" for n in range(20, 100))),
    ],
)
def test_log_stands_in_only_for_an_empty_file_after_an_error(
    file: bytes, policy: str, code: int, expected: str
) -> None:
    assert message(file, policy, code) == expected


def test_log_that_stands_in_is_at_most_2048_bytes() -> None:
    long = [Entry(timestamp="t", stream="stdout", partial=True, content=b"x" * 3000)]
    assert message(b"", "FallbackToLogsOnError", 1, log=long) == "x" * 2048


@pytest.mark.parametrize(
    ("data", "text"),
    [(b"ab\xff\xfecd", "ab��cd"), (b"\xe2\x82", "��"), ("é€".encode(), "é€"), (b"a\0b", "a\0b")],
)
def test_each_byte_that_is_no_text_becomes_one_replacement(data: bytes, text: str) -> None:
    assert valid_text(data) == text


@given(st.binary(max_size=6000), st.integers(1, 20))
def test_message_is_always_text_and_within_its_share(data: bytes, containers: int) -> None:
    text = message(data, containers=containers)
    assert len(text) <= min(4096, 12 * 1024 // containers)
    text.encode()
