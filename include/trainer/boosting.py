"""Gradient boosting one round at a time, so that a training can stop and go on between any two rounds."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping

import numpy as np
import pandas as pd
import xgboost

from trainer.failures import ConfigurationFailure, LossFailure, TrainingFailure
from trainer.flights import Part, Split
from trainer.settings import Settings

TRAIN_LOSS, HELD_OUT_LOSS = "train_rmse", "held_out_rmse"
FIXED: Mapping[str, object] = {"objective": "reg:squarederror", "tree_method": "hist", "min_child_weight": 20}
ROW_SHARE = 0.8
"""Share of the rows that a round learns from, drawn anew each round."""

_METRIC = re.compile(r"\t(train|held_out)-rmse:(\S+)")


class Boosting:
    """A booster and the number of its rounds.

    :param model: UBJSON of a booster to go on from, with `step` rounds; None to begin.
    """

    def __init__(self, split: Split, settings: Settings, *, model: bytes | None, step: int) -> None:
        self.step = step
        self._seed = settings.seed
        self._rows = len(split.train.target)
        self._train = _matrix(split.train)
        held_out = _matrix(split.held_out, like=self._train)
        self._evaluated = [(self._train, "train"), (held_out, "held_out")]
        self.booster = xgboost.Booster(
            _parameters(settings),
            [self._train, held_out],
            model_file=bytearray(model) if model is not None else None,
        )
        self.device = self._read_device()
        if settings.device == "cuda" and self.device != "cuda":
            raise _no_gpu()

    def _read_device(self) -> str:
        """Ask the booster, which falls back to the processor by itself when it finds no GPU."""
        device: str = json.loads(self.booster.save_config())["learner"]["generic_param"]["device"]
        return "cuda" if device.startswith("cuda") else device

    def run_round(self) -> dict[str, float]:
        """Do one round; gives the losses after it.

        :raises LossFailure: a loss is not finite.
        """
        self._train.set_weight(self._draw_rows())
        self.booster.update(self._train, self.step)
        self._train.set_weight(np.ones(self._rows, dtype=np.float32))
        text = self.booster.eval_set(self._evaluated, self.step)
        self.step += 1
        losses = {f"{part}_rmse": float(value) for part, value in _METRIC.findall(text)}
        if set(losses) != {TRAIN_LOSS, HELD_OUT_LOSS}:
            raise TrainingFailure(f"XGBoost reports {text!r}: the loss of both parts is expected")
        for name, loss in losses.items():
            if not np.isfinite(loss):
                raise LossFailure(f"{name} is {loss} after step {self.step}: lower --learning-rate, or check the data")
        return losses

    def _draw_rows(self) -> np.ndarray:
        """Give the weight of each row in the next round: 1 or 0, by seed and round alone.

        XGBoost's own sampling goes on from a state that no model file holds: a resumed training would differ.
        """
        generator = np.random.default_rng([self._seed, self.step])
        return (generator.random(self._rows) < ROW_SHARE).astype(np.float32)

    def dump(self) -> bytes:
        return bytes(self.booster.save_raw("ubj"))

    def predict(self, features: pd.DataFrame) -> np.ndarray:
        prediction: np.ndarray = self.booster.predict(xgboost.DMatrix(features, nthread=_threads()))
        return prediction


def evaluate(boosting: Boosting, split: Split) -> dict[str, float]:
    """Give metrics over the days held out; `baseline_rmse` is the error of always answering the training's mean."""
    actual = split.held_out.target.astype(np.float64)
    errors = boosting.predict(split.held_out.features) - actual
    variance = float(np.mean((actual - actual.mean()) ** 2))
    metrics = {
        "rmse": float(np.sqrt(np.mean(errors**2))),
        "mae": float(np.mean(np.abs(errors))),
        "baseline_rmse": _baseline(split.train, actual),
    }
    if variance > 0:
        metrics["r2"] = 1 - float(np.mean(errors**2)) / variance
    return metrics


def _baseline(train: Part, actual: np.ndarray) -> float:
    return float(np.sqrt(np.mean((actual - train.target.astype(np.float64).mean()) ** 2)))


def _parameters(settings: Settings) -> dict[str, object]:
    has_cuda = bool(xgboost.build_info().get("USE_CUDA"))
    device = settings.device if settings.device != "auto" else ("cuda" if has_cuda else "cpu")
    return {
        **FIXED,
        "learning_rate": settings.learning_rate,
        "max_depth": settings.max_depth,
        "device": device,
        "nthread": _threads(),
    }


def _matrix(part: Part, *, like: xgboost.DMatrix | None = None) -> xgboost.DMatrix:
    # Quantiles are taken here, while every row weighs the same, and so are the same in every attempt.
    return xgboost.QuantileDMatrix(part.features, part.target, ref=like, nthread=_threads())


def _threads() -> int:
    """Threads that OMP_NUM_THREADS names; 0 lets XGBoost heed the container's CPU quota and affinity."""
    stated = os.environ.get("OMP_NUM_THREADS", "")
    return int(stated) if re.fullmatch(r"[1-9][0-9]{0,3}", stated) else 0


def _no_gpu() -> TrainingFailure:
    if not xgboost.build_info().get("USE_CUDA"):
        return ConfigurationFailure(
            "--device=cuda: this XGBoost is built without CUDA: use the image for GPUs, or --device=auto or cpu"
        )
    # Not a matter of configuration: a driver or device plugin that failed on this node may be well on another.
    return TrainingFailure("--device=cuda: XGBoost found no GPU here and would compute on the processor")
