"""The training spec: what a team declares about one GPU training, validated before anything is asked of a cluster."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from gpu_training.contract import Variable
from gpu_training.core.errors import ConfigurationError
from gpu_training.core.fields import STAND_IN, Fields, is_template
from gpu_training.core.quantity import parse_quantity

GPU_RESOURCE: Final = "nvidia.com/gpu"
MAX_GPUS: Final = 64
"""More than any node type sold today holds; a larger figure is a typing error."""

MINIMUM_DEADLINE_S: Final = 10
MAXIMUM_DEADLINE_S: Final = 30 * 24 * 3600
MINIMUM_TTL_S: Final = 60
"""Below this the TTL controller takes Job, pods and logs away before whoever waits has read them."""
MAXIMUM_TTL_S: Final = 30 * 24 * 3600
MAXIMUM_BACKOFF_LIMIT: Final = 20

# https://kubernetes.io/docs/concepts/overview/working-with-objects/names/
DNS_LABEL: Final = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
DNS_SUBDOMAIN: Final = rf"(?=.{{1,253}}\Z){DNS_LABEL}(\.{DNS_LABEL})*"
MODEL_NAME: Final = r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?"
LABEL_KEY: Final = rf"({DNS_SUBDOMAIN}/)?[A-Za-z0-9]([-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?"
LABEL_VALUE: Final = r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?"
VARIABLE_NAME: Final = r"[A-Za-z_][A-Za-z0-9_.-]{0,252}"
ARGUMENT_NAME: Final = r"[A-Za-z][A-Za-z0-9_.-]{0,62}"
# registry/path:tag@digest; https://github.com/distribution/reference
IMAGE: Final = (
    r"(?=.{1,400}\Z)[a-zA-Z0-9][-a-zA-Z0-9._]*(:[0-9]{1,5}(?=/))?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*"
    r"(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@sha256:[0-9a-f]{64})?"
)

_NAME = "a Kubernetes name (lower-case letters, digits, `-` and `.`, at most 253 characters)"


class VolumeSource(StrEnum):
    CLAIM = "claim"
    CONFIG_MAP = "config_map"
    SECRET = "secret"  # noqa: S105 - the name of a volume kind, not a secret
    EMPTY_DIR = "empty_dir"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """Requests and limits of the training container, as Kubernetes quantities by resource name.

    :param requests: holds the GPU resource with the same count as limits.
    :param limits: holds at least memory and the GPU resource.
    :param gpus: whole GPUs.
    """

    requests: Mapping[str, str]
    limits: Mapping[str, str]
    gpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretKey:
    """One key of a Secret, for an environment variable."""

    secret: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """A volume and where it is mounted.

    :param source: kind of volume.
    :param reference: name of the claim, ConfigMap or Secret; for an emptyDir its size limit, or "".
    """

    name: str
    mount_path: str
    source: VolumeSource
    reference: str
    read_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Toleration:
    """A toleration beside the one for the GPU taint. An empty value tolerates any value of the key."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSpec:
    """What is trained, on what, and within which limits. Made by :func:`parse_training_spec` only.

    :param arguments: rendered as `--name=value` behind the entrypoint, sorted by name.
    :param deadline_seconds: the Job's activeDeadlineSeconds: running, waiting for a node and retries together.
    :param backoff_limit: failures that the Job makes good by itself before it fails.
    :param ttl_seconds_after_finished: how long Kubernetes keeps the ended Job.
    :param shared_memory: size limit of the memory-backed /dev/shm; counts against the memory limit.
    :param checkpoint_uri: folder below which the lineage's checkpoints live; None for none.
    :param code_version: what else makes two trainings different work, e.g. a commit.
    """

    model: str
    image: str
    entrypoint: tuple[str, ...]
    arguments: Mapping[str, str]
    resources: Resources
    deadline_seconds: int
    backoff_limit: int
    ttl_seconds_after_finished: int
    environment: Mapping[str, str] = field(default_factory=dict)
    secret_environment: Mapping[str, SecretKey] = field(default_factory=dict)
    environment_from_secrets: tuple[str, ...] = ()
    environment_from_config_maps: tuple[str, ...] = ()
    volumes: tuple[Volume, ...] = ()
    shared_memory: str = "1Gi"
    image_pull_secrets: tuple[str, ...] = ()
    runtime_class: str | None = None
    priority_class: str | None = None
    queue: str | None = None
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()
    namespace: str = "gpu-training"
    service_account: str = "training"
    checkpoint_uri: str | None = None
    code_version: str | None = None


