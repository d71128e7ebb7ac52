"""Run the test tiers that this machine can run and say, a line a tier, what ran or why it could not.

`python3 tests/run_tiers.py [tier …]`: exits 0 only when nothing failed and every tier that was asked for, or that this
machine can run, ran at least one test. With CI=true a tier that can not run is a failure, too.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REPORTS = ROOT / "build" / "tiers"


@dataclass(frozen=True)
class Group:
    """Tiers that share one pytest process: Airflow's imports are too slow to pay them twice."""

    environment: str
    tiers: tuple[str, ...]
    paths: tuple[str, ...]
    ignored: tuple[str, ...] = ()


GROUPS = (
    Group(".venv-core", ("core",), ("tests/unit/core",)),
    Group(".venv-trainer", ("trainer",), ("tests/trainer",)),
    Group(
        ".venv", ("unit", "dags", "cluster", "containerd", "stack"), ("tests",), ("tests/unit/core", "tests/trainer")
    ),
)

PARTS: dict[str, tuple[str, ...]] = {
    "cluster": ("kwok", "kueue"),
    "containerd": ("containerd",),
    "stack": (),
    "stock": (),
}
"""What of the sandbox a tier needs besides its control plane, `python -m sandbox build`."""


def obstacle(tier: str) -> str | None:
    """Say why this machine can not run a tier; None when it can."""
    environment = next(group.environment for group in GROUPS if tier in group.tiers)
    if not (ROOT / environment / "bin" / "python").exists():
        return f"{environment} is missing: run make install"
    if tier in ("cluster", "containerd", "stack") and (sys.platform, platform.machine()) not in (
        ("linux", "x86_64"),
        ("linux", "aarch64"),
    ):
        return f"the sandbox runs on Linux, x86_64 or arm64; this is {sys.platform} {platform.machine()}"
    if tier == "containerd":
        return containers_obstacle(ROOT / environment / "bin" / "python")
    return None


def containers_obstacle(python: Path) -> str | None:
    """Say why this machine can have no node with real containers; None when it can."""
    question = "from sandbox.containerd.node import ContainerdNode; print(ContainerdNode().obstacle() or '')"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "include")}
    asked = subprocess.run([python, "-c", question], env=environment, capture_output=True, text=True, check=False)
    return (asked.stdout.strip() if asked.returncode == 0 else asked.stderr.strip()) or None


def prepare(group: Group, tiers: list[str]) -> bool:
    """Build what the tiers need of the sandbox: a test's time limit is too short for that. Tell whether it is there."""
    parts = [PARTS[tier] for tier in tiers if tier in PARTS]
    if not parts:
        return True
    command = [str(ROOT / group.environment / "bin" / "python"), "-m", "sandbox", "build"]
    return (
        subprocess.run([*command, *(name for names in parts for name in names)], cwd=ROOT, check=False).returncode == 0
    )


def run(group: Group, tiers: list[str]) -> tuple[int, dict[str, dict[str, float]]]:
    report = REPORTS / f"{tiers[0]}.json"
    report.unlink(missing_ok=True)
    command = [str(ROOT / group.environment / "bin" / "python"), "-m", "pytest", "-q", "-m", " or ".join(tiers)]
    command += [*(f"--ignore={path}" for path in group.ignored), *group.paths]
    code = subprocess.run(command, cwd=ROOT, env={**os.environ, "TIER_REPORT": str(report)}, check=False).returncode
    return code, json.loads(report.read_text()) if report.exists() else {}


def main() -> int:
    known = [tier for group in GROUPS for tier in group.tiers]
    asked = sys.argv[1:] or known
    if unknown := [tier for tier in asked if tier not in known]:
        print(f"tier {unknown[0]!r} is unknown; known are: {', '.join(known)}", file=sys.stderr)
        return 2
    strict = bool(sys.argv[1:]) or os.environ.get("CI") == "true"
    lines, failed, passed, failures = [], False, 0, 0
    for group in GROUPS:
        tiers = [tier for tier in group.tiers if tier in asked]
        obstacles = {tier: why for tier in tiers if (why := obstacle(tier))}
        able = [tier for tier in tiers if tier not in obstacles]
        started = time.monotonic()
        failed |= not prepare(group, able)
        code, counts = run(group, able) if able else (0, {})
        elapsed = time.monotonic() - started
        failed |= code != 0
        for tier in tiers:
            count = counts.get(tier, {})
            ran = int(count.get("passed", 0) + count.get("failed", 0))
            passed, failures = passed + int(count.get("passed", 0)), failures + int(count.get("failed", 0))
            if why := obstacles.get(tier):
                failed |= strict
                lines.append(f"{tier:<10} not run: {why}")
                continue
            failed |= ran == 0
            said = f"{ran} ran, {int(count.get('failed', 0))} failed, {int(count.get('skipped', 0))} skipped"
            lines.append(
                f"{tier:<10} {said}, {count.get('seconds', 0)} s of {elapsed:.0f} s"
                if ran
                else f"{tier:<10} RAN NO TEST"
            )
    print("\n".join(["", *lines, "", f"tests: {passed} passed, {failures} failed"]))
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
