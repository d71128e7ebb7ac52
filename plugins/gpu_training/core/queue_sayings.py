"""What Kueue says of a Workload that it does not admit, and what it means. Kueue 0.9 to 0.19.

https://github.com/kubernetes-sigs/kueue/tree/main/pkg/controller/core and .../pkg/scheduler
"""

from __future__ import annotations

from typing import Final

from gpu_training.core.pending_cause import Cause, Cure
from gpu_training.core.sayings import says

DEACTIVATIONS: Final = (
    says(
        r"maximum number of re-?queu(?:e|ing) retries|RequeuingLimitExceeded",
        Cause.QUEUE_DEACTIVATED,
        Cure.NEVER,
        "The queue has given the training up: its pods were not ready in time, too often.",
        "Find out why they did not start, then set `active` of its Workload to true, or start the training anew.",
    ),
    says(
        r"maximum execution time|MaximumExecutionTimeExceeded",
        Cause.QUEUE_DEACTIVATED,
        Cure.NEVER,
        "The queue has ended the training: it ran longer than the queue lets it.",
        "Have the Workload's maximum execution time raised, or train less.",
    ),
    says(
        r"[Aa]dmission check\(s\): (?P<checks>[^\s,]{1,253}(?:,[^\s,]{1,253}){0,8}), were rejected",
        Cause.QUEUE_DEACTIVATED,
        Cure.NEVER,
        "The queue has given the training up: admission check {checks} was rejected.",
        "Ask whoever runs that check; `kubectl describe workload` has its words.",
    ),
    says(
        r"deactivated due to (?P<why>.{1,300})",
        Cause.QUEUE_DEACTIVATED,
        Cure.NEVER,
        "The queue has put the training out: {why}",
        "Remove the reason, then set `active` of its Workload to true, or start the training anew.",
    ),
)

EVICTIONS: Final = (
    says(
        r"^Preempted .{0,300}due to (?P<why>prioritization|reclamation|[Ff]air [Ss]haring)",
        Cause.QUEUE_PREEMPTED,
        Cure.WAITING,
        "The training gave way to another workload ({why}) and waits again in {where}{short}.",
        "Wait; a higher priority, or less that is borrowed from other queues, makes it rarer.",
    ),
    says(
        r"^Preempted ",
        Cause.QUEUE_PREEMPTED,
        Cure.WAITING,
        "The training gave way to another workload and waits again in {where}{short}.",
        "Wait; a higher priority, or less that is borrowed from other queues, makes it rarer.",
    ),
    says(
        r"^PodsReadyTimeout ",
        Cause.QUEUED,
        Cure.WAITING,
        "The queue took the training back because its pods were not ready in time; it waits again in {where}{short}.",
        "Find out why its pods did not start: image, volumes, nodes; the queue gives up after some tries.",
    ),
    says(
        r"^(?:ClusterQueueStopped|LocalQueueStopped) ",
        Cause.QUEUE_MISSING,
        Cure.WAITING,
        "Queue {queue}, or the cluster queue behind it, is stopped, and the training was taken back.",
        "Wait until it is resumed; ask whoever runs the queue.",
    ),
    says(
        r"^AdmissionCheck ",
        Cause.QUEUED,
        Cure.WAITING,
        "An admission check turned the training away for now; it waits again in {where}{short}.",
        "Wait; `kubectl describe workload` has the check's words.",
    ),
    says(
        r"^NodeFailures ",
        Cause.QUEUED,
        Cure.TRANSIENT,
        "The queue took the training back because a node failed; it waits again in {where}{short}.",
        "Wait.",
    ),
)

_MISSING: Final = "Create it, or correct the training's queue."

