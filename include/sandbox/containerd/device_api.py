"""The messages of the kubelet's device-plugin API, v1beta1: what is used of k8s.io/kubelet's api.proto."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

API_VERSION = "v1beta1"

_Field = descriptor_pb2.FieldDescriptorProto
_MAP = "EnvsEntry"

_MESSAGES: dict[str, tuple[tuple[int, str, str], ...]] = {
    "Empty": (),
    "DevicePluginOptions": ((1, "pre_start_required", "bool"), (2, "get_preferred_allocation_available", "bool")),
    "RegisterRequest": (
        (1, "version", "string"),
        (2, "endpoint", "string"),
        (3, "resource_name", "string"),
        (4, "options", "DevicePluginOptions"),
    ),
    "Device": ((1, "ID", "string"), (2, "health", "string")),
    "ListAndWatchResponse": ((1, "devices", "*Device"),),
    "ContainerAllocateRequest": ((1, "devices_ids", "*string"),),
    "AllocateRequest": ((1, "container_requests", "*ContainerAllocateRequest"),),
    "ContainerAllocateResponse": ((1, "envs", f"*ContainerAllocateResponse.{_MAP}"),),
    "AllocateResponse": ((1, "container_responses", "*ContainerAllocateResponse"),),
}
"""Fields of each message: number, name, type, `*` for those that repeat."""


def _file() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(name="device_plugin.proto", package=API_VERSION, syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field in fields:
            _add(message, *field)
        if name == "ContainerAllocateResponse":
            entry = message.nested_type.add(name=_MAP)
            entry.options.map_entry = True
            _add(entry, 1, "key", "string")
            _add(entry, 2, "value", "string")
    return file


def _add(message: descriptor_pb2.DescriptorProto, number: int, name: str, kind: str) -> None:
    label = _Field.LABEL_REPEATED if kind.startswith("*") else _Field.LABEL_OPTIONAL
    field = message.field.add(name=name, number=number, label=label)
    match kind.removeprefix("*"):
        case "string":
            field.type = _Field.TYPE_STRING
        case "bool":
            field.type = _Field.TYPE_BOOL
        case other:
            field.type, field.type_name = _Field.TYPE_MESSAGE, f".{API_VERSION}.{other}"


_POOL = descriptor_pool.DescriptorPool()
_POOL.Add(_file())


def _class(name: str) -> Any:
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"{API_VERSION}.{name}"))


Empty = _class("Empty")
Options = _class("DevicePluginOptions")
RegisterRequest = _class("RegisterRequest")
ListAndWatchResponse = _class("ListAndWatchResponse")
AllocateRequest = _class("AllocateRequest")
AllocateResponse = _class("AllocateResponse")
