"""`python -m sandbox up|down|status|build|pin|fault`: the sandbox by hand."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from sandbox import kueue, kwok
from sandbox.binaries import KUBECTL, KUBERNETES, control_plane, find_binaries
from sandbox.cluster import DEFAULT_FOLDER, NodeRequest, Sandbox, clean
from sandbox.errors import SandboxError
from sandbox.fault_commands import add_faults, order
from sandbox.lifecycle import SHORT, USUAL
from sandbox.nodes import KINDS
from sandbox.pinning import pin
from sandbox.plan import choose_version
from sandbox.progress import Display

PARTS: dict[str, Callable[[str, Callable[[str], None]], object]] = {
    "kwok": lambda _, progress: find_binaries(progress, sources=(kwok.KWOK,)),
    "kueue": lambda _, progress: find_binaries(progress, sources=(kueue.KUEUE,)),
    "kubectl": lambda _, progress: find_binaries(progress, sources=(KUBECTL,)),
    **{name: kind.prepare for name, kind in KINDS.items() if name != "process"},
}
"""What can be made besides a control plane: told its version of Kubernetes and where to tell how it goes."""


def main() -> int:
    """Obey the command line; 0 done, 1 not, with one message."""
    parser = argparse.ArgumentParser(prog="python -m sandbox", description=__doc__)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--state", type=Path, default=DEFAULT_FOLDER, metavar="DIR", help="state folder (%(default)s)")
    commands = parser.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up", parents=[common], help="start it, or say where it runs")
    up.add_argument("--nodes", type=int, default=1, metavar="N", help="GPU nodes, gpu-1 to gpu-N (%(default)s)")
    up.add_argument("--gpus", type=int, default=1, metavar="N", help="GPUs that each of them counts (%(default)s)")
    up.add_argument("--kind", choices=tuple(KINDS), default="process", help="kind of those nodes (%(default)s)")
    up.add_argument("--kubernetes", metavar="X.Y", help=f"minor version, else $K8S_VERSION; {', '.join(KUBERNETES)}")
    up.add_argument(
        "--kwok-nodes", type=int, default=0, metavar="N", help="nodes of kind kwok, kwok-1 to kwok-N, besides"
    )
    up.add_argument(
        "--kwok-gpus", type=int, default=8, metavar="N", help="GPUs that each of those counts (%(default)s)"
    )
    up.add_argument("--kueue", action="store_true", help="with Kueue's controller, for queues of Jobs")
    up.add_argument("--short", action="store_true", help="notice lost nodes in seconds, not in minutes")
    commands.add_parser("down", parents=[common], help="end it and remove all of it")
    status = commands.add_parser("status", parents=[common], help="versions, ports, processes, nodes, pods, memory")
    status.add_argument("--json", action="store_true", help="as one JSON object")
    build = commands.add_parser("build", help="build into the cache what `up` would build first")
    build.add_argument("parts", nargs="*", metavar="PART", help=f"besides the control plane: {', '.join(PARTS)}")
    build.add_argument("--kubernetes", metavar="X.Y", help="as of `up`")
    pinning = commands.add_parser("pin", help="have another Kubernetes, or a newer patch release, to build")
    pinning.add_argument("minor", metavar="X.Y", help="minor version")
    add_faults(commands, common)
    arguments = parser.parse_args()
    try:
        order_of = {"up": _up, "down": _down, "status": _status, "build": _build, "pin": _pin, "fault": _fault}
        return int(order_of[arguments.command](arguments))
    except SandboxError as error:
        print(error, file=sys.stderr)
        return 1


def _up(arguments: argparse.Namespace) -> int:
    for name in ("nodes", "kwok_nodes"):
        if (number := getattr(arguments, name)) < 0:
            raise SandboxError(f"--{name.replace('_', '-')} is {number}: give a whole number from 0 up")
    names = [f"gpu-{number}" for number in range(1, arguments.nodes + 1)]
    nodes = [NodeRequest(name=name, gpus=arguments.gpus, kind=arguments.kind) for name in names]
    lifecycle = SHORT if arguments.short else USUAL
    sandbox = Sandbox.up(arguments.state, nodes=nodes, lifecycle=lifecycle, kubernetes=arguments.kubernetes)
    if arguments.kwok_nodes:
        kwok.add_nodes(sandbox, arguments.kwok_nodes, gpus=arguments.kwok_gpus)
    if arguments.kueue:
        kueue.install(sandbox)
    print(sandbox.status().describe())
    print(f"export KUBECONFIG={sandbox.kubeconfig}")
    return 0


def _build(arguments: argparse.Namespace) -> int:
    if unknown := set(arguments.parts) - PARTS.keys():
        raise SandboxError(f"there is no {min(unknown)!r} to build: known are {', '.join(PARTS)}")
    version = choose_version(arguments.kubernetes, None, DEFAULT_FOLDER)
    with closing(Display()) as display:
        find_binaries(display, sources=control_plane(version))
        for part in arguments.parts:
            PARTS[part](version, display)
    return 0


def _down(arguments: argparse.Namespace) -> int:
    clean(arguments.state)
    return 0


def _pin(arguments: argparse.Namespace) -> int:
    with closing(Display()) as display:
        version = pin(arguments.minor, display)
    print(f"{version}; K8S_VERSION={arguments.minor} make sandbox-up builds and starts it")
    return 0


def _fault(arguments: argparse.Namespace) -> int:
    sandbox = Sandbox.attach(arguments.state)
    if sandbox is None:
        raise SandboxError(_nothing_in(arguments.state))
    order(sandbox, arguments)
    return 0


def _nothing_in(folder: Path) -> str:
    return f"no sandbox runs in {folder}: python -m sandbox up starts one"


def _status(arguments: argparse.Namespace) -> int:
    sandbox = Sandbox.attach(arguments.state)
    if sandbox is None:
        print("{}" if arguments.json else _nothing_in(arguments.state))
        return 1
    status = sandbox.status()
    print(json.dumps(status.to_document()) if arguments.json else status.describe())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
