"""Makes a stack whole again, whatever was done to its services."""

from __future__ import annotations

import time
from collections.abc import Collection

from stack.lifecycle import BACKING, Stack
from stack.service import HEALTHY_DEADLINE_S, Service

POLL_S = 0.1
RESTARTS = 3
"""How often a service is started again: the first may come too early, before the database takes connections."""


def restore(stack: Stack, airflow: Collection[str]) -> None:
    """Have every service run and be healthy; what does already is left alone.

    :param airflow: Airflow's services that shall run; others of Airflow's are stopped.
    :raises StackError: one does not come back; with the end of its log.
    """
    backing = [name for name in stack.services if name in BACKING]
    for name in stack.services:
        if name not in (*backing, *airflow) and (surplus := stack.service(name)).is_running:
            surplus.stop()
    wanted = [stack.service(name) for name in backing]
    wanted += [stack.service(name) if name in stack.services else stack.start_service(name) for name in airflow]
    restarts = dict.fromkeys((service.name for service in wanted), 0)
    deadline = time.monotonic() + HEALTHY_DEADLINE_S
    # A heartbeat from before the repair proves nothing: who lost the database may still be about to die of it.
    since = 0.0
    while True:
        repaired = [service for service in wanted if _repair(service, stack, restarts)]
        if repaired:
            since = time.time()
        elif sick := [service.name for service in wanted if not service.is_healthy(since=since)]:
            if time.monotonic() > deadline:
                raise stack.host.failure(sick[0], f"is not healthy after {HEALTHY_DEADLINE_S:g} s")
        else:
            return
        time.sleep(POLL_S)


def _repair(service: Service, stack: Stack, restarts: dict[str, int]) -> bool:
    """Resume or restart a service, and tell whether it needed that."""
    if service.is_paused:
        service.resume()
        return True
    if service.is_running:
        return False
    restarts[service.name] += 1
    if restarts[service.name] > RESTARTS:
        raise stack.host.failure(service.name, f"ended again after {RESTARTS} restarts")
    service.restart()
    return True
