"""Images that do not come, containers and pods that fail: on nodes of kind `process`.

A fault ends with its node's agent, too.
"""

from __future__ import annotations

from sandbox.cluster import Sandbox
from sandbox.errors import SandboxError
from sandbox.faults.agents import tell_agent
from sandbox.faults.names import pod_named

KILLED = 137
LARGEST_EXIT_CODE = 255
LARGEST_SIGNAL = 64
REFUSAL = "pulling from host failed with status code 401 Unauthorized: authentication required"
EVICTED = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 0. "


def refuse_image(sandbox: Sandbox, node: str, image: str, *, message: str = REFUSAL) -> None:
    """Have a node get an image no more: ErrImagePull, then ImagePullBackOff. Containers that run are not concerned.

    :param image: its repository, without tag and digest.
    :param message: the registry's words.
    :raises SandboxError: there is no such node.
    """
    _fault_image(sandbox, node, image, refusal=message)


def slow_image(sandbox: Sandbox, node: str, image: str, *, delay_s: float) -> None:
    """Have each pull of an image take so many seconds on a node.

    :raises SandboxError: there is no such node, or the time can not be.
    """
    if delay_s <= 0:
        raise SandboxError(f"delay_s is {delay_s!r}: give a number of seconds above 0")
    _fault_image(sandbox, node, image, delay_s=delay_s)


def admit_image(sandbox: Sandbox, node: str, image: str) -> None:
    """Have a node get an image again; containers that back off get it at their next attempt.

    :raises SandboxError: there is no such node.
    """
    _fault_image(sandbox, node, image)


def fail_container(
    sandbox: Sandbox,
    namespace: str,
    pod: str,
    *,
    container: str = "",
    exit_code: int | None = None,
    signum: int | None = None,
    reason: str = "Error",
    message: str = "",
) -> None:
    """Kill a container, and have its end told as ordered.

    :param container: its name; empty: the pod's first.
    :param exit_code: told as its exit code. None: 128 and the signal, else 137.
    :param signum: the signal that it is told to have died of. Whatever it is, the program itself gets SIGKILL.
    :param reason: `Error`, or `OOMKilled` where the kernel is to blame.
    :param message: told as its termination message; empty: what the container wrote.
    :raises SandboxError: it does not run, or there can be no such end.
    """
    if exit_code is not None and signum is not None:
        raise SandboxError("exit_code and signum are both given: give one of them")
    if exit_code is not None and not 1 <= exit_code <= LARGEST_EXIT_CODE:
        raise SandboxError(f"exit_code is {exit_code}: give one from 1 to {LARGEST_EXIT_CODE}")
    if signum is not None and not 1 <= signum <= LARGEST_SIGNAL:
        raise SandboxError(f"signum is {signum}: give one from 1 to {LARGEST_SIGNAL}")
    code = exit_code if exit_code is not None else KILLED if signum is None else 128 + signum
    end = {"container": container, "exit_code": code, "reason": reason, "message": message}
    order = {"namespace": namespace, "pod": pod, **end}
    tell_agent(sandbox, _node_of(sandbox, namespace, pod), "POST", "/faults/container", order)


def fail_pod(
    sandbox: Sandbox,
    namespace: str,
    pod: str,
    *,
    reason: str = "Evicted",
    message: str = EVICTED,
    grace_s: float = 1.0,
) -> None:
    """Have a node end a pod of its own accord: phase Failed, condition DisruptionTarget.

    :param reason: `Evicted` (pressure), `Terminated` (the node shuts down), `Preempting` (for a critical pod).
    :param grace_s: between SIGTERM and SIGKILL; a second at least.
    :raises SandboxError: it does not run.
    """
    order = {"namespace": namespace, "pod": pod, "reason": reason, "message": message, "grace_s": grace_s}
    tell_agent(sandbox, _node_of(sandbox, namespace, pod), "POST", "/faults/pod", order)


def _fault_image(sandbox: Sandbox, node: str, image: str, *, refusal: str = "", delay_s: float = 0.0) -> None:
    order = {"image": image, "refusal": refusal, "delay_s": delay_s}
    tell_agent(sandbox, node, "PUT", "/faults/image", order)


def _node_of(sandbox: Sandbox, namespace: str, pod: str) -> str:
    node = pod_named(sandbox, namespace, pod)["spec"].get("nodeName")
    if node is None:
        raise SandboxError(f"pod {namespace}/{pod} has no node yet: wait until it runs")
    return str(node)
