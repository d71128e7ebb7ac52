"""A container's environment variables, command and arguments, as the kubelet makes them of the pod. Pure.

https://kubernetes.io/docs/tasks/inject-data-application/define-environment-variable-container/
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from sandbox.agent.quantities import QuantityError, divide_up, parse_quantity

Document = Mapping[str, Any]

_REFERENCE = re.compile(r"\$\$|\$\(([^)]*)\)")
_SUBSCRIPT = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"})
_METADATA = ("name", "namespace", "uid")


class SourceKind(StrEnum):
    """Kinds of object that hold values for containers. The value is the word in the kubelet's messages."""

    SECRET = "secret"  # noqa: S105
    CONFIG_MAP = "configmap"


class Source(NamedTuple):
    """A Secret or ConfigMap of the pod's namespace."""

    kind: SourceKind
    name: str


Sources = Mapping[Source, Mapping[str, bytes] | None]
"""Content by object; None: there is no such object."""


class ContainerConfigError(Exception):
    """The container can not be made as things are: CreateContainerConfigError. The message is the kubelet's."""


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace `$(NAME)` by its variable. An unknown one stays as it is; `$$` is a dollar, so `$$(NAME)` is kept."""

    def value(match: re.Match[str]) -> str:
        name = match.group(1)
        return "$" if name is None else variables.get(name, match.group(0))

    return _REFERENCE.sub(value, text)


def referenced_sources(container: Document) -> set[Source]:
    """Return the objects that the container's variables come from."""
    found: set[Source] = set()
    for entry in container.get("envFrom") or ():
        if reference := _source_of(entry.get("configMapRef"), entry.get("secretRef")):
            found.add(reference[0])
    for variable in container.get("env") or ():
        given = variable.get("valueFrom") or {}
        if reference := _source_of(given.get("configMapKeyRef"), given.get("secretKeyRef")):
            found.add(reference[0])
    return found


def _source_of(config_map: Document | None, secret: Document | None) -> tuple[Source, Document] | None:
    if config_map is not None:
        return Source(SourceKind.CONFIG_MAP, config_map.get("name", "")), config_map
    if secret is not None:
        return Source(SourceKind.SECRET, secret.get("name", "")), secret
    return None


def build_environment(
    pod: Document, container: Document, *, sources: Sources, services: Mapping[str, str], allocatable: Mapping[str, str]
) -> dict[str, str]:
    """Return the variables that a kubelet would give to the container, without the image's own.

    :param sources: content of all that :func:`referenced_sources` names.
    :param services: variables of the services that the pod may see (:func:`service_variables`).
    :param allocatable: the node's; what a container without a limit is told as its limit.
    :raises ContainerConfigError: when an object or key that is not optional is missing.
    """
    variables = dict(_imported(pod, container, sources))
    for entry in container.get("env") or ():
        name = entry["name"]
        known = {**services, **variables}
        if entry.get("value"):
            variables[name] = expand(entry["value"], known)
        elif given := entry.get("valueFrom"):
            value = _referenced_value(pod, container, given, sources, allocatable)
            if value is not None:
                variables[name] = value
        else:
            variables[name] = ""
    return {**services, **variables}


def _imported(pod: Document, container: Document, sources: Sources) -> Iterator[tuple[str, str]]:
    for entry in container.get("envFrom") or ():
        reference = _source_of(entry.get("configMapRef"), entry.get("secretRef"))
        content = _content(reference, sources) if reference else None
        for key, value in (content or {}).items():
            yield entry.get("prefix", "") + key, _text(value)


def _content(reference: tuple[Source, Document], sources: Sources) -> Mapping[str, bytes] | None:
    source, selector = reference
    content = sources.get(source)
    if content is None and not selector.get("optional"):
        raise ContainerConfigError(f'{source.kind} "{source.name}" not found')
    return content


def _referenced_value(
    pod: Document, container: Document, given: Document, sources: Sources, allocatable: Mapping[str, str]
) -> str | None:
    if field := given.get("fieldRef"):
        return field_value(pod, field["fieldPath"])
    if resource := given.get("resourceFieldRef"):
        return resource_value(pod, container, resource, allocatable)
    reference = _source_of(given.get("configMapKeyRef"), given.get("secretKeyRef"))
    if reference is None:
        raise ContainerConfigError(f"valueFrom {sorted(given)} is not known to nodes of kind process")
    source, selector = reference
    content = _content(reference, sources)
    value = (content or {}).get(selector["key"])
    if value is not None:
        return _text(value)
    if selector.get("optional"):
        return None
    kind = "Secret" if source.kind is SourceKind.SECRET else "ConfigMap"
    namespace = pod["metadata"]["namespace"]
    raise ContainerConfigError(f"couldn't find key {selector['key']} in {kind} {namespace}/{source.name}")


def _text(value: bytes) -> str:
    # Variables are bytes to the process; what is not UTF-8 survives this way to execve.
    return value.decode("utf-8", "surrogateescape")


