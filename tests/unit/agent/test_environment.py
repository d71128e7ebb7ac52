"""A container's variables and command are those that a kubelet would make of the pod."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.agent.environment import (
    ContainerConfigError,
    Source,
    SourceKind,
    build_command,
    build_environment,
    expand,
    field_value,
    referenced_sources,
    resource_value,
    service_variables,
)

pytestmark = pytest.mark.unit

CONFIG, SECRET = Source(SourceKind.CONFIG_MAP, "cm"), Source(SourceKind.SECRET, "s")
ALLOCATABLE = {"cpu": "4", "memory": "8Gi"}
POD: dict[str, Any] = {
    "metadata": {
        "name": "p",
        "namespace": "ns",
        "uid": "u-1",
        "labels": {"b": "2", "a": 'say "hi"\n'},
        "annotations": {"x/y": "z"},
    },
    "spec": {"nodeName": "gpu-1", "serviceAccountName": "training", "containers": []},
    "status": {"hostIP": "127.0.0.1", "podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}]},
}


def make(container: dict[str, Any], sources: dict[Source, Any] | None = None, **services: str) -> dict[str, str]:
    return build_environment(POD, container, sources=sources or {}, services=services, allocatable=ALLOCATABLE)


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("$(A)", "1"),
        ("x$(A)y$(A)", "x1y1"),
        ("$(MISSING)", "$(MISSING)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$$$$", "$$"),
        ("$A ${A} $", "$A ${A} $"),
        ("$(A", "$(A"),
        ("$()", "$()"),
        ("$($(A))", "$($(A))"),
    ],
)
def test_references_expand_as_in_kubernetes(text: str, expanded: str) -> None:
    assert expand(text, {"A": "1"}) == expanded


@given(st.text(alphabet=st.characters(exclude_characters="$")))
def test_text_without_a_dollar_stays_as_it_is(text: str) -> None:
    assert expand(text, {"A": "1"}) == text


def test_later_variables_see_earlier_ones_imported_ones_and_services() -> None:
    container = {
        "envFrom": [{"prefix": "P_", "configMapRef": {"name": "cm"}}],
        "env": [
            {"name": "A", "value": "$(P_K)/$(SVC)/$(B)"},
            {"name": "B", "value": "b$(A)"},
            {"name": "P_L", "value": "mine"},
            {"name": "EMPTY"},
        ],
    }
    made = make(container, {CONFIG: {"K": b"k", "L": b"l"}}, SVC="s")
    assert made == {"P_K": "k", "P_L": "mine", "A": "k/s/$(B)", "B": "bk/s/$(B)", "EMPTY": "", "SVC": "s"}


@pytest.mark.parametrize(
    ("container", "sources", "message"),
    [
        ({"envFrom": [{"secretRef": {"name": "s"}}]}, {SECRET: None}, 'secret "s" not found'),
        ({"envFrom": [{"configMapRef": {"name": "cm"}}]}, {CONFIG: None}, 'configmap "cm" not found'),
        (
            {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]},
            {SECRET: {}},
            "couldn't find key k in Secret ns/s",
        ),
        (
            {"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "cm", "key": "k"}}}]},
            {CONFIG: {}},
            "couldn't find key k in ConfigMap ns/cm",
        ),
        (
            {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.color"}}}]},
            {},
            "unsupported fieldPath: spec.color",
        ),
        (
            {"env": [{"name": "A", "valueFrom": {"fileKeyRef": {"path": "x"}}}]},
            {},
            "valueFrom \\['fileKeyRef'\\] is not known",
        ),
    ],
)
def test_missing_values_are_told_in_the_kubelet_s_words(
    container: dict[str, Any], sources: dict[Source, Any], message: str
) -> None:
    with pytest.raises(ContainerConfigError, match=message):
        make(container, sources)


def test_optional_values_that_are_missing_leave_no_variable() -> None:
    optional = {"name": "s", "key": "k", "optional": True}
    container = {
        "envFrom": [{"configMapRef": {"name": "cm", "optional": True}}],
        "env": [{"name": "A", "valueFrom": {"secretKeyRef": optional}}],
    }
    assert make(container, {CONFIG: None, SECRET: None}) == {}
    assert make(container, {CONFIG: {}, SECRET: {"other": b""}}) == {}


def test_bytes_that_are_no_text_reach_the_process_unchanged() -> None:
    container = {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]}
    made = make(container, {SECRET: {"k": b"\xff\x01"}})
    assert made["A"].encode("utf-8", "surrogateescape") == b"\xff\x01"


def test_all_objects_that_variables_come_from_are_named() -> None:
    container = {
        "envFrom": [{"configMapRef": {"name": "cm"}}, {"secretRef": {"name": "t"}}],
        "env": [
            {"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
            {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        ],
    }
    assert referenced_sources(container) == {CONFIG, SECRET, Source(SourceKind.SECRET, "t")}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.name", "p"),
        ("metadata.namespace", "ns"),
        ("metadata.uid", "u-1"),
        ("metadata.labels['b']", "2"),
        ("metadata.labels['none']", ""),
        ("metadata.annotations['x/y']", "z"),
        ("metadata.labels", 'a="say \\"hi\\"\\n"\nb="2"'),
        ("spec.nodeName", "gpu-1"),
        ("spec.serviceAccountName", "training"),
        ("status.podIP", "127.0.0.1"),
        ("status.podIPs", "127.0.0.1"),
    ],
)
def test_downward_api_gives_fields_of_the_pod(path: str, value: str) -> None:
    assert field_value(POD, path) == value


@pytest.mark.parametrize(
    ("reference", "value"),
    [
        ({"resource": "limits.cpu"}, "2"),
        ({"resource": "limits.cpu", "divisor": "1m"}, "1500"),
        ({"resource": "requests.memory", "divisor": "1Mi"}, "64"),
        ({"resource": "limits.memory", "divisor": "0"}, str(8 * 1024**3)),
        ({"resource": "requests.cpu"}, "0"),
    ],
)
def test_resources_are_in_units_of_the_divisor_rounded_up(reference: dict[str, str], value: str) -> None:
    container = {"name": "c", "resources": {"limits": {"cpu": "1500m"}, "requests": {"memory": "64Mi"}}}
    assert resource_value(POD, container, reference, ALLOCATABLE) == value


def test_resource_of_a_container_that_is_not_there_is_refused() -> None:
    with pytest.raises(ContainerConfigError, match="container x not found"):
        resource_value(POD, {}, {"resource": "limits.cpu", "containerName": "x"}, ALLOCATABLE)


def service(name: str, namespace: str, *ports: dict[str, Any], address: str = "10.0.0.1") -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {"clusterIP": address, "ports": list(ports)}}


def test_services_are_the_api_server_s_and_those_of_the_namespace() -> None:
    services = [
        service("kubernetes", "default", {"name": "https", "port": 443, "protocol": "TCP"}),
        service("ml-flow", "ns", {"port": 80, "protocol": "TCP"}, address="10.0.0.2"),
        service("headless", "ns", {"port": 80}, address="None"),
        service("foreign", "other", {"port": 80}),
    ]
    made = service_variables(POD, services)
    assert made["KUBERNETES_SERVICE_HOST"] == "10.0.0.1"
    assert made["KUBERNETES_SERVICE_PORT_HTTPS"] == "443"
    assert made["ML_FLOW_PORT"] == "tcp://10.0.0.2:80"
    assert made["ML_FLOW_PORT_80_TCP_ADDR"] == "10.0.0.2"
    assert not any(name.startswith(("HEADLESS", "FOREIGN")) for name in made)
    unlinked = {**POD, "spec": {**POD["spec"], "enableServiceLinks": False}}
    assert {name.split("_")[0] for name in service_variables(unlinked, services)} == {"KUBERNETES"}


def test_command_replaces_the_image_s_and_args_follow_whichever_it_is() -> None:
    variables = {"N": "5"}
    assert build_command({"command": ["a", "$(N)"], "args": ["$(N)"]}, ["image"], variables) == ["a", "5", "5"]
    assert build_command({"args": ["x"]}, ["image"], variables) == ["image", "x"]
    with pytest.raises(ContainerConfigError, match="no command specified"):
        build_command({}, [], variables)
