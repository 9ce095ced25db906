"""The trained model as ONNX: asked of a node once, kept, offered while it is of the weights there are."""

from __future__ import annotations

import hashlib
import io
import zipfile
from datetime import timedelta
from pathlib import Path

import pytest
from django.conf import settings
from django.utils import timezone

from harness.errors import Conflict, Forbidden, Invalid, NotFound, Unavailable
from harness.jobs import selectors, services
from harness.jobs.exports import ANSWER_LIMIT_S, export_done, exports_expire
from harness.jobs.models import Checkpoint, Job, ModelExport
from harness.store import ByteRange, UnsafePath
from worker.runtime.onnx_export.scripts import SCRIPT_FILES

pytestmark = pytest.mark.django_db
WEIGHTS = hashlib.sha256(b"weights").hexdigest()
REPORT = {"opset": 20, "inputs": [], "check": {"rows": 64}, "model_bytes": 5, "task": "secret"}


@pytest.fixture
def trained(job):
    """A job with final weights."""
    paths = settings.STORE.job(job.pk)
    paths.results.mkdir(parents=True)
    (paths.results / "model.safetensors").write_bytes(b"weights")
    packed = settings.STORE.dataset(job.dataset_sha256 or job.dataset.sha256).packed
    packed.mkdir(parents=True, exist_ok=True)
    return job


@pytest.fixture
def asked(trained, people, node_make, tasks_sent, django_capture_on_commit_callbacks):
    """An export that a node was asked for."""
    node_make()
    with django_capture_on_commit_callbacks(execute=True):
        return services.export_create(user=people.mate, job=trained)


def written(export: ModelExport):
    """The files that a node would write."""
    folder = settings.STORE.job(export.job_id).export(export.pk)
    for name, text in (("model.onnx", "model"), ("README.md", "read"), ("onnx.json", "{}")):
        (folder / name).write_text(text)
    return folder


def names(job: Job, checkpoint: str = "") -> list[str]:
    body = selectors.export_zip(job, checkpoint)
    parts = b"".join(body.read(ByteRange(start=0, stop=body.size_bytes)))
    assert len(parts) == body.size_bytes
    return zipfile.ZipFile(io.BytesIO(parts)).namelist()


def test_all_that_a_node_writes_beside_a_model_is_in_the_zip(asked, trained):
    folder = written(asked)
    for name in (*SCRIPT_FILES, "preprocess.json"):
        (folder / name).write_text(name)
    export_done({"export_id": asked.pk, "report": REPORT, "weights_sha256": WEIGHTS})
    assert {Path(name).name for name in names(trained)} == {path.name for path in folder.iterdir()}


def test_a_model_is_exported_once_and_kept(asked, trained, people, tasks_sent):
    again = services.export_create(user=people.owner, job=trained)
    assert again.pk == asked.pk and ModelExport.objects.count() == 1
    (request,) = [args[0] for name, args, _ in tasks_sent if name == "node.export"]
    assert request["export_id"] == asked.pk and request["job_id"] == trained.pk
    with pytest.raises(NotFound, match="not been exported"):
        selectors.export_zip(trained)
    written(asked)
    export_done({"export_id": asked.pk, "report": REPORT, "weights_sha256": WEIGHTS})
    export_done({"export_id": asked.pk, "problem": {"message": "late"}})
    found = selectors.export_get(trained)
    assert found.state == "done" and found.report == {name: REPORT[name] for name in REPORT if name != "task"}
    root = f"onnx-{trained.pk}"
    assert names(trained) == [f"{root}/README.md", f"{root}/onnx.json", f"{root}/model.onnx"]
    with selectors.export_model_open(trained) as stream:
        assert stream.read() == b"model"
    assert services.export_create(user=people.mate, job=trained).pk == asked.pk


def test_a_model_that_cannot_be_exported_says_why_and_may_be_tried_again(
    asked, trained, people, tasks_sent, django_capture_on_commit_callbacks
):
    folder = settings.STORE.job(trained.pk).export(asked.pk)
    export_done({"export_id": asked.pk, "problem": {"message": "It decides.", "hint": "Do not.", "code": 7}})
    found = selectors.export_get(trained)
    assert (found.state, found.problem) == ("failed", {"message": "It decides.", "hint": "Do not."})
    with pytest.raises(Conflict, match="It decides"):
        selectors.export_model_open(trained)
    with django_capture_on_commit_callbacks(execute=True):
        again = services.export_create(user=people.mate, job=trained)
    assert again.pk != asked.pk and again.state == "waiting"
    assert not folder.exists() and settings.STORE.job(trained.pk).export(again.pk).is_dir()


