"""A training program in ten lines: it finds the number 3, a step at a time, and is there after every interruption."""

import json
import os

from gpu_training.attempt import Attempt

STEP_SECONDS = float(os.environ.get("STEP_SECONDS", "0"))

with Attempt() as attempt:
    saved = attempt.resume()
    weight = json.loads(saved.files["weight.json"].read_bytes()) if saved else 0.0
    for step in attempt.steps(total=200, checkpoint_every=20):
        weight += 0.1 * (3 - weight)
        attempt.should_stop(wait=STEP_SECONDS)  # stands for the work of a GPU
        attempt.step_done(step, loss=(3 - weight) ** 2)
        if attempt.checkpoint_due():
            attempt.save({"weight.json": json.dumps(weight).encode()})
    attempt.trained(metrics={"loss": (3 - weight) ** 2})
