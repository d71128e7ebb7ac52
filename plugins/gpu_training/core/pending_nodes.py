"""Why no node takes a pod, by what the nodes are like: the cause is that of the nodes nearest to taking it."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from gpu_training.core.fitting import Kind, Survey
from gpu_training.core.nearest_fit import gpus, holders_of, nearest_fit, on_nodes
from gpu_training.core.node_hope import may_become_fit
from gpu_training.core.node_sentences import remedy_of, summary_of, wait_for_others
from gpu_training.core.pending_cause import Cause, Cure
from gpu_training.core.pending_growth import Growth
from gpu_training.core.pending_report import Report
from gpu_training.core.pending_view import View
from gpu_training.core.pending_words import STRUCTURAL, of_words, other_reason
from gpu_training.core.pod_demand import Demand
from gpu_training.core.scheduler_words import SchedulerWords

_HEALS: Final = (Cause.NODES_NOT_READY, Cause.NODES_UNDER_PRESSURE, Cause.DEVICE_PLUGIN_DOWN)
_HOPE: Final = "A node that has just joined, or comes back, may still turn out to be one that takes it."


def of_nodes(words: SchedulerWords | None, growth: Growth, view: View) -> Report | None:
    """Give why no node takes a pod; None where nodes or demand are not known.

    :param words: what the scheduler says, which decides where a node would take the pod by what is known here.
    """
    survey, demand = view.survey, view.demand
    if survey is None or demand is None:
        return None
    if not survey.kinds:
        return _none_at_all(growth)
    nearest = survey.kinds[0]
    if nearest.hardest is None:
        return _by_words(words, growth, survey, demand)
    cause, change = nearest.hardest.cause, nearest_fit(survey, demand)
    cure, ending = _fate(cause, growth, view)
    advice = remedy_of(nearest, nearest.hardest, growth, change)
    return Report(
        cause=cause,
        cure=cure,
        summary=summary_of(nearest, nearest.hardest, survey, demand),
        remedy=f"{advice} {ending}" if ending else advice,
        nodes=survey.counts,
        nearest=change,
        holders=holders_of(survey, filter(_is_held, survey.kinds), view.job.namespace, view.own),
    )


def _is_held(kind: Kind) -> bool:
    """Whether the nodes would take the pod once others have let GPUs go."""
    return kind.hardest is not None and kind.hardest.cause is Cause.GPUS_TAKEN


def _none_at_all(growth: Growth) -> Report:
    cure, ending = growth.fate(lost=True)
    return Report(
        cause=Cause.NO_GPU_NODES,
        cure=cure,
        summary="The cluster has no nodes.",
        remedy=" ".join(part for part in ("Whoever runs the cluster adds GPU nodes.", growth.clause, ending) if part),
    )


def _by_words(words: SchedulerWords | None, growth: Growth, survey: Survey, demand: Demand) -> Report:
    """Give why a pod has no node although one would take it: something that nodes do not tell, or pods that can not be
    seen."""
    reason = other_reason(words)
    if reason is not None:
        elsewhere = reason.cause is Cause.VOLUME_ELSEWHERE
        others_may = any(kind.hardest is not None and kind.hardest.cause not in STRUCTURAL for kind in survey.kinds)
        cure = growth.fate(lost=not others_may)[0] if elsewhere else reason.cure
        return replace(of_words(words, growth, reason), nodes=survey.counts, cure=cure)
    fits = survey.kinds[0].places
    taken = [each for each in words.reasons if each.resource] if words is not None else []
    if taken:
        resource = taken[0].resource
        gpu = taken[0].cause in (Cause.GPUS_TAKEN, Cause.TOO_FEW_GPUS)
        return Report(
            cause=Cause.GPUS_TAKEN if gpu else Cause.CPU_OR_MEMORY_TAKEN,
            cure=Cure.WAITING,
            summary=f"Waiting for {gpus(demand.gpus) if gpu else resource}: the scheduler finds too little {resource} "
            f"free, and {_doubt(survey)}.",
            remedy=wait_for_others(growth),
            nodes=survey.counts,
        )
    return Report(
        cause=Cause.UNSCHEDULABLE,
        cure=Cure.WAITING,
        summary=f"By what is seen here, it could run now on {on_nodes(survey, fits)}; the scheduler has not said so.",
        remedy="Wait for the scheduler's next try; if it stays so, read its words.",
        nodes=survey.counts,
    )


def _doubt(survey: Survey) -> str:
    fits = on_nodes(survey, survey.kinds[0].places)
    if survey.all_seen:
        return f"has not tried again since there is room on {fits}"
    return f"the pods that hold it on {fits} could not all be seen"


def _fate(cause: Cause, growth: Growth, view: View) -> tuple[Cure, str]:
    """Give whether waiting cures a cause, and a sentence about when that shows."""
    if cause in _HEALS:
        return Cure.TRANSIENT, ""
    if cause not in STRUCTURAL:
        return Cure.WAITING, ""
    if view.survey is not None and view.demand is not None and may_become_fit(view.survey, view.demand, view.now):
        return Cure.WAITING, _HOPE
    return growth.fate(lost=True)