def test_new_weights_need_a_new_export(asked, trained, people):
    written(asked)
    export_done({"export_id": asked.pk, "report": REPORT, "weights_sha256": WEIGHTS})
    Job.objects.filter(pk=trained.pk).update(token=trained.token + 1)
    trained.refresh_from_db()
    assert selectors.export_get(trained) is None
    assert services.export_create(user=people.mate, job=trained).pk != asked.pk


def test_an_export_of_weights_that_the_same_attempt_replaced_is_not_offered(
    asked, trained, people, tasks_sent, django_capture_on_commit_callbacks
):
    """An attempt was lost after it had written its weights; it was asked for when the next one had begun."""
    written(asked)
    export_done({"export_id": asked.pk, "report": REPORT, "weights_sha256": WEIGHTS})
    assert selectors.export_get(trained).weights_sha256 == WEIGHTS
    weights = settings.STORE.job(trained.pk).results / "model.safetensors"
    weights.write_bytes(b"WEIGHTS")
    assert selectors.export_get(trained) is None
    for read in (selectors.export_zip, selectors.export_model_open):
        with pytest.raises(NotFound, match="other weights"):
            read(trained)
    with django_capture_on_commit_callbacks(execute=True):
        again = services.export_create(user=people.mate, job=trained)
    assert again.pk != asked.pk and again.state == "waiting"
    written(again)
    export_done({"export_id": again.pk, "report": REPORT, "weights_sha256": WEIGHTS})
    assert selectors.export_get(trained) is None, "the node read those of before"


def test_weights_that_are_lost_for_now_take_no_export_away(asked, trained):
    written(asked)
    export_done({"export_id": asked.pk, "report": REPORT, "weights_sha256": WEIGHTS})
    (settings.STORE.job(trained.pk).results / "model.safetensors").unlink()
    assert selectors.export_get(trained).pk == asked.pk


def test_an_answer_that_names_no_weights_is_a_failure(asked, trained):
    written(asked)
    export_done({"export_id": asked.pk, "report": REPORT, "weights_sha256": "x"})
    assert selectors.export_get(trained).state == "failed"


@pytest.mark.parametrize("report", [None, {}, "x", {"opset": "y" * 200_000}, {"inputs": 5}])
def test_an_answer_without_a_model_or_with_nonsense_is_a_failure(asked, trained, report):
    if report and isinstance(report, dict):
        written(asked)
    export_done({"export_id": asked.pk, "report": report, "weights_sha256": WEIGHTS})
    assert selectors.export_get(trained).state == "failed"


def test_an_answer_too_deep_to_read_is_a_failure_at_once(asked, trained):
    deep = []
    for _ in range(100):
        deep = [deep]
    written(asked)
    export_done({"export_id": asked.pk, "report": {**REPORT, "check": deep}, "weights_sha256": WEIGHTS})
    found = selectors.export_get(trained)
    assert found.state == "failed" and found.problem["message"].startswith("The answer of the program cannot be read")


def test_an_answer_that_comes_late_counts(asked, trained):
    ModelExport.objects.update(created_at=timezone.now() - timedelta(seconds=ANSWER_LIMIT_S + 1))
    assert exports_expire() == 1 and selectors.export_get(trained).state == "failed"
    written(asked)
    export_done({"export_id": asked.pk, "report": REPORT, "weights_sha256": WEIGHTS})
    assert selectors.export_get(trained).state == "done"


def test_no_link_that_a_program_made_is_followed(asked, trained):
    folder = settings.STORE.job(trained.pk).export(asked.pk)
    (folder / "model.onnx").symlink_to("/etc/passwd")
    export_done({"export_id": asked.pk, "report": REPORT, "weights_sha256": WEIGHTS})
    assert selectors.export_get(trained).state == "failed"
    (folder / "model.onnx").unlink()
    written(asked)
    (folder / "README.md").unlink()
    (folder / "README.md").symlink_to("/etc/passwd")
    ModelExport.objects.update(state="done", weights_sha256=WEIGHTS)
    assert f"onnx-{trained.pk}/README.md" not in names(trained)


