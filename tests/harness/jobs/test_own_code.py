"""Own code that cannot run: refused before anything of it is kept, where reading it tells; copied all the same."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings

from harness.errors import Invalid
from harness.jobs import services
from harness.jobs.models import Job
from harness.jobs.program_checks import program_syntax_check
from harness.jobs.programs import SpecInvalid
from harness.rates.submitting import job_submit

BROKEN = {
    "syntax": ("def build(spec):\n    return (\n", "program_syntax", "model.py, line 2: "),
    "a table": ("sex,length\n1,2\n", "model_no_build", "model.py has no function build(spec)."),
    "no argument": (
        "import torch\n\ndef build():\n    ...\n",
        "model_build_call",
        "model.py, line 3: build() cannot be",
    ),
    "two arguments": (
        "def build(spec, width):\n    ...\n",
        "model_build_call",
        "build(spec, width) cannot be called as",
    ),
    "named only": ("def build(*, spec):\n    ...\n", "model_build_call", "build(*, spec) cannot be called as"),
}


def left() -> tuple[int, int]:
    folder = settings.STORE.job("x").root.parent
    return Job.objects.count(), len(list(folder.iterdir())) if folder.is_dir() else 0


@pytest.mark.parametrize("way", ["own_model", "files"])
@pytest.mark.parametrize("name", BROKEN)
def test_nothing_is_left_of_a_model_that_cannot_run(people: SimpleNamespace, dataset: Any, name: str, way: str) -> None:
    text, code, words = BROKEN[name]
    given: dict[str, Any] = {"own_model": text} if way == "own_model" else {"files": {"model.py": text}}
    before = left()
    with pytest.raises(Invalid) as refused:
        services.job_create(user=people.owner, project=people.project, dataset=dataset, spec={}, **given)
    assert (refused.value.code, refused.value.field) == (code, "model.py") and words in refused.value.message
    assert left() == before


@pytest.mark.parametrize(
    ("name", "text", "code"),
    [
        ("extra.py", "def (:\n", "program_syntax"),
        ("spec.yaml", "name: x\ntraining: [\n", "program_syntax"),
        ("spec.yaml", "mode: async\n", "program_places"),
    ],
)
def test_nothing_is_left_of_other_files_that_would_be_refused_when_submitted(
    people: SimpleNamespace, dataset: Any, name: str, text: str, code: str
) -> None:
    before = left()
    with pytest.raises(Invalid) as refused:
        services.job_create(
            user=people.owner, project=people.project, dataset=dataset, spec={}, files={name: text}
        )  # fmt: skip
    assert (refused.value.code, left()) == (code, before)


@pytest.mark.parametrize(
    "text",
    [
        "def build(spec): ...\n",
        "def build(spec, width=3, *, deep=True): ...\n",
        "def build(*parts): ...\n",
        "def build(*, spec=None, **more): ...\n@wrapped\ndef build(): ...\n",
        "@wrapped\ndef build(): ...\n",
        "class build:\n    def __init__(self, spec): ...\n",
        "def build(): ...\nbuild = partial(build)\n",
        "class Net:\n    def build(self, a, b): ...\n\nfrom extra import *\n",
    ],
)
def test_a_build_that_may_take_the_spec_passes(text: str) -> None:
    program_syntax_check({"model.py": text}, needs_build=True)


def test_family_own_without_a_model_is_refused_by_its_field(people: SimpleNamespace, dataset: Any, job: Job) -> None:
    before, spec = left(), {"model": {"family": "own"}}
    for make in (
        lambda: services.job_create(user=people.owner, project=people.project, dataset=dataset, spec=spec),
        lambda: services.job_spec_update(user=people.owner, job=job, spec=spec),
    ):
        with pytest.raises(SpecInvalid, match=r"model\.family: own needs your model\.py"):
            make()
    assert left() == before


@pytest.mark.parametrize("is_own", [None, True, False])
def test_a_check_chooses_for_an_own_model_where_it_is_told_of_one(
    people: SimpleNamespace, dataset: Any, is_own: bool | None
) -> None:
    told = services.spec_check(user=people.owner, spec={}, dataset=dataset, is_own=is_own)
    assert (told["resolved"]["spec"]["model"]["family"] == "own") is (is_own is True)
    spec = {"model": {"family": "own"}}
    named = services.spec_check(user=people.owner, spec=spec, dataset=dataset, is_own=is_own)
    assert [problem["field"] for problem in named["problems"]] == ([] if is_own is not False else ["model.family"])


@pytest.mark.parametrize("name", BROKEN)
def test_a_program_that_cannot_run_is_copied_since_the_copy_is_where_it_is_corrected(
    people: SimpleNamespace, job: Job, name: str
) -> None:
    text = BROKEN[name][0]
    services.program_file_write(user=people.owner, job=job, name="model.py", text=text)
    copy = services.job_clone(user=people.owner, job=job)
    assert settings.STORE.job(copy.pk).program.joinpath("model.py").read_text() == text
    with pytest.raises(Invalid) as refused:
        job_submit(user=people.owner, job=copy)
    assert refused.value.code == BROKEN[name][1]
