"""One of everything that an address can name, and callers of every kind."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from django.conf import settings
from django.test import Client
from django.utils import timezone

from tests.factory_rates import rate_test_make
from tests.factory_weights import weights_make
from tests.harness.api.conftest import client_of, job_finish, picture_add, token_text
from tests.harness.estimates.factories import offer_make
from tests.small_world import dataset_ready, people_make


@dataclass
class World:
    """What is there, and what stands in its addresses."""

    people: SimpleNamespace
    job: Any
    dataset: Any
    upload: Any
    join_token: str
    tokens: dict[str, str]
    values: dict[str, Any]

    @cached_property
    def callers(self) -> dict[str, Client]:
        """A client of each kind of caller."""
        return {"anonymous": Client(), **{name: client_of(token) for name, token in self.tokens.items()}}

    @property
    def folders(self) -> list[Path]:
        """What a caller may change of the store."""
        return [
            settings.STORE.job(self.job.pk).root,
            settings.STORE.dataset(self.dataset.sha256).root,
            settings.STORE.uploads,
        ]


def world_make(flowers_csv: Path, flowers_packed: Path) -> World:
    """Make it all in the database and the store."""
    from harness.accounts.models import Membership, Role, User
    from harness.datasets.services import upload_create
    from harness.fetches.services import fetch_create
    from harness.jobs.services import job_create
    from harness.notify.models import NotifyChoice
    from harness.saved_views.services import view_create

    people = people_make()
    owner, project = people.owner, people.project
    dataset = picture_add(dataset_ready(flowers_csv, flowers_packed, owner, project, "flowers"))
    job = job_finish(job_create(user=owner, project=project, dataset=dataset, spec={}))
    Membership.objects.create(project=people.elsewhere, user=owner, role=Role.ADMIN)
    Membership.objects.create(project=project, user=User.objects.create_user("extra"), role=Role.MEMBER)
    for user in User.objects.all():
        NotifyChoice.objects.create(user=user, webhook_url="https://hooks.example.org/")
    upload = upload_create(user=owner, project=project, filename="a.csv", size_bytes=4)
    fetch = fetch_create(user=owner, project=project, url="https://data.example.org/a.csv")
    values = {
        "token_id": _first_token(owner),
        "slug": project.slug,
        "username": "extra",
        "upload_id": upload.pk,
        "fetch_id": fetch.pk,
        "dataset_id": dataset.pk,
        "weights_id": weights_make(owner, project).pk,
        "job_id": job.pk,
        "offer_id": offer_make(owner, job).pk,
        "test_id": rate_test_make(job).pk,
        "view_id": view_create(user=owner, name="Failed", query="state=failed", project=project).pk,
        "check_id": "check2345678",
        "prediction_id": job.test_prediction,
        "chart": "per_class",
        "form": "csv",
        "token": 1,
        "checkpoint": "step-00000010",
        "rank": 0,
    }
    join_token, more = _pool_make(people)
    return World(people, job, dataset, upload, join_token, _tokens_make(people), values | more)


def _first_token(owner: Any) -> str:
    """Id of a token that no caller uses."""
    from harness.accounts.models import ApiToken

    token_text(owner)
    return str(ApiToken.objects.get(user=owner).pk)


def _tokens_make(people: SimpleNamespace) -> dict[str, str]:
    made = {
        name: token_text(getattr(people, name), "admin") for name in ("outsider", "viewer", "mate", "owner", "admin")
    }
    made["read_token"] = token_text(people.owner, "read")
    made["bound_token"] = token_text(people.owner, "write", people.elsewhere)
    return made


def _pool_make(people: SimpleNamespace) -> tuple[str, dict[str, Any]]:
    """(A token to join with, what addresses of the pool name)."""
    from harness.calibration.models import CalibrationRun
    from harness.pool.joining import join_token_make
    from harness.pool.models import Device, Node
    from harness.pool.quotas import quota_set
    from harness.pool.reservations import reservation_hold
    from harness.storage.quotas import storage_quota_set

    node = Node.objects.create(name="node-9")
    Device.objects.create(node=node, kind="cpu", index=0)
    _, join_token = join_token_make(user=people.admin, name="node-9")
    kept = reservation_hold(target=node, ends_at=timezone.now() + timedelta(hours=1), purpose="maintenance")
    quota_set(user=people.admin, project=people.project, device_kind="cpu", devices=2)
    storage_quota_set(user=people.admin, project=people.project, limit_bytes=1 << 40)
    run = CalibrationRun.objects.create(node_name="node-9", kind="cpu", budget_s=60.0)
    named = {"reservation_id": kept.pk, "device_kind": "cpu", "kind": "cpu", "index": "0", "run_id": run.pk}
    return join_token, named
