"""Arguments and variables are checked before anything is read; messages name field, value and what is allowed."""

from __future__ import annotations

import pytest

from trainer.failures import ConfigurationFailure
from trainer.settings import parse_settings

pytestmark = pytest.mark.trainer

DIGEST = "sha256:" + "0" * 64
ENVIRONMENT = {
    "GPU_TRAINING_DATA_URI": "s3://flights/versions/2013-03-04/manifest.json",
    "GPU_TRAINING_DATA_DIGEST": DIGEST,
    "DATA_VERSION": "2013-03-04",
}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rounds=-3"], r"--rounds: '-3': a whole number from 1 to 100000 is expected"),
        (["--rounds", "-3"], r"--rounds: '-3': a whole number from 1 to 100000"),
        (["--rounds=0"], r"--rounds: '0'"),
        (["--rounds=1e3"], r"--rounds: '1e3'"),
        (["--rounds=" + "9" * 5000], r"--rounds: '9"),
        (["--rounds"], r"--rounds: expected one argument"),
        (["--learning-rate=0"], r"--learning-rate: '0': a number above 0 and at most 1"),
        (["--learning-rate=nan"], r"--learning-rate: 'nan'"),
        (["--learning-rate=2"], r"--learning-rate: '2'"),
        (["--learning-rate=fast"], r"--learning-rate: 'fast'"),
        (["--max-depth=17"], r"--max-depth: '17': a whole number from 1 to 16"),
        (["--seed=-1"], r"--seed: '-1'"),
        (["--checkpoint-every=0"], r"--checkpoint-every: '0'"),
        (["--round-seconds=-1"], r"--round-seconds: '-1': a number from 0 to 3600"),
        (["--round-seconds=inf"], r"--round-seconds: 'inf'"),
        (["--tracking-patience=-1"], r"--tracking-patience: '-1'"),
        (["--target=weather"], r"--target: invalid choice: 'weather'"),
        (["--device=tpu"], r"--device: 'tpu': one of auto, cpu, cuda"),
        (["--rouds=3"], r"--rouds: no such argument; did you mean --rounds\?"),
        (["--roun=3"], r"--roun: no such argument; did you mean --rounds\?"),
        (["12"], r"12: no such argument"),
        (["--data-version=2013-03-11"], r"--data-version=2013-03-11: the environment has DATA_VERSION=2013-03-04"),
    ],
)
def test_bad_argument_is_named(arguments: list[str], message: str) -> None:
    with pytest.raises(ConfigurationFailure, match=message):
        parse_settings(arguments, ENVIRONMENT)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"DATA_VERSION": ""}, "--data-version is absent, and DATA_VERSION too"),
        ({"GPU_TRAINING_DATA_URI": ""}, "GPU_TRAINING_DATA_URI is absent: the operator sets it"),
        ({"GPU_TRAINING_DATA_DIGEST": ""}, "GPU_TRAINING_DATA_DIGEST is absent"),
        ({"GPU_TRAINING_DATA_DIGEST": "md5:1"}, "GPU_TRAINING_DATA_DIGEST='md5:1': sha256: and 64"),
        ({"GPU_TRAINING_POD_UID": "../other"}, "GPU_TRAINING_POD_UID='../other': the name of a folder"),
        ({"MLFLOW_TRACKING_URI": "http://mlflow"}, "MLFLOW_RUN_ID='': both or none"),
        ({"MLFLOW_RUN_ID": "1"}, "MLFLOW_TRACKING_URI='' and MLFLOW_RUN_ID='1'"),
        ({"TRAINER_DEVICE": "tpu"}, "--device: 'tpu'"),
    ],
)
def test_bad_variable_is_named(changes: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationFailure, match=message):
        parse_settings([], {**ENVIRONMENT, **changes})


def test_device_comes_from_the_argument_then_the_variable_then_by_itself() -> None:
    assert parse_settings([], ENVIRONMENT).device == "auto"
    assert parse_settings([], {**ENVIRONMENT, "TRAINER_DEVICE": "cuda"}).device == "cuda"
    assert parse_settings(["--device=cpu"], {**ENVIRONMENT, "TRAINER_DEVICE": "cuda"}).device == "cpu"


def test_without_an_operator_the_fingerprint_tells_trainings_apart() -> None:
    fingerprints = [
        parse_settings(arguments, ENVIRONMENT).fingerprint
        for arguments in ([], ["--rounds=121"], ["--target=air_time"], ["--seed=1"], ["--max-depth=4"])
    ]
    assert len(set(fingerprints)) == len(fingerprints)
    assert parse_settings(["--round-seconds=1", "--device=cpu"], ENVIRONMENT).fingerprint == fingerprints[0]
    assert parse_settings([], {**ENVIRONMENT, "GPU_TRAINING_FINGERPRINT": "f"}).fingerprint == "f"
