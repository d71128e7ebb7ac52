"""The training spec: what a team declares about one GPU training, validated before anything is asked of a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, overload

from gpu_training.core.budget import DeclaredBudget, parse_budget
from gpu_training.core.choices import IfNotResumed, IfTrained, parse_choice
from gpu_training.core.clocks import Clocks, parse_clocks
from gpu_training.core.environment import SecretKey, parse_environment, parse_secret_environment
from gpu_training.core.errors import ConfigurationError
from gpu_training.core.fields import Fields
from gpu_training.core.memory_growth import MemoryGrowth, parse_memory_growth
from gpu_training.core.placement import (
    SpotFallback,
    Toleration,
    parse_node_selector,
    parse_spot_fallback,
    parse_tolerations,
)
from gpu_training.core.quantity import parse_quantity
from gpu_training.core.resources import Resources, check_amount, parse_resources
from gpu_training.core.rule_documents import parse_team_rules
from gpu_training.core.rules import Rule
from gpu_training.core.syntax import (
    A_NAME,
    DNS_LABEL,
    DNS_SUBDOMAIN,
    IMAGE,
    URI,
)
from gpu_training.core.volumes import Volume, parse_volumes

MINIMUM_DEADLINE_S: Final = 10
MAXIMUM_DEADLINE_S: Final = 30 * 24 * 3600
MINIMUM_TTL_S: Final = 60
"""Below this the TTL controller takes Job, pods and logs away before whoever waits has read them."""
MAXIMUM_TTL_S: Final = 30 * 24 * 3600
MAXIMUM_BACKOFF_LIMIT: Final = 20
DEFAULT_GRACE_S: Final = 30
"""Kubernetes' own."""
MAXIMUM_GRACE_S: Final = 3600

MODEL_NAME: Final = r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?"
"""A model's name: it begins Job names and is a label."""

DEFAULT_NAMESPACE: Final = "gpu-training"
DEFAULT_SERVICE_ACCOUNT: Final = "training"

DATA_VERSION_ARGUMENT: Final = "data-version"
"""The argument that the operator adds, with the id of the resolved data version."""
NO_SHARED_MEMORY: Final = "0"

