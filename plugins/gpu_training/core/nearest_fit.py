"""The smallest change that would let a training run now, and who holds the GPUs that it wants."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from fractions import Fraction
from typing import Final

from gpu_training.core.amount_text import amount_of
from gpu_training.core.fitting import Kind, Survey
from gpu_training.core.node_obstacles import Obstacle
from gpu_training.core.node_usage import UNIT, holds_gpus
from gpu_training.core.pending_cause import Cause
from gpu_training.core.pending_report import GpuHolder
from gpu_training.core.pod_demand import PODS, Demand
from gpu_training.core.resources import GPU_RESOURCE
from gpu_training.core.sameness import Same
from gpu_training.core.surroundings import Taint, Tenant

TOLERATIONS: Final = "training.tolerations"
_MOST_CHANGES: Final = 2
_MOST_HOLDERS: Final = 10
_SHORT_OF_GPUS: Final = (Cause.GPUS_TAKEN, Cause.TOO_FEW_GPUS)
_SHORT_OF_OTHERS: Final = (Cause.CPU_OR_MEMORY_TAKEN, Cause.TOO_LITTLE_CPU_OR_MEMORY)


def nearest_fit(survey: Survey, demand: Demand) -> str:
    """Give the smallest changes that would let a pod run now, such as `2 GPUs would fit now on g5-1`; empty when no
    single change would. Where not all pods could be seen, something `may fit`.

    :param demand: of the survey.
    """
    return survey.answers.once("nearest fit", lambda: _nearest_fit(survey, demand))


def _nearest_fit(survey: Survey, demand: Demand) -> str:
    changes: tuple[Callable[[Survey, Demand], str], ...] = (_fewer_gpus, _less_of_another, _toleration, _selector)
    found = [text for text in (change(survey, demand) for change in changes) if text]
    return ", or ".join(found[:_MOST_CHANGES])


def _would(survey: Survey) -> str:
    return "would" if survey.all_seen else "may"


def gpus(count: int) -> str:
    """Give `1 GPU` or `2 GPUs`."""
    return "1 GPU" if count == 1 else f"{count} GPUs"


def on_nodes(survey: Survey, places: Sequence[int]) -> str:
    """Give nodes as `g5-1 and 3 more nodes`.

    :param places: of at least one node.
    """
    more = len(places) - 1
    first = survey.index.nodes[places[0]].name
    return first if not more else f"{first} and {more} more node{'s' if more > 1 else ''}"


def _places(kinds: Iterable[Kind]) -> list[int]:
    return sorted(place for kind in kinds for place in kind.places)


def _only(survey: Survey, test: Callable[[Obstacle], bool]) -> list[Kind]:
    """Give the nodes on which nothing but such obstacles are in the way."""
    return [kind for kind in survey.kinds if kind.obstacles and all(map(test, kind.obstacles))]


def _fewer_gpus(survey: Survey, demand: Demand) -> str:
    if demand.requests.get(GPU_RESOURCE, Fraction(0)) <= 0 or survey.index.usage is None:
        return ""
    kinds = _only(survey, lambda o: o.cause in _SHORT_OF_GPUS and o.resource == GPU_RESOURCE)
    free = survey.free[GPU_RESOURCE]
    places = _places(kinds)
    most = max((free[place] // UNIT for place in places), default=0)
    if most < 1:
        return ""
    there = [place for place in places if free[place] // UNIT == most]
    return f"{gpus(most)} {_would(survey)} fit now on {on_nodes(survey, there)}"


def _less_of_another(survey: Survey, demand: Demand) -> str:
    kinds = [kind for kind in _only(survey, _is_another) if len(kind.obstacles) == 1]
    if not kinds or survey.index.usage is None:
        return ""
    resource = kinds[0].obstacles[0].resource
    places = _places(kind for kind in kinds if kind.obstacles[0].resource == resource)
    free = survey.free[resource]
    best = max(places, key=lambda place: free[place])
    if free[best] <= 0:
        return ""
    amount = amount_of(resource, Fraction(free[best], UNIT))
    return f"with {amount} it {_would(survey)} fit now on {on_nodes(survey, [best])}"


def _is_another(obstacle: Obstacle) -> bool:
    return obstacle.cause in _SHORT_OF_OTHERS and obstacle.resource != PODS


def _toleration(survey: Survey, demand: Demand) -> str:
    kinds = _only(survey, lambda o: o.taint is not None)
    if not kinds or survey.index.usage is None:
        return ""
    best = min(kinds, key=lambda kind: (len(kind.obstacles), -len(kind.places)))
    wanted = ", ".join(toleration_text(o.taint) for o in best.obstacles if o.taint is not None)
    return f"it {_would(survey)} fit now on {on_nodes(survey, best.places)} with {wanted} in {TOLERATIONS}"


def toleration_text(taint: Taint) -> str:
    """Give what a training's list of tolerations needs for a taint."""
    value = f", value: {taint.value}" if taint.value else ""
    return f"{{key: {taint.key}{value}, effect: {taint.effect}}}"


