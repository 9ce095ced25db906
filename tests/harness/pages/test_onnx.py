"""The ONNX model on the tab of results: asked for, waited for, downloaded, or why there is none."""

from __future__ import annotations

from hashlib import sha256
from types import SimpleNamespace

import pytest
from django.conf import settings
from django.test import Client

from harness.jobs.models import Job, ModelExport

pytestmark = pytest.mark.django_db
REPORT = {
    "opset": 20, "script": True, "model_bytes": 123_456,
    "check": {"rows": 64, "largest_difference": 2.5e-7, "absolute_tolerance": 1e-4, "relative_tolerance": 1e-3},
    "inputs": [{"name": "numeric", "dtype": "float32", "shape": ["batch", 13]}],
}  # fmt: skip


def page(client: Client, job: Job) -> str:
    response = client.get(f"/jobs/{job.pk}/results/")
    assert response.status_code == 200
    return " ".join(response.content.decode().split())


def export_of(job: Job, **fields: object) -> ModelExport:
    paths = settings.STORE.job(job.pk)
    weights = sha256((paths.results / "model.safetensors").read_bytes()).hexdigest()
    export = ModelExport.objects.create(
        job=job, owner=job.owner, token=job.token, weights_sha256=weights, **fields,
    )  # fmt: skip
    folder = paths.export(export.pk)
    folder.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(b"model")
    return export


def test_members_may_ask_and_viewers_read_only(world: SimpleNamespace, owner: Client) -> None:
    job = world.jobs["succeeded"]
    assert "Make the ONNX model" in page(owner, job)
    viewer = Client()
    viewer.force_login(world.viewer)
    assert "Make the ONNX model" not in page(viewer, job)
    assert viewer.post(f"/jobs/{job.pk}/onnx/").status_code == 403


def test_a_request_without_weights_says_so_in_its_place(world: SimpleNamespace, owner: Client) -> None:
    job = world.jobs["running"]
    answer = owner.post(f"/jobs/{job.pk}/onnx/")
    assert answer.status_code == 200 and "no final weights yet" in answer.content.decode()


def test_one_that_is_being_made_asks_again(world: SimpleNamespace, owner: Client) -> None:
    job = world.jobs["succeeded"]
    export_of(job)
    told = page(owner, job)
    assert 'hx-trigger="load delay:2s"' in told and "A node is making it and checking it" in told


def test_one_that_is_there_is_offered_with_size_and_check(world: SimpleNamespace, owner: Client) -> None:
    job = world.jobs["succeeded"]
    export = export_of(job, state="done", report=REPORT)
    told = page(owner, job)
    assert f'href="/api/v1/jobs/{job.pk}/onnx.zip"' in told and "(120.6 KB)" in told
    assert f'title="{export.weights_sha256}"' in told and f">{export.weights_sha256[:12]}</code>" in told
    assert "64 real rows" in told and "2.50e-07 at most" in told
    assert "<code>numeric</code> float32 (batch, 13)" in told
    assert owner.get(f"/api/v1/jobs/{job.pk}/onnx.zip").status_code == 200


@pytest.mark.parametrize("report", [{}, {"inputs": "x", "check": 7, "model_bytes": "<b>"}, {"inputs": [{"shape": 3}]}])
def test_whatever_a_program_reports_of_itself_the_page_is_shown(
    world: SimpleNamespace, owner: Client, report: dict[str, object]
) -> None:
    job = world.jobs["succeeded"]
    export_of(job, state="done", report=report)
    assert "<b>" not in page(owner, job).split('id="onnx"')[1].split("</section>")[0]


def test_one_that_cannot_be_made_says_why_and_may_be_tried_again(world: SimpleNamespace, owner: Client) -> None:
    job = world.jobs["succeeded"]
    export_of(job, state="failed", problem={"message": "It decides <i>by</i> values.", "hint": "Take it out."})
    told = page(owner, job)
    assert "It decides &lt;i&gt;by&lt;/i&gt; values." in told and "Take it out." in told and "Try again" in told
    assert f"/api/v1/jobs/{job.pk}/weights" in told


def test_the_model_with_its_program_is_one_download_of_the_results(world: SimpleNamespace, owner: Client) -> None:
    job = world.jobs["succeeded"]
    place = f"/api/v1/jobs/{job.pk}/model.zip"
    assert f'href="{place}" download>Download the model</a>' in page(owner, job)


def test_each_checkpoint_has_its_own_onnx_model(world: SimpleNamespace, owner: Client) -> None:
    job = world.jobs["running"]
    name = job.checkpoints.filter(removed_at=None).first().name
    listed = owner.get(f"/jobs/{job.pk}/checkpoints/").content.decode()
    assert f'hx-get="/jobs/{job.pk}/onnx/?checkpoint={name}"' in listed and 'id="onnx"' in listed
    told = owner.get(f"/jobs/{job.pk}/onnx/?checkpoint={name}").content.decode()
    assert f'hx-post="/jobs/{job.pk}/onnx/?checkpoint={name}"' in told and f"<code>{name}</code> as ONNX" in told
    state = settings.STORE.job(job.pk).checkpoint_state(name)
    state.parent.mkdir(parents=True, exist_ok=True)
    state.write_bytes(b"state")
    export = ModelExport.objects.create(
        job=job, owner=job.owner, token=job.token, checkpoint=name, state="done", report=REPORT,
        weights_sha256=sha256(b"state").hexdigest(),
    )  # fmt: skip
    folder = settings.STORE.job(job.pk).export(export.pk)
    folder.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(b"model")
    told = owner.get(f"/jobs/{job.pk}/onnx/?checkpoint={name}").content.decode()
    assert f'href="/api/v1/jobs/{job.pk}/onnx.zip?checkpoint={name}"' in told
    assert owner.get(f"/api/v1/jobs/{job.pk}/model.onnx?checkpoint={name}").status_code == 200
    assert owner.get(f"/api/v1/jobs/{job.pk}/model.onnx").status_code == 404


def test_a_checkpoint_that_does_not_exist_is_refused_in_its_place(world: SimpleNamespace, owner: Client) -> None:
    job = world.jobs["running"]
    answer = owner.post(f"/jobs/{job.pk}/onnx/?checkpoint=%3Cb%3E")
    assert answer.status_code == 200 and "There is no checkpoint &lt;b&gt;" in answer.content.decode()