def parse_training_spec(document: object, *, where: str = "training", templates: bool = False) -> TrainingSpec | None:
    """Give the spec in a document; unknown keys are refused.

    :param where: path of the document, for messages.
    :param templates: whether Jinja templates pass unchecked (when a DAG file is parsed). None is given then if any is
        left, because there is no spec yet: all that could be checked was.
    :raises ConfigurationError: the first fault found.
    """
    fields = Fields(document, where, templates=templates)
    nested_templates = templates and _holds_template(document)
    spec = TrainingSpec(
        model=fields.text(
            "model", pattern=MODEL_NAME, allowed="a model name (lower-case letters, digits and `-`, at most 40)"
        ),
        image=fields.text(
            "image", pattern=IMAGE, allowed="an image reference (`repository:tag` or `repository@sha256:…`)"
        ),
        entrypoint=_entrypoint(fields),
        arguments=_arguments(fields),
        resources=_resources(fields.section("resources", required=True), skip_comparison=nested_templates),
        deadline_seconds=fields.whole(
            "deadline_seconds", minimum=MINIMUM_DEADLINE_S, maximum=MAXIMUM_DEADLINE_S, unit="seconds"
        ),
        ttl_seconds_after_finished=fields.whole(
            "ttl_seconds_after_finished", minimum=MINIMUM_TTL_S, maximum=MAXIMUM_TTL_S, unit="seconds"
        ),
        backoff_limit=fields.whole("backoff_limit", minimum=0, maximum=MAXIMUM_BACKOFF_LIMIT),
        environment=_environment(fields),
        secret_environment=_secret_environment(fields),
        environment_from_secrets=_names(fields, "environment_from_secrets"),
        environment_from_config_maps=_names(fields, "environment_from_config_maps"),
        volumes=_volumes(fields),
        shared_memory=_quantity(fields, "shared_memory", "1Gi"),
        image_pull_secrets=_names(fields, "image_pull_secrets"),
        runtime_class=fields.optional_text("runtime_class", pattern=DNS_SUBDOMAIN, allowed=_NAME),
        priority_class=fields.optional_text("priority_class", pattern=DNS_SUBDOMAIN, allowed=_NAME),
        queue=fields.optional_text("queue", pattern=DNS_SUBDOMAIN, allowed=_NAME, limit=63),
        node_selector=_node_selector(fields),
        tolerations=_tolerations(fields),
        namespace=fields.text("namespace", "gpu-training", pattern=DNS_LABEL, allowed="a namespace name"),
        service_account=fields.text("service_account", "training", pattern=DNS_SUBDOMAIN, allowed=_NAME),
        checkpoint_uri=fields.optional_text("checkpoint_uri", pattern=r"[a-z][a-z0-9+.-]*://\S+", allowed="a URI"),
        code_version=fields.optional_text("code_version", limit=256),
    )
    fields.finish()
    return None if nested_templates else spec


def _holds_template(value: object) -> bool:
    if isinstance(value, Mapping):
        return any(_holds_template(entry) for entry in value.values())
    if isinstance(value, (list, tuple)):
        return any(_holds_template(entry) for entry in value)
    return is_template(value)


