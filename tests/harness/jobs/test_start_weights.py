"""A job starts from the weights file that its spec names: from the draft to the plan, in copies and downloads."""

from __future__ import annotations

import io
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.db.models import ProtectedError

from harness.datasets.weights import weights_delete
from harness.errors import Conflict, Invalid
from harness.jobs import programs, services
from harness.jobs.programs import files_read
from harness.jobs.results import data_file, program_zip
from harness.storage.items import storage_items
from harness.store import ByteRange
from tests.factory_weights import safetensors, weights_make
from tests.harness.jobs.helpers import place_now
from worker.plan import START_WEIGHTS, RunPlan

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("tasks_sent")]
OWN = """
from torch import nn

def build(spec):
    return nn.Linear(1, 1)
"""


@pytest.fixture
def mine(people: SimpleNamespace) -> Any:
    return weights_make(people.owner, people.project)


@pytest.fixture
def make(people: SimpleNamespace, dataset: Any) -> Any:
    def made(**model: Any) -> Any:
        given = {"user": people.owner, "project": people.project, "dataset": dataset}
        return services.job_create(**given, spec={"model": model}, own_model=OWN if "weights" in model else None)

    return made


def members(job: Any, *, with_data: bool) -> set[str]:
    body = program_zip(job, with_data=with_data)
    with zipfile.ZipFile(io.BytesIO(b"".join(body.read(ByteRange(start=0, stop=body.size_bytes))))) as archive:
        return {name.partition("/")[2] for name in archive.namelist()}


@pytest.mark.parametrize("data_bytes", [1_000, 3_000_000])
@pytest.mark.parametrize("weights_bytes", [1_000, 3_000_000])
def test_the_size_of_a_zip_with_data_and_weights_is_that_of_what_is_sent(
    make: Any,
    mine: Any,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    data_bytes: int,
    weights_bytes: int,
) -> None:
    job = make(weights="mine")
    sizes = {data_file(job): data_bytes, Path(job.weights_dir) / START_WEIGHTS: weights_bytes}
    kept = {file: file.read_bytes() for file in sizes}  # other tests have the same contents
    request.addfinalizer(lambda: [file.write_bytes(body) for file, body in kept.items()])
    for file, size_bytes in sizes.items():
        file.write_bytes(bytes(size_bytes))
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 2_000_000)
    body = program_zip(job, with_data=True)
    made = b"".join(body.read(ByteRange(start=0, stop=sys.maxsize)))
    assert len(made) == body.size_bytes
    with zipfile.ZipFile(io.BytesIO(made)) as archive:
        assert archive.testzip() is None


def test_the_job_and_its_program_know_the_file_by_its_name_or_id(make: Any, mine: Any, settings: Any) -> None:
    for named in ("mine", mine.pk):
        job = make(weights=named)
        assert job.weights == mine
        spec_yaml = files_read(settings.STORE.job(job.pk).program)["spec.yaml"]
        assert f"  weights: {named}" in spec_yaml and "  weights_match: fitting" in spec_yaml
    assert make(family="mlp").weights is None


def test_a_job_without_weights_has_no_word_of_them_in_its_program(make: Any, settings: Any) -> None:
    assert "weights:" not in files_read(settings.STORE.job(make().pk).program)["spec.yaml"].replace(
        "class_weights:", ""
    )


def test_a_name_that_no_file_of_the_project_has_is_refused_by_field(make: Any, people: Any) -> None:
    weights_make(people.outsider, people.elsewhere, "theirs.safetensors")
    for named in ("nothing", "theirs"):
        with pytest.raises(Invalid) as caught:
            make(weights=named)
        assert caught.value.field == "model.weights"


def test_how_weights_match_means_nothing_without_any(make: Any) -> None:
    with pytest.raises(Invalid, match=r"name one in model\.weights"):
        make(weights_match="all")


def test_a_copy_keeps_the_weights_and_a_change_of_the_spec_may_drop_or_change_them(
    make: Any, mine: Any, people: Any
) -> None:
    job = make(weights="mine")
    assert services.job_clone(user=people.mate, job=job).weights == mine
    fresh = {"model.weights": "auto", "model.weights_match": "auto"}
    assert services.job_clone(user=people.owner, job=job, changes=fresh).weights is None
    other = weights_make(people.owner, people.project, "other.safetensors", safetensors(fill=1))
    services.job_spec_update(user=people.owner, job=job, spec={"model": {"weights": "other"}})
    job.refresh_from_db()
    assert job.weights == other


