"""What a training program and the operator agree on: variables, exit codes, lines, documents, checkpoints.

Values and rules only; `attempt.py` and `checkpoints.py` are a library for programs that keep to them. Standard library
only, and importing nothing of this package: the same file goes into the training image. Everything here is a public
contract. Names and values reach images that teams built long ago, so they are never renamed.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum, StrEnum
from typing import Any

SCHEMA_VERSION = 1
"""Version of progress line, result document, checkpoint marker and manifest. A reader refuses a higher one."""

RESULT_LIMIT_BYTES = 2048
"""Largest result document. The kubelet keeps the last 4096 bytes of a termination message, and less per container when
there are more than three: 12 KiB is shared (https://kubernetes.io/docs/tasks/debug/debug-application/determine-reason-pod-failure/)."""

TERMINATION_MESSAGE_PATH = "/dev/termination-log"
"""Where Kubernetes looks for the result document unless the container names another path."""

PROGRESS_PREFIX = "GPU_TRAINING_PROGRESS "
"""What a progress line begins with; one JSON object follows on the same line."""

RESULT_PREFIX = "GPU_TRAINING_RESULT "
"""What a result line begins with; the result document follows on the same line. It says once more, in the log, what the
termination message says: a pod may be deleted before anybody has read that."""

DEFAULT_GRACE_SECONDS = 30.0
"""Seconds between SIGTERM and SIGKILL where nothing says otherwise, as in Kubernetes."""

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_WRITER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_SECONDS = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")


class ContractError(ValueError):
    """A variable, document or line that breaks the contract. The message names field, value and what is allowed."""


class Variable(StrEnum):
    """Environment variables that the operator sets in the training container."""

    DATA_VERSION = "DATA_VERSION"
    """Id of the resolved data version."""
    DATA_URI = "GPU_TRAINING_DATA_URI"
    """URI of the data version's manifest, as fsspec opens it."""
    DATA_DIGEST = "GPU_TRAINING_DATA_DIGEST"
    """`sha256:<hex>` of the content (:func:`content_digest`); a manifest with another digest is bad data."""
    CHECKPOINT_URI = "GPU_TRAINING_CHECKPOINT_URI"
    """Folder of the lineage's checkpoints; each pod writes only under `<this>/<pod uid>/`. Absent: no checkpoints."""
    FINGERPRINT = "GPU_TRAINING_FINGERPRINT"
    POD_UID = "GPU_TRAINING_POD_UID"
    """UID of the pod, by the downward API: the writer's name below the checkpoint URI."""
    TERMINATION_LOG = "GPU_TRAINING_TERMINATION_LOG"
    """File that takes the result document; absent: TERMINATION_MESSAGE_PATH."""
    GRACE_SECONDS = "GPU_TRAINING_GRACE_SECONDS"
    """Seconds between SIGTERM and SIGKILL: what a last checkpoint has; absent: DEFAULT_GRACE_SECONDS."""
    MLFLOW_TRACKING_URI = "MLFLOW_TRACKING_URI"
    MLFLOW_RUN_ID = "MLFLOW_RUN_ID"


class ExitCode(IntEnum):
    """Exit codes of a training program. 80 to 89 are free of the shell's, sysexits' and signals' own meanings."""

    TRAINED = 0
    OTHER = 1
    BAD_CONFIGURATION = 80
    BAD_DATA = 81
    CUDA_OUT_OF_MEMORY = 82
    NAN_LOSS = 83
    COMMUNICATION_TIMEOUT = 84
    INTERRUPTED = 85
    """SIGTERM came; a last checkpoint was taken if time was left. Never 0: Kubernetes would call the Job Complete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What the operator tells a training program, by :class:`Variable`; None where it is absent or empty.

    :param termination_log: file that takes the result document.
    :param grace_seconds: seconds between SIGTERM and SIGKILL.
    """

    data_version: str | None = None
    data_uri: str | None = None
    data_digest: str | None = None
    checkpoint_uri: str | None = None
    fingerprint: str | None = None
    pod_uid: str | None = None
    termination_log: str | None = None
    mlflow_tracking_uri: str | None = None
    mlflow_run_id: str | None = None
    grace_seconds: float = DEFAULT_GRACE_SECONDS

    def require(self, variable: Variable) -> str:
        """Give a variable that the program can not do without.

        :raises ContractError: it is absent.
        """
        value = getattr(self, variable.name.lower())
        if value is None:
            raise ContractError(f"{variable} is absent: the operator sets it; where there is none, set it by hand")
        return str(value)


def read_environment(environ: Mapping[str, str]) -> Environment:
    """Give what the variables say.

    :raises ContractError: one is set to what it can not be. The message names it.
    """
    texts = {variable.name.lower(): environ.get(variable) or None for variable in Variable}
    if (digest := texts["data_digest"]) and not _DIGEST.fullmatch(digest):
        raise ContractError(f"{Variable.DATA_DIGEST}={digest!r}: sha256: and 64 lower-case hex digits are expected")
    if (writer := texts["pod_uid"]) and not _WRITER.fullmatch(writer):
        raise ContractError(f"{Variable.POD_UID}={writer!r}: the name of a folder is expected")
    grace = texts.pop("grace_seconds")
    if grace is not None and not _SECONDS.fullmatch(grace):
        raise ContractError(f"{Variable.GRACE_SECONDS}={grace!r}: a number of seconds from 0 is expected")
    values: dict[str, Any] = {**texts}
    return Environment(**values, grace_seconds=float(grace or DEFAULT_GRACE_SECONDS))


class ResultStatus(StrEnum):
    TRAINED = "trained"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """One progress line.

    :param step: steps done so far, counted over the whole training (a resumed attempt goes on counting).
    :param total: steps of the whole training; 0 when unknown.
    :param loss: last loss; None when there is none yet.
    :param throughput: steps per second; None when unknown.
    :param checkpoint_step: step of the newest complete checkpoint; None when there is none.
    :param first_step: first step that this attempt does: 1, or one past the checkpoint that it goes on from; None when
        the program does not say. It is the evidence that a retry went on where the attempt before had stopped.
    """

    step: int
    total: int = 0
    loss: float | None = None
    throughput: float | None = None
    checkpoint_step: int | None = None
    first_step: int | None = None

    @property
    def fraction(self) -> float | None:
        """Share done in [0, 1]; None when the total is unknown."""
        return min(1.0, self.step / self.total) if self.total > 0 else None

    @property
    def seconds_left(self) -> float | None:
        """Seconds to the end at the reported throughput; None when either is unknown, or not a finite time."""
        if self.total <= 0 or self.throughput is None or self.throughput <= 0:
            return None
        seconds = max(0, self.total - self.step) / self.throughput
        return seconds if math.isfinite(seconds) else None


def render_progress(progress: Progress) -> str:
    """Give the line, without its end, that a trainer prints to standard output.

    Numbers of other libraries, such as a scalar of NumPy or a tensor of one element, are taken for what they are worth;
    what is no finite number is left out: a progress line fails no training.

    :raises ContractError: `step` or `total` is no whole number.
    """
    body: dict[str, object] = {"v": SCHEMA_VERSION}
    for name in ("step", "total"):
        value = getattr(progress, name)
        if (count := as_count(value)) is None:
            raise ContractError(f"progress line: {name}={value!r}: a whole number from 0 is expected")
        body[name] = count
    for name in ("loss", "throughput"):
        if (number := as_number(getattr(progress, name))) is not None:
            body[name] = number
    for name in ("checkpoint_step", "first_step"):
        if (count := as_count(getattr(progress, name))) is not None:
            body[name] = count
    return PROGRESS_PREFIX + json.dumps(body, separators=(",", ":"))


def parse_progress(line: str) -> Progress | None:
    """Give the progress in a log line, or None for any other line: logs never fail a run.

    Malformed lines and lines of a higher version give None too. A line without `v` counts as this version.
    """
    _, found, tail = line.partition(PROGRESS_PREFIX)
    if not found or len(tail) > 4096:
        return None
    try:
        body = json.loads(tail)
    except (ValueError, RecursionError):
        return None
    if not isinstance(body, dict) or not _is_known_version(body.get("v", SCHEMA_VERSION)):
        return None
    step, total = _count(body.get("step")), _count(body.get("total", 0))
    if step is None or total is None:
        return None
    return Progress(
        step=step,
        total=total,
        loss=_number(body.get("loss")),
        throughput=_number(body.get("throughput")),
        checkpoint_step=_count(body.get("checkpoint_step")),
        first_step=_count(body.get("first_step")),
    )


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def as_number(value: object) -> float | None:
    """Give the finite number in a value of whatever library; None where there is none."""
    if value is None or isinstance(value, (bool, str, bytes)):
        return None
    try:
        return _number(float(value))  # type: ignore[arg-type]
    except Exception:  # of whatever kind: tensors of several elements, or on a device that is gone
        return None


def as_count(value: object) -> int | None:
    """Give the whole number from 0 in a value of whatever library; None where there is none."""
    number = as_number(value)
    if number is None or number != int(number):
        return None
    return _count(value if isinstance(value, int) else int(number))


def _is_known_version(value: object) -> bool:
    return (version := _count(value)) is not None and 1 <= version <= SCHEMA_VERSION


def _count(value: object) -> int | None:
    # 40.0 is a whole number for JSON Schema, and what encoders of some languages write for 40.
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result document that a trainer leaves in its termination message.

    :param status: trained, or failed (then `error` says why).
    :param data_version: id of the data version that was read; None when it failed before reading it.
    :param data_digest: content digest that was read.
    :param mlflow_run_id: run that holds parameters, metrics and model.
    :param model_uri: URI of the logged model that registration uses.
    :param metrics: final metrics, finite numbers only.
    :param first_step: first step that this attempt did: 1, or one past the checkpoint that it resumed from.
    :param last_step: last step done.
    :param checkpoint_step: step of the newest complete checkpoint.
    :param device: what computed: `cuda` or `cpu`. Reported, never assumed.
    :param pod_uid: pod that wrote the document (Variable.POD_UID): one that another pod wrote is no result of this one.
    :param error: one line for a person, when failed.
    """

    status: ResultStatus
    data_version: str | None = None
    data_digest: str | None = None
    mlflow_run_id: str | None = None
    model_uri: str | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    first_step: int | None = None
    last_step: int | None = None
    checkpoint_step: int | None = None
    device: str | None = None
    pod_uid: str | None = None
    error: str | None = None


_RESULT_TEXTS = ("data_version", "data_digest", "mlflow_run_id", "model_uri", "device", "pod_uid", "error")
_RESULT_COUNTS = ("first_step", "last_step", "checkpoint_step")


def render_result(result: Result) -> str:
    """Give the JSON text of a result document of at most RESULT_LIMIT_BYTES.

    A long `error` is cut to fit, with an ellipsis at the cut. What UTF-8 or a database can not hold is replaced.
    Numbers of other libraries are taken for what they are worth. What is given :func:`parse_result` takes.

    :raises ContractError: the rest alone is too large, a metric is no finite number, two of them have one name then, or
        a step is no whole number.
    """
    body: dict[str, object] = {"v": SCHEMA_VERSION, "status": result.status.value}
    if result.metrics:
        body["metrics"] = _once([(_clean(str(name)), _metric(name, value)) for name, value in result.metrics.items()])
    for name in _RESULT_TEXTS:
        if (value := getattr(result, name)) is not None:
            body[name] = _clean(str(value))
    for name in _RESULT_COUNTS:
        if (value := getattr(result, name)) is not None:
            if (count := as_count(value)) is None:
                raise ContractError(f"result document: {name}={value!r}: a whole number from 0 is expected")
            body[name] = count
    text = _dump(body)
    if len(text.encode()) > RESULT_LIMIT_BYTES and result.error:
        spare = RESULT_LIMIT_BYTES - len(_dump({**body, "error": "…"}).encode())
        # Cut by encoded JSON length, since one character may take up to six bytes there.
        error = _clean(result.error)
        while error and len(json.dumps(error, ensure_ascii=False).encode()) - 2 > max(0, spare):
            error = error[: -max(1, len(error) // 16)]
        body["error"] = error + "…"
        text = _dump(body)
    if (size := len(text.encode())) > RESULT_LIMIT_BYTES:
        raise ContractError(f"result document of {size} bytes: at most {RESULT_LIMIT_BYTES} fit; report fewer metrics")
    return text


def _metric(name: object, value: object) -> float:
    number = as_number(value)
    if number is None:
        raise ContractError(f"metrics.{name}={value!r}: a result's metrics are finite numbers; leave it out")
    return number


def _clean(text: str) -> str:
    """Replace lone surrogates, which messages about odd file names hold, and NUL, which PostgreSQL refuses."""
    return text.encode(errors="replace").decode().replace("\0", "?")


def _once(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Give an object of pairs, of which JSON itself would keep the last of two with one key in silence."""
    body: dict[str, Any] = {}
    for name, value in pairs:
        if name in body:
            raise ContractError(f"key {name!r} stands twice in one object: which of the two counts is not known")
        body[name] = value
    return body


def _dump(body: object) -> str:
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False)