_SHARED_MEMORY: Final = "1Gi"
_ARGUMENT_NAME: Final = r"[A-Za-z][A-Za-z0-9_.-]{0,62}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSpec:
    """What is trained, on what, and within which limits. Made by :func:`parse_training_spec` only.

    :param arguments: rendered as `--name=value` behind the entrypoint, sorted by name.
    :param deadline_seconds: what one Job may take outside of the queue: starting, running and its own retries together.
    :param backoff_limit: failures that the Job makes good by itself before it fails.
    :param ttl_seconds_after_finished: how long Kubernetes keeps the ended Job.
    :param environment_from_secrets: Secrets whose keys all become variables; the other fields win over them.
    :param shared_memory: size limit of the memory-backed /dev/shm, which counts against the memory limit;
        NO_SHARED_MEMORY for none.
    :param queue: name of a Kueue LocalQueue.
    :param checkpoint_uri: folder below which the lineage's checkpoints live; None for none.
    :param code_version: what else makes two trainings different work, e.g. a commit.
    :param clocks: how long each phase may take.
    :param budget: the ceiling over all Jobs of the lineage.
    :param memory_growth: how an attempt that ran out of memory is repeated.
    :param spot_fallback: where the last attempt goes instead; None for nowhere else.
    :param failure_rules: the team's own, which come before the built-in ones.
    :param if_trained: what a run gets whose work is trained already.
    :param if_not_resumed: what follows when a retry begins at the first step though a checkpoint was there.
    :param grace_seconds: between SIGTERM and SIGKILL, for a last checkpoint; None for what the base says, else
        Kubernetes' own 30.
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
    shared_memory: str = _SHARED_MEMORY
    image_pull_secrets: tuple[str, ...] = ()
    runtime_class: str | None = None
    priority_class: str | None = None
    queue: str | None = None
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()
    namespace: str = DEFAULT_NAMESPACE
    service_account: str = DEFAULT_SERVICE_ACCOUNT
    checkpoint_uri: str | None = None
    code_version: str | None = None
    clocks: Clocks
    budget: DeclaredBudget
    memory_growth: MemoryGrowth
    spot_fallback: SpotFallback | None = None
    if_trained: IfTrained = IfTrained.REUSE
    if_not_resumed: IfNotResumed = IfNotResumed.WARN
    grace_seconds: int | None = None
    failure_rules: tuple[Rule, ...] = ()


@overload
def parse_training_spec(
    document: object, *, where: str = "training", templates: Literal[False] = False
) -> TrainingSpec: ...


@overload
def parse_training_spec(document: object, *, where: str = "training", templates: bool) -> TrainingSpec | None: ...


def parse_training_spec(document: object, *, where: str = "training", templates: bool = False) -> TrainingSpec | None:
    """Give the spec in a document; unknown keys are refused.

    :param where: path of the document, for messages.
    :param templates: whether Jinja templates pass unchecked (when a DAG file is parsed). None is given then if any is
        left, because there is no spec yet: all that could be checked was. Names (of arguments, variables, labels) are
        never templates, since Airflow renders values only.
    :raises ConfigurationError: the first fault found.
    """
    fields = Fields(document, where, templates=templates)
    resources = parse_resources(fields.section("resources", required=True))
    deadline_seconds = fields.whole(
        "deadline_seconds", minimum=MINIMUM_DEADLINE_S, maximum=MAXIMUM_DEADLINE_S, unit="seconds"
    )
    backoff_limit = fields.whole("backoff_limit", minimum=0, maximum=MAXIMUM_BACKOFF_LIMIT, unit="failures")
    budget = parse_budget(
        fields.section("budget"), backoff_limit=backoff_limit, deadline_seconds=deadline_seconds, gpus=resources.gpus
    )
    spec = TrainingSpec(
        model=fields.text(
            "model", pattern=MODEL_NAME, allowed="a model name (lower-case letters, digits and `-`, at most 40)"
        ),
        image=fields.text(
            "image", pattern=IMAGE, allowed="an image with tag or digest (`repository:tag`, `repository@sha256:…`)"
        ),
        entrypoint=_entrypoint(fields),
        arguments=_arguments(fields),
        resources=resources,
        deadline_seconds=deadline_seconds,
        ttl_seconds_after_finished=fields.whole(
            "ttl_seconds_after_finished", minimum=MINIMUM_TTL_S, maximum=MAXIMUM_TTL_S, unit="seconds"
        ),
        backoff_limit=backoff_limit,
        environment=parse_environment(fields),
        secret_environment=parse_secret_environment(fields),
        environment_from_secrets=_names(fields, "environment_from_secrets"),
        environment_from_config_maps=_names(fields, "environment_from_config_maps"),
        volumes=parse_volumes(fields),
        shared_memory=_shared_memory(fields, resources),
        image_pull_secrets=_names(fields, "image_pull_secrets"),
        runtime_class=fields.optional_text("runtime_class", pattern=DNS_SUBDOMAIN, allowed=A_NAME),
        priority_class=fields.optional_text("priority_class", pattern=DNS_SUBDOMAIN, allowed=A_NAME),
        # The queue's name is a label's value, too.
        queue=fields.optional_text("queue", pattern=DNS_SUBDOMAIN, allowed=A_NAME, limit=63),
        node_selector=parse_node_selector(fields),
        tolerations=parse_tolerations(fields),
        namespace=fields.text(
            "namespace", DEFAULT_NAMESPACE, pattern=DNS_LABEL, allowed="a namespace name (a DNS label)"
        ),
        service_account=fields.text("service_account", DEFAULT_SERVICE_ACCOUNT, pattern=DNS_SUBDOMAIN, allowed=A_NAME),
        checkpoint_uri=fields.optional_text("checkpoint_uri", pattern=URI, allowed="a URI such as s3://bucket/folder"),
        code_version=fields.optional_text("code_version", limit=256),
        clocks=parse_clocks(
            fields.section("clocks"),
            deadline_seconds=None if fields.is_late(fields.take("deadline_seconds", None)) else deadline_seconds,
        ),
        budget=budget,
        memory_growth=parse_memory_growth(fields.section("memory_growth"), resources),
        spot_fallback=parse_spot_fallback(fields.section("spot_fallback"), attempts=budget.attempts),
        if_trained=parse_choice(fields, "if_trained", IfTrained.REUSE),
        if_not_resumed=parse_choice(fields, "if_not_resumed", IfNotResumed.WARN),
        grace_seconds=_grace(fields),
        failure_rules=parse_team_rules(fields.sequence("failure_rules"), fields.path("failure_rules")),
    )
    fields.finish()
    return None if fields.templated else spec


def _grace(fields: Fields) -> int | None:
    if fields.take("grace_seconds", None) is None:
        return None
    return fields.whole("grace_seconds", minimum=1, maximum=MAXIMUM_GRACE_S, unit="seconds")


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
        fields.check(f"arguments.{name}", name, _ARGUMENT_NAME, "an argument name without dashes in front")
    if DATA_VERSION_ARGUMENT in arguments:
        path = fields.path(f"arguments.{DATA_VERSION_ARGUMENT}")
        raise ConfigurationError(path, arguments[DATA_VERSION_ARGUMENT], "is set by the operator: leave it out")
    return dict(sorted(arguments.items()))


def _names(fields: Fields, name: str) -> tuple[str, ...]:
    names = fields.texts(name)
    for n, entry in enumerate(names):
        if not fields.is_late(entry):
            fields.check(f"{name}[{n}]", entry, DNS_SUBDOMAIN, A_NAME)
    return names


def _shared_memory(fields: Fields, resources: Resources) -> str:
    size = fields.optional_text("shared_memory", allowed="a Kubernetes quantity, e.g. 1Gi, or 0 for none,")
    if size is None:
        return _SHARED_MEMORY
    if fields.is_late(fields.take("shared_memory")):
        return size
    if parse_quantity(size) == 0:
        return NO_SHARED_MEMORY
    amount = check_amount(fields.path("shared_memory"), size)
    limit = parse_quantity(resources.limits["memory"])  # None while it is a template
    if limit is not None and amount > limit:
        raise fields.refuse(
            "shared_memory",
            f"is above the memory limit {resources.limits['memory']}, against which it counts: at most that is allowed",
        )
    return size
