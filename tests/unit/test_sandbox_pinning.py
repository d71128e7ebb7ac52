"""Which Kubernetes is pinned, and the go.mod that pins it."""

from __future__ import annotations

import re

import pytest

from sandbox.errors import SandboxError
from sandbox.pinning import module_file, newest_patch, pin
from sandbox.toolchain import SOURCES

pytestmark = pytest.mark.unit

UPSTREAM = """module k8s.io/kubernetes

go 1.26.0

godebug default=go1.26

require k8s.io/api v0.0.0

replace (
	k8s.io/api => ./staging/src/k8s.io/api
	k8s.io/kms => ./staging/src/k8s.io/kms
)
"""


def test_the_newest_release_of_a_minor_version_is_taken_and_no_preview_of_the_next() -> None:
    assert newest_patch("1.36", ["v1.36.2", "v1.36.10", "v1.36.11-rc.0", "v1.3.60", "v1.37.0"]) == "v1.36.10"


def test_a_version_that_no_one_has_released_is_told_with_those_that_are() -> None:
    with pytest.raises(
        SandboxError, match=r"Kubernetes 1\.39 has no release that can be had; the newest are 1\.37, 1\.9$"
    ):
        newest_patch("1.39", ["v1.9.0", "v1.37.2", "v1.39.0-alpha.1"])
    with pytest.raises(SandboxError, match=r"Kubernetes '1\.37\.2' is no minor version: give one such as 1\.37"):
        pin("1.37.2", print)


def test_each_staging_module_is_replaced_by_its_published_version() -> None:
    assert module_file("v1.36.3", "kubelet", UPSTREAM).split("\n\n") == [
        "module gpu-training.io/sandbox/kubelet",
        "go 1.26.0",
        "godebug default=go1.26",
        "require k8s.io/kubernetes v1.36.3",
        "replace (\n\tk8s.io/api => k8s.io/api v0.36.3\n\tk8s.io/kms => k8s.io/kms v0.36.3\n)\n",
    ]


def test_control_plane_and_kubelet_of_a_version_are_pinned_alike() -> None:
    for folder in SOURCES.glob("kubernetes*"):
        versions = {
            re.search(r"^require k8s\.io/kubernetes (\S+)$", (each / "go.mod").read_text(), re.M)[1]  # type: ignore[index]
            for each in (folder, folder.with_name(folder.name.replace("kubernetes", "kubelet")))
        }
        assert len(versions) == 1
