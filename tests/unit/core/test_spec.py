"""A training spec is right, or refused with one message that names field, value and what is allowed."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from tests.unit.core.specs import document, full_document, spec

from gpu_training.contract import Variable
from gpu_training.core.budget import DEFAULT_DISRUPTIONS, DeclaredBudget
from gpu_training.core.choices import IfNotResumed, IfTrained
from gpu_training.core.clocks import Clocks
from gpu_training.core.environment import SecretKey
from gpu_training.core.errors import ConfigurationError
from gpu_training.core.memory_growth import MemoryGrowth
from gpu_training.core.placement import SpotFallback, Toleration
from gpu_training.core.resources import GPU_RESOURCE, Resources
from gpu_training.core.spec import parse_training_spec
from gpu_training.core.volumes import SHARED_MEMORY_PATH, Volume, VolumeSource

pytestmark = pytest.mark.core

A63 = "a" * 63
A64 = "a" * 64


def refusal(body: object, **options: Any) -> ConfigurationError:
    with pytest.raises(ConfigurationError) as caught:
        parse_training_spec(body, **options)
    return caught.value


def limits(**amounts: Any) -> dict[str, Any]:
    return {"limits": {GPU_RESOURCE: 1, "memory": "2Gi", **amounts}}


def requests(**amounts: Any) -> dict[str, Any]:
    return {"requests": amounts, **limits(cpu=2)}


def gpus(amount: object) -> dict[str, Any]:
    return {"limits": {GPU_RESOURCE: amount, "memory": "2Gi"}}


def test_a_full_document_is_read_field_by_field() -> None:
    read = parse_training_spec(full_document())
    assert read.arguments == {"learning-rate": "0.1", "note": "--not an option", "resume": "true", "rounds": "200"}
    assert read.resources == Resources(
        requests={GPU_RESOURCE: "2", "cpu": "1500m", "memory": "1Gi"},
        limits={GPU_RESOURCE: "2", "cpu": "2", "memory": "2Gi"},
        gpus=2,
    )
    assert read.environment == {"OMP_NUM_THREADS": "2", "LOG_LEVEL": "info"}
    assert read.secret_environment == {"API_TOKEN": SecretKey(secret="tokens", key="api.token")}
    assert read.volumes[:1] + read.volumes[3:] == (
        Volume(name="cache", mount_path="/var/cache/models", source=VolumeSource.CLAIM, reference="model-cache"),
        Volume(name="scratch", mount_path="/scratch", source=VolumeSource.EMPTY_DIR, reference="10Gi"),
        Volume(name="work", mount_path="/work", source=VolumeSource.EMPTY_DIR, reference=""),
    )
    assert read.tolerations == (
        Toleration(key="spot", value="true", effect="NoExecute"),
        Toleration(key="dedicated", value="", effect="NoSchedule"),
    )
    assert (read.shared_memory, read.queue, read.code_version) == ("512Mi", "gpu", "4f1c2e9")
    assert read.clocks == Clocks(
        queue_seconds=7200, startup_seconds=900, run_seconds=1200, stall_seconds=300, total_seconds=9000
    )
    assert read.budget == DeclaredBudget(attempts=4, disruptions=6, gpu_seconds=7200, wall_seconds=3600)
    assert read.memory_growth == MemoryGrowth(factor=Fraction(2), maximum="8Gi")
    assert read.spot_fallback == SpotFallback(
        node_selector={"capacity": "on-demand"},
        tolerations=(Toleration(key="on-demand", value="true", effect="NoSchedule"),),
    )
    assert read.if_trained is IfTrained.RETRAIN
    assert (read.if_not_resumed, read.grace_seconds) == (IfNotResumed.STOP, 120)
    assert [(rule.name, rule.exit_codes) for rule in read.failure_rules] == [("loader-stopped", (9,))]


def test_the_smallest_document_gets_defaults() -> None:
    read = spec()
    assert (read.namespace, read.service_account, read.shared_memory) == ("gpu-training", "training", "1Gi")
    assert read.resources.requests == {GPU_RESOURCE: "1", "memory": "2Gi"}
    assert read.clocks == Clocks()
    assert read.budget == DeclaredBudget(attempts=None, disruptions=DEFAULT_DISRUPTIONS)
    assert read.memory_growth == MemoryGrowth(factor=Fraction(3, 2), maximum="4096Mi")
    assert (read.spot_fallback, read.if_trained, read.failure_rules) == (None, IfTrained.REUSE, ())
    assert (read.if_not_resumed, read.grace_seconds) == (IfNotResumed.WARN, None)


@pytest.mark.parametrize(
    ("resources", "field", "value", "allowed"),
    [
        # GPUs: whole, at least one, under limits, requests equal.
        (gpus(0.5), "limits.nvidia.com/gpu", "0.5", "a whole number from 1 to 64 GPUs"),
        (gpus("0.5"), "limits.nvidia.com/gpu", "0.5", "a whole number from 1 to 64 GPUs"),
        (gpus("1500m"), "limits.nvidia.com/gpu", "1500m", "a whole number from 1 to 64 GPUs"),
        (gpus(0), "limits.nvidia.com/gpu", "0", "a whole number from 1 to 64 GPUs"),
        (gpus(-1), "limits.nvidia.com/gpu", "-1", "a whole number from 1 to 64 GPUs"),
        (gpus(65), "limits.nvidia.com/gpu", "65", "a whole number from 1 to 64 GPUs"),
        (gpus(True), "limits.nvidia.com/gpu", "true", "a whole number from 1 to 64 GPUs"),
        (gpus("two"), "limits.nvidia.com/gpu", "two", "a whole number from 1 to 64 GPUs"),
        (gpus("1" * 40), "limits.nvidia.com/gpu", "1" * 40, "a whole number from 1 to 64 GPUs"),
        (gpus("٣"), "limits.nvidia.com/gpu", "٣", "a whole number from 1 to 64 GPUs"),
        (gpus(None), "limits.nvidia.com/gpu", None, "a text, a number"),
        ({"requests": {GPU_RESOURCE: 1}, "limits": {"memory": "2Gi"}}, "limits.nvidia.com/gpu", None,
         "is in requests only: write under limits how many whole GPUs, from 1 to 64"),
        ({"limits": {"memory": "2Gi"}}, "limits.nvidia.com/gpu", None, "is required"),
        ({"requests": {GPU_RESOURCE: 1}, **gpus(2)}, "requests.nvidia.com/gpu", "1",
         "must equal the limit 2, or be left out"),
        # Memory is required, and more than a forgotten suffix.
        ({"limits": {GPU_RESOURCE: 1}}, "limits.memory", None, "is required, e.g. 8Gi"),
        ({"requests": {"memory": "1Gi"}, "limits": {GPU_RESOURCE: 1}}, "limits.memory", None, "is required"),
        (limits(memory=512), "limits.memory", "512", "at least 1Mi is expected: is a suffix such as Mi or Gi missing?"),
        (limits(memory="512m"), "limits.memory", "512m", "at least 1Mi"),
        # Quantities.
        (limits(memory="2GB"), "limits.memory", "2GB", "a Kubernetes quantity above 0 is expected, e.g. 500m or 8Gi"),
        (limits(memory=" 2Gi"), "limits.memory", " 2Gi", "a Kubernetes quantity"),
        (limits(memory="-2Gi"), "limits.memory", "-2Gi", "above 0"),
        (limits(cpu=0), "limits.cpu", "0", "above 0"),
        (limits(cpu="1/2"), "limits.cpu", "1/2", "a Kubernetes quantity"),
        (limits(cpu=float("nan")), "limits.cpu", float("nan"), "a finite number"),
        (limits(cpu=[1]), "limits.cpu", [1], "a text, a number"),
        # Requests at most the limits, compared as amounts and not as texts.
        (requests(cpu="2001m"), "requests.cpu", "2001m", "is above the limit 2: at most the limit is allowed"),
        (requests(memory="2049Mi"), "requests.memory", "2049Mi", "is above the limit 2Gi"),
        (requests(memory="3G"), "requests.memory", "3G", "is above the limit 2Gi"),
        # Names.
        (limits(memroy="2Gi"), "limits.memroy", "memroy", "unknown resource (did you mean 'memory'?)"),
        (limits(gpu=1), "limits.gpu", "gpu", "unknown resource"),
        ({**limits(), "request": {}}, "request", {}, "unknown key (did you mean 'requests'?)"),
        # Other devices: under limits, and equal.
        (requests(**{"rdma/hca": 1}), "requests.rdma/hca", "1", "is in requests only: write it under limits"),
        ({"requests": {"rdma/hca": 1}, **limits(**{"rdma/hca": 2})}, "requests.rdma/hca", "1", "must equal the limit"),
        ({"requests": {"hugepages-2Mi": "4Mi"}, **limits()}, "requests.hugepages-2Mi", "4Mi", "is in requests only"),
        (None, "", None, "is required and missing: a mapping is expected"),
        ([], "", [], "a mapping with text keys"),
        ({**limits(), "requests": "1Gi"}, "requests", "1Gi", "a mapping with text keys is expected"),
    ],
)  # fmt: skip
def test_resources_that_kubernetes_or_prudence_refuses(
    resources: object, field: str, value: object, allowed: str
) -> None:
    error = refusal(document(resources=resources))
    assert error.field == "training.resources" + (f".{field}" if field else "")
    assert error.value == value or (value != value and error.value != error.value)
    assert allowed in error.allowed


def test_an_amount_may_be_written_in_any_form_that_kubernetes_reads() -> None:
    read = spec(resources=requests(cpu="1e0", memory="2.1G", **{"ephemeral-storage": "1G"})).resources
    assert read.requests["cpu"] == "1e0"
    assert spec(resources=gpus(" 2 ")).resources.limits[GPU_RESOURCE] == "2"


_NAME = "a Kubernetes name (lower-case letters, digits, `-` and `.`, at most 253 characters) is expected"
_CLAIM = {"name": "v", "mount_path": "/v", "claim": "c"}


def volume(**changes: Any) -> dict[str, Any]:
    return {"volumes": [{name: value for name, value in {**_CLAIM, **changes}.items() if value is not None}]}


@pytest.mark.parametrize(
    ("changes", "field", "value", "allowed"),
    [
        # Absent.
        ({"model": None}, "model", None, "is required and missing: a model name"),
        ({"image": None}, "image", None, "is required and missing: an image with tag or digest"),
        ({"entrypoint": None}, "entrypoint", None, "a list of at least the program to run"),
        ({"deadline_seconds": None}, "deadline_seconds", None,
         "is required and missing: a whole number from 10 to 2592000 seconds is expected"),
        ({"ttl_seconds_after_finished": None}, "ttl_seconds_after_finished", None,
         "is required and missing: a whole number from 60 to 2592000 seconds is expected"),
        ({"backoff_limit": None}, "backoff_limit", None, "a whole number from 0 to 20"),
        # Clocks.
        ({"deadline_seconds": 9}, "deadline_seconds", 9, "a whole number from 10 to 2592000 seconds is expected"),
        ({"deadline_seconds": 0}, "deadline_seconds", 0, "from 10"),
        ({"deadline_seconds": -1}, "deadline_seconds", -1, "from 10"),
        ({"deadline_seconds": 1800.5}, "deadline_seconds", 1800.5, "a whole number"),
        ({"deadline_seconds": "30m"}, "deadline_seconds", "30m", "a whole number from 10 to 2592000 seconds"),
        ({"deadline_seconds": True}, "deadline_seconds", True, "a whole number"),
        ({"deadline_seconds": 2592001}, "deadline_seconds", 2592001, "to 2592000"),
        ({"ttl_seconds_after_finished": 59}, "ttl_seconds_after_finished", 59, "from 60"),
        ({"ttl_seconds_after_finished": 0}, "ttl_seconds_after_finished", 0, "from 60"),
        ({"backoff_limit": -1}, "backoff_limit", -1, "from 0 to 20 failures"),
        ({"backoff_limit": 21}, "backoff_limit", 21, "to 20"),
        # Names.
        ({"model": ""}, "model", "", "a model name"),
        ({"model": "a" * 41}, "model", "a" * 41, "at most 40"),
        ({"model": "Flight"}, "model", "Flight", "lower-case"),
        ({"model": "flight_delay"}, "model", "flight_delay", "a model name"),
        ({"model": "flight-"}, "model", "flight-", "a model name"),
        ({"model": "1flight"}, "model", "1flight", "a model name"),
        ({"model": "flüge"}, "model", "flüge", "a model name"),
        ({"model": "flight\n"}, "model", "flight\n", "a model name"),
        ({"model": 7}, "model", 7, "as a text: quote it"),
        ({"namespace": A64}, "namespace", A64, "a namespace name (a DNS label)"),
        ({"namespace": "a.b"}, "namespace", "a.b", "a namespace name"),
        ({"service_account": "a" * 254}, "service_account", "a" * 254, _NAME),
        ({"service_account": "a..b"}, "service_account", "a..b", _NAME),
        ({"service_account": "a.-b"}, "service_account", "a.-b", _NAME),
        ({"runtime_class": "NVIDIA"}, "runtime_class", "NVIDIA", _NAME),
        ({"priority_class": "night ly"}, "priority_class", "night ly", _NAME),
        ({"queue": "-gpu"}, "queue", "-gpu", _NAME),
        ({"queue": A64}, "queue", A64, "at most 63 characters are allowed, these are 64"),
        ({"image_pull_secrets": ["ok", "Not"]}, "image_pull_secrets[1]", "Not", _NAME),
        ({"image_pull_secrets": "registry"}, "image_pull_secrets", "registry", "a list is expected"),
        ({"environment_from_secrets": [1]}, "environment_from_secrets[0]", 1, "a text is expected: quote it"),
        ({"environment_from_config_maps": [""]}, "environment_from_config_maps[0]", "", _NAME),
        # Images.
        ({"image": "trainer"}, "image", "trainer", "an image with tag or digest"),
        ({"image": "Team/Trainer:1"}, "image", "Team/Trainer:1", "an image with tag or digest"),
        ({"image": "trainer:"}, "image", "trainer:", "an image"),
        ({"image": "trainer:1 "}, "image", "trainer:1 ", "an image"),
        ({"image": "trainer@sha256:abc"}, "image", "trainer@sha256:abc", "repository@sha256:…"),
        ({"image": "http://registry/trainer:1"}, "image", "http://registry/trainer:1", "an image"),
        ({"image": 1.1}, "image", 1.1, "quote it"),
        # The program: nothing can be smuggled in as another option.
        ({"entrypoint": []}, "entrypoint", [], "at least the program to run"),
        ({"entrypoint": "python -m trainer"}, "entrypoint", "python -m trainer", "a list is expected"),
        ({"entrypoint": [" "]}, "entrypoint", [" "], "at least the program to run"),
        ({"entrypoint": ["sleep", 5]}, "entrypoint[1]", 5, "quote it"),
        ({"entrypoint": ["python", "a\0b"]}, "entrypoint[1]", "a\0b", "without NUL"),
        ({"arguments": {"--rounds": 1}}, "arguments.--rounds", "--rounds", "an argument name without dashes in front"),
        ({"arguments": {"rounds=1 --x": 1}}, "arguments.rounds=1 --x", "rounds=1 --x", "an argument name"),
        ({"arguments": {"a b": 1}}, "arguments.a b", "a b", "an argument name"),
        ({"arguments": {"": 1}}, "arguments.", "", "an argument name"),
        ({"arguments": {"a" * 64: 1}}, "arguments." + "a" * 64, "a" * 64, "an argument name"),
        ({"arguments": {"data-version": "x"}}, "arguments.data-version", "x", "is set by the operator"),
        ({"arguments": {"x": None}}, "arguments.x", None, "a text, a number, or true or false"),
        ({"arguments": {"x": [1]}}, "arguments.x", [1], "a text, a number, or true or false"),
        ({"arguments": {"x": "a\0b"}}, "arguments.x", "a\0b", "without NUL"),
        ({"arguments": {"x": "\ud800"}}, "arguments.x", "\ud800", "UTF-8"),
        ({"arguments": {"x": "a" * 32769}}, "arguments.x", "a" * 32769, "at most 32768 characters are allowed"),
        ({"arguments": {"x": float("inf")}}, "arguments.x", float("inf"), "a finite number"),
        ({"arguments": {"x": 2**63}}, "arguments.x", 2**63, "below 2^63"),
        ({"arguments": [1]}, "arguments", [1], "a mapping with text keys"),
        ({"arguments": {1: 1}}, "arguments", {1: 1}, "a mapping with text keys"),
        # Variables.
        ({"environment": {"1X": "a"}}, "environment.1X", "1X", "a variable's name (letters, digits"),
        ({"environment": {"A=B": "a"}}, "environment.A=B", "A=B", "a variable's name"),
        ({"environment": {"": "a"}}, "environment.", "", "a variable's name"),
        ({"environment": {"Ä": "a"}}, "environment.Ä", "Ä", "a variable's name"),
        ({"environment": {"A\n": "a"}}, "environment.A\n", "A\n", "a variable's name"),
        ({"environment": {"A": "x\0"}}, "environment.A", "x\0", "without NUL"),
        ({"environment": {"GPU_TRAINING_MINE": "x"}}, "environment.GPU_TRAINING_MINE", "GPU_TRAINING_MINE",
         "of the operator's own"),
        ({"secret_environment": {"1X": {"secret": "s", "key": "k"}}}, "secret_environment.1X", "1X",
         "a variable's name"),
        ({"secret_environment": {"X": "s"}}, "secret_environment.X", "s", "a mapping"),
        ({"secret_environment": {"X": None}}, "secret_environment.X", None, "is required and missing"),
        ({"secret_environment": {"X": {"secret": "s"}}}, "secret_environment.X.key", None, "is required and missing"),
        ({"secret_environment": {"X": {"secret": "s", "key": "a/b"}}}, "secret_environment.X.key", "a/b",
         "a key of the Secret"),
        ({"secret_environment": {"X": {"secret": "S", "key": "k"}}}, "secret_environment.X.secret", "S", _NAME),
        ({"secret_environment": {"X": {"secret": "s", "key": "k", "name": "n"}}}, "secret_environment.X.name", "n",
         "unknown key"),
        ({"environment": {"X": 1}, "secret_environment": {"X": {"secret": "s", "key": "k"}}}, "secret_environment.X",
         "X", "is in environment too"),
        # Volumes.
        (volume(name=None), "volumes[0].name", None, "is required and missing: a volume name"),
        (volume(name="A"), "volumes[0].name", "A", "a DNS label"),
        (volume(name=A64), "volumes[0].name", A64, "at most 63"),
        (volume(name="shared-memory"), "volumes[0].name", "shared-memory", "is the operator's own volume"),
        (volume(mount_path="data"), "volumes[0].mount_path", "data", "an absolute path"),
        (volume(mount_path="/"), "volumes[0].mount_path", "/", "an absolute path"),
        (volume(mount_path="/a:b"), "volumes[0].mount_path", "/a:b", "without `:`"),
        (volume(mount_path="/a/../dev"), "volumes[0].mount_path", "/a/../dev", "an absolute path"),
        (volume(mount_path="/a//b"), "volumes[0].mount_path", "/a//b", "an absolute path"),
        (volume(mount_path="/a\n"), "volumes[0].mount_path", "/a\n", "an absolute path"),
        (volume(mount_path=SHARED_MEMORY_PATH), "volumes[0].mount_path", SHARED_MEMORY_PATH, "set shared_memory"),
        (volume(mount_path="/dev"), "volumes[0].mount_path", "/dev", "a path outside /dev, /proc, /sys"),
        (volume(mount_path="/dev/termination-log"), "volumes[0].mount_path", "/dev/termination-log", "outside /dev"),
        (volume(claim=None), "volumes[0].claim", None, "exactly one of claim, config_map, secret, empty_dir"),
        (volume(secret="s"), "volumes[0].secret", "s", "exactly one of claim, config_map, secret, empty_dir"),
        (volume(claim="C"), "volumes[0].claim", "C", _NAME),
        (volume(claim=None, empty_dir={"size": "1Gi"}), "volumes[0].empty_dir.size", "1Gi",
         "unknown key; known are: size_limit"),
        (volume(claim=None, empty_dir={"size_limit": "big"}), "volumes[0].empty_dir.size_limit", "big",
         "a Kubernetes quantity above 0"),
        (volume(read_only="maybe"), "volumes[0].read_only", "maybe", "true or false"),
        (volume(readonly=True), "volumes[0].readonly", True, "did you mean 'read_only'?"),
        ({"volumes": {"name": "v"}}, "volumes", {"name": "v"}, "a list is expected"),
        ({"volumes": ["v"]}, "volumes[0]", "v", "a mapping"),
        ({"volumes": [_CLAIM, {**_CLAIM, "mount_path": "/w"}]}, "volumes[1].name", "v",
         "is used twice, in training.volumes[0].name too"),
        ({"volumes": [_CLAIM, {**_CLAIM, "name": "w"}]}, "volumes[1].mount_path", "/v", "is used twice"),
        ({"shared_memory": "lots"}, "shared_memory", "lots", "a Kubernetes quantity"),
        ({"shared_memory": "-1"}, "shared_memory", "-1", "above 0"),
        ({"shared_memory": 1}, "shared_memory", 1, "quote it"),
        ({"shared_memory": "3Gi"}, "shared_memory", "3Gi", "is above the memory limit 2Gi, against which it counts"),
        # Labels.
        ({"node_selector": {"a b": "x"}}, "node_selector.a b", "a b", "a label key"),
        ({"node_selector": {A64: "x"}}, "node_selector." + A64, A64, "a label key"),
        ({"node_selector": {"A/b/c": "x"}}, "node_selector.A/b/c", "A/b/c", "a label key"),
        ({"node_selector": {"zone": A64}}, "node_selector.zone", A64, "a label value (at most 63"),
        ({"node_selector": {"zone": "a/b"}}, "node_selector.zone", "a/b", "a label value"),
        ({"node_selector": {"zone": "2026-11-30T19:24:00"}}, "node_selector.zone", "2026-11-30T19:24:00",
         "a label value"),
        ({"node_selector": {"zone": "-a"}}, "node_selector.zone", "-a", "a label value"),
        ({"tolerations": [{}]}, "tolerations[0].key", None, "is required and missing: a taint key"),
        ({"tolerations": [{"key": "k", "value": "a b"}]}, "tolerations[0].value", "a b", "a taint value"),
        ({"tolerations": [{"key": "k", "effect": "Never"}]}, "tolerations[0].effect", "Never",
         "NoSchedule, NoExecute or PreferNoSchedule"),
        ({"tolerations": [{"key": "k", "operator": "Exists"}]}, "tolerations[0].operator", "Exists", "unknown key"),
        # What the lineage may spend, and how it goes on: tests of their own say more.
        ({"budget": {"atempts": 3}}, "budget.atempts", 3, "did you mean 'attempts'?"),
        ({"budget": [3]}, "budget", [3], "a mapping with text keys"),
        ({"memory_growth": {"factor": 1}}, "memory_growth.factor", 1, "a number above 1"),
        ({"spot_fallback": {"tolerations": []}}, "spot_fallback.node_selector", None, "labels of the nodes"),
        ({"if_trained": "always"}, "if_trained", "always", "one of reuse, retrain is expected"),
        ({"if_trained": True}, "if_trained", True, "quote it"),
        ({"if_not_resumed": "fail"}, "if_not_resumed", "fail", "one of warn, stop is expected"),
        ({"grace_seconds": 0}, "grace_seconds", 0, "from 1 to 3600 seconds"),
        ({"grace_seconds": 3601}, "grace_seconds", 3601, "from 1 to 3600 seconds"),
        ({"grace_seconds": "long"}, "grace_seconds", "long", "seconds"),
        ({"failure_rules": {"name": "x"}}, "failure_rules", {"name": "x"}, "a list is expected"),
        # The rest.
        ({"checkpoint_uri": "checkpoints"}, "checkpoint_uri", "checkpoints", "a URI such as s3://bucket/folder"),
        ({"checkpoint_uri": "s3://a b"}, "checkpoint_uri", "s3://a b", "a URI"),
        ({"checkpoint_uri": "s3://a\0"}, "checkpoint_uri", "s3://a\0", "a URI"),
        ({"code_version": 1.10}, "code_version", 1.1, "quote it"),
        ({"code_version": "x" * 257}, "code_version", "x" * 257, "at most 256 characters"),
        ({"dedline_seconds": 5}, "dedline_seconds", 5, "unknown key (did you mean 'deadline_seconds'?); known"),
        ({"Model": "x"}, "Model", "x", "did you mean 'model'?"),
        ({"zzz": 1}, "zzz", 1, "unknown key; known are:"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_naming_field_value_and_what_is_allowed(
    changes: dict[str, Any], field: str, value: object, allowed: str
) -> None:
    body = document()
    body.update(changes)
    for name in [name for name, entry in changes.items() if entry is None]:
        del body[name]
    error = refusal(body)
    assert error.field == f"training.{field}"
    assert error.value == value
    assert allowed in error.allowed
    assert str(error).isprintable()
    assert len(str(error)) < 1200


@pytest.mark.parametrize("name", sorted(Variable))
@pytest.mark.parametrize("section", ["environment", "secret_environment"])
def test_the_operators_own_variables_can_not_be_set(section: str, name: str) -> None:
    value = "x" if section == "environment" else {"secret": "s", "key": "k"}
    error = refusal(document(**{section: {name: value}}))
    assert (error.field, error.value) == (f"training.{section}.{name}", name)
    assert "is a name of the operator's own: choose another" in error.allowed


@pytest.mark.parametrize(
    "changes",
    [
        {"namespace": "a" * 62},
        {"namespace": A63},
        {"queue": A63},
        {"model": "a" * 40},
        {"model": "a"},
        # A part of a name may be longer than a DNS label: only the whole is limited.
        {"service_account": "a" * 253},
        {"service_account": A64 + ".b-c.d"},
        {"node_selector": {f"{'a' * 253}/{A63}": A63}},
        {"node_selector": {"zone": ""}},
        {"node_selector": {"gpu": True, "count": 4}},
        {"image": "trainer:1"},
        {"image": "trainer@sha256:" + "0" * 64},
        {"image": "localhost:5000/a/b__c-d.e:v1.0_x@sha256:" + "0" * 64},
        {"image": "123.dkr.ecr.eu-central-1.amazonaws.com/trainer:2026-03"},
        {"image": "[2001:db8::1]:5000/trainer:1"},
        {"environment": {"X": "two\nlines\tand a tab", "y.z-1": ""}},
        {"arguments": {"x": "", "y": "--z=1; rm -rf / $(HOME)", "Z9_.-": "ünï\ncode"}},
        {"shared_memory": "0"},
        {"shared_memory": "2Gi"},
        {"shared_memory": ""},
        {"checkpoint_uri": ""},
        {"volumes": [{**_CLAIM, "mount_path": "/device/x"}, {**_CLAIM, "name": "w", "mount_path": "/v/inner"}]},
        {"deadline_seconds": "1800"},
        {"deadline_seconds": 10},
        {"ttl_seconds_after_finished": 60},
        {"backoff_limit": 0},
    ],
)
def test_what_kubernetes_accepts_is_accepted(changes: dict[str, Any]) -> None:
    assert spec(**changes)


@pytest.mark.parametrize("body", [None, [], "training", 5, {1: 2}])
def test_a_document_that_is_no_mapping_is_refused(body: object) -> None:
    error = refusal(body)
    assert (error.field, error.value) == ("training", body)


# Templates.

_T = "{{ params.x }}"

TEMPLATED: list[dict[str, Any]] = [
    {"image": _T},
    {"image": "trainer:{{ params.tag }}"},
    {"model": "{% if params.x %}a{% endif %}"},
    {"entrypoint": ["python", "-m", _T]},
    {"arguments": {"rounds": _T}},
    {"resources": gpus(_T)},
    {"resources": limits(memory=_T)},
    {"resources": requests(cpu=_T)},
    {"deadline_seconds": _T},
    {"environment": {"X": _T}},
    {"secret_environment": {"X": {"secret": _T, "key": "k"}}},
    {"environment_from_secrets": [_T]},
    volume(mount_path=_T),
    volume(claim=_T),
    volume(read_only=_T),
    volume(claim=None, empty_dir={"size_limit": _T}),
    {"volumes": [volume(name=_T)["volumes"][0], volume(name=_T, mount_path="/w")["volumes"][0]]},
    {"shared_memory": _T},
    {"node_selector": {"zone": _T}},
    {"tolerations": [{"key": _T, "effect": _T}]},
    {"queue": "{# a comment #}gpu"},
    {"checkpoint_uri": _T},
    {"budget": {"attempts": _T, "disruptions": _T, "gpu_seconds": _T, "wall_seconds": _T}},
    {"memory_growth": {"factor": _T}},
    {"memory_growth": {"maximum": _T}},
    {"resources": limits(memory=_T), "memory_growth": {"factor": 2, "maximum": "1Mi"}},
    {"spot_fallback": {"node_selector": {"capacity": _T}, "tolerations": [{"key": _T}]}},
    {"if_trained": _T},
    {"if_not_resumed": _T},
    {"grace_seconds": _T},
    {"resources": gpus(_T), "budget": {"gpu_seconds": 10}},
    {"backoff_limit": _T, "budget": {"attempts": 1}},
    {"deadline_seconds": _T, "budget": {"wall_seconds": 10}},
]


@pytest.mark.parametrize("changes", TEMPLATED)
def test_a_template_passes_while_a_dag_file_is_parsed(changes: dict[str, Any]) -> None:
    assert parse_training_spec(document(**changes), templates=True) is None


def test_without_any_template_the_spec_is_there_at_once() -> None:
    assert parse_training_spec(full_document(), templates=True) == parse_training_spec(full_document())


@pytest.mark.case("C088")
@pytest.mark.parametrize(
    ("changes", "field", "value"),
    [
        ({"image": "None"}, "image", "None"),
        ({"image": ""}, "image", ""),
        ({"resources": gpus("None")}, "resources.limits.nvidia.com/gpu", "None"),
        ({"resources": gpus("2.0")}, "resources.limits.nvidia.com/gpu", "2.0"),
        ({"resources": limits(memory="")}, "resources.limits.memory", ""),
        ({"deadline_seconds": "soon"}, "deadline_seconds", "soon"),
        ({"node_selector": {"zone": "<Undefined>"}}, "node_selector.zone", "<Undefined>"),
        # What was never rendered is nonsense, too.
        ({"image": _T}, "image", _T),
        ({"deadline_seconds": _T}, "deadline_seconds", _T),
        ({"resources": limits(memory=_T)}, "resources.limits.memory", _T),
        (volume(mount_path=_T), "volumes[0].mount_path", _T),
    ],
)
def test_a_template_that_rendered_to_nonsense_is_caught_after_rendering(
    changes: dict[str, Any], field: str, value: str
) -> None:
    error = refusal(document(**changes))
    assert (error.field, error.value) == (f"training.{field}", value)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"image": _T, "dedline_seconds": 5}, "dedline_seconds"),
        ({"image": _T, "deadline_seconds": 5}, "deadline_seconds"),
        ({"resources": {"requests": {"cpu": 3}, **limits(cpu=2, memory=_T)}}, "resources.requests.cpu"),
        ({"image": _T, "shared_memory": "3Gi"}, "shared_memory"),
        ({"image": _T, "volumes": [_CLAIM, {**_CLAIM, "name": "w"}]}, "volumes[1].mount_path"),
        # Airflow renders values, never keys.
        ({"arguments": {_T: 1}}, "arguments." + _T),
        ({"environment": {_T: 1}}, "environment." + _T),
        ({"node_selector": {_T: "x"}}, "node_selector." + _T),
        # A template stands for one value, not for a section.
        ({"arguments": _T}, "arguments"),
        ({"volumes": _T}, "volumes"),
    ],
)
def test_all_else_is_checked_beside_a_template(changes: dict[str, Any], field: str) -> None:
    assert refusal(document(**changes), templates=True).field == f"training.{field}"


class Later:
    """What Airflow renders like a template: an object that names its references, as an XComArg does."""

    def iter_references(self) -> list[object]:
        return []


def test_an_output_of_another_task_passes_while_a_dag_file_is_parsed() -> None:
    assert parse_training_spec(document(arguments={"x": Later()}, image=Later()), templates=True) is None
    assert refusal(document(arguments={"x": Later()})).field == "training.arguments.x"


def test_the_path_of_the_document_is_the_callers() -> None:
    assert refusal(document(model=None), where="models/a.yaml: training").field == "models/a.yaml: training.model"
    assert refusal(document(model=None), where="").field == "model"
