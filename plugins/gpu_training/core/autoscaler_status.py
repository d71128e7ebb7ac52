"""The ConfigMap in which the Cluster Autoscaler writes how it is -> whether it is at work."""

from __future__ import annotations

import re
from typing import Final

from gpu_training.core.documents import child, parse_time, text

SILENT_S: Final = 600.0
"""It writes after every look at the cluster, each ten seconds unless it was told otherwise."""

_LAST_UPDATED: Final = "cluster-autoscaler.kubernetes.io/last-updated"
# Go's way to write a time: date, time with nanoseconds, offset, name of the zone.
_TIME: Final = re.compile(r"(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)(?:\.\d{1,9})? ([+-]\d{4}) [A-Z0-9+-]{1,8}")


def is_silent(document: object, now: float) -> bool:
    """Tell whether it has written nothing for :data:`SILENT_S`: what it left behind stays when it is gone. One that
    does not say when it wrote counts as at work.

    :param document: the ConfigMap.
    :param now: seconds since 1970.
    """
    said = text(child(child(document, "metadata"), "annotations"), _LAST_UPDATED)
    found = _TIME.fullmatch(said)
    at = parse_time(f"{found[1]}T{found[2]}{found[3]}") if found is not None else None
    return at is not None and now - at > SILENT_S