def test_a_folder_that_becomes_a_link_while_the_zip_is_sent_is_not_followed(asked, trained, tmp_path):
    folder = written(asked)
    ModelExport.objects.update(state="done", weights_sha256=WEIGHTS)
    body = selectors.export_zip(trained)
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UnsafePath):
        b"".join(body.read(ByteRange(start=0, stop=body.size_bytes)))


def test_a_lost_file_and_a_silent_node_are_no_dead_end(asked, trained, people):
    ModelExport.objects.update(created_at=timezone.now() - timedelta(seconds=ANSWER_LIMIT_S + 1))
    assert exports_expire() == 1 and exports_expire() == 0
    assert "No node answered" in selectors.export_get(trained).problem["message"]
    ModelExport.objects.update(state="done", problem=None, weights_sha256=WEIGHTS)
    assert selectors.export_get(trained) is None  # its files are gone
    assert services.export_create(user=people.mate, job=trained).pk != asked.pk


STEP = "step-00000040"
STATE = hashlib.sha256(b"state").hexdigest()


@pytest.fixture
def kept(trained, node_make):
    """Two checkpoints of the job, and a node."""
    node_make()
    for step in (20, 40):
        name = f"step-{step:08d}"
        Checkpoint.objects.create(job=trained, name=name, step=step, epoch=step / 10)
        file = settings.STORE.job(trained.pk).checkpoint_state(name)
        file.parent.mkdir(parents=True)
        file.write_bytes(b"state")
    return trained


def exported(job: Job, owner, checkpoint: str, sha256: str) -> ModelExport:
    made = services.export_create(user=owner, job=job, checkpoint=checkpoint)
    written(made)
    export_done({"export_id": made.pk, "report": REPORT, "weights_sha256": sha256})
    return made


def test_any_checkpoint_that_is_kept_is_exported_beside_the_final_weights(
    kept, people, tasks_sent, django_capture_on_commit_callbacks
):
    with django_capture_on_commit_callbacks(execute=True):
        final, chosen = exported(kept, people.mate, "", WEIGHTS), exported(kept, people.mate, STEP, STATE)
    requests = [args[0]["checkpoint"] for name, args, _ in tasks_sent if name == "node.export"]
    assert requests == ["", STEP]
    assert selectors.export_get(kept).pk == final.pk and selectors.export_get(kept, STEP).pk == chosen.pk
    assert selectors.export_get(kept, "step-00000020") is None
    assert f"onnx-{kept.pk}-{STEP}/model.onnx" in names(kept, STEP)
    with selectors.export_model_open(kept, STEP) as stream:
        assert stream.read() == b"model"


def test_an_export_of_a_checkpoint_outlives_attempts_but_not_the_checkpoint(
    kept, people, django_capture_on_commit_callbacks
):
    chosen = exported(kept, people.mate, STEP, STATE)
    Job.objects.update(token=7)
    kept.refresh_from_db()
    assert selectors.export_get(kept, STEP).pk == chosen.pk
    settings.STORE.job(kept.pk).checkpoint_state(STEP).write_bytes(b"written again")
    assert selectors.export_get(kept, STEP) is None
    Checkpoint.objects.filter(name=STEP).update(removed_at=timezone.now())
    with pytest.raises(Invalid, match="no checkpoint"):
        services.export_create(user=people.mate, job=kept, checkpoint=STEP)
    with django_capture_on_commit_callbacks(execute=True):
        exported(kept, people.mate, "step-00000020", STATE)
    assert not ModelExport.objects.filter(pk=chosen.pk).exists()
    assert not settings.STORE.job(kept.pk).export(chosen.pk).exists()


def test_an_export_goes_with_its_checkpoint_though_nobody_asks_for_another(
    kept, people, django_capture_on_commit_callbacks
):
    stays = [exported(kept, people.mate, "", WEIGHTS), exported(kept, people.mate, "step-00000020", STATE)]
    chosen = exported(kept, people.mate, STEP, STATE)
    Checkpoint.objects.filter(name=STEP).update(removed_at=timezone.now())
    settings.STORE.job(kept.pk).checkpoint_state(STEP).unlink()
    assert selectors.export_get(kept, STEP) is None
    for read in (selectors.export_zip, selectors.export_model_open):
        with pytest.raises(NotFound, match="no such checkpoint"):
            read(kept, STEP)
    with django_capture_on_commit_callbacks(execute=True):
        assert exports_expire() == 0
    assert {export.pk for export in ModelExport.objects.all()} == {export.pk for export in stays}
    folder = settings.STORE.job(kept.pk).export
    assert not folder(chosen.pk).exists() and all(folder(export.pk).is_dir() for export in stays)


