"""Has the API server try a training: a dry run of the Job and of a pod from its template."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from gpu_training.cluster.connection import Cluster
from gpu_training.cluster.jobs import check_job
from gpu_training.core.errors import ClusterError, ClusterRejected
from gpu_training.core.trial import Trial, TrialEnd

_SERVERS_WORDS: Final = re.compile(r"HTTP [0-9]{3}: (.*)", re.DOTALL)
_WEBHOOK_FAILED: Final = 500
_FORBIDDEN: Final = 403


async def try_job(cluster: Cluster, job: Mapping[str, Any], *, of_pod: bool) -> Trial:
    """Give how the dry run of a Job and of its pod ends; nothing is raised for it.

    :param of_pod: whether the account may create pods.
    """
    try:
        remarks = await check_job(cluster, dict(job))
    except ClusterError as error:
        return _refused(error)
    return Trial(end=TrialEnd.ACCEPTED, of_pod=of_pod, remarks=tuple(remarks))


async def try_classes(
    cluster: Cluster, job: Mapping[str, Any], classes: Iterable[str], usual: Trial
) -> dict[str, Trial]:
    """Give how the dry run ends with each of these PriorityClasses in place of the Job's own.

    :param usual: the trial of the Job as it is; where even that is not allowed, no other is made.
    """
    if usual.end in (TrialEnd.NOT_ALLOWED, TrialEnd.UNANSWERED):
        return {}
    trials = {}
    for name in classes:
        other = copy.deepcopy(dict(job))
        other["spec"]["template"]["spec"]["priorityClassName"] = name
        trials[name] = await try_job(cluster, other, of_pod=usual.of_pod)
    return trials


def _refused(error: ClusterError) -> Trial:
    words = _SERVERS_WORDS.search(str(error))
    said = words[1] if words is not None else str(error)
    if error.status == _FORBIDDEN and "cannot create resource" in said:
        return Trial(end=TrialEnd.NOT_ALLOWED, said=said)
    # A webhook that does not answer is an internal error to the API server, and as good as a refusal.
    if isinstance(error, ClusterRejected) or error.status == _WEBHOOK_FAILED:
        return Trial(end=TrialEnd.REFUSED, said=said)
    return Trial(end=TrialEnd.UNANSWERED, said=said)
