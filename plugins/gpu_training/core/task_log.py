"""What Airflow's API gives as a task's log, as the lines that a person reads."""

from __future__ import annotations

from collections.abc import Sequence

_GROUP, _END = "::group::", "::endgroup::"


def log_lines(content: Sequence[object]) -> list[str]:
    """Give the lines of a log's entries, each error as a line of its own after the entry that brought it.

    The first group names the log's sources, which change from one reading to the next: it is left out.

    :param content: texts, or objects with `event` and perhaps `error_detail`; anything else is shown as it is.
    """
    lines = [line for entry in content for line in _lines_of(entry)]
    if lines and lines[0].startswith(_GROUP) and _END in lines:
        return lines[lines.index(_END) + 1 :]
    return lines


def _lines_of(entry: object) -> list[str]:
    if not isinstance(entry, dict):
        return [str(entry)]
    details = entry.get("error_detail")
    errors = [each for each in details if isinstance(each, dict)] if isinstance(details, list) else []
    return [str(entry.get("event", "")), *(f"{each.get('exc_type')}: {each.get('exc_value')}" for each in errors)]
