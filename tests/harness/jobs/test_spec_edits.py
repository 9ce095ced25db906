"""What a person wrote into spec.yaml outlives another spec, line by line."""

from __future__ import annotations

from typing import Any

import pytest
from django.conf import settings

from harness.jobs.copying import left_out
from harness.jobs.services import job_clone, job_spec_update, program_file_write, program_reset
from harness.jobs.spec_edits import spec_file_merged

BEFORE = "device: cpu\ncount: 1\n\n# passes\nepochs: 100\nbatch: 32\n"


@pytest.mark.parametrize(
    ("written", "made", "merged", "lost"),
    [
        (BEFORE.replace("100", "1500"), BEFORE, BEFORE.replace("100", "1500"), 0),
        (BEFORE.replace("100", "1500"), BEFORE.replace("count: 1", "count: 2\nmode: sync"),
         "device: cpu\ncount: 2\nmode: sync\n\n# passes\nepochs: 1500\nbatch: 32\n", 0),
        (BEFORE.replace("100", "1500"), BEFORE.replace("100", "7"), BEFORE.replace("100", "7"), 1),
        (BEFORE + "mine: 3\n", "name: x\n" + BEFORE, "name: x\n" + BEFORE + "mine: 3\n", 0),
        ("# mine\n" + BEFORE, BEFORE.replace("100", "7"), "# mine\n" + BEFORE.replace("100", "7"), 0),
        (BEFORE.replace("# passes\n", ""), BEFORE.replace("32", "8"),
         "device: cpu\ncount: 1\n\nepochs: 100\nbatch: 8\n", 0),
        (BEFORE.replace("epochs: 100\n", "epochs: 100\nown: 1\n"), BEFORE.replace("batch: 32", "batch: 8"),
         BEFORE.replace("batch: 32", "batch: 8"), 1),
        ("", BEFORE.replace("32", "8"), BEFORE.replace("32", "8"), 1),
        (BEFORE.replace("100", "1500").replace("32", "64"), BEFORE.replace("32", "8"),
         BEFORE.replace("100", "1500").replace("32", "8"), 1),
        (BEFORE.replace("100", "1500")[:-1], BEFORE + "extra: 1\n", BEFORE.replace("100", "1500") + "extra: 1\n", 0),
        (BEFORE.replace("100", "1500").replace("\n", "\r\n"), BEFORE.replace("32", "8"),
         BEFORE.replace("100", "1500").replace("32", "8"), 0),
        (BEFORE.replace("count: 1", "count: 1\nmine: 9"), BEFORE + "mine: 3\n", BEFORE + "mine: 3\n", 1),
        (BEFORE + "nodes: [1,\n  2]\n", BEFORE.replace("32", "{8"), BEFORE.replace("32", "{8"), 1),
    ],
    ids=["nothing new", "elsewhere", "same line", "behind", "in front", "left out", "beside", "emptied", "next line",
         "no end", "ends of Windows", "named twice", "no YAML"],
)  # fmt: skip
def test_edits_stay_where_the_new_file_has_the_same_lines_and_give_way_elsewhere(
    written: str, made: str, merged: str, lost: int
) -> None:
    assert spec_file_merged(BEFORE, written, made) == (merged, lost)


NESTED = "model:\n  # how\n  params:\n    width: 4\n    depth: 2\n\n# passes\ntraining:\n  epochs: 100\n  batch: 32\n"


@pytest.mark.parametrize(
    ("written", "made", "changed", "merged", "lost"),
    [
        (NESTED.replace("100", "7").replace("32", "64"), NESTED, ["training.epochs"], NESTED.replace("32", "64"), 1),
        (NESTED.replace("32", "64"), NESTED, ["training.epochs"], NESTED.replace("32", "64"), 0),
        (NESTED.replace("100", "7").replace("4\n", "8\n    own: 1\n"), NESTED, ["model.params", "model.params.width"],
         NESTED.replace("100", "7"), 1),
        (NESTED.replace("100", "7").replace("32", "64"), NESTED, ["training", "model.params.depth"], NESTED, 1),
        (NESTED.replace("  epochs: 100\n", "").replace("4", "8"), NESTED, ["training.epochs"], NESTED, 2),
        (NESTED.replace("100", "7") + "own: 1\n", NESTED, ["absent.field"], NESTED.replace("100", "7") + "own: 1\n", 0),
        (NESTED.replace("100", "[7") + "own: 1\n", NESTED.replace("100", "3"), ["training.epochs"],
         NESTED.replace("100", "3") + "own: 1\n", 1),
    ],
    ids=["same value", "beside", "block", "section", "left out", "no such field", "half written"],
)  # fmt: skip
def test_a_field_that_is_changed_counts_though_the_new_file_has_the_same_line(
    written: str, made: str, changed: list[str], merged: str, lost: int
) -> None:
    assert spec_file_merged(NESTED, written, made, changed) == (merged, lost)


def test_a_long_list_of_equal_lines_is_compared_once() -> None:
    long = "shape:\n  cardinalities:\n" + "  - 2\n" * 20_000 + "epochs: 100\n"
    written = long.replace("epochs: 100", "epochs: 1500")
    assert spec_file_merged(long, written, "count: 2\n" + long) == ("count: 2\n" + written, 0)