def field_value(pod: Document, path: str) -> str:
    """Return a field of the pod by the downward API's path.

    :raises ContainerConfigError: when the downward API has no such field.
    """
    metadata: Document = pod["metadata"]
    if match := _SUBSCRIPT.fullmatch(path):
        return str((metadata.get(match[1]) or {}).get(match[2], ""))
    if path in ("metadata.labels", "metadata.annotations"):
        entries: Mapping[str, str] = metadata.get(path.removeprefix("metadata.")) or {}
        return "\n".join(f"{key}={_quoted(value)}" for key, value in sorted(entries.items()))
    if path.removeprefix("metadata.") in _METADATA and path.startswith("metadata."):
        return str(metadata.get(path.removeprefix("metadata."), ""))
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    match path:
        case "spec.nodeName" | "spec.serviceAccountName":
            return str(spec.get(path.removeprefix("spec."), ""))
        case "status.hostIP" | "status.podIP":
            return str(status.get(path.removeprefix("status."), ""))
        case "status.hostIPs" | "status.podIPs":
            return ",".join(entry["ip"] for entry in status.get(path.removeprefix("status.")) or ())
    raise ContainerConfigError(f"unsupported fieldPath: {path}")


def _quoted(value: str) -> str:
    return f'"{value.translate(_ESCAPES)}"'


def resource_value(pod: Document, container: Document, reference: Document, allocatable: Mapping[str, str]) -> str:
    """Return a request or limit of a container in units of its divisor, rounded up.

    A limit of CPU or memory that is not set is what the node has; any other is 0.
    :raises ContainerConfigError: for a container or resource that is not there.
    """
    section, _, name = reference["resource"].partition(".")
    if other := reference.get("containerName"):
        everyone = (*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"])
        container = next((one for one in everyone if one["name"] == other), {})
        if not container:
            raise ContainerConfigError(f"container {other} not found")
    if section not in ("limits", "requests") or not name:
        raise ContainerConfigError(f"unsupported container resource : {reference['resource']}")
    amount = (container.get("resources") or {}).get(section, {}).get(name)
    if amount is None and section == "limits":
        amount = allocatable.get(name)
    try:
        divisor = parse_quantity(reference.get("divisor") or "1")
        return str(divide_up(parse_quantity(amount or "0"), divisor or parse_quantity("1")))
    except QuantityError as error:
        raise ContainerConfigError(str(error)) from error


def service_variables(pod: Document, services: Iterable[Document]) -> dict[str, str]:
    """Return the variables by which a pod finds services.

    The API server's own is always among them; those of the pod's namespace unless `enableServiceLinks` is false.
    """
    namespace = pod["metadata"]["namespace"]
    linked = pod["spec"].get("enableServiceLinks", True)
    chosen: dict[str, Document] = {}
    for service in services:
        name, home = service["metadata"]["name"], service["metadata"]["namespace"]
        if (home, name) == ("default", "kubernetes"):
            chosen.setdefault(name, service)
        elif linked and home == namespace:
            chosen[name] = service
    variables: dict[str, str] = {}
    for service in chosen.values():
        variables.update(_variables_of_service(service))
    return variables


def _variables_of_service(service: Document) -> Iterator[tuple[str, str]]:
    address, ports = service["spec"].get("clusterIP"), service["spec"].get("ports") or ()
    if address in (None, "", "None") or not ports:
        return
    host = f"[{address}]" if ":" in address else address
    prefix = _variable_name(service["metadata"]["name"])
    yield f"{prefix}_SERVICE_HOST", address
    yield f"{prefix}_SERVICE_PORT", str(ports[0]["port"])
    for index, port in enumerate(ports):
        protocol = port.get("protocol") or "TCP"
        url = f"{protocol.lower()}://{host}:{port['port']}"
        if port.get("name"):
            yield f"{prefix}_SERVICE_PORT_{_variable_name(port['name'])}", str(port["port"])
        if index == 0:
            yield f"{prefix}_PORT", url
        one = f"{prefix}_PORT_{port['port']}_{protocol.upper()}"
        yield one, url
        yield f"{one}_PROTO", protocol.lower()
        yield f"{one}_PORT", str(port["port"])
        yield f"{one}_ADDR", address


def _variable_name(name: str) -> str:
    return name.replace("-", "_").upper()


def build_command(container: Document, image_command: Iterable[str], variables: Mapping[str, str]) -> list[str]:
    """Return the program and its arguments: the container's `command` and `args`, `$(NAME)` expanded.

    :param image_command: what the image runs unless the container has a `command`; dropped with it.
    :raises ContainerConfigError: when there is nothing to run.
    """
    given = [expand(part, variables) for part in container.get("command") or ()]
    arguments = [expand(part, variables) for part in container.get("args") or ()]
    command = [*(given or image_command), *arguments]
    if not command:
        raise ContainerConfigError("no command specified: neither the container nor its image has one")
    return command
