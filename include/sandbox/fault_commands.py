"""`python -m sandbox fault …`: the faults by hand."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sandbox.cluster import Sandbox
from sandbox.faults import access, nodes, pods, programs
from sandbox.proxy import cut_proxy_streams, read_rules, start_proxy, stop_proxy
from sandbox.startup import PROGRAMS

Order = Callable[..., Any]

NODE = ("node", {"metavar": "NODE", "help": "its name, gpu-1"})
PROGRAM = ("program", {"metavar": "PROGRAM", "choices": PROGRAMS, "help": ", ".join(PROGRAMS)})
POD = ("pod", {"metavar": "POD"})
IMAGE = ("image", {"metavar": "IMAGE", "help": "its repository, without tag and digest"})
NAMESPACE = ("namespace", {"metavar": "NAMESPACE"})


def _start_proxy(sandbox: Sandbox, script: Path | None) -> None:
    print(f"export KUBECONFIG={start_proxy(sandbox, read_rules(script) if script else ())}")


FAULTS: dict[str, tuple[Order, str, tuple[tuple[str, dict[str, Any]], ...]]] = {
    "lose-node": (
        nodes.lose_node,
        "no heartbeats any more",
        (NODE, ("--power", {"action": "store_true", "help": "its machine is off; else it is only cut off"})),
    ),
    "return-node": (nodes.return_node, "a lost node comes back", (NODE,)),
    "restart-node": (
        nodes.restart_node,
        "a node's agent starts anew",
        (NODE, ("--machine", {"action": "store_true", "help": "the whole machine does: its containers are gone"})),
    ),
    "reclaim-node": (
        nodes.reclaim_node,
        "a spot node is drained, then gone",
        (NODE, ("--notice", {"dest": "notice_s", "type": float, "default": 30.0, "metavar": "S"})),
    ),
    "delete-node": (nodes.delete_node, "its Node object is deleted", (NODE,)),
    "cordon": (nodes.cordon_node, "no new pods", (NODE,)),
    "uncordon": (nodes.uncordon_node, "new pods again", (NODE,)),
    "press": (
        nodes.press_node,
        "a node under pressure",
        (
            NODE,
            ("conditions", {"nargs": "*", "metavar": "CONDITION", "help": "MemoryPressure, DiskPressure, PIDPressure"}),
        ),
    ),
    "relieve": (nodes.relieve_node, "no pressure any more", (NODE,)),
    "drop-gpus": (nodes.drop_gpus, "no GPU to give", (NODE,)),
    "restore-gpus": (nodes.restore_gpus, "GPUs again", (NODE,)),
    "refuse-image": (
        pods.refuse_image,
        "a node gets an image no more",
        (NODE, IMAGE, ("--message", {"default": pods.REFUSAL, "metavar": "TEXT", "help": "the registry's words"})),
    ),
    "slow-image": (
        pods.slow_image,
        "a node waits for an image",
        (NODE, IMAGE, ("--delay", {"dest": "delay_s", "type": float, "default": 30.0, "metavar": "S"})),
    ),
    "admit-image": (pods.admit_image, "a node gets an image again", (NODE, IMAGE)),
    "fail-container": (
        pods.fail_container,
        "a container is killed, its end told as ordered",
        (
            NAMESPACE,
            POD,
            ("--container", {"default": "", "metavar": "NAME", "help": "else the first"}),
            ("--exit-code", {"type": int, "metavar": "N"}),
            ("--signal", {"dest": "signum", "type": int, "metavar": "N"}),
            ("--reason", {"default": "Error", "metavar": "WORD", "help": "Error or OOMKilled"}),
            ("--message", {"default": "", "metavar": "TEXT", "help": "termination message, else its own"}),
        ),
    ),
    "fail-pod": (
        pods.fail_pod,
        "a node ends a pod of its own accord",
        (
            NAMESPACE,
            POD,
            ("--reason", {"default": "Evicted", "metavar": "WORD", "help": "Evicted, Terminated or Preempting"}),
            ("--message", {"default": pods.EVICTED, "metavar": "TEXT"}),
        ),
    ),
    "stop": (programs.stop_program, "end a program of the control plane", (PROGRAM,)),
    "start": (programs.start_program, "start it again", (PROGRAM,)),
    "restart": (
        programs.restart_program,
        "end a program of the control plane and start it again",
        (PROGRAM, ("--kill", {"action": "store_true", "help": "as by a crash, without notice"})),
    ),
    "pause": (programs.pause_program, "freeze a program of the control plane", (PROGRAM,)),
    "resume": (programs.resume_program, "let it go on", (PROGRAM,)),
    "fill-quota": (
        access.fill_quota,
        "a namespace may have no more GPUs",
        (NAMESPACE, ("--gpus", {"type": int, "default": 0, "metavar": "N", "help": "than these in all (%(default)s)"})),
    ),
    "free-quota": (access.free_quota, "take that quota away", (NAMESPACE,)),
    "rotate-token": (access.rotate_token, "the operator's token is another one", ()),
    "proxy": (
        _start_proxy,
        "a proxy that fails as its script says; again: follow another script",
        (("--script", {"type": Path, "metavar": "FILE", "help": "JSON, docs/sandbox.md; none: all passes"}),),
    ),
    "cut-proxy": (cut_proxy_streams, "break what streams through the proxy now", ()),
    "stop-proxy": (stop_proxy, "end the proxy", ()),
}


def add_faults(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add the command `fault` with a command for each fault."""
    fault = commands.add_parser("fault", help="have something go wrong, and have it end")
    faults = fault.add_subparsers(dest="fault", required=True, metavar="FAULT")
    for name, (_, text, arguments) in FAULTS.items():
        parser = faults.add_parser(name, parents=[common], help=text)
        for argument, options in arguments:
            parser.add_argument(argument, **options)


def order(sandbox: Sandbox, arguments: argparse.Namespace) -> None:
    """Have the fault of a command line."""
    function, _, described = FAULTS[arguments.fault]
    values = dict(vars(arguments))
    positional, named = [], {}
    for argument, options in described:
        name = options.get("dest", argument.lstrip("-").replace("-", "_"))
        if argument.startswith("-"):
            named[name] = values[name]
        elif options.get("nargs"):
            positional += values[name]
        else:
            positional.append(values[name])
    function(sandbox, *positional, **named)
