"""Layers and images of nodes of kind `containerd`: the same files are the same image, other files another one."""

from __future__ import annotations

import gzip
import json
import os
import tarfile
from pathlib import Path

import pytest

from sandbox.containerd.cached import cached, run
from sandbox.containerd.images import TRAINER, standing, trainer, write_archive
from sandbox.containerd.layers import Layer, tree, write_layer
from sandbox.containerd.rootfs import program_layer
from sandbox.errors import BuildError

pytestmark = pytest.mark.unit


def files(root: Path) -> Path:
    (root / "bin").mkdir(parents=True)
    (root / "bin" / "tool").write_text("#!/bin/sh\n")
    (root / "bin" / "tool").chmod(0o4755)
    (root / "bin" / "same").hardlink_to(root / "bin" / "tool")
    (root / "bin" / "link").symlink_to("tool")
    (root / "dev").mkdir()
    (root / "dev" / "unwanted").write_text("")
    os.mkfifo(root / "bin" / "pipe")
    return root


def layer_of(folder: Path, root: Path) -> Layer:
    folder.mkdir()
    return write_layer(folder, tree(root, keep=lambda path: not path.startswith("dev/")))


def test_layer_of_the_same_files_is_the_same_whenever_they_were_written(tmp_path: Path) -> None:
    first = layer_of(tmp_path / "1", files(tmp_path / "a"))
    os.utime(files(tmp_path / "b") / "bin" / "tool", (0, 0))
    second = layer_of(tmp_path / "2", tmp_path / "b")
    assert (first.digest, first.diff_id, first.size) == (second.digest, second.diff_id, second.size)
    assert Layer.read(first.folder) == first
    (tmp_path / "b" / "bin" / "tool").write_text("#!/bin/bash\n")
    assert layer_of(tmp_path / "3", tmp_path / "b").diff_id != first.diff_id


def test_layer_keeps_modes_and_links_and_leaves_out_what_is_no_file(tmp_path: Path) -> None:
    layer = layer_of(tmp_path / "layer", files(tmp_path / "root"))
    with gzip.open(layer.archive) as plain, tarfile.open(fileobj=plain) as archive:
        entries = {entry.name: entry for entry in archive}
    assert list(entries) == ["bin", "bin/link", "bin/same", "bin/tool", "dev"]
    assert entries["bin/link"].linkname == "tool"
    assert (entries["bin/same"].mode, entries["bin/tool"].linkname) == (0o4755, "bin/same")


def test_archive_names_each_image_by_tag_and_digest_and_brings_only_the_layers_given(tmp_path: Path) -> None:
    base = layer_of(tmp_path / "base", files(tmp_path / "root"))
    (tmp_path / "program").mkdir()
    program = program_layer(tmp_path / "program")
    image = trainer(base, base, program)
    write_archive(tmp_path / "images.tar", [image], [program])
    with tarfile.open(tmp_path / "images.tar") as archive:
        names = archive.getnames()
        index = json.loads(archive.extractfile("index.json").read())  # type: ignore[union-attr]
    assert {each["digest"] for each in index["manifests"]} == {image.digest}
    assert [each["annotations"]["io.containerd.image.name"] for each in index["manifests"]] == [
        f"docker.io/library/{TRAINER}:0.1.0",
        f"docker.io/library/{TRAINER}:1",
        f"docker.io/library/{image.reference}",
    ]
    blobs = {f"blobs/sha256/{digest.removeprefix('sha256:')}" for digest in (program.digest, image.digest)}
    assert blobs <= set(names)
    assert f"blobs/sha256/{base.digest.removeprefix('sha256:')}" not in names
    assert len({each.digest for each in standing(base, program)} | {image.digest}) == 4


def test_program_s_layer_has_the_trainer_and_of_the_package_only_the_contract(tmp_path: Path) -> None:
    with tarfile.open(program_layer(tmp_path).archive) as archive:
        names = archive.getnames()
    assert {"opt/program/trainer/__main__.py", "opt/program/gpu_training/contract.py"} <= set(names)
    assert [name for name in names if name.startswith("opt/program/gpu_training/")] == [
        "opt/program/gpu_training/__init__.py",
        "opt/program/gpu_training/attempt.py",
        "opt/program/gpu_training/checkpoints.py",
        "opt/program/gpu_training/contract.py",
    ]


def test_cached_folder_is_whole_or_not_there(tmp_path: Path) -> None:
    target = tmp_path / "made"

    def fail(draft: Path) -> None:
        (draft / "half").write_text("")
        run("this", ["sh", "-c", "echo why >&2; exit 3"], remedy="do that")

    with pytest.raises(BuildError, match="this failed with exit code 3: do that\nwhy"):
        cached(target, print, fail)
    assert [path.name for path in tmp_path.iterdir()] == ["made.lock"]
    assert cached(target, print, lambda draft: (draft / "whole").touch()) == target
    assert cached(target, print, fail) == target
    assert [path.name for path in target.iterdir()] == ["whole"]