def parse_result(text: str) -> Result:
    """Give the result document in a termination message. Unknown fields are ignored, so that trainers may be newer.

    :raises ContractError: absent, too large, not JSON, or a field of the wrong shape.
    """
    if not text.strip():
        raise ContractError("result document is absent: the training program left no termination message")
    if (size := len(text.encode(errors="surrogatepass"))) > RESULT_LIMIT_BYTES:
        raise ContractError(f"result document has {size} bytes: at most {RESULT_LIMIT_BYTES} are allowed")
    body = _object(text, "result document")
    try:
        status = ResultStatus(str(body.get("status")))
    except ValueError:
        raise ContractError(
            f"result document: status={body.get('status')!r}: allowed are {', '.join(ResultStatus)}"
        ) from None
    return Result(
        status=status,
        metrics=_metrics(body.get("metrics", {})),
        **{name: _text(body, name) for name in _RESULT_TEXTS},  # type: ignore[arg-type]
        **{name: _whole(body, name) for name in _RESULT_COUNTS},  # type: ignore[arg-type]
    )


def _object(text: str, what: str) -> dict[str, object]:
    try:
        body = json.loads(text, object_pairs_hook=_once)
    except ContractError as exc:
        raise ContractError(f"{what}: {exc}") from None
    except (ValueError, RecursionError) as exc:
        raise ContractError(f"{what} is not JSON: {exc}") from None
    if not isinstance(body, dict):
        raise ContractError(f"{what} is a JSON {type(body).__name__}: an object is expected")
    if not _is_known_version(version := body.get("v")):
        raise ContractError(f"{what}: v={version!r}: this release reads versions 1 to {SCHEMA_VERSION}")
    return body


