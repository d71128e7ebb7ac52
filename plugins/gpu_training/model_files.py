"""The models' YAML files: read safely, one model a file, and one broken file never hides the others."""

from __future__ import annotations

import zoneinfo
from collections.abc import Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml
from croniter import CroniterError, croniter  # type: ignore[import-untyped]

from gpu_training.core.errors import ConfigurationError
from gpu_training.core.fields import nearest
from gpu_training.core.model import Model, Schedule, parse_model
from gpu_training.core.rule_documents import parse_team_rules
from gpu_training.rule_table import rules_for

try:
    from yaml import CSafeLoader as _SafeLoader
except ImportError:  # a PyYAML built without libyaml: slower, otherwise the same
    from yaml import SafeLoader as _SafeLoader  # type: ignore[assignment]

MAX_BYTES: Final = 64 * 1024
MAX_DEPTH: Final = 20
SUFFIXES: Final = (".yaml", ".yml")

_QUOTING_HINT: Final = "; a text that begins with *, &, !, %, @ or ` has to be quoted"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFiles:
    """What a folder of model files holds.

    :param models: by name, in the order of the files' names.
    :param faults: what is wrong with the files that are not among them.
    """

    models: dict[str, Model]
    faults: tuple[ConfigurationError, ...]


def read_model_files(folder: Path) -> ModelFiles:
    """Give every model of the folder that is sound, and a fault for every file that is not.

    A team's mistake must not stop the other teams' trainings, so nothing is raised for a file.

    :raises ConfigurationError: the folder itself can not be read.
    """
    models: dict[str, Model] = {}
    faults: list[ConfigurationError] = []
    for path in _files(folder):
        try:
            model = load_model(path)
            if model.name in models:
                raise ConfigurationError(f"{path.name}: model", model.name, "is in another file already")
            models[model.name] = model
        except ConfigurationError as exc:
            faults.append(exc)
    return ModelFiles(models=models, faults=tuple(faults))


def load_models(folder: Path) -> dict[str, Model]:
    """Give every model of the folder by name.

    :raises ConfigurationError: the folder can not be read, or a file is broken (every fault is told).
    """
    found = read_model_files(folder)
    raise_faults(found)
    return found.models


def raise_faults(found: ModelFiles) -> None:
    """Raise when a file is broken.

    :raises ConfigurationError: the fault; with several, one message that has them all.
    """
    if not found.faults:
        return
    first = found.faults[0]
    others = "".join(f"\n{fault}" for fault in found.faults[1:])
    raise ConfigurationError(first.field, first.value, first.allowed + others) from first


def load_model(path: Path) -> Model:
    """Give the model of one file.

    :raises ConfigurationError: the first fault found; the message begins with the file's name.
    """
    try:
        model = parse_model(_read(path))
        _check_name(path, model)
        _check_schedule(model.schedule)
        _check_rules(model)
    except ConfigurationError as exc:
        raise ConfigurationError(f"{path.name}: {exc.field}", exc.value, exc.allowed) from exc
    return model


def _files(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.suffix in SUFFIXES and not path.name.startswith("."))
    except OSError as exc:
        raise ConfigurationError("models folder", str(folder), f"a folder that can be read is expected: {exc}") from exc


def _check_name(path: Path, model: Model) -> None:
    if path.stem.replace("_", "-") != model.name:
        expected = model.name.replace("-", "_")
        raise ConfigurationError("model", model.name, f"the file's name is expected; or rename it to {expected}.yaml")


def _check_schedule(schedule: Schedule) -> None:
    try:
        croniter(schedule.cron).get_next()
    except (CroniterError, ValueError, KeyError) as exc:
        raise ConfigurationError(
            "schedule.cron", schedule.cron, f"five fields that name a time to come are expected: {exc}"
        ) from exc
    if schedule.timezone not in (zones := zoneinfo.available_timezones()):
        raise ConfigurationError(
            "schedule.timezone",
            schedule.timezone,
            f"an IANA time zone is expected, e.g. Europe/Berlin{nearest(schedule.timezone, zones)}",
        )


def _check_rules(model: Model) -> None:
    """Refuse rules that clash with built-in ones: the trainings themselves would tell it at night."""
    where = "training.failure_rules"
    rules = model.training.get("failure_rules", ())
    rules_for(parse_team_rules(rules, where), where)


def _read(path: Path) -> object:
    try:
        with path.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
        text = raw.decode()
    except OSError as exc:
        raise ConfigurationError("file", str(path), f"a file that can be read is expected: {exc}") from exc
    except UnicodeDecodeError as exc:
        raise ConfigurationError("file", path.name, f"UTF-8 text is expected: {exc}") from exc
    if len(raw) > MAX_BYTES:
        raise ConfigurationError("file", path.name, f"at most {MAX_BYTES} bytes are allowed: is this a model's file?")
    try:
        _check_structure(text)
        return yaml.load(text, Loader=_UniqueKeys)  # noqa: S506 - a safe loader
    except yaml.YAMLError as exc:
        raise ConfigurationError("YAML", *_yaml_fault(exc)) from exc


def _check_structure(text: str) -> None:
    """Refuse, before anything is built, what a small file could blow up with: aliases and deep nesting."""
    depth = 0
    for event in yaml.parse(text, Loader=_SafeLoader):
        if isinstance(event, yaml.AliasEvent):
            raise ConfigurationError(
                "YAML",
                f"*{event.anchor} in {_line(event)}",
                f"aliases are not allowed: write the value out{_QUOTING_HINT}",
            )
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise ConfigurationError("YAML", _line(event), f"at most {MAX_DEPTH} levels of nesting are allowed")


def _line(event: yaml.Event) -> str:
    return f"line {event.start_mark.line + 1}" if event.start_mark is not None else "an unknown line"


def _yaml_fault(exc: yaml.YAMLError) -> tuple[str, str]:
    if isinstance(exc, yaml.MarkedYAMLError) and exc.problem_mark is not None:
        mark = exc.problem_mark
        return f"line {mark.line + 1}, column {mark.column + 1}", f"{exc.problem or exc}{_QUOTING_HINT}"
    return "document", str(exc)


class _UniqueKeys(_SafeLoader):
    """Refuses a key that a mapping has twice; YAML's own loader lets the last one win without a word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, object]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise ConfigurationError("YAML", f"{key.value} in line {key.start_mark.line + 1}", "is there twice")
                seen.add(key.value)
        mapping: dict[Hashable, object] = super().construct_mapping(node, deep=deep)
        return mapping