def _entrypoint(fields: Fields) -> tuple[str, ...]:
    words = fields.texts("entrypoint")
    if not words or not words[0].strip():
        raise fields.refuse(
            "entrypoint", "a list of at least the program to run is expected, e.g. [python, -m, trainer]"
        )
    return words


def _arguments(fields: Fields) -> dict[str, str]:
    arguments = fields.scalars("arguments")
    for name in arguments:
        _match(fields, f"arguments.{name}", name, ARGUMENT_NAME, "an argument name without dashes in front")
        if name == "data-version":
            raise ConfigurationError(fields.path("arguments.data-version"), arguments[name], "is set by the operator")
    return dict(sorted(arguments.items()))


def _resources(fields: Fields, *, skip_comparison: bool) -> Resources:
    requests, limits = fields.scalars("requests"), fields.scalars("limits")
    fields.finish()
    gpus = _gpus(fields, requests, limits)
    for side, amounts in (("requests", requests), ("limits", limits)):
        for name, amount in amounts.items():
            _check_amount(fields, f"{side}.{name}", amount)
    if "memory" not in limits:
        raise ConfigurationError(
            fields.path("limits.memory"), None, "is required: without it one training can take its node's memory down"
        )
    requests = {**requests, GPU_RESOURCE: limits[GPU_RESOURCE]}
    requests.setdefault("memory", limits["memory"])
    for name, amount in requests.items():
        if name in limits and not skip_comparison and parse_quantity(amount) > parse_quantity(limits[name]):  # type: ignore[operator]
            raise ConfigurationError(
                fields.path(f"requests.{name}"),
                amount,
                f"is above the limit {limits[name]}: at most the limit is allowed",
            )
    return Resources(requests=requests, limits=limits, gpus=gpus)


def _gpus(fields: Fields, requests: Mapping[str, str], limits: Mapping[str, str]) -> int:
    if GPU_RESOURCE not in limits:
        where = "is in requests only" if GPU_RESOURCE in requests else "is required"
        raise ConfigurationError(
            fields.path(f"limits.{GPU_RESOURCE}"),
            None,
            f"{where}: Kubernetes takes whole GPUs under limits; write how many, from 1 to {MAX_GPUS}",
        )
    gpus = Fields(limits, fields.path("limits"), templates=fields.templates).whole(
        GPU_RESOURCE, minimum=1, maximum=MAX_GPUS, unit="GPUs"
    )
    asked = requests.get(GPU_RESOURCE)
    if asked is not None and asked != limits[GPU_RESOURCE] and not is_template(asked):
        raise ConfigurationError(
            fields.path(f"requests.{GPU_RESOURCE}"),
            asked,
            f"must equal the limit {limits[GPU_RESOURCE]}, or be left out",
        )
    return gpus


def _check_amount(fields: Fields, name: str, amount: str) -> None:
    if fields.templates and is_template(amount):
        return
    value = parse_quantity(amount)
    if value is None or value <= 0:
        raise ConfigurationError(
            fields.path(name), amount, "a Kubernetes quantity above 0 is expected, e.g. 500m or 8Gi"
        )


def _quantity(fields: Fields, name: str, default: str) -> str:
    amount = fields.text(name, default)
    if amount != STAND_IN:
        _check_amount(fields, name, amount)
    return amount


def _match(fields: Fields, path: str, value: str, pattern: str, allowed: str) -> None:
    if not (fields.templates and is_template(value)) and re.fullmatch(pattern, value) is None:
        raise ConfigurationError(fields.path(path), value, f"{allowed} is expected")


def _check_variable(fields: Fields, section: str, name: str) -> None:
    path = f"{section}.{name}"
    _match(fields, path, name, VARIABLE_NAME, "an environment variable name (letters, digits, `_`, `-`, `.`)")
    if name in set(Variable):
        raise ConfigurationError(fields.path(path), name, "is set by the operator: choose another name")