def _selector(survey: Survey, demand: Demand) -> str:
    """Give the labels by which the nodes go that have room and that the node selector leaves out."""
    kinds = _only(survey, lambda o: bool(o.label))
    if not kinds or survey.index.usage is None:
        return ""
    nearest = min(len(kind.obstacles) for kind in kinds)
    kinds = [kind for kind in kinds if len(kind.obstacles) == nearest]
    choices: Counter[tuple[tuple[str, str | None], ...]] = Counter()
    places: dict[tuple[tuple[str, str | None], ...], list[int]] = {}
    for kind in kinds:
        keys = sorted(o.label for o in kind.obstacles)
        for place in kind.places:
            labels = survey.index.nodes[place].labels
            choice = tuple((key, labels.get(key)) for key in keys)
            choices[choice] += 1
            places.setdefault(choice, []).append(place)
    best = min(choices, key=lambda choice: (any(v is None for _, v in choice), -choices[choice], str(choice)))
    changed = ", ".join(f"{key}: {value}" for key, value in best if value is not None)
    without = ", ".join(key for key, value in best if value is None)
    how = " and ".join(
        part for part in (f"with {changed}" if changed else "", f"without {without}" if without else "") if part
    )
    return f"it {_would(survey)} fit now on {on_nodes(survey, places[best])} {how} in training.node_selector"


def holders_of(
    survey: Survey, kinds: Iterable[Kind], namespace: str, own: Collection[tuple[str, str]]
) -> tuple[GpuHolder, ...]:
    """Give who holds GPUs on nodes, those that end soonest first, then those that hold the most.

    :param kinds: nodes that are wanted.
    :param namespace: of the training; holders of another one are told with theirs.
    :param own: namespaces and names of the training's own pods, which are left out.
    """
    usage, wanted = survey.index.usage, tuple(kinds)
    if usage is None:
        return ()
    mine = usage.gpu_users.intersection(own)

    def found() -> tuple[GpuHolder, ...]:
        nodes = (survey.index.nodes[place].name for place in _places(wanted))
        there = [tenant for name in nodes for tenant in usage.gpu_holders.get(name, ())]
        return holders_among(there, namespace, mine)

    return survey.answers.once(("holders", *map(Same, wanted), namespace, mine), found)


def holders_among(tenants: Iterable[Tenant], namespace: str, own: Collection[tuple[str, str]]) -> tuple[GpuHolder, ...]:
    """Give those tenants that hold GPUs, in the order of :func:`holders_of`."""
    others = (tenant for tenant in tenants if (tenant.namespace, tenant.name) not in own)
    ranked = heapq.nsmallest(_MOST_HOLDERS, filter(holds_gpus, others), key=_soonest)
    return tuple(_holder(tenant, namespace) for tenant in ranked)


def _gpus_of(tenant: Tenant) -> int:
    return int(tenant.requests.get(GPU_RESOURCE, 0))


def _soonest(tenant: Tenant) -> tuple[float, int, str, str]:
    ends_by = tenant.ends_by if tenant.ends_by is not None else float("inf")
    return ends_by, -_gpus_of(tenant), tenant.namespace, tenant.name


def _holder(tenant: Tenant, namespace: str) -> GpuHolder:
    whose = f" of model {tenant.model}" if tenant.model else f" of Job {tenant.job}" if tenant.job else ""
    where = f" in namespace {tenant.namespace}" if tenant.namespace != namespace else ""
    return GpuHolder(
        who=f"pod {tenant.name}{whose}{where}",
        node=tenant.node,
        gpus=_gpus_of(tenant),
        ends_by=tenant.ends_by,
    )
