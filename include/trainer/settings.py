"""Arguments and environment of one training, checked before anything is read."""

from __future__ import annotations

import argparse
import difflib
import hashlib
import json
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from gpu_training.contract import ContractError, Environment, Variable, read_environment
from trainer.failures import ConfigurationFailure

TARGETS = ("arr_delay", "dep_delay", "air_time")
DEVICES = ("auto", "cpu", "cuda")
DEVICE_VARIABLE = "TRAINER_DEVICE"
"""Device when no argument names one; the image for GPUs sets it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One training.

    :param data_version: id that the manifest must have.
    :param data_uri: URI of the manifest.
    :param data_digest: content digest that the manifest must have.
    :param target: column that is predicted.
    :param checkpoint_every: rounds between two checkpoints.
    :param round_seconds: a round lasts at least so long.
    :param tracking_patience: seconds for which a silent MLflow is waited for at the end.
    :param device: auto, cpu or cuda.
    :param checkpoint_uri: folder of the lineage's checkpoints; None for none.
    :param fingerprint: what a checkpoint must have been made for.
    :param writer: this process's own folder below `checkpoint_uri`.
    """

    data_version: str
    data_uri: str
    data_digest: str
    target: str
    rounds: int
    learning_rate: float
    max_depth: int
    seed: int
    checkpoint_every: int
    round_seconds: float
    tracking_patience: float
    device: str
    checkpoint_uri: str | None
    fingerprint: str
    writer: str
    tracking_uri: str | None
    run_id: str | None


class _Parser(argparse.ArgumentParser):
    """Raises instead of leaving with 2, which is not a code of the contract."""

    def error(self, message: str) -> NoReturn:
        raise ConfigurationFailure(f"{message}; see python -m trainer --help")


def parse_settings(arguments: Sequence[str], environ: Mapping[str, str]) -> Settings:
    """Give the settings in a command line and an environment.

    :raises ConfigurationFailure: unknown argument, value out of bounds, variable absent or contradicting an argument.
    """
    parser = _build_parser(environ)
    known, unknown = parser.parse_known_args(arguments)
    if unknown:
        raise ConfigurationFailure(_unknown_argument(unknown[0], parser))
    values = vars(known)
    try:
        environment = read_environment(environ)
        digest = environment.require(Variable.DATA_DIGEST)
        data_uri = environment.require(Variable.DATA_URI)
    except ContractError as error:
        raise ConfigurationFailure(str(error)) from error
    _check_data_version(values["data_version"], environment.data_version)
    _check_tracking(environment)
    return Settings(
        data_uri=data_uri,
        data_digest=digest,
        checkpoint_uri=environment.checkpoint_uri,
        fingerprint=environment.fingerprint or _own_fingerprint(values, digest),
        writer=environment.pod_uid or f"no-pod-{os.urandom(6).hex()}",
        tracking_uri=environment.mlflow_tracking_uri,
        run_id=environment.mlflow_run_id,
        **values,
    )


def _check_data_version(named: str | None, stated: str | None) -> None:
    if named is None:
        raise ConfigurationFailure("--data-version is absent, and DATA_VERSION too: name the data version to train on")
    if stated and stated != named:
        raise ConfigurationFailure(
            f"--data-version={named}: the environment has DATA_VERSION={stated}; name one of them"
        )


def _check_tracking(environment: Environment) -> None:
    uri, run_id = environment.mlflow_tracking_uri, environment.mlflow_run_id
    if bool(uri) != bool(run_id):
        raise ConfigurationFailure(
            f"MLFLOW_TRACKING_URI={uri or ''!r} and MLFLOW_RUN_ID={run_id or ''!r}: both or none are expected; the "
            "operator finds or creates the run"
        )


def _build_parser(environ: Mapping[str, str]) -> _Parser:
    parser = _Parser(
        prog="python -m trainer",
        description="Train an XGBoost regression on one data version of the flights.",
        allow_abbrev=False,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("--data-version", default=environ.get(Variable.DATA_VERSION) or None, help="id of the data version")
    add("--target", choices=TARGETS, default="arr_delay", help="what to predict, in minutes, before departure")
    add("--rounds", type=_whole(1, 100_000), default=120, help="boosting rounds (trees)")
    add("--learning-rate", type=_number(0, 1, above=True), default=0.1, help="shrinkage of each tree, in (0, 1]")
    add("--max-depth", type=_whole(1, 16), default=5, help="largest depth of a tree")
    add("--seed", type=_whole(0, 2**31 - 1), default=13, help="seed of the rows that each round draws")
    add("--checkpoint-every", type=_whole(1, 100_000), default=20, help="rounds between two checkpoints")
    add("--round-seconds", type=_number(0, 3600), default=0.0, help="least duration of a round, for demonstrations")
    add("--tracking-patience", type=_number(0, 86_400), default=300.0, help="seconds to wait for MLflow at the end")
    add(
        "--device",
        type=_one_of(DEVICES),
        default=environ.get(DEVICE_VARIABLE) or "auto",
        help=f"auto, cpu or cuda; from {DEVICE_VARIABLE} when absent",
    )
    return parser


def _whole(low: int, high: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        value = int(text) if re.fullmatch(r"[+-]?[0-9]{1,12}", text) else None
        if value is None or not low <= value <= high:
            raise argparse.ArgumentTypeError(f"{text!r}: a whole number from {low} to {high} is expected")
        return value

    return parse


def _number(low: float, high: float, *, above: bool = False) -> Callable[[str], float]:
    bounds = f"above {low:g} and at most {high:g}" if above else f"from {low:g} to {high:g}"

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not low <= value <= high or (above and value == low):
            raise argparse.ArgumentTypeError(f"{text!r}: a number {bounds} is expected")
        return value

    return parse


def _one_of(allowed: Sequence[str]) -> Callable[[str], str]:
    # A type and not `choices`: argparse checks the type of a default, and so of TRAINER_DEVICE, but not its choice.
    def parse(text: str) -> str:
        if text not in allowed:
            raise argparse.ArgumentTypeError(f"{text!r}: one of {', '.join(allowed)} is expected")
        return text

    return parse


def _unknown_argument(argument: str, parser: argparse.ArgumentParser) -> str:
    name = argument.split("=", 1)[0]
    options = [option for action in parser._actions for option in action.option_strings]
    near = difflib.get_close_matches(name, options, n=1)
    meant = f"; did you mean {near[0]}?" if near else ""
    return f"{name}: no such argument{meant}; see python -m trainer --help"


def _own_fingerprint(values: Mapping[str, Any], digest: str) -> str:
    """Tell trainings apart where no operator does: the same data and the same model."""
    names = ("target", "rounds", "learning_rate", "max_depth", "seed")
    work = json.dumps([digest, *(values[name] for name in names)])
    return f"own:{hashlib.sha256(work.encode()).hexdigest()}"
