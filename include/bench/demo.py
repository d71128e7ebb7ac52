"""`make demo ONCE=1` as a whole process, with binaries cached: seconds in all and by step.

`python -m bench.demo`: exits 1 while the goal is missed or the demo fails.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time

GOAL_S = 120.0


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        started = time.monotonic()
        command = [sys.executable, "-m", "stack.demo", "--once", "--state", f"{folder}/state"]
        demo = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        seconds = time.monotonic() - started
    if demo.returncode != 0:
        print(f"the demo failed with exit status {demo.returncode}", file=sys.stderr)
        return 1
    steps = json.loads(demo.stdout.splitlines()[-1])["seconds"]
    print("demo: " + ", ".join(f"{name} {value} s" for name, value in steps.items()))
    met = seconds <= GOAL_S
    print(f"demo: {seconds:.1f} s in all; goal: at most {GOAL_S:.0f} s: {'met' if met else 'MISSED'}")
    return 0 if met else 1


if __name__ == "__main__":
    raise SystemExit(main())
