"""A thousand lines stand in the task log once each and in order, though streams break and the triggerer dies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.stack.log_scene import LogRun, LogScene
from tests.stack.trainings import wait_until

from stack.lifecycle import Stack

pytestmark = [pytest.mark.stack, pytest.mark.timeout(900)]

LINES = 1000
SECRETS = {"cluster": "4f9c-password-of-the-cluster", "registry": "81d0-password-of-the-registry"}
SAY = f"""
import json, os, pathlib, time
folder = pathlib.Path(__file__).parent
for n in range(1, {LINES + 1}):
    print("line", n, "of the log", flush=True)
    if n % 100 == 0:
        print('GPU_TRAINING_PROGRESS {{"v":1,"step":%d,"total":{LINES}}}' % n, flush=True)
    # It goes on saying something while the test kills, and while it waits for somebody who goes on.
    waits_for = "ended" if 250 <= n < 600 else "goes-on" if 700 <= n < 950 else ""
    time.sleep(0.005 if not waits_for or (folder / waits_for).exists() else 0.3)
print("secrets {SECRETS["cluster"]} and {SECRETS["registry"]} are said", flush=True)
body = {{"v": 1, "status": "trained", "metrics": {{"mae": 1.5}}, "device": "cpu"}}
body["model_uri"] = "runs:/%s/model" % os.environ["MLFLOW_RUN_ID"]
body["mlflow_run_id"] = os.environ["MLFLOW_RUN_ID"]
open("/dev/termination-log", "w").write(json.dumps(body))
"""


@pytest.fixture
def scene(stack: Stack, tmp_path: Path) -> Iterator[LogScene]:
    with LogScene.on(stack, tmp_path) as scene:
        yield scene


def assert_each_line_once(run: LogRun) -> None:
    wait_until(lambda: run.has_ended, "the run has ended")
    said = [str(record["event"]) for record in run.records()]
    assert run.state == "success", "\n".join(said[-50:])
    lines = [each for each in said if each.endswith(" of the log")]
    assert lines == [f"line {n} of the log" for n in range(1, LINES + 1)]
    assert not [each for each in said if any(secret in each for secret in SECRETS.values())]
    assert "secrets *** and *** are said" in said


@pytest.mark.case("C061")
@pytest.mark.case("C064")
@pytest.mark.parametrize("way", ["SIGKILL", "SIGTERM"])
def test_a_thousand_lines_once_each_though_the_stream_is_cut_and_the_triggerer_ends_in_the_middle(
    scene: LogScene, tmp_path: Path, way: str
) -> None:
    triggerer = scene.stack.service("triggerer-1")
    with scene.connections(**SECRETS) as (params, proxy):
        run = scene.begin(SAY, params)
        try:
            wait_until(lambda: run.lines("line 251 of the log"), "a part of the log is told")
            wait_until(lambda: proxy.asked("/log?") > 2, "the stream was cut")
            if way == "SIGKILL":
                triggerer.kill()
            else:
                triggerer.stop()
            assert len(run.lines(" of the log")) < 600
            (tmp_path / "ended").touch()
            asked = proxy.asked("/log?")
            triggerer.restart()
            wait_until(lambda: proxy.asked("/log?") > asked + 2, "the stream was cut again")
            (tmp_path / "goes-on").touch()
            assert_each_line_once(run)
        finally:
            run.give_up()