def test_a_name_that_another_file_has_got_meanwhile_means_what_it_meant(make: Any, mine: Any, people: Any) -> None:
    job = make(weights="mine")
    weights_make(people.owner, people.project, body=safetensors(fill=1))
    assert services.job_clone(user=people.owner, job=job).weights == mine
    spec = {"model": {"weights": "mine"}, "training": {"epochs": 3}}
    assert services.job_spec_update(user=people.owner, job=job, spec=spec).weights == mine
    with pytest.raises(Invalid, match=f"2 weights files of {people.project.name} are named mine"):
        make(weights="mine")


def test_a_file_that_is_deleted_while_a_job_is_made_is_not_there_for_it(
    make: Any, mine: Any, people: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = programs.suggestions_of

    def meanwhile(*given: Any) -> Any:
        weights_delete(user=people.owner, weights=mine)
        return looks(*given)

    monkeypatch.setattr(programs, "suggestions_of", meanwhile)
    with pytest.raises(Invalid, match="no weights file 'mine'") as caught:
        make(weights="mine")
    assert caught.value.field == "model.weights"


def test_a_node_is_told_the_folder_and_of_a_job_without_weights_nothing_new(
    make: Any, mine: Any, node_make: Any
) -> None:
    node_make("node-1")
    plan = place_now(make(weights="mine")).plan
    assert plan["weights_dir"].endswith(f"datasets/{mine.sha256}/packed")
    assert (Path(plan["weights_dir"]) / "weights.safetensors").is_file()
    assert RunPlan.from_dict(plan).weights_dir == plan["weights_dir"]


def test_a_plan_without_weights_is_one_that_older_nodes_read(make: Any, node_make: Any) -> None:
    node_make("node-1")
    assert "weights_dir" not in place_now(make()).plan


def test_a_file_that_jobs_start_from_stays(make: Any, mine: Any, people: Any) -> None:
    job = make(weights="mine")
    with pytest.raises(Conflict, match="1 job started from this weights file"):
        weights_delete(user=people.owner, weights=mine)
    with pytest.raises(ProtectedError):
        mine.delete()
    (item,) = [item for item in storage_items(user=people.owner, project=people.project) if item.kind == "weights"]
    assert item.keeps == "1 job used it: delete it for good first"
    services.job_delete(user=people.owner, job=job)
    with pytest.raises(Conflict):
        weights_delete(user=people.owner, weights=mine)


def test_the_program_with_its_data_has_the_weights_where_train_py_looks_for_them(make: Any, mine: Any) -> None:
    job = make(weights="mine")
    assert "weights.safetensors" in members(job, with_data=True)
    assert "weights.safetensors" not in members(job, with_data=False)


def test_an_edited_spec_yaml_names_no_other_weights(make: Any, mine: Any, people: Any, settings: Any) -> None:
    job = make(weights="mine")
    text = files_read(settings.STORE.job(job.pk).program)["spec.yaml"].replace("weights: mine", "weights: other")
    services.program_file_write(user=people.owner, job=job, name="spec.yaml", text=text)
    with pytest.raises(Invalid, match=r"model\.weights is other here, but mine in the job's spec"):
        services.submit_check(user=people.owner, job=job)


TAKES = {"description": {"start_weights": True}}
"""What an agent says that tries programs with the weights of their jobs."""


def test_a_check_of_the_program_has_the_weights_and_goes_to_a_node_that_knows_of_them(
    make: Any,
    mine: Any,
    people: Any,
    node_make: Any,
    tasks_sent: Any,
    broker: Any,
    django_capture_on_commit_callbacks: Any,
) -> None:
    node_make("older", cpus=8)
    job, other = make(weights="mine"), make()
    with pytest.raises(Conflict, match="an earlier release: they would try it with fresh weights"):
        services.program_check(user=people.owner, job=job)
    node_make("node-1", cpus=1, **TAKES)
    with django_capture_on_commit_callbacks(execute=True):
        for one in (job, other):
            services.program_check(user=people.owner, job=one)
    sent = [(arguments[0], queue) for name, arguments, queue in tasks_sent if name == "node.check"]
    assert [queue for _, queue in sent] == ["node.node-1", "node.older"]
    assert sent[0][0]["weights_dir"].endswith(f"datasets/{mine.sha256}/packed")
