"""The termination message of an ended container, by the kubelet's rules. Pure.

https://kubernetes.io/docs/tasks/debug/debug-application/determine-reason-pod-failure/
"""

from __future__ import annotations

from sandbox.agent.cri_log import Entry

FILE_LIMIT_BYTES = 4096
"""Of the file, the last bytes count."""

SHARED_LIMIT_BYTES = 12 * 1024
"""All containers of a pod together, init containers too."""

LOG_LIMIT_BYTES = 2048
LOG_LIMIT_LINES = 80
"""Of the log, where it stands in for an empty file after an error."""


def build_message(file_tail: bytes, *, policy: str, exit_code: int, log_tail: list[Entry], containers: int) -> str:
    """Return the message.

    :param file_tail: end of the termination message file, at least its last 4096 bytes.
    :param log_tail: end of the container's log, at least its last 80 entries.
    :param containers: how many containers share the 12 KiB.
    """
    kept = file_tail[-FILE_LIMIT_BYTES:]
    if not kept and policy == "FallbackToLogsOnError" and exit_code != 0:
        text = b"".join(e.content if e.partial else e.content + b"\n" for e in log_tail[-LOG_LIMIT_LINES:])
        kept = text[-LOG_LIMIT_BYTES:]
    return valid_text(kept[: SHARED_LIMIT_BYTES // max(1, containers)])


def valid_text(data: bytes) -> str:
    """Return the text, each byte that is not part of UTF-8 as one U+FFFD."""
    return "".join(
        "\N{REPLACEMENT CHARACTER}" if "\udc80" <= character <= "\udcff" else character
        for character in data.decode("utf-8", "surrogateescape")
    )
