"""Which cures a cause may have is declared once, for parsers, diagnoses and people."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.core.kubernetes_documents import condition, disruption, failed_pod, job
from tests.unit.core.pending_world import (
    around,
    event,
    node,
    queued_job,
    report_of,
    tenant,
    untaken_job,
    waiting_pod,
    workload,
)
from tests.unit.core.test_pending_growth import AUTOSCALED, STRUCTURAL
from tests.unit.core.test_pending_job import quota, refusal
from tests.unit.core.test_pending_messages import TABLE
from tests.unit.core.test_pending_scheduling import (
    BY_NODES,
    OF_THE_POD,
    PREEMPTING,
    WORDS_ALONE,
)

from gpu_training.core import (
    admission_sayings,
    claim_sayings,
    container_sayings,
    image_sayings,
    queue_sayings,
    scheduler_sayings,
    volume_sayings,
)
from gpu_training.core.pending_cause import CURES, Cause, Cure
from gpu_training.core.pending_report import Report
from gpu_training.core.sayings import Saying

pytestmark = pytest.mark.core

MODULES = (
    admission_sayings,
    claim_sayings,
    container_sayings,
    image_sayings,
    queue_sayings,
    scheduler_sayings,
    volume_sayings,
)


def sayings() -> list[Saying]:
    """Give all that the parsers know to be said."""
    found: dict[int, Saying] = {}
    for module in MODULES:
        for value in vars(module).values():
            each: Any
            for each in value if isinstance(value, tuple) else (value,):
                if isinstance(each, Saying):
                    found[id(each)] = each
    return list(found.values())


SAYINGS = sayings()
SAID = {(each.cause, each.cure) for each in SAYINGS} | {
    (Cause(row["expect"]["cause"]), Cure(row["expect"]["cure"])) for row in TABLE if row["expect"].get("cause")
}
# Parsers know words of these that a look at nodes, at the autoscaler or at the time overrules.
DIAGNOSED = (
    {(row[4], row[5]) for row in BY_NODES}
    | {(row[1], row[2]) for row in (*WORDS_ALONE, *OF_THE_POD)}
    | {(row[2], cure) for row in STRUCTURAL for cure in (Cure.NEVER, Cure.WAITING)}
)


def waits() -> list[Report]:
    """Give what is told in some cases that no parser knows."""
    nodes = around([node(gpus=1)], [tenant()])
    unscheduled, silent = waiting_pod(), waiting_pod("")
    unsuitable = waiting_pod("", spec={"schedulerName": "nobody"})
    gave_way = failed_pod(143, name="first", created=0)
    gave_way["status"]["conditions"].append(disruption(9, "PreemptionByScheduler", "preempting"))
    by_hand = job(condition("Suspended"), spec={"suspend": True})
    return [
        report_of([waiting_pod(PREEMPTING[0])], nodes),
        report_of([gave_way, waiting_pod(created=30)], nodes),
        report_of([silent], nodes),
        report_of([unsuitable], nodes),
        report_of([silent], nodes, second=1),
        *(report_of([unscheduled], around([], [], [event(unscheduled, *row[:2])])) for row in AUTOSCALED),
        report_of([], nodes, of=untaken_job()),
        report_of([], nodes, of=by_hand),
        report_of([], around([], workloads=[workload()]), of=queued_job()),
        report_of([], around([node()], events=[refusal()], quotas=[quota("0")])),
    ]


def test_each_cure_that_is_declared_can_come_about() -> None:
    found = SAID | DIAGNOSED | {(report.cause, report.cure) for report in waits()}
    assert {(cause, cure) for cause, cures in CURES.items() for cure in cures} <= found


def test_every_cause_has_a_cure_declared() -> None:
    assert set(CURES) == set(Cause)
    assert all(CURES.values())


@pytest.mark.parametrize(("cause", "cure"), sorted(SAID))
def test_what_parsers_make_of_words_is_declared(cause: Cause, cure: Cure) -> None:
    assert cure in CURES[cause]


def test_every_parser_is_among_those_that_are_compared() -> None:
    assert len(SAYINGS) > 80
    assert {each.cause for each in SAYINGS} < {cause for cause, _ in SAID}