def test_what_a_node_still_makes_of_a_checkpoint_that_is_gone_goes_when_it_has_answered(
    kept, people, django_capture_on_commit_callbacks
):
    asked = services.export_create(user=people.mate, job=kept, checkpoint=STEP)
    Checkpoint.objects.filter(name=STEP).update(removed_at=timezone.now())
    exports_expire()
    written(asked)
    export_done({"export_id": asked.pk, "report": REPORT, "weights_sha256": STATE})
    with django_capture_on_commit_callbacks(execute=True):
        exports_expire()
    assert not ModelExport.objects.exists() and not settings.STORE.job(kept.pk).export(asked.pk).exists()


def expired(export: ModelExport, *, long_ago: bool = False) -> None:
    """No node answered in time: it has just failed, or hours ago."""
    ModelExport.objects.filter(pk=export.pk).update(created_at=timezone.now() - timedelta(seconds=ANSWER_LIMIT_S + 1))
    exports_expire()
    if long_ago:
        ModelExport.objects.filter(pk=export.pk).update(finished_at=timezone.now() - timedelta(hours=2))


def test_asking_again_takes_nothing_away_that_a_slow_node_still_writes(
    asked, trained, people, django_capture_on_commit_callbacks
):
    expired(asked)
    with django_capture_on_commit_callbacks(execute=True):
        again = services.export_create(user=people.mate, job=trained)
        exports_expire()
    assert again.pk != asked.pk and written(asked).is_dir()
    export_done({"export_id": asked.pk, "report": REPORT, "weights_sha256": WEIGHTS})
    with django_capture_on_commit_callbacks(execute=True):
        exports_expire()  # it is written, and another one is on its way
    assert not settings.STORE.job(trained.pk).export(asked.pk).exists()
    assert [export.pk for export in ModelExport.objects.all()] == [again.pk]


@pytest.mark.parametrize("checkpoint", ["", STEP])
def test_what_no_node_has_answered_for_hours_goes_once_another_is_asked_for_or_its_checkpoint_is_gone(
    kept, people, django_capture_on_commit_callbacks, checkpoint
):
    late = services.export_create(user=people.mate, job=kept, checkpoint=checkpoint)
    expired(late)
    Checkpoint.objects.filter(name=checkpoint).update(removed_at=timezone.now())
    with django_capture_on_commit_callbacks(execute=True):
        if not checkpoint:
            services.export_create(user=people.mate, job=kept)
        exports_expire()
    assert written(late).is_dir() and ModelExport.objects.filter(pk=late.pk).exists()
    expired(late, long_ago=True)
    with django_capture_on_commit_callbacks(execute=True):
        exports_expire()
    assert not ModelExport.objects.filter(pk=late.pk).exists()
    assert not settings.STORE.job(kept.pk).export(late.pk).exists()


def test_a_run_without_final_weights_may_export_a_checkpoint(kept, people):
    (settings.STORE.job(kept.pk).results / "model.safetensors").unlink()
    with pytest.raises(Conflict, match="no final weights"):
        services.export_create(user=people.mate, job=kept)
    assert services.export_create(user=people.mate, job=kept, checkpoint=STEP).state == "waiting"


def test_it_needs_weights_a_node_and_a_member(job, people, node_make):
    with pytest.raises(Forbidden):
        services.export_create(user=people.viewer, job=job)
    with pytest.raises(Conflict, match="no final weights"):
        services.export_create(user=people.mate, job=job)
    paths = settings.STORE.job(job.pk)
    paths.results.mkdir(parents=True)
    (paths.results / "model.safetensors").write_bytes(b"weights")
    packed = settings.STORE.dataset(job.dataset_sha256 or job.dataset.sha256).packed
    packed.mkdir(parents=True, exist_ok=True)
    with pytest.raises(Unavailable, match="No node is up"):
        services.export_create(user=people.mate, job=job)
    assert not ModelExport.objects.exists() and not (paths.root / "exports").exists()
