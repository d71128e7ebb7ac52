"""An image is a name for content of this machine: the digest follows the content, and only the content."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox.agent.images import (
    ImagesFileError,
    ImageStore,
    ImageUnknownError,
    InvalidImageNameError,
    main,
    parse_reference,
)

pytestmark = pytest.mark.unit

YAML = """
trainer:
  path: [venv/bin, /usr/bin]
  environment: {WHERE: "{root}/code"}
  covers: [code, lock.txt]
plain:
  path: ["{python}"]
  command: [/bin/sh]
"""


@pytest.fixture
def store(tmp_path: Path) -> ImageStore:
    (tmp_path / "images.yaml").write_text(YAML)
    (tmp_path / "code" / "tests").mkdir(parents=True)
    (tmp_path / "code" / "a.py").write_text("a = 1\n")
    (tmp_path / "lock.txt").write_text("x==1\n")
    return ImageStore(tmp_path / "images.yaml", tmp_path)


def test_image_has_path_environment_and_command_of_this_machine(store: ImageStore, tmp_path: Path) -> None:
    image = store.image("trainer")
    assert image.environment == {"PATH": f"{tmp_path}/venv/bin:/usr/bin", "WHERE": f"{tmp_path}/code"}
    assert (image.command, image.working_directory) == ((), "/")
    assert (Path(store.image("plain").environment["PATH"]) / "python3").exists()


def test_digest_changes_with_covered_content_names_and_declaration(store: ImageStore, tmp_path: Path) -> None:
    seen = [store.image("trainer").digest]
    (tmp_path / "code" / "a.py").write_text("a = 2\n")
    seen.append(store.image("trainer").digest)
    (tmp_path / "code" / "a.py").rename(tmp_path / "code" / "b.py")
    seen.append(store.image("trainer").digest)
    (tmp_path / "images.yaml").write_text(YAML.replace("WHERE", "ELSEWHERE"))
    seen.append(store.image("trainer").digest)
    assert len(set(seen)) == 4


def test_digest_does_not_change_with_what_is_no_part_of_the_program(store: ImageStore, tmp_path: Path) -> None:
    before = store.image("trainer").digest
    for path in ("code/__pycache__/a.pyc", "code/tests/test_a.py", "code/.cache/x", "code/.hidden", "other.py"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text("changed")
    assert store.image("trainer").digest == before


def test_name_tag_and_the_digest_of_now_resolve(store: ImageStore) -> None:
    image = store.image("trainer")
    for reference in (
        "trainer",
        "trainer:0.1.0",
        "docker.io/library/trainer:x",
        image.identity,
        f"trainer:1@{image.digest}",
    ):
        assert store.resolve(reference) == image


@pytest.mark.parametrize("reference", ["other:1", "registry.example/trainer:1", "trainer@sha256:" + "0" * 64])
def test_other_images_are_not_found_in_containerd_s_words(store: ImageStore, reference: str) -> None:
    failure = f'failed to pull and unpack image "{reference}": failed to resolve reference "{reference}"'
    words = f"rpc error: code = NotFound desc = {failure}: {reference}: not found"
    with pytest.raises(ImageUnknownError) as caught:
        store.resolve(reference)
    assert str(caught.value).startswith(words)


@pytest.mark.parametrize(
    "reference", ["", "Bad:1", "a b", "a:", "a@sha256:short", "-a", "a//b", "https://x/y", "a:" + "t" * 129]
)
def test_what_is_no_reference_is_an_invalid_name(store: ImageStore, reference: str) -> None:
    with pytest.raises(InvalidImageNameError, match="couldn't parse image name"):
        store.resolve(reference)


@pytest.mark.parametrize(
    ("reference", "repository"),
    [
        ("localhost:5000/team/x:1", "localhost:5000/team/x"),
        ("docker.io/library/x", "x"),
        ("docker.io/team/x", "team/x"),
        ("ghcr.io/a/b__c-d.e", "ghcr.io/a/b__c-d.e"),
    ],
)
def test_repository_is_found_in_a_reference(reference: str, repository: str) -> None:
    assert parse_reference(reference) == (repository, None)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: [", "can not be read"),
        ("- a", "a mapping of image names"),
        ("'A:1': {}", "'A:1' is not a repository name"),
        ("a: {paths: []}", "a: unknown key paths; known keys are .*path"),
        ("a: no", "a: not a mapping"),
        ("a: {covers: [gone]}", "covers gone"),
    ],
)
def test_file_that_can_not_be_used_says_where(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "images.yaml"
    file.write_text(text)
    with pytest.raises(ImagesFileError, match=words):
        ImageStore(file, tmp_path).image("a")


def test_command_line_prints_the_identity(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["digest", "xgboost-trainer"]) == 0
    assert capsys.readouterr().out.strip() == ImageStore().image("xgboost-trainer").identity
    assert main(["list"]) == 0
    assert "sandbox-shell@sha256:" in capsys.readouterr().out
    assert main(["digest", "nothing"]) == 1
    assert "declares sandbox-shell, xgboost-trainer" in capsys.readouterr().err
