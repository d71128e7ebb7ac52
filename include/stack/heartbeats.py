"""How soon Airflow's services notice that one of them, or a task, is dead."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeats:
    """Times in whole seconds; the defaults are Airflow's own, but for tasks.

    :param every_s: how often a scheduler, a triggerer and the DAG processor say that they live.
    :param scheduler_silence_s: after so long without a word a scheduler is taken for dead, also by itself: its queued
        and running tasks are started anew.
    :param triggerer_silence_s: after so long a triggerer's triggers go to another.
    :param orphans_every_s: how often a scheduler looks for the tasks of dead ones. It does when it starts, too.
    :param task_silence_s: after so long without a word from a running task its try has failed.
    :param tasks_every_s: how often a scheduler looks for such tasks.
    """

    every_s: int = 5
    scheduler_silence_s: int = 30
    triggerer_silence_s: int = 30
    orphans_every_s: int = 300
    task_silence_s: int = 60
    tasks_every_s: int = 10

    def options(self) -> dict[str, dict[str, object]]:
        """Give Airflow's options, by section."""
        return {
            "scheduler": {
                "job_heartbeat_sec": self.every_s,
                "scheduler_heartbeat_sec": self.every_s,
                "scheduler_health_check_threshold": self.scheduler_silence_s,
                "orphaned_tasks_check_interval": self.orphans_every_s,
                "task_instance_heartbeat_timeout": self.task_silence_s,
                "task_instance_heartbeat_timeout_detection_interval": self.tasks_every_s,
            },
            "triggerer": {
                "job_heartbeat_sec": self.every_s,
                "triggerer_health_check_threshold": self.triggerer_silence_s,
            },
        }


USUAL = Heartbeats()
"""A person who watches has no hurry, and a busy machine must not pass for a dead one."""

SHORT = Heartbeats(
    every_s=1, scheduler_silence_s=20, triggerer_silence_s=10, orphans_every_s=3, task_silence_s=20, tasks_every_s=2
)
"""For tests: a dead triggerer is replaced within some twelve seconds, a dead scheduler within twenty-five.

A busy machine silences a healthy one for seconds. A triggerer that is wrongly given up does no harm; a scheduler loses
its tasks' tries.
"""
