"""Programs rendered for every family and task compile, train and predict; defaults match the golden files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import pytest
import yaml

from codegen import program_spec
from codegen.catalog import FAMILIES, OWN
from codegen.profile.types import DatasetProfile
from codegen.program_spec import dump_program_spec
from codegen.render import literal, render, runtime_files
from codegen.resolve import resolve
from codegen.spec import Task, TaskSpec
from codegen.types import HISTORY_FILES, PROGRAM_FILES, WORDS_FILES, SpecError
from tests.codegen import time_series
from tests.worker.runtime import samples

GOLDEN = Path(__file__).parents[1] / "golden"
MAKERS = {
    Task.TABULAR_CLASSIFICATION: samples.wine,
    Task.TABULAR_REGRESSION: samples.diabetes,
    Task.FORECAST: lambda folder: time_series.profiled(folder, time_series.rising(200)),
    Task.IMAGE_CLASSIFICATION: lambda folder: samples.digits(folder, rows=120),
}
CASES = [(task, family.name) for family in FAMILIES.values() if family.name != OWN for task in sorted(family.tasks)]
DRIVER = """
import json, os, runpy, sys
from worker.runtime import failures
failures.install_hook = lambda *_: None
for folder in sys.argv[1:]:
    for name in ("model", "data", "history", "windows"):
        sys.modules.pop(name, None)
    os.chdir(folder)
    sys.path[0] = folder
    sys.argv = ["train.py"]
    runpy.run_path("train.py", run_name="__main__")
    print(json.dumps([folder, "done"]), flush=True)
