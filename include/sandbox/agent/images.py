"""Images of a node of kind `process`: names for environments of this machine, declared in one YAML file.

`python -m sandbox.agent.images digest NAME` prints `NAME@sha256:...` of the content as it is now; `list` prints all.
A reference `name`, `name:tag` or `name@sha256:<the current digest>` is known; every other is not.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

DEFAULT_IMAGES = Path(__file__).parents[1] / "images.yaml"
PROJECT_ROOT = Path(__file__).parents[3]

_KEYS = {"path", "environment", "working_directory", "command", "covers"}
_IGNORED = {"__pycache__", "tests"}

_COMPONENT = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_DOMAIN = r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9a-fA-F:]+\])(?::[0-9]+)?"
_REFERENCE = re.compile(
    rf"(?P<repository>(?:{_DOMAIN}/)?{_COMPONENT}(?:/{_COMPONENT})*)"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?(?:@(?P<digest>[a-z0-9]+:[0-9a-f]{32,}))?"
)


class ImagesFileError(ValueError):
    """The YAML file of images can not be used; the message says where and why."""


class InvalidImageNameError(Exception):
    """Text that is no image reference; the message is worded as the kubelet's."""


class ImageUnknownError(Exception):
    """No such image here; the message is worded as containerd's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """An image as it is now.

    :param name: its repository name.
    :param digest: `sha256:<hex>` over its declaration and all that it covers.
    :param environment: variables of every container of it, PATH among them.
    :param command: what a container runs that names no command of its own.
    """

    name: str
    digest: str
    environment: Mapping[str, str]
    command: tuple[str, ...]
    working_directory: str

    @property
    def identity(self) -> str:
        """`name@digest`."""
        return f"{self.name}@{self.digest}"


class ImageStore:
    """The images that a YAML file declares. It is read anew at each look-up: images come and go while a node runs."""

    def __init__(self, file: Path = DEFAULT_IMAGES, root: Path = PROJECT_ROOT) -> None:
        self._file = file
        self._root = root

    def names(self) -> list[str]:
        """Return what is declared.

        :raises ImagesFileError: when the file can not be used.
        """
        return sorted(self._declared())

    def image(self, name: str) -> Image:
        """Return a declared image.

        :raises ImageUnknownError: when none has this name.
        :raises ImagesFileError: when the file can not be used.
        """
        declared = self._declared()
        if name not in declared:
            raise ImageUnknownError(f"no image {name}; {self._file} declares {', '.join(sorted(declared)) or 'none'}")
        entry = declared[name]
        folders = [str(self._absolute(part)) for part in entry.get("path", ())]
        environment = {key: self._expanded(value) for key, value in (entry.get("environment") or {}).items()}
        return Image(
            name=name,
            digest=self._digest(entry),
            environment={"PATH": os.pathsep.join(folders), **environment},
            command=tuple(entry.get("command") or ()),
            working_directory=str(self._absolute(entry.get("working_directory") or "/")),
        )

    def resolve(self, reference: str) -> Image:
        """Return the image that a container's `image` means.

        :raises InvalidImageNameError: when it is no reference.
        :raises ImageUnknownError: when it names no image of this machine, or another content of one.
        """
        repository, digest = parse_reference(reference)
        quoted = f'"{reference}"'
        failure = (
            f"rpc error: code = NotFound desc = failed to pull and unpack image {quoted}: "
            f"failed to resolve reference {quoted}: {reference}"
        )
        try:
            image = self.image(repository)
        except (ImageUnknownError, ImagesFileError) as error:
            raise ImageUnknownError(f"{failure}: not found ({error})") from error
        if digest is not None and digest != image.digest:
            raise ImageUnknownError(f"{failure}: not found ({repository} is {image.identity} now)")
        return image

    def _declared(self) -> dict[str, Any]:
        try:
            document = yaml.safe_load(self._file.read_text())
        except (OSError, yaml.YAMLError) as error:
            raise ImagesFileError(f"{self._file} can not be read: {error}") from error
        if not isinstance(document, dict):
            raise ImagesFileError(f"{self._file}: a mapping of image names is expected")
        for name, entry in document.items():
            match = _REFERENCE.fullmatch(str(name))
            if match is None or match["tag"] or match["digest"]:
                raise ImagesFileError(f"{self._file}: {name!r} is not a repository name; leave tag and digest out")
            if not isinstance(entry, dict) or (unknown := sorted(set(entry) - _KEYS)):
                wrong = f"unknown key {unknown[0]}" if isinstance(entry, dict) else "not a mapping"
                raise ImagesFileError(f"{self._file}: {name}: {wrong}; known keys are {', '.join(sorted(_KEYS))}")
        return document

    def _absolute(self, part: str) -> Path:
        # The interpreter's own folder: the machine's python3, whatever environment the agent runs in.
        if part == "{python}":
            return Path(os.path.realpath(sys.executable)).parent
        return self._root / part

    def _expanded(self, value: object) -> str:
        return str(value).replace("{root}", str(self._root))

    def _digest(self, entry: Mapping[str, Any]) -> str:
        total = hashlib.sha256(json.dumps(entry, sort_keys=True).encode())
        for part in entry.get("covers") or ():
            top = self._root / part
            if not top.exists():
                raise ImagesFileError(f"{self._file}: covers {part}, and {top} does not exist")
            for file in sorted(_files(top)):
                content = hashlib.sha256(file.read_bytes()).hexdigest()
                total.update(f"{file.relative_to(self._root).as_posix()}\0{content}\n".encode())
        return f"sha256:{total.hexdigest()}"


def _files(top: Path) -> Iterator[Path]:
    if top.is_file():
        yield top
        return
    for folder, folders, names in os.walk(top):
        folders[:] = [name for name in folders if name not in _IGNORED and not name.startswith(".")]
        yield from (Path(folder, name) for name in names if not name.endswith(".pyc") and not name.startswith("."))


def parse_reference(reference: str) -> tuple[str, str | None]:
    """Return repository and digest of an image reference; what stands for Docker's default registry is left out.

    :raises InvalidImageNameError: when it is no reference.
    """
    match = _REFERENCE.fullmatch(reference)
    if match is None:
        raise InvalidImageNameError(
            f'Failed to apply default image tag "{reference}": couldn\'t parse image name "{reference}": '
            + (
                f"invalid reference format: repository name (library/{reference.partition(':')[0]}) must be lowercase"
                if _REFERENCE.match(reference.lower()) and reference != reference.lower()
                else "invalid reference format"
            )
        )
    repository = re.sub(r"^(?:docker\.io|index\.docker\.io)/(?:library/)?", "", match["repository"])
    return repository, match["digest"]


def main(arguments: Iterable[str] | None = None) -> int:
    """Run the command line; return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m sandbox.agent.images", description="Images of nodes.")
    parser.add_argument("--images", type=Path, default=DEFAULT_IMAGES, help="YAML file that declares them")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="print every image with its digest")
    digest = commands.add_parser("digest", help="print name@sha256:... of one image")
    digest.add_argument("name")
    options = parser.parse_args(None if arguments is None else list(arguments))
    store = ImageStore(options.images)
    try:
        for name in [options.name] if options.command == "digest" else store.names():
            print(store.image(name).identity)
    except (ImageUnknownError, ImagesFileError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
