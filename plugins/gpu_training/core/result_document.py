"""One text that should be a result document -> the result, or what is wrong with it and what to do.

The text is a pod's termination message, or the result line of its log. Of both the same is asked: the schema of
:mod:`gpu_training.contract`, and that it is this pod's, of the data and the MLflow run that the Job was given.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gpu_training.contract import (
    RESULT_LIMIT_BYTES,
    SCHEMA_VERSION,
    ContractError,
    Result,
    ResultStatus,
    Variable,
    parse_result,
)
from gpu_training.core.program_words import words_of
from gpu_training.core.verdict import Category

MESSAGE_LIMIT_BYTES: Final = 4096
"""Of what a container writes, the kubelet keeps the last bytes."""

POD_LIMIT_BYTES: Final = 12_288
"""All containers of a pod share this: of what was kept, each has the first 12288 // (init + containers) bytes."""

_START: Final = 60
"""Characters of a text that is no document that are shown."""

_WRITE_IT: Final = (
    "the training program has to write its result document (contract.render_result) to the file that "
    f"{Variable.TERMINATION_LOG} names, else /dev/termination-log, before it exits with 0"
)
_SHORTEN_IT: Final = (
    f"leave a document of at most {RESULT_LIMIT_BYTES} bytes: contract.render_result refuses a longer one while the "
    "program can still leave metrics out; what is long belongs into the MLflow run"
)
_FEWER_CONTAINERS: Final = f"; or give the pod fewer containers, which share {POD_LIMIT_BYTES} bytes"
_ONE_RELEASE: Final = (
    "the training image keeps to a newer contract than this release of gpu-training: upgrade the release, or build the "
    "image with its contract.py"
)
_OWN_FILE: Final = (
    f"each pod has to write its own result, with its own {Variable.POD_UID}: look for a file that pods share, or that "
    "is copied from an earlier one"
)
_SIGN_IT: Final = f"the training program has to give pod_uid in its result, as {Variable.POD_UID} names it"
_GIVEN_RUN: Final = f"the training program has to go on in the run that {Variable.MLFLOW_RUN_ID} names"
_GIVEN_DATA: Final = "the training program has to read the data version that it is given"
_OTHER_CODE: Final = "the training program has to exit with another code than 0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What the Job was given; "" where it does not say."""

    data_version: str = ""
    data_digest: str = ""
    mlflow_run_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flaw:
    """Why a text is no result.

    :param said: what was found, and what is allowed.
    :param remedy: what the program's owner does.
    """

    category: Category
    said: str
    remedy: str


def read_document(text: str, given: Given, *, pod_uid: str = "", containers: int | None = None) -> Result | Flaw:
    """Give the result in a text, or what is wrong with it. Total: any text gives one of the two.

    :param pod_uid: of the pod whose text it is; "" where it is not known.
    :param containers: how many containers of the pod share the room for termination messages, init containers too;
        None for a line of the log.
    """
    if not text.strip():
        blank = f" but {len(text)} characters of white space" if text else ""
        said = f"result document is absent: the training program left no termination message{blank}"
        return Flaw(category=Category.RESULT_MISSING, said=said, remedy=_WRITE_IT)
    if containers is not None and (cut := _cut(text, containers)) is not None:
        return cut
    try:
        result = parse_result(text)
    except ContractError as error:
        return _breach(text, str(error))
    return next(_contradictions(result, given, pod_uid, is_line=containers is None), result)


def _cut(text: str, containers: int) -> Flaw | None:
    """Give the flaw of a message of which Kubernetes kept a part: one as long as the room that there was, which is no
    JSON. A byte that is not part of UTF-8, as at a cut, has become a character of three bytes."""
    room = min(MESSAGE_LIMIT_BYTES, POD_LIMIT_BYTES // max(1, containers))
    size = _size(text)
    if not size - 2 * text.count("\N{REPLACEMENT CHARACTER}") <= room <= size or _value_of(text) is not _NO_JSON:
        return None
    is_short = room < MESSAGE_LIMIT_BYTES
    if text.lstrip().startswith("{"):
        missing = "the end is missing" if is_short else "a part is missing"
    else:
        missing = "the beginning is missing" + (", and maybe the end" if is_short else "")
    shared = f", where {containers} containers share {POD_LIMIT_BYTES}" if is_short else ""
    return Flaw(
        category=Category.RESULT_INVALID,
        said=f"of the result document {missing}: Kubernetes kept {room} bytes of the termination message{shared}, and "
        f"at most {RESULT_LIMIT_BYTES} are allowed",
        remedy=_SHORTEN_IT + (_FEWER_CONTAINERS if is_short else ""),
    )


def _breach(text: str, said: str) -> Flaw:
    """Give the flaw of a text that breaks the contract."""
    value = _value_of(text)
    remedy = _WRITE_IT
    if _size(text) > RESULT_LIMIT_BYTES:
        remedy = _SHORTEN_IT
    elif isinstance(value, dict) and _is_newer(value.get("v")):
        remedy = _ONE_RELEASE
    elif not isinstance(value, dict):
        said = f"{said}; it begins with {words_of(text, longest=_START)!r}"
    return Flaw(category=Category.RESULT_INVALID, said=words_of(said), remedy=remedy)


def _contradictions(result: Result, given: Given, pod_uid: str, *, is_line: bool) -> Iterator[Flaw]:
    """Give what makes a valid document none of this pod's success."""
    if pod_uid and result.pod_uid not in (None, pod_uid):
        said = f"the result is another pod's: it says pod_uid={result.pod_uid!r}, and this pod's is {pod_uid!r}"
        yield _flaw(Category.RESULT_INVALID, said, _OWN_FILE)
    if result.status is not ResultStatus.TRAINED:
        said = f"it exited with 0, but its result says {result.status}: {words_of(result.error or 'no reason given')}"
        yield _flaw(Category.APPLICATION_ERROR, said, _OTHER_CODE)
    if is_line and not result.pod_uid:
        # A program may print anything: a sample of a text is not what it says of itself.
        yield _flaw(Category.RESULT_INVALID, "a result line has to tell whose it is: it says no pod_uid", _SIGN_IT)
    if given.data_digest and result.data_digest not in (None, given.data_digest):
        said = f"it trained on data with digest {result.data_digest}: {given.data_digest} was to be used"
        yield _flaw(Category.BAD_DATA, said, _GIVEN_DATA)
    if given.data_version and result.data_digest is None and result.data_version not in (None, given.data_version):
        said = f"it trained on data version {result.data_version!r}: {given.data_version!r} was to be used"
        yield _flaw(Category.BAD_DATA, said, _GIVEN_DATA)
    if given.mlflow_run_id and result.mlflow_run_id not in (None, given.mlflow_run_id):
        said = f"the result names MLflow run {result.mlflow_run_id!r}: {given.mlflow_run_id!r} was given"
        yield _flaw(Category.RESULT_INVALID, said, _GIVEN_RUN)


def _flaw(category: Category, said: str, remedy: str) -> Flaw:
    return Flaw(category=category, said=words_of(said), remedy=remedy)


def _is_newer(version: object) -> bool:
    return isinstance(version, int) and not isinstance(version, bool) and version > SCHEMA_VERSION


_NO_JSON: Final = object()


def _value_of(text: str) -> object:
    """Give the JSON value of a text; _NO_JSON where it has none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return _NO_JSON


def _size(text: str) -> int:
    return len(text.encode(errors="surrogatepass"))