def _environment(fields: Fields) -> dict[str, str]:
    environment = fields.scalars("environment")
    for name in environment:
        _check_variable(fields, "environment", name)
    return environment


def _secret_environment(fields: Fields) -> dict[str, SecretKey]:
    section = fields.section("secret_environment")
    body = fields.take("secret_environment", {})
    found = {}
    for name in body if isinstance(body, Mapping) else ():
        _check_variable(fields, "secret_environment", name)
        entry = section.section(name)
        found[name] = SecretKey(
            secret=entry.text("secret", pattern=DNS_SUBDOMAIN, allowed=_NAME),
            key=entry.text("key", pattern=r"[-._a-zA-Z0-9]+", allowed="a key of the Secret", limit=253),
        )
        entry.finish()
    return found


def _names(fields: Fields, name: str) -> tuple[str, ...]:
    names = fields.texts(name)
    for n, entry in enumerate(names):
        _match(fields, f"{name}[{n}]", entry, DNS_SUBDOMAIN, _NAME)
    return names


def _volumes(fields: Fields) -> tuple[Volume, ...]:
    volumes = tuple(
        _volume(Fields(entry, fields.path(f"volumes[{n}]"), templates=fields.templates))
        for n, entry in enumerate(fields.sequence("volumes"))
    )
    for taken in ("name", "mount_path"):
        values = [getattr(volume, taken) for volume in volumes if getattr(volume, taken) != STAND_IN]
        for value in values:
            if values.count(value) > 1:
                raise fields.refuse("volumes", f"{taken} {value!r} is used twice")
    return volumes


def _volume(fields: Fields) -> Volume:
    name = fields.text("name", pattern=DNS_LABEL, allowed="a volume name (a DNS label)")
    if name in ("shared-memory", "termination"):
        raise fields.refuse("name", "is a name of the operator's own volumes: choose another")
    mount_path = fields.text("mount_path", pattern=r"/[^:]*[^:/]", allowed="an absolute path without `:`")
    if mount_path == "/dev/shm":  # noqa: S108 - refused here, not used
        raise fields.refuse("mount_path", "is the operator's own memory-backed volume: set shared_memory instead")
    read_only = fields.flag("read_only", default=False)
    given = [source for source in VolumeSource if fields.take(source.value, None) is not None]
    if len(given) != 1:
        raise fields.refuse("claim", f"exactly one of {', '.join(VolumeSource)} is expected")
    source = given[0]
    if source is VolumeSource.EMPTY_DIR:
        body = fields.section(source.value)
        reference = _quantity(body, "size_limit", "") if body.take("size_limit", None) is not None else ""
        body.finish()
    else:
        reference = fields.text(source.value, pattern=DNS_SUBDOMAIN, allowed=_NAME)
    fields.finish()
    return Volume(name=name, mount_path=mount_path, source=source, reference=reference, read_only=read_only)


def _node_selector(fields: Fields) -> dict[str, str]:
    selector = fields.scalars("node_selector")
    for key, value in selector.items():
        _match(fields, f"node_selector.{key}", key, LABEL_KEY, "a label key")
        _match(
            fields, f"node_selector.{key}", value, LABEL_VALUE, "a label value (at most 63 of letters, digits, `-_.`)"
        )
    return selector


def _tolerations(fields: Fields) -> tuple[Toleration, ...]:
    tolerations = []
    for n, entry in enumerate(fields.sequence("tolerations")):
        body = Fields(entry, fields.path(f"tolerations[{n}]"), templates=fields.templates)
        toleration = Toleration(
            key=body.text("key", pattern=LABEL_KEY, allowed="a taint key"),
            value=body.optional_text("value", pattern=LABEL_VALUE, allowed="a taint value") or "",
            effect=body.text(
                "effect", "NoSchedule", pattern="NoSchedule|NoExecute|PreferNoSchedule", allowed="an effect"
            ),
        )
        body.finish()
        tolerations.append(toleration)
    return tuple(tolerations)