REFUSALS: Final = (
    says(
        r"^LocalQueue (?P<name>\S{1,253}) (?:doesn't exist|is terminating or missing)",
        Cause.QUEUE_MISSING,
        Cure.NEVER,
        "LocalQueue {name} does not exist in the namespace.",
        _MISSING,
    ),
    says(
        r"^ClusterQueue (?P<name>\S{1,253}) (?:doesn't exist|not found|is terminating or missing)",
        Cause.QUEUE_MISSING,
        Cure.NEVER,
        "ClusterQueue {name}, behind queue {queue}, does not exist.",
        "Ask whoever runs the queues to create it, or name another queue in the training.",
    ),
    says(
        r"^(?P<kind>LocalQueue|ClusterQueue) (?P<name>\S{1,253}) is (?P<state>inactive|stopped)",
        Cause.QUEUE_MISSING,
        Cure.WAITING,
        "{kind} {name} is {state} and admits nothing.",
        "Wait until it is active again; `kubectl describe` of it says why, and whoever runs the queues can change it.",
    ),
    says(
        r"resource (?P<resource>\S{1,317}) unavailable in ClusterQueue",
        Cause.QUEUE_LACKS_RESOURCE,
        Cure.NEVER,
        "The cluster queue behind queue {queue} has no quota for {resource}.",
        "Name a queue that has {resource}, or have it added to the cluster queue.",
    ),
    says(
        r"insufficient quota for (?P<resource>\S{1,317}) in flavor (?P<flavor>[^\s,]{1,253}),"
        r" previously considered podsets requests \(0\) \+ current podset request"
        r" \((?P<asked>[^)]{1,40})\) > maximum capacity \((?P<most>[^)]{1,40})\)",
        Cause.QUEUE_TOO_SMALL,
        Cure.NEVER,
        "Queue {queue} can never admit the training: {asked} {resource} asked, and flavor {flavor} has at most {most}.",
        "Ask for no more than {most} {resource}, or have the queue's quota or borrowing limit raised.",
    ),
    says(
        r"insufficient quota for (?P<resource>\S{1,317}) in flavor (?P<flavor>[^\s,]{1,253}),"
        r" previously considered podsets requests \((?P<before>[^)]{1,40})\) \+ current podset request"
        r" \((?P<asked>[^)]{1,40})\) > maximum capacity \((?P<most>[^)]{1,40})\)",
        Cause.QUEUE_TOO_SMALL,
        Cure.NEVER,
        "Queue {queue} can never admit the training: {before} and {asked} {resource} asked by its pod sets, and flavor"
        " {flavor} has at most {most}.",
        "Ask for no more than {most} {resource} in all, or have the queue's quota or borrowing limit raised.",
    ),
    says(
        r"insufficient quota for (?P<resource>\S{1,317}) in flavor (?P<flavor>[^\s,]{1,253}),"
        r" request > maximum capacity \((?P<asked>[^\s)]{1,40}) > (?P<most>[^\s)]{1,40})\)",
        Cause.QUEUE_TOO_SMALL,
        Cure.NEVER,
        "Queue {queue} can never admit the training: {asked} {resource} asked, and flavor {flavor} has at most {most}.",
        "Ask for no more than {most} {resource}, or have the queue's quota or borrowing limit raised.",
    ),
    says(
        r"insufficient quota for (?P<resource>\S{1,317}) in flavor (?P<flavor>[^\s,]{1,253}) in ClusterQueue",
        Cause.QUEUE_TOO_SMALL,
        Cure.NEVER,
        "Queue {queue} can never admit the training: flavor {flavor} has less {resource} than is asked for.",
        "Ask for less {resource}, or have the queue's quota or borrowing limit raised.",
    ),
    says(
        r"untolerated taint (?P<taint>.{1,200}?) in flavor (?P<flavor>[^\s,;]{1,253})",
        Cause.QUEUE_TOO_SMALL,
        Cure.NEVER,
        "Queue {queue} has no flavor that the training may use: it does not tolerate taint {taint} of flavor {flavor}.",
        "Add the toleration to the training, or name another queue.",
    ),
    says(
        r"flavor (?P<flavor>[^\s,]{1,253}) doesn't match node affinity",
        Cause.QUEUE_TOO_SMALL,
        Cure.NEVER,
        "Queue {queue} has no flavor that the training may use: its node_selector does not match flavor {flavor}.",
        "Correct the training's node_selector, or name another queue.",
    ),
    says(
        r"[Ff]lavor \"?(?P<flavor>[^\s,\"]{1,253})\"? "
        r"(?P<why>not found|does not support [^,;]{1,100}|supports only [^,;]{1,100}"
        r"|does not contain the requested level)",
        Cause.QUEUE_TOO_SMALL,
        Cure.NEVER,
        "Queue {queue} has no flavor that the training may use: flavor {flavor} {why}.",
        "Ask whoever runs the queues, or name another queue.",
    ),
    says(
        r"namespace doesn't match ClusterQueue selector",
        Cause.QUEUE_MISSING,
        Cure.NEVER,
        "The cluster queue behind queue {queue} does not take work of this namespace.",
        "Have the namespace admitted by whoever runs the queues, or name another queue.",
    ),
    # It could not read them.
    says(
        r"(?:LimitRange constraints|resources validation failed): .{0,300}Internal error: (?P<words>.{1,400})",
        Cause.QUEUED,
        Cure.TRANSIENT,
        "The training waits in {where}: the queue could not check its resources: {words}",
        "Wait; it is tried again.",
    ),
    says(
        r"resources didn't satisfy LimitRange constraints: (?P<words>.{1,400})",
        Cause.LIMIT_RANGE,
        Cure.NEVER,
        "A LimitRange of the namespace forbids the training: {words}",
        "Change the training's resources to what the LimitRange allows, or have it changed.",
    ),
    says(
        r"resources validation failed: (?P<words>.{1,400})",
        Cause.QUEUE_TOO_SMALL,
        Cure.NEVER,
        "The queue does not take the training's resources: {words}",
        "Correct the training's requests and limits.",
    ),
)