"""


@pytest.fixture(scope="module")
def profiles(tmp_path_factory: pytest.TempPathFactory) -> dict[Task, tuple[Path, DatasetProfile]]:
    """A small dataset for each task."""
    made = {}
    for task, make in MAKERS.items():
        folder = tmp_path_factory.mktemp(task.value)
        made[task] = (folder, make(folder))
    return made


def test_every_family_trains_on_every_task_it_serves(
    profiles: dict[Task, tuple[Path, DatasetProfile]], tmp_path: Path
) -> None:
    folders = []
    for task, family in CASES:
        data, profile = profiles[task]
        folder = tmp_path / f"{family}-{task}"
        folder.mkdir()
        (folder / "data").symlink_to(data)
        model = {"family": family, "size": "small"}
        samples.program(folder, profile, model=model, training={"epochs": 1, "batch_size": max(40, profile.rows // 2)})
        folders.append(folder)
    done = samples.python(tmp_path, "-c", DRIVER, *map(str, folders), DLH_THREADS="1")
    assert done.returncode == 0, done.stdout[-500:] + done.stderr[-3000:]
    for folder in folders:
        results = json.loads((folder / "work" / "results" / "results.json").read_text())
        assert results["metric"]["value_test"] is not None, folder
        assert results["timing"]["steps"] >= 1


@pytest.mark.parametrize("task", list(MAKERS))
def test_default_programs_match_the_golden_files(task: Task, profiles: dict[Task, tuple[Path, DatasetProfile]]) -> None:
    """`UPDATE_GOLDEN=1` writes them anew; read the diff before committing it."""
    _, profile = profiles[task]
    program = render(resolve(TaskSpec(), profile, samples.HARDWARE), profile)
    assert tuple(program.files) == tuple(
        name
        for name in PROGRAM_FILES
        if name not in WORDS_FILES and (task is Task.FORECAST or name not in HISTORY_FILES)
    )
    for name, text in program.files.items():
        path = GOLDEN / task.value / (f"{name}.txt" if name.endswith(".py") else name)
        if os.environ.get("UPDATE_GOLDEN"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert text == path.read_text(encoding="utf-8"), f"{path.name} of {task} changed; see this test's docstring"


@pytest.mark.parametrize("task", list(MAKERS))
def test_the_readme_begins_with_predicting_which_needs_no_data(
    task: Task, profiles: dict[Task, tuple[Path, DatasetProfile]]
) -> None:
    """A downloaded model has its weights and none of its data, so that `python train.py` fails there."""
    _, profile = profiles[task]
    readme = render(resolve(TaskSpec(), profile, samples.HARDWARE), profile).files["README.md"]
    first, training = readme.split("## Train it anew\n")
    assert "pip install" in first and "python predict.py" in first and "train.py" not in first
    assert "It needs no data of the training" in first and "python train.py" in training


@pytest.mark.parametrize("patience", [0, 7])
def test_the_readme_speaks_of_an_earlier_end_only_where_there_is_one(
    patience: int, profiles: dict[Task, tuple[Path, DatasetProfile]]
) -> None:
    _, profile = profiles[Task.TABULAR_CLASSIFICATION]
    spec = TaskSpec.model_validate({"training": {"patience": patience}})
    readme = render(resolve(spec, profile, samples.HARDWARE), profile).files["README.md"]
    told = "ends earlier once the validation metric (`accuracy`) has not improved for 7 passes"
    assert (told in readme) is (patience == 7)


@pytest.mark.parametrize("task", list(MAKERS))
def test_rendered_python_compiles_and_holds_no_template_marks(
    task: Task, profiles: dict[Task, tuple[Path, DatasetProfile]]
) -> None:
    _, profile = profiles[task]
    for optimizer in ("adamw", "sgd"):
        for augment in ("none", "shift", "shift_flip") if task is Task.IMAGE_CLASSIFICATION else ("none",):
            spec = TaskSpec.model_validate({"training": {"optimizer": optimizer, "augment": augment}})
            for name, text in render(resolve(spec, profile, samples.HARDWARE), profile).files.items():
                assert "#:" not in text
                assert "«" not in text
                if name.endswith(".py"):
                    compile(text, name, "exec")


def test_spec_yaml_explains_each_field_and_reads_back(profiles: dict[Task, tuple[Path, DatasetProfile]]) -> None:
    _, profile = profiles[Task.TABULAR_REGRESSION]
    resolved = resolve(TaskSpec(), profile, samples.HARDWARE)
    text = render(resolved, profile).files["spec.yaml"]
    assert yaml.safe_load(text) == resolved.spec
    assert "# Rows per optimizer step, over all ranks." in text


def test_templates_are_compiled_once_for_all_programs(
    profiles: dict[Task, tuple[Path, DatasetProfile]], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, profile = profiles[Task.TABULAR_REGRESSION]
    resolved = resolve(TaskSpec(), profile, samples.HARDWARE)
    first = render(resolved, profile)
    monkeypatch.setattr(jinja2.Environment, "compile", lambda *_, **__: pytest.fail("compiled again"))
    assert render(resolved, profile).files == first.files


@pytest.mark.parametrize("value", ["plain", "word " * 60, ["1", True, None, {"b": [1e-5]}], "ü 🙂", "a\\b\n", "\x85"])
def test_a_value_is_written_alike_by_either_writer_of_yaml(value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    text = dump_program_spec({"name": value})
    monkeypatch.setattr(program_spec, "_FAST", yaml.SafeDumper)
    assert dump_program_spec({"name": value}) == text


def test_hostile_names_do_not_reach_the_code(tmp_path: Path) -> None:
    hostile = '"""\nimport os; os.abort()\n"""«% include "x" %» #: endif'
    numbers = np.arange(60.0)
    columns = {hostile: numbers, "b": numbers[::-1].copy(), "label\n#: x": ["p'\"", "q\\"] * 30}
    profile = samples.pack_table(tmp_path / "data", columns, "label\n#: x")
    resolved = resolve(TaskSpec(), profile, samples.HARDWARE)
    files = render(resolved, profile).files
    assert all("os.abort" not in text for name, text in files.items() if name != "spec.yaml")
    assert yaml.safe_load(files["spec.yaml"]) == resolved.spec


def test_a_persons_model_replaces_the_generated_one(profiles: dict[Task, tuple[Path, DatasetProfile]]) -> None:
    _, profile = profiles[Task.TABULAR_CLASSIFICATION]
    resolved = resolve(TaskSpec.model_validate({"model": {"family": OWN}}), profile, samples.HARDWARE)
    assert render(resolved, profile, "def build(spec): ...\n").files["model.py"] == "def build(spec): ...\n"
    with pytest.raises(SpecError, match=r"model\.family: own needs your model\.py"):
        render(resolved, profile)


def test_only_literals_pass_the_literal_filter() -> None:
    assert literal("it's") == '"it\'s"'
    with pytest.raises((ValueError, SyntaxError)):
        literal(object())


@pytest.mark.parametrize("task", [Task.TABULAR_CLASSIFICATION, Task.IMAGE_CLASSIFICATION])
def test_a_download_runs_alone_with_the_same_curve_as_on_the_platform(task: Task, tmp_path: Path) -> None:
    folder = tmp_path / "download"
    profile = MAKERS[task](folder / "data")
    samples.program(folder, profile, alone=True, training={"epochs": 2})
    assert set(runtime_files()) <= {str(path.relative_to(folder)) for path in folder.rglob("*.py")}
    # in the shell of somebody who uses `dlh` there as well
    signed_in = {**samples.BARE, "DLH_URL": "http://127.0.0.1:8000", "DLH_TOKEN": "dlh_text"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", "import sys; sys.path.insert(0, '.'); sys.argv=['train.py'];"
         "import runpy; runpy.run_path('train.py', run_name='__main__'); import worker; print(worker.__file__)"],
        cwd=folder, env=signed_in, capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith(str(folder))

    platform = tmp_path / "platform"
    surroundings = {"DLH_WORK": str(platform), "DLH_DATA": str(folder / "data"), "DLH_JOB": "j", "DLH_ATTEMPT": "3"}
    surroundings |= {"DLH_EVENTS": str(platform / "e.jsonl"), "DLH_DEVICE": "cpu", "DLH_THREADS": "1"}
    assert samples.python(folder, "train.py", **surroundings).returncode == 0
    weights = [work / "results" / "model.safetensors" for work in (folder / "work", platform)]
    assert weights[0].read_bytes() == weights[1].read_bytes()
    assert curve(folder / "work" / "events" / "rank-0.jsonl") == curve(platform / "e.jsonl")


def curve(path: Path) -> list[tuple[int, dict[str, float]]]:
    """(step, values) of the metric events, throughput left out."""
    told = [json.loads(line) for line in path.read_text().splitlines()]
    points = [(event["data"]["step"], event["data"]["values"]) for event in told if event["kind"] == "metric"]
    return [(step, values) for step, values in points if not any(name.endswith("samples_per_s") for name in values)]
