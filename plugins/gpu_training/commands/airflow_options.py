"""The options of every command that speaks with an Airflow: its address, and who asks."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from gpu_training.airflow_client import AirflowClient
from gpu_training.commands.exits import RefusedError

URL_VARIABLE = "GPU_TRAINING_AIRFLOW_URL"
TOKEN_VARIABLE = "GPU_TRAINING_AIRFLOW_TOKEN"  # noqa: S105 - the name of a variable


def add_airflow_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options that :func:`connect` reads."""
    parser.add_argument("--airflow-url", default=os.environ.get(URL_VARIABLE), help=f"default: ${URL_VARIABLE}")
    parser.add_argument("--username", help=f"log in as; without it the token in ${TOKEN_VARIABLE} is used")
    parser.add_argument(
        "--password-file",
        type=Path,
        help="file with the password; or with JSON of user names and passwords, as Airflow's simple auth manager keeps",
    )


def connect(options: argparse.Namespace) -> AirflowClient:
    """Give a client for the address and the login of the command line or the environment."""
    if not options.airflow_url:
        raise RefusedError(f"airflow-url is absent: give --airflow-url or set {URL_VARIABLE}")
    if options.username is None:
        token = os.environ.get(TOKEN_VARIABLE)
        if not token:
            raise RefusedError(f"no login: give --username and --password-file, or set {TOKEN_VARIABLE}")
        return AirflowClient(options.airflow_url, token=token)
    if options.password_file is None:
        raise RefusedError(f"password-file is absent: --username {options.username} needs one")
    password = read_password(options.password_file, options.username)
    return AirflowClient(options.airflow_url, username=options.username, password=password)


def read_password(file: Path, username: str) -> str:
    """Read a user's password from a file: the whole text, or the user's entry of a JSON object."""
    try:
        text = file.read_text().strip()
    except OSError as error:
        raise RefusedError(f"password-file={file}: can not be read: {error.strerror}") from error
    try:
        passwords = json.loads(text)
    except ValueError:
        passwords = None
    if isinstance(passwords, dict):
        if username not in passwords:
            raise RefusedError(f"password-file={file}: holds no password of {username}")
        return str(passwords[username])
    if not text:
        raise RefusedError(f"password-file={file}: is empty")
    return text