def _text(body: Mapping[str, object], name: str) -> str | None:
    value = body.get(name)
    if value is not None and not isinstance(value, str):
        raise ContractError(f"result document: {name}={value!r}: a text is expected")
    return None if value is None else _clean(value)


def _whole(body: Mapping[str, object], name: str) -> int | None:
    value = body.get(name)
    if value is not None and _count(value) is None:
        raise ContractError(f"result document: {name}={value!r}: a whole number from 0 is expected")
    return _count(value)


def _metrics(value: object) -> dict[str, float]:
    if not isinstance(value, dict):
        raise ContractError(f"result document: metrics={value!r}: an object of numbers is expected")
    metrics = []
    for name, metric in value.items():
        number = _number(metric)
        if number is None:
            raise ContractError(f"result document: metrics.{name}={metric!r}: a finite number is expected")
        metrics.append((_clean(name), number))
    return _once(metrics)


CHECKPOINT_MARKER = "COMPLETE"
"""Written last into a checkpoint's folder, `<uri>/<pod uid>/step-00000040/`, with the digest of each file there."""

CHECKPOINTS_KEPT = 3

TORN_SECONDS = 3600.0
"""Age from which a torn checkpoint may go: longer than any write. A younger one may just be being written by a pod."""

_CHECKPOINT_PATH = re.compile(r"(?P<folder>(?P<writer>[^/]+)/step-(?P<step>[0-9]{8,18}))/(?P<name>.+)", re.DOTALL)


