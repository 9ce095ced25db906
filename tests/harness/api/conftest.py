"""A world with one of everything that an address can name, and callers of every kind."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from django.conf import settings
from django.test import Client

from tests.kept import Kept, kept

if TYPE_CHECKING:
    from tests.harness.api.access_world import World

API = "/api/v1"
TUS = {"Tus-Resumable": "1.0.0"}
RESULTS = {
    "task": "tabular_classification",
    "metric": {"name": "accuracy", "value_val": 0.9, "value_test": 0.8},
    "metrics": {"val": {"accuracy": 0.9}, "test": {"accuracy": 0.8}},
    "charts": [{"id": "per_class", "title": "Per class", "kind": "table", "columns": ["class"], "rows": [["=1+1"]]}],
    "timing": {"epochs": 3},
}


@pytest.fixture(autouse=True)
def quiet_broker(tasks_sent: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """No test of the API needs the broker; live words are dropped."""
    from harness import broker
    from harness.pool import broker_users

    silent = SimpleNamespace(
        xadd=lambda *_, **__: None, expire=lambda *_: None, ping=lambda: True, execute_command=lambda *_: True
    )
    monkeypatch.setattr(broker, "client", lambda: silent)
    monkeypatch.setattr(broker_users, "client", lambda: silent)


@pytest.fixture
def token_make(people: SimpleNamespace) -> Callable[..., str]:
    """`token_make(user, scope="write", project=None)` gives the text of a new token."""
    return token_text


@pytest.fixture
def bearer(token_make: Callable[..., str]) -> Callable[..., Client]:
    """A client that sends a token of this person."""

    def make(user: Any, scope: str = "write", project: Any = None) -> Client:
        return client_of(token_make(user, scope, project))

    return make


@pytest.fixture
def finished_job(job: Any) -> Any:
    """A succeeded job with results, weights, an ONNX model, logs, a checkpoint, points, a check and a prediction."""
    return job_finish(job)


@pytest.fixture
def pictures(dataset: Any) -> Any:
    """A dataset whose profile names one thumbnail that is there."""
    return picture_add(dataset)


@pytest.fixture(scope="module")
def world_kept(request: pytest.FixtureRequest, flowers_csv: Path, flowers_packed: Path) -> Iterator[Kept[World]]:
    from harness import broker
    from tests.harness.api.access_world import world_make

    def make() -> World:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(broker, "publish", lambda *_, **__: None)
            return world_make(flowers_csv, flowers_packed)

    with kept(request, make, lambda world: world.folders) as found:
        yield found


@pytest.fixture
def world(world_kept: Kept[World], db: None) -> Iterator[World]:
    with world_kept.lent() as world:
        yield world


def token_text(user: Any, scope: str = "write", project: Any = None) -> str:
    """The text of a new token of this person."""
    from harness.accounts.services import token_create

    user = type(user).objects.get(pk=user.pk)
    return token_create(user=user, name="test", scope=scope, project=project)[1]


def client_of(token: str) -> Client:
    """A client that sends the token."""
    return Client(headers={"Authorization": f"Bearer {token}"})


def job_finish(job: Any) -> Any:
    """Make of a draft a succeeded job with one of everything that a run leaves."""
    from harness.jobs.models import Checkpoint, Job, JobEvent, MetricPoint, ModelExport, Prediction

    paths = settings.STORE.job(job.pk)
    paths.results.mkdir(parents=True)
    (paths.results / "results.json").write_text(json.dumps(RESULTS))
    (paths.results / "model.safetensors").write_bytes(weights := bytes(range(200)))
    log = paths.rank_log(1, 0)
    log.parent.mkdir(parents=True)
    log.write_text("hello\nError: no\n\x1b[31mred\x1b[0m\n")
    MetricPoint.objects.create(job=job, key="train/loss", step=1, epoch=0.1, value=0.5, time_s=1.0)
    Checkpoint.objects.create(job=job, name="step-00000010", step=10, epoch=1.0, size_bytes=5, best=True, token=1)
    paths.checkpoint_state("step-00000010").parent.mkdir(parents=True)
    paths.checkpoint_state("step-00000010").write_bytes(b"state")
    JobEvent.objects.create(job=job, kind="program", data={"check_id": "check2345678", "ok": True})
    prediction = Prediction.objects.create(job=job, owner=job.owner, state="done", rows=1, input_name="in.csv")
    folder = paths.prediction(prediction.pk)
    folder.mkdir(parents=True)
    (folder / "output.json").write_text(json.dumps({"columns": ["predicted"], "rows": [["iris"]]}))
    (folder / "output-answered.csv").write_text("x,predicted\n1,iris\n")
    Job.objects.filter(pk=job.pk).update(state="succeeded", token=1, metric_best=0.9)
    job.refresh_from_db()
    job.test_prediction = prediction.pk
    made = {"state": "done", "report": {"opset": 20}, "weights_sha256": sha256(weights).hexdigest()}
    export = ModelExport.objects.create(job=job, owner=job.owner, token=job.token, **made)
    paths.export(export.pk).mkdir(parents=True)
    (paths.export(export.pk) / "model.onnx").write_bytes(b"model")
    return job


def picture_add(dataset: Any) -> Any:
    """Give the dataset a thumbnail."""
    profile = dict(dataset.profile)
    profile["images"] = {
        "width_min": 8, "width_max": 8, "width_median": 8, "height_min": 8, "height_max": 8, "height_median": 8,
        "channels": 1, "formats": [["PNG", 1]], "thumbnails": [["a", "0.png"]], "channel_mean": [], "channel_std": [],
    }  # fmt: skip
    type(dataset).objects.filter(pk=dataset.pk).update(profile=profile)
    folder = settings.STORE.dataset(dataset.sha256).packed / "thumbnails"
    folder.mkdir(exist_ok=True)
    (folder / "0.png").write_bytes(b"\x89PNG")
    dataset.refresh_from_db()
    return dataset


def metadata(**pairs: str) -> str:
    """`Upload-Metadata` of these keys."""
    return ",".join(f"{key} {base64.b64encode(value.encode()).decode()}" for key, value in pairs.items())


@pytest.fixture
def caller(people: SimpleNamespace, bearer: Any) -> Client:
    """The owner, by a token of every right."""
    return bearer(people.owner, "admin")


def is_error(answer: Any) -> bool:
    """Whether an answer has the one shape of errors."""
    return set(answer.json()) == {"error"} and set(answer.json()["error"]) == {
        "code", "message", "hint", "field", "details",
    }  # fmt: skip
