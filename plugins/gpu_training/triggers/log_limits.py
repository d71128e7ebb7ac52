"""What one training may write into its task log, as the options of the section `[gpu_training]` say."""

from __future__ import annotations

from typing import Final

from gpu_training.core.log_allowance import Limits
from gpu_training.task_log import TaskLog

_KIB: Final = 1024
_OPTIONS: Final = {
    "log_lines_per_second": ("lines_per_second", 1),
    "log_burst_lines": ("burst_lines", 1),
    "log_kib_per_second": ("bytes_per_second", _KIB),
    "log_burst_kib": ("burst_bytes", _KIB),
    "log_tail_lines": ("tail_lines", 1),
}
"""Option -> field of :class:`Limits`, and how many of its unit one of the option is."""
_LEAST_BURST_KIB: Final = 64
"""All lines but the very longest fit in; these are told when the whole burst is there."""
_MOST: Final = 10**9
_MOST_TAIL_LINES: Final = 10_000


def limits_of(log: TaskLog) -> Limits:
    """Give the limits.

    :param log: takes a warning about an option that is none; the default is used then.
    """
    from airflow.sdk.configuration import conf

    fields: dict[str, int] = {}
    for option, (field, unit) in _OPTIONS.items():
        said = conf.get("gpu_training", option, fallback=None)
        if said is None:
            continue
        least = _LEAST_BURST_KIB if option == "log_burst_kib" else 1
        most = _MOST_TAIL_LINES if option == "log_tail_lines" else _MOST
        text = str(said).strip()
        if text.isascii() and text.isdigit() and len(text) <= len(str(most)) and least <= int(text) <= most:
            fields[field] = int(text) * unit
        else:
            used = getattr(Limits(), field) / unit
            log.warning(
                "[gpu_training] %s is %r; a whole number from %d to %d is allowed; %g is used",
                option,
                text,
                least,
                most,
                used,
            )
    return Limits(**fields)