class TornCheckpointError(ContractError):
    """A checkpoint that is not whole; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A folder that may be a checkpoint, as a listing of the store shows it.

    :param folder: relative to the checkpoint URI.
    :param names: its files, relative to it, the marker left out.
    :param is_marked: whether the marker is there.
    :param age: seconds since a file of it was last written; 0 when the store does not know.
    """

    folder: str
    step: int
    names: frozenset[str]
    is_marked: bool
    age: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """What a complete checkpoint says of itself.

    :param step: steps done when it was taken.
    :param fingerprint: work that it belongs to (Variable.FINGERPRINT); empty when there is none.
    :param files: `sha256:<hex>` of each file's content, by its name.
    """

    step: int
    fingerprint: str
    files: Mapping[str, str]


def checkpoint_folder(writer: str, step: int) -> str:
    """Give the folder of a pod's checkpoint after a step, relative to the checkpoint URI."""
    return f"{writer}/step-{step:08d}"


def find_candidates(ages: Mapping[str, float]) -> list[Candidate]:
    """Give the candidates in a listing, newest first: by step, at the same step those with a marker before others.

    :param ages: for each path below the checkpoint URI, the seconds since it was written.
    """
    found: dict[str, list[re.Match[str]]] = {}
    for path in ages:
        if match := _CHECKPOINT_PATH.fullmatch(path):
            found.setdefault(match["folder"], []).append(match)
    candidates = [
        Candidate(
            folder=folder,
            step=int(matches[0]["step"]),
            names=frozenset(match["name"] for match in matches) - {CHECKPOINT_MARKER},
            is_marked=any(match["name"] == CHECKPOINT_MARKER for match in matches),
            age=min(ages[match[0]] for match in matches),
        )
        for folder, matches in found.items()
    ]
    return sorted(candidates, key=lambda candidate: (-candidate.step, not candidate.is_marked, candidate.folder))


