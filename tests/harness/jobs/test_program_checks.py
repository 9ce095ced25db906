"""What a file of a program may be: what takes a process its time or life is refused before it is parsed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from django.conf import settings
from django.core.cache import cache

from harness.errors import Invalid, TooMany
from harness.estimates.offers import Asked, offer_make, offer_make_spec
from harness.jobs import pace, program_checks, services
from harness.jobs.models import Job
from harness.jobs.program_checks import file_change_check, program_syntax_check
from harness.rates.submitting import job_submit

pytestmark = pytest.mark.django_db
DEEP = "- " * 30_000
KIB = 1 << 10
CHECK = """
import sys
from harness.errors import Invalid
from harness.jobs.program_checks import program_syntax_check
try:
    program_syntax_check({"spec.yaml": sys.stdin.read()})
except Invalid as refused:
    print(refused.code, refused.message)
"""


@pytest.fixture(autouse=True)
def _no_trials() -> None:
    cache.clear()


def program_file(job: Job, name: str) -> Path:
    return settings.STORE.job(job.pk).program / name


def test_a_spec_file_of_levels_without_end_does_not_end_the_process() -> None:
    done = subprocess.run([sys.executable, "-c", CHECK], input=DEEP, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("program_syntax spec.yaml, line 1: values lie more than 32 levels deep")


@pytest.mark.parametrize("text", [DEEP, "a: &a [1]\nb: *a\n", "a: 1" + ":1" * 500])
def test_such_a_spec_file_is_not_even_saved_but_a_half_written_one_is(
    job: Job, people: SimpleNamespace, text: str
) -> None:
    before = program_file(job, "spec.yaml").read_text()
    with pytest.raises(Invalid, match=r"spec\.yaml, line \d: ") as refused:
        services.program_file_write(user=people.owner, job=job, name="spec.yaml", text=text)
    assert refused.value.field == "spec.yaml" and program_file(job, "spec.yaml").read_text() == before
    services.program_file_write(user=people.owner, job=job, name="spec.yaml", text="a: [\n")
    assert program_file(job, "spec.yaml").read_text() == "a: [\n"


def test_such_a_spec_file_from_before_is_refused_wherever_it_would_be_parsed(job: Job, people: SimpleNamespace) -> None:
    program_file(job, "spec.yaml").write_text(DEEP)
    for ask in (job_submit, lambda **who: offer_make(**who, asked=Asked())):
        with pytest.raises(Invalid, match="levels deep"):
            ask(user=people.owner, job=job)
    clone = services.job_clone(user=people.owner, job=job)
    services.program_file_write(user=people.owner, job=clone, name="spec.yaml", text="name: again\n")


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"model.py": "a\n" * (129 * KIB)}, "model.py has 258 KiB: a Python file has at most 256 KiB."),
        ({"model.py": "#" * 200_000, "a.py": "#" * 190_000, "b.py": "#" * 190_000}, "with model.py as the largest"),
        (
            {"model.py": "a\n" * 70_000, "extra.py": "a;" * 20_000},
            "180,000 words and signs together, 140,000 of them in",
        ),
    ],
)
def test_python_that_takes_too_much_to_parse_is_refused_by_file_and_limit(files: dict[str, str], words: str) -> None:
    with pytest.raises(Invalid) as refused:
        program_syntax_check(files)
    assert words in refused.value.message and "at most" in refused.value.message
    assert (refused.value.code, refused.value.field) == ("program_too_large", "model.py")


def test_what_people_write_fits_the_limits_and_other_files_have_their_own() -> None:
    line = "        hidden = self.layers[number](hidden + self.shift) if number in chosen else hidden\n"
    text = "if 1:\n" + line * 2_900
    program_syntax_check({"model.py": text, "extra.py": text, "README.md": "a\n" * 400_000})
    with pytest.raises(Invalid, match="larger than"):
        file_change_check({}, "README.md", "a\n" * 600_000)


def test_a_larger_file_from_before_may_shrink_and_others_beside_it_change() -> None:
    have = {"model.py": "#" * (300 * KIB), "train.py": "pass\n"}
    file_change_check(have, "model.py", "#" * (290 * KIB))
    file_change_check(have, "spec.yaml", "a: 1\n")
    for name, text in (("model.py", "#" * (301 * KIB)), ("train.py", "pass\npass\n")):
        with pytest.raises(Invalid, match=r"model\.py has .* at most 256 KiB"):
            file_change_check(have, name, text)


def test_a_large_model_of_ones_own_is_refused_before_a_draft_or_an_offer_is_made(
    people: SimpleNamespace, job: Job
) -> None:
    model, many = "#" * (300 * KIB), Job.objects.count()
    with pytest.raises(Invalid, match="at most 256"):
        services.job_create(user=people.owner, project=people.project, dataset=job.dataset, spec={}, own_model=model)
    with pytest.raises(Invalid, match="at most 256"):
        offer_make_spec(user=people.owner, dataset=job.dataset, spec={}, own_model=model, asked=Asked())
    assert Job.objects.count() == many


def test_a_person_may_have_so_many_programs_refused_in_a_minute(
    job: Job, people: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pace, "TRIALS_PER_MINUTE_MAX", 2)
    services.program_file_write(user=people.owner, job=job, name="model.py", text="def build(spec:\n")
    for _ in range(2):
        with pytest.raises(Invalid):
            job_submit(user=people.owner, job=job)
    parsed: list[str] = []
    monkeypatch.setattr(program_checks.ast, "parse", lambda *args, **more: parsed.append("once more"))
    for ask in (job_submit, lambda **who: offer_make(**who, asked=Asked())):
        with pytest.raises(TooMany):
            ask(user=people.owner, job=job)
    assert not parsed
