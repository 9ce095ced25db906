"""What a new job takes over of an old one."""

from __future__ import annotations

from typing import Any

import pytest

from harness.errors import Invalid
from harness.jobs.copying import job_copy, left_out, spec_with
from harness.jobs.models import Job

OWN_MODEL = "def build(spec): ...\n"
PAST, AHEAD = "2020-01-31T18:00:00Z", "2035-01-31T18:00:00Z"


@pytest.mark.parametrize(("deadline", "is_kept"), [(PAST, False), (AHEAD, True), ("auto", True)])
def test_all_of_the_spec_is_taken_over_but_a_deadline_that_has_passed(
    job_make: Any, deadline: str, is_kept: bool
) -> None:
    job = job_make(name="first", budget={"deadline": deadline, "time_s": 600}, training={"epochs": 3})
    taken = job_copy(job).spec
    assert taken["budget"] == {"deadline": job.spec["budget"]["deadline"] if is_kept else "auto", "time_s": 600.0}
    assert {**taken, "budget": None} == {**job.spec, "budget": None}
    told = [] if is_kept else ["The deadline of first, 2020-01-31 18:00 UTC, has passed: choose another or none."]
    assert left_out(job) == told


def test_own_model_and_edited_files_are_taken_over(job_make: Any, people: Any) -> None:
    from harness.jobs.services import program_file_write

    own, generated = job_make(own_model=OWN_MODEL), job_make()
    assert (job_copy(own).own_model, job_copy(own).files) == (OWN_MODEL, {})
    assert (job_copy(generated).own_model, job_copy(generated).files) == (None, {})
    program_file_write(user=people.owner, job=own, name="model.py", text=OWN_MODEL + "X = 1\n")
    program_file_write(user=people.owner, job=own, name="extra.py", text="Y = 2\n")
    assert job_copy(own).own_model == OWN_MODEL + "X = 1\n"
    assert set(job_copy(own).files) == {"model.py", "extra.py"}


KNOBS = {"layers": 1, "width": 64, "dropout": 0.2}


@pytest.mark.parametrize(
    ("changes", "model"),
    [
        ({"model.family": "resmlp"}, {"family": "resmlp", "size": "auto", "params": {}}),
        ({"model.size": "large"}, {"family": "mlp", "size": "large", "params": {}}),
        ({"model.family": "resmlp", "model.size": "large", "model.params.width": 32},
         {"family": "resmlp", "size": "large", "params": {"width": 32}}),
        ({"model.family": "mlp", "training.epochs": 3}, {"family": "mlp", "size": "small", "params": KNOBS}),
    ],
    ids=["family", "size", "with knobs", "the same"],
)  # fmt: skip
def test_knobs_of_the_former_model_are_open_in_a_copy_with_another(
    job_make: Any, people: Any, changes: dict[str, Any], model: dict[str, Any]
) -> None:
    from harness.jobs.services import job_clone

    job = job_make(model={"family": "mlp", "size": "small", "params": KNOBS})
    made = job_clone(user=people.owner, job=job, changes=changes)
    assert {name: made.spec["model"][name] for name in model} == model


def test_a_path_through_a_value_is_refused() -> None:
    spec = {"training": {"epochs": "auto"}, "budget": None}
    assert spec_with(spec, {"budget.time_s": 60})["budget"] == {"time_s": 60}
    assert spec["budget"] is None
    with pytest.raises(Invalid, match=r"training\.epochs\.more is not a field: epochs is a value"):
        spec_with(spec, {"training.epochs.more": 1})


def test_a_changed_spec_takes_along_edited_files_but_no_spec_yaml_that_was_emptied(job_make: Any, people: Any) -> None:
    from harness.jobs.services import job_clone, program_file_write

    job = job_make()
    for name, text in (("spec.yaml", "# mine\n"), ("extra.py", "Y = 2\n")):
        program_file_write(user=people.owner, job=job, name=name, text=text)
    assert set(job_copy(job).files) == {"spec.yaml", "extra.py"}
    made = job_clone(user=people.owner, job=job, changes={"training.epochs": 3})
    assert (made.epochs, set(job_copy(made).files)) == (3, {"extra.py"})


def test_a_family_that_an_own_model_would_not_follow_is_refused(job_make: Any, people: Any) -> None:
    from harness.jobs.services import job_clone, job_spec_update

    own = job_make(own_model=OWN_MODEL, model={"family": "mlp"})
    before = Job.objects.count()
    for change in (
        lambda: job_clone(user=people.owner, job=own, changes={"model.family": "resmlp"}),
        lambda: job_spec_update(user=people.owner, job=own, spec={"model": {"family": "resmlp"}}),
    ):
        with pytest.raises(Invalid, match=r"has a model\.py of its own, which resmlp would not replace") as refused:
            change()
        assert (refused.value.code, refused.value.field) == ("own_model", "model.family")
        assert "without a model.py" in refused.value.hint
    assert Job.objects.count() == before
    for family in ("mlp", "own", "auto"):
        assert job_clone(user=people.owner, job=own, changes={"model.family": family}).family == "own"


def test_an_own_model_that_had_the_knobs_of_a_family_keeps_them(job_make: Any, people: Any) -> None:
    from harness.jobs.services import job_clone, job_spec_update

    job = job_make(own_model=OWN_MODEL, model={"family": "mlp"})
    job.spec = {**job.spec, "model": {**job.spec["model"], "family": "auto"}}  # as it was left to us before
    job.save()
    params = job.resolved["spec"]["model"]["params"]
    made = job_clone(user=people.owner, job=job)
    job_spec_update(user=people.owner, job=job, spec={"training": {"epochs": 3}})
    assert params and [one.resolved["spec"]["model"]["params"] for one in (made, job)] == [params] * 2
    plain = job_make(own_model=OWN_MODEL)
    assert job_clone(user=people.owner, job=plain).spec["model"]["family"] == "auto"


def test_copies_that_nobody_named_are_numbered_and_a_copy_of_a_copy_is_one_more(people: Any, job_make: Any) -> None:
    from harness.jobs.services import job_clone, job_update

    job = job_make(name="wider")
    made = [job_clone(user=people.owner, job=job) for _ in range(2)]
    made.append(job_clone(user=people.owner, job=made[0]))
    assert [one.name for one in made] == ["wider (copy)", "wider (copy 2)", "wider (copy 3)"]
    assert made[2].parent == made[0]
    job_update(user=people.owner, job=job, name="w" * 120)
    long = [job_clone(user=people.owner, job=job).name for _ in range(2)]
    assert len(set(long)) == 2 and all(len(name) <= 120 for name in long) and long[1].endswith("w (copy 2)")
    job_update(user=people.owner, job=job, name=f"{'w' * 106} {'x' * 13}")
    assert job_clone(user=people.owner, job=job).name == f"{'w' * 106} (copy)", "a blank where the name was cut"