def content_sha256(content: bytes) -> str:
    """Give `sha256:<hex>` of a file's content."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def render_marker(marker: Marker) -> str:
    """Give the JSON text of a marker."""
    body = {"v": SCHEMA_VERSION, "step": marker.step, "fingerprint": marker.fingerprint, "files": dict(marker.files)}
    return _dump(body) + "\n"


def parse_marker(content: bytes, step: int) -> Marker:
    """Give the marker in a file.

    :param step: what the folder's name says.
    :raises TornCheckpointError: malformed, of another step, or naming no file.
    """
    try:
        body = _object(content.decode(errors="replace"), CHECKPOINT_MARKER)
    except ContractError as error:
        raise TornCheckpointError(str(error)) from None
    if body.get("step") != step:
        raise TornCheckpointError(f"{CHECKPOINT_MARKER}: step={body.get('step')!r}: the folder says {step}")
    files, fingerprint = body.get("files"), body.get("fingerprint")
    if not isinstance(files, dict) or not files or not all(isinstance(digest, str) for digest in files.values()):
        raise TornCheckpointError(f"{CHECKPOINT_MARKER}: files={files!r}: the digest of at least one file is expected")
    if odd := [name for name in files if not is_file_name(name)]:
        raise TornCheckpointError(f"{CHECKPOINT_MARKER}: files: {odd[0]!r} is not the name of a file in its folder")
    return Marker(step=step, fingerprint=fingerprint if isinstance(fingerprint, str) else "", files=files)


def is_file_name(name: str) -> bool:
    """Tell whether a checkpoint may have a file of that name: relative, inside of its folder, not the marker's, and one
    that every store can hold: of at most 1000 bytes of UTF-8, 255 between two slashes, without control characters."""
    if name == CHECKPOINT_MARKER or "\\" in name or any(ord(sign) < 32 or ord(sign) == 127 for sign in name):
        return False
    try:
        parts = name.encode().split(b"/")
    except UnicodeEncodeError:
        return False
    return len(name.encode()) <= 1000 and not any(part in (b"", b".", b"..") or len(part) > 255 for part in parts)


def plan_pruning(
    candidates: Iterable[Candidate],
    complete: Container[str],
    *,
    keep: int = CHECKPOINTS_KEPT,
    in_use: str | None = None,
    foreign: Container[str] = (),
    torn_seconds: float = TORN_SECONDS,
) -> list[Candidate]:
    """Give what may be removed: complete checkpoints older than the newest `keep` of any writer, and torn ones of age.

    Whatever others do meanwhile, the newest complete one stays: a removal needs `keep` newer ones in one listing.

    :param candidates: newest first, as :func:`find_candidates` gives them.
    :param complete: folders whose marker and files are there.
    :param in_use: folder that is never removed: this attempt has nothing newer of its own yet.
    :param foreign: folders of other work, never removed.
    """
    plan, kept = [], 0
    for candidate in candidates:
        if candidate.folder in foreign:
            continue
        if candidate.folder in complete:
            kept += 1
            is_old = kept > keep
        else:
            is_old = candidate.age > torn_seconds
        if is_old and candidate.folder != in_use:
            plan.append(candidate)
    return plan


_VERSION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,127}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFile:
    """One file of a data version.

    :param path: relative to the manifest's folder, with forward slashes.
    :param size: bytes.
    :param sha256: 64 hex digits of the content.
    """

    path: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The list of a data version's files.

    :param id: name of the version; 1 to 128 of letters, digits, `.`, `_`, `-`, `+`, beginning with a letter or digit.
    :param created_at: ISO 8601 with an offset.
    :param files: in the order written; the digest does not depend on it.
    """

    id: str
    created_at: str
    files: tuple[ManifestFile, ...]

    @property
    def digest(self) -> str:
        return content_digest(self.files)