@pytest.fixture
def edited(job_make: Any, people: Any) -> Any:
    """A draft in whose spec.yaml a person wrote other epochs."""
    job = job_make(training={"epochs": 3})
    text = (settings.STORE.job(job.pk).program / "spec.yaml").read_text()
    assert "epochs: 3" in text
    text = text.replace("epochs: 3", "epochs: 44  # mine")
    return program_file_write(user=people.owner, job=job, name="spec.yaml", text=text)


def spec_file(job: Any) -> str:
    return str((settings.STORE.job(job.pk).program / "spec.yaml").read_text())


@pytest.mark.django_db
def test_a_new_spec_keeps_what_was_written_into_spec_yaml(edited: Any, people: Any) -> None:
    job = job_spec_update(user=people.owner, job=edited, spec={**edited.spec, "resources": {"count": 2}})
    assert "epochs: 44  # mine" in spec_file(job) and "count: 2" in spec_file(job)
    assert job.program_edited and job.events.latest("pk").message == "Spec changed"


@pytest.mark.django_db
def test_a_new_spec_that_names_the_same_field_counts_and_the_history_tells_it(edited: Any, people: Any) -> None:
    job = job_spec_update(user=people.owner, job=edited, spec={**edited.spec, "training": {"epochs": 7}})
    assert "epochs: 7" in spec_file(job) and "44" not in spec_file(job)
    assert "1 edit of spec.yaml gave way" in job.events.latest("pk").message


@pytest.mark.django_db
def test_epochs_of_a_job_are_those_of_its_spec_yaml(edited: Any, people: Any) -> None:
    assert edited.epochs == 44 and edited.resolved["spec"]["training"]["epochs"] == 3
    assert job_clone(user=people.owner, job=edited).epochs == 44
    for text, epochs in (("training:\n  epochs: 5\n", 5), ("training: [\n", 3), ("training:\n  epochs: many\n", 3)):
        assert program_file_write(user=people.owner, job=edited, name="spec.yaml", text=text).epochs == epochs
    assert program_reset(user=people.owner, job=edited).epochs == 3


@pytest.mark.django_db
def test_a_copy_keeps_what_was_written_into_spec_yaml_but_no_deadline_that_has_passed(
    job_make: Any, people: Any
) -> None:
    job = job_make(training={"epochs": 3}, budget={"deadline": "2020-01-31T18:00:00Z"})
    text = spec_file(job)
    assert "2020-01-31" in text
    text = text.replace("epochs: 3", "epochs: 44")
    job = program_file_write(user=people.owner, job=job, name="spec.yaml", text=text)
    copy = job_clone(user=people.owner, job=job)
    assert "2020-01-31" not in spec_file(copy) and "epochs: 44" in spec_file(copy)
    job = program_file_write(
        user=people.owner, job=job, name="spec.yaml", text=text.replace("2020-01-31", "2021-01-31")
    )
    copy = job_clone(user=people.owner, job=job)
    assert "2021-01-31" not in spec_file(copy) and "epochs: 44" in spec_file(copy)
    lost = f"1 edit of spec.yaml gave way to the spec of the copy; spec.yaml of {job.name} still has it all."
    assert left_out(job, clone=copy)[1:] == [lost] and len(left_out(job)) == 1
    assert copy.events.latest("pk").message == f"Draft made from {job.name}; 1 edit of spec.yaml gave way to its spec"


@pytest.mark.django_db
@pytest.mark.parametrize("epochs", [3, 7], ids=["as it was before the edit", "another"])
def test_a_copy_with_changes_keeps_other_edits_and_tells_of_the_one_that_gave_way(
    edited: Any, people: Any, epochs: int
) -> None:
    text = spec_file(edited).replace("  seed: ", "  own_knob: 5\n  seed: ")
    job = program_file_write(user=people.owner, job=edited, name="spec.yaml", text=text)
    assert left_out(job, {"training.batch_size": 16}) == []
    copy = job_clone(user=people.owner, job=job, changes={"training.batch_size": 16})
    assert "epochs: 44  # mine" in spec_file(copy) and "batch_size: 16" in spec_file(copy) and copy.epochs == 44
    assert copy.events.latest("pk").message == f"Draft made from {job.name}"
    told = left_out(job, {"training.epochs": epochs})
    copy = job_clone(user=people.owner, job=job, changes={"training.epochs": epochs})
    assert told == ["What was written into spec.yaml as training.epochs gave way to the change."]
    assert copy.epochs == epochs and "44" not in spec_file(copy) and "own_knob: 5" in spec_file(copy)
    assert copy.events.latest("pk").message == f"Draft made from {job.name}; 1 edit of spec.yaml gave way to its spec"


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"training.batch_size": 16}, ["1 edit of spec.yaml gave way"]),
        ({"training.batch_size": 16, "training.epochs": 7}, ["as training.epochs gave", "1 other edit of spec.yaml"]),
    ],
    ids=["beside", "and one that is named"],
)
def test_a_copy_tells_how_many_edits_beside_its_changes_found_no_place(
    edited: Any, people: Any, changes: dict[str, int], told: list[str]
) -> None:
    text = spec_file(edited).replace("  batch_size: ", "  own_knob: 5\n  batch_size: ")
    job = program_file_write(user=people.owner, job=edited, name="spec.yaml", text=text)
    copy = job_clone(user=people.owner, job=job, changes=changes)
    assert "own_knob" not in spec_file(copy) and "own_knob: 5" in spec_file(job)
    found = left_out(job, changes, copy)
    assert len(found) == len(told) and all(words in sentence for words, sentence in zip(told, found, strict=True))
