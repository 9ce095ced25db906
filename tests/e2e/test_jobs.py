"""A job from the upload to its results, through the public API."""

import io
import zipfile

import pytest

from tests.e2e.stack import items

pytestmark = [pytest.mark.stack, pytest.mark.both_databases]


@pytest.fixture(scope="module")
def trained(stack, digits):
    """A digits job that has ended well."""
    job = stack.job_submit(digits, {"name": "digits, four epochs", "training": {"epochs": 4, "seed": 1}})
    return stack.job_wait(job, "succeeded")


def test_pictures_are_trained_to_results(stack, trained):
    results = stack.get(f"/jobs/{trained['id']}/results")
    assert results["task"] == "image_classification"
    assert 0.5 < results["metric"]["value_test"] <= 1
    assert len(results["classes"]) == 10
    assert "confusion_matrix" in {chart["id"] for chart in results["charts"]}


def test_the_history_tells_every_state(stack, trained):
    told = [event["new_state"] for event in items(stack.get(f"/jobs/{trained['id']}/events")) if event.get("new_state")]
    assert set(told) >= {"queued", "placed", "running", "succeeded"}


def test_curves_and_samples_are_kept(stack, trained):
    series = stack.request("GET", f"/jobs/{trained['id']}/series.csv").text
    assert "val/" in series
    assert len(series.splitlines()) > 4


def test_weights_and_program_can_be_downloaded(stack, trained):
    weights = stack.request("GET", f"/jobs/{trained['id']}/weights").content
    assert b"__metadata__" in weights[:4096] or b'"dtype"' in weights[:4096]
    archive = zipfile.ZipFile(io.BytesIO(stack.request("GET", f"/jobs/{trained['id']}/program.zip").content))
    names = {name.rsplit("/", 1)[-1] for name in archive.namelist()}
    assert {"model.py", "data.py", "train.py", "predict.py", "spec.yaml", "README.md"} <= names


def test_the_pool_is_free_again_after_the_run(stack, trained):
    devices = [device for node in stack.get("/pool")["nodes"] for device in node["devices"]]
    assert devices
    assert not any(device["busy"] for device in devices)


def test_two_horovod_ranks_train_together(stack, digits):
    spec = {"mode": "sync", "resources": {"device": "cpu", "count": 2}, "training": {"epochs": 2, "seed": 1}}
    job = stack.job_submit(digits, {"name": "two ranks", **spec})
    stack.job_wait(job, "succeeded")
    assert items(stack.get(f"/jobs/{job}/attempts"))[0]["world_size"] == 2


def test_two_stages_of_a_model_train_together_and_predict_as_one(stack, digits):
    spec = {"mode": "pipeline", "resources": {"device": "cpu", "count": 2}, "training": {"epochs": 2, "seed": 1}}
    job = stack.job_submit(digits, {"name": "two stages", **spec})
    stack.job_wait(job, "succeeded")
    (attempt,) = items(stack.get(f"/jobs/{job}/attempts"))
    assert (attempt["world_size"], attempt["mode"]) == (2, "pipeline")
    assert 0.3 < stack.get(f"/jobs/{job}/results")["metric"]["value_test"] <= 1
    assert b'"dtype"' in stack.request("GET", f"/jobs/{job}/weights").content[:4096]
