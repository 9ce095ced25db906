"""From a resolved spec to the files of a program.

Templates below `codegen/programs` are valid Python with Jinja statements on lines of their own (`#: if ...`), which
only choose between lines: values reach a program through spec.yaml, and the few that stand in its text are literals.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import jinja2

from codegen.catalog import DATA_TEMPLATES, FAMILIES, OWN
from codegen.profile.types import DatasetProfile
from codegen.program_spec import dump_program_spec
from codegen.spec import NUMBER_TASKS, Task
from codegen.types import HISTORY_FILES, WORDS_FILES, Program, Resolved, SpecError

PROGRAMS = Path(__file__).parent / "programs"
PROJECT = Path(__file__).parent.parent
RUNTIME = (
    "worker/__init__.py",
    "worker/cells.py",
    "worker/cuts.py",
    "worker/events.py",
    "worker/fence.py",
    "worker/intervals.py",
    "worker/loading.py",
    "worker/machine_faults.py",
    "worker/memory_words.py",
    "worker/merit.py",
    "worker/pacing.py",
    "worker/plan.py",
    "worker/shares.py",
    "worker/sheet_reach.py",
    "worker/stage_devices.py",
    "worker/stages.py",
    "worker/words.py",
)
"""Files that the runtime needs besides its own folder."""
OWN_WITHOUT_MODEL = "own needs your model.py: give it, or choose another family or auto"
TASK_WORDS = {
    Task.TABULAR_CLASSIFICATION: "predicts a class from the columns of a table",
    Task.TABULAR_REGRESSION: "predicts a number from the columns of a table",
    Task.FORECAST: "foretells the next values of a series from earlier ones",
    Task.IMAGE_CLASSIFICATION: "says which class a picture shows",
}


def render(resolved: Resolved, profile: DatasetProfile, own_model: str | None = None) -> Program:
    """Make all files of the program. `own_model` is the text of a person's model.py.

    Raises `SpecError` for family `own` without a text.
    """
    spec = resolved.spec
    task = Task(spec["task"])
    family = FAMILIES[spec["model"]["family"]]
    if own_model is None and family.name == OWN:
        raise SpecError([("model.family", OWN_WITHOUT_MODEL)])
    values = {
        "spec": spec,
        "task": task,
        "task_words": TASK_WORDS[task],
        "family": family,
        "own": own_model is not None,
        "classification": task not in NUMBER_TASKS,
        "forecast": task is Task.FORECAST,
        "pictures": task is Task.IMAGE_CLASSIFICATION,
        "rows": int(profile.rows),
    }
    environment = _environment()

    def text(name: str) -> str:
        return environment.get_template(name).render(values)

    return Program(
        files={
            "model.py": own_model if own_model is not None else text(f"models/{family.template}"),
            "data.py": text(DATA_TEMPLATES[task]),
            **({name: text(name) for name in WORDS_FILES} if spec["shape"].get("texts") else {}),
            **({name: text(name) for name in HISTORY_FILES} if task is Task.FORECAST else {}),
            "train.py": text("train.py"),
            "predict.py": text("predict.py"),
            "spec.yaml": dump_program_spec(spec),
            "README.md": text("README.md"),
        }
    )


def runtime_files() -> dict[str, str]:
    """Files that make a program run alone when they lie beside it: relative path -> text."""
    paths = [*RUNTIME, *sorted(str(path.relative_to(PROJECT)) for path in (PROJECT / "worker/runtime").rglob("*.py"))]
    return {path: (PROJECT / path).read_text(encoding="utf-8") for path in paths}


def literal(value: Any) -> str:
    """A value as Python source. Raises `ValueError` if it would not come back as the same value."""
    source = repr(value)
    if ast.literal_eval(source) != value:
        raise ValueError(f"{source} is not a literal")
    return source


class _Templates(jinja2.FileSystemLoader):
    """Reads line statements as blocks: Jinja's own would swallow blank lines after them."""

    def get_source(self, environment: jinja2.Environment, template: str) -> tuple[str, str, Callable[[], bool]]:
        """Text of the template with its line statements rewritten."""
        text, path, fresh = super().get_source(environment, template)
        return re.sub(r"(?m)^[ \t]*#: (.+)$", r"«% \1 %»", text), path, fresh


@cache
def _environment() -> jinja2.Environment:
    """Lines that begin with `#: ` choose; the other marks are signs that Python code does not hold.

    One for all programs: it keeps its templates compiled, which takes longer than to fill them in.
    """
    environment = jinja2.Environment(
        loader=_Templates(PROGRAMS),
        variable_start_string="«",
        variable_end_string="»",
        block_start_string="«%",
        block_end_string="%»",
        comment_start_string="«#",
        comment_end_string="#»",
        trim_blocks=True,
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - the output is Python, and holds no user's text
    )
    environment.filters["literal"] = literal
    return environment