def content_digest(files: tuple[ManifestFile, ...]) -> str:
    """Give `sha256:<hex>` over path, size and digest of each file, sorted by path: the same content under two ids or
    in another order has one digest."""
    hasher = hashlib.sha256()
    for entry in sorted(files, key=lambda entry: entry.path):
        hasher.update(json.dumps([entry.path, entry.size, entry.sha256]).encode() + b"\n")
    return f"sha256:{hasher.hexdigest()}"


def render_manifest(manifest: Manifest) -> str:
    """Give the manifest's JSON text, its digest included."""
    body = {
        "v": SCHEMA_VERSION,
        "id": manifest.id,
        "created_at": manifest.created_at,
        "digest": manifest.digest,
        "files": [{"path": f.path, "size": f.size, "sha256": f.sha256} for f in manifest.files],
    }
    return json.dumps(body, indent=1, ensure_ascii=False) + "\n"


def parse_manifest(text: str) -> Manifest:
    """Give the manifest in a JSON text.

    :raises ContractError: malformed, empty, an id or a time that is not as :class:`Manifest` says, a path that leaves
        the manifest's folder, a path named twice, or a stated digest that is not that of the files listed.
    """
    body = _object(text, "manifest")
    entries = body.get("files")
    if not isinstance(entries, list) or not entries:
        raise ContractError(f"manifest: files={entries!r}: a list of at least one file is expected")
    files = tuple(_manifest_file(entry, f"manifest: files[{n}]") for n, entry in enumerate(entries))
    if len({f.path for f in files}) != len(files):
        raise ContractError("manifest: files: a path is named twice")
    manifest = Manifest(id=_manifest_id(body.get("id")), created_at=_manifest_time(body.get("created_at")), files=files)
    stated = body.get("digest")
    if stated != manifest.digest:
        raise ContractError(f"manifest: digest={stated!r}: the files listed have {manifest.digest}")
    return manifest


def _manifest_id(value: object) -> str:
    if not isinstance(value, str) or not _VERSION_ID.fullmatch(value):
        raise ContractError(
            f"manifest: id={value!r}: 1 to 128 of letters, digits, `.`, `_`, `-`, `+` are expected, beginning with a "
            "letter or digit"
        )
    return value


def _manifest_time(value: object) -> str:
    try:
        offset = datetime.fromisoformat(value).utcoffset() if isinstance(value, str) else None
    except ValueError:
        offset = None
    if offset is None or not isinstance(value, str):
        raise ContractError(f"manifest: created_at={value!r}: a time of ISO 8601 with an offset is expected")
    return value


def _manifest_file(entry: object, where: str) -> ManifestFile:
    if not isinstance(entry, dict):
        raise ContractError(f"{where}={entry!r}: an object with path, size and sha256 is expected")
    path, sha256, size = entry.get("path"), entry.get("sha256"), _count(entry.get("size"))
    if not isinstance(path, str) or not _stays_inside(path):
        raise ContractError(f"{where}.path={path!r}: a relative path without `..` or a scheme is expected")
    if size is None:
        raise ContractError(f"{where}.size={entry.get('size')!r}: bytes as a whole number are expected")
    if not isinstance(sha256, str) or len(sha256) != 64 or set(sha256) - set("0123456789abcdef"):
        raise ContractError(f"{where}.sha256={sha256!r}: 64 lower-case hex digits are expected")
    return ManifestFile(path=path, size=size, sha256=sha256)


def _stays_inside(path: str) -> bool:
    parts = path.split("/")
    # What is not printable has no business in a file's name, and lone surrogates reach no store at all.
    return (
        path.isprintable() and "://" not in path and "\\" not in path and not any(p in ("", ".", "..") for p in parts)
    )
