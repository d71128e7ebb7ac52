"""`python -m sandbox.containerd digest NAME`: the image reference that nodes of kind `containerd` have, by digest."""

from __future__ import annotations

import argparse
import sys
from contextlib import closing

from sandbox.containerd.store import Store
from sandbox.errors import SandboxError
from sandbox.progress import Display


def main() -> int:
    """Obey the command line; 0 done, 1 not, with one message."""
    parser = argparse.ArgumentParser(prog="python -m sandbox.containerd", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    digest = commands.add_parser("digest", help="print name@sha256:... of an image, made first if need be")
    digest.add_argument("name")
    arguments = parser.parse_args()
    try:
        with closing(Display()) as display:
            store = Store.prepare(display)
        print(store.reference(arguments.name))
    except SandboxError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
