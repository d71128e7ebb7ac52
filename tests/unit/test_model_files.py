"""The models' YAML files: what is refused in one, and that the others stand."""

from __future__ import annotations

import re
import shutil
import time
from pathlib import Path

import pytest
import yaml

from gpu_training.core.errors import ConfigurationError
from gpu_training.core.model import parse_model
from gpu_training.model_files import MAX_BYTES, load_model, load_models, read_model_files

pytestmark = pytest.mark.unit

MODELS = Path(__file__).resolve().parent.parent.parent / "include" / "models"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(MODELS, tmp_path / "models"))


def edit(folder: Path, old: str, new: str, name: str = "air_time.yaml") -> Path:
    path = folder / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    return path


def test_the_project_s_own_models_are_sound() -> None:
    models = load_models(MODELS)
    assert list(models) == ["air-time", "flight-delay"]
    first, second = models.values()
    for field in ("owner", "description", "schedule", "training", "retries"):
        assert getattr(first, field) != getattr(second, field), field


BROKEN = [
    ("owner:", "ownr:", "air_time.yaml: owner=None: is required and missing"),
    ("retries: 1", "retires: 1", "air_time.yaml: retires=1: unknown key (did you mean 'retries'?)"),
    (
        "Europe/Amsterdam",
        "Europe/Amsterdm",
        "air_time.yaml: schedule.timezone='Europe/Amsterdm': an IANA time zone is expected, e.g. Europe/Berlin "
        "(did you mean 'Europe/Amsterdam'?)",
    ),
    ('"0 5 * * 1"', '"0 25 * * 1"', "air_time.yaml: schedule.cron='0 25 * * 1': five fields that name a time to come"),
    ('"0 5 * * 1"', '"0 5 30 2 *"', "air_time.yaml: schedule.cron='0 5 30 2 *': five fields that name a time to come"),
    ('"0 5 * * 1"', "* 5 * * 1", "air_time.yaml: YAML='"),
    ("model: air-time", "model: flight-time", "air_time.yaml: model='flight-time': the file's name is expected; or"),
    (
        "  deadline_seconds: 900",
        "  deadline_seconds: 900\n  failure_rules:\n    - {name: mine, category: application_error, "
        "owner: application, action: retry, remedy: r, exit_codes: [81]}",
        "air_time.yaml: training.failure_rules[0]",
    ),
    (
        "  deadline_seconds: 900",
        "  deadline_seconds: 900\n  budget: {attempts: 1}",
        "air_time.yaml: training.budget.attempts=1: contradicts backoff_limit 1",
    ),
    ("retries: 1", "retries: 1\nretries: 2", "air_time.yaml: YAML='retries in line 12': is there twice"),
    ("retries: 1", "retries: 1\n  bad: indent", "air_time.yaml: YAML='line 12, column 6': "),
    ("retries: 1", "a: &a 1\nretries: *a", "air_time.yaml: YAML='*a in line 12': aliases are not allowed"),
    ("retries: 1", "retries: !!python/object/apply:os.getcwd []", "air_time.yaml: YAML='line 11, column 10': "),
    ("retries: 1", f"retries: {'[' * 30}{']' * 30}", "air_time.yaml: YAML='line 11': at most 20 levels of nesting"),
    ("model: air-time", "--- {}\n--- {}", "air_time.yaml: YAML="),
    ("memory: 1Gi}", "memory: 1Gi, memory: 2Gi}", "air_time.yaml: YAML='memory in line"),
]


@pytest.mark.parametrize(("old", "new", "message"), BROKEN, ids=[new[:40] for _, new, _ in BROKEN])
def test_a_mistake_is_told_with_file_field_value_and_what_is_allowed(
    folder: Path, old: str, new: str, message: str
) -> None:
    path = edit(folder, old, new)
    with pytest.raises(ConfigurationError) as caught:
        load_model(path)
    assert str(caught.value).startswith(message)


def test_a_broken_file_takes_no_other_with_it(folder: Path) -> None:
    edit(folder, "retries: 1", "retires: 1")
    (folder / "empty.yaml").write_text("")
    found = read_model_files(folder)
    assert list(found.models) == ["flight-delay"]
    assert [str(fault).partition(":")[0] for fault in found.faults] == ["air_time.yaml", "empty.yaml"]
    with pytest.raises(ConfigurationError, match=r"(?s)air_time\.yaml: retires.*\nempty\.yaml: document=None"):
        load_models(folder)


def test_a_model_in_two_files_is_refused_in_the_second(folder: Path) -> None:
    shutil.copy(folder / "air_time.yaml", folder / "air-time.yaml")
    found = read_model_files(folder)
    assert list(found.models) == ["air-time", "flight-delay"]
    assert [str(fault) for fault in found.faults] == ["air_time.yaml: model='air-time': is in another file already"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff\xfe", "UTF-8 text is expected"),
        (b"#" * (MAX_BYTES + 1), f"at most {MAX_BYTES} bytes are allowed"),
        (b"- a\n- b\n", "a mapping with text keys is expected"),
        (b"1: x\n", "a mapping with text keys is expected"),
        (b"\x00", "control characters"),
    ],
)
def test_a_file_that_is_no_model_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "thing.yaml"
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=message):
        load_model(path)


@pytest.mark.parametrize(
    "content",
    [
        "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)),
        "[" * MAX_BYTES,
        "{a: " * (MAX_BYTES // 4),
    ],
)
def test_a_file_that_would_blow_up_is_refused_at_once(tmp_path: Path, content: str) -> None:
    path = tmp_path / "bomb.yaml"
    path.write_text(content)
    started = time.process_time()
    with pytest.raises(ConfigurationError, match="YAML"):
        load_model(path)
    assert time.process_time() - started < 5


def test_a_folder_or_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"models folder=.*nowhere"):
        load_models(tmp_path / "nowhere")
    with pytest.raises(ConfigurationError, match=r"nothing\.yaml: file="):
        load_model(tmp_path / "nothing.yaml")


def test_other_files_of_the_folder_are_left_alone(folder: Path) -> None:
    for name in ("notes.md", ".air_time.yaml.swp", ".hidden.yaml"):
        (folder / name).write_text("not: a model")
    assert list(load_models(folder)) == ["air-time", "flight-delay"]


@pytest.mark.parametrize(
    "section",
    [(), ("schedule",), ("data",), ("training",), ("training", "resources"), ("registry",), ("parameters", "gpus")],
    ids="/".join,
)
def test_the_reference_in_docs_names_every_key(section: tuple[str, ...]) -> None:
    document = yaml.safe_load((MODELS / "flight_delay.yaml").read_text())
    body = document
    for name in section:
        body = body[name]
    body["zz"] = 1
    with pytest.raises(ConfigurationError) as caught:
        parse_model(document)
    keys = set(caught.value.allowed.partition("known are: ")[2].split(", "))
    assert len(keys) > 1
    documented = set(re.findall(r"[a-z_]+", (MODELS.parent.parent / "docs" / "models.md").read_text()))
    assert keys - documented == set()
