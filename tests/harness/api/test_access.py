"""Every row of who may call what, tried as everybody."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import transaction

from harness.api.app import api
from harness.api.query import operations
from tests.harness.api.access_matrix import CALLERS, KINDS, MATRIX, NAMES, OK
from tests.harness.api.access_requests import request_of
from tests.harness.api.access_world import World
from tests.harness.api.conftest import API, client_of, token_text

pytestmark = pytest.mark.both_databases


def routes() -> list[tuple[str, str]]:
    return [(method, path) for path, operation in operations(api) for method in operation.methods]


def test_every_method_of_every_address_has_a_row() -> None:
    assert set(routes()) == set(MATRIX)


@pytest.mark.parametrize(("method", "path"), list(MATRIX), ids=lambda value: value)
def test_everybody_gets_what_the_matrix_says(method: str, path: str, world: World) -> None:
    values = {**world.values, "name": NAMES.get(path.split("/")[1], "")}
    place = API + path.format(**values)
    expected = dict(zip(CALLERS, KINDS[MATRIX[method, path]], strict=True))
    got = {}
    # Those who are refused come first: nobody's success may hide that another would have failed.
    for name in sorted(CALLERS, key=lambda caller: (expected[caller] == OK, caller == "owner")):
        with transaction.atomic():
            answer = world.callers[name].generic(method, place, **request_of(method, path, world))
            transaction.set_rollback(True)
        assert answer.status_code != 500
        got[name] = answer.status_code if answer.status_code in {401, 403, 404} else OK
        if got[name] and method != "HEAD":
            assert set(answer.json()["error"]) == {"code", "message", "hint", "field", "details"}
    assert got == expected


def test_lists_show_outsiders_and_bound_tokens_nothing_of_the_project(world: World) -> None:
    for name in ("outsider", "bound_token"):
        caller = world.callers[name]
        assert caller.get(f"{API}/jobs").json()["total"] == 0
        assert caller.get(f"{API}/datasets").json()["total"] == 0
        assert [item["slug"] for item in caller.get(f"{API}/projects").json()["items"]] == ["elsewhere"]
        assert caller.get(f"{API}/jobs?project=birds").status_code == 404
    assert world.callers["viewer"].get(f"{API}/jobs").json()["total"] == 1


def test_a_write_token_manages_no_members(world: World) -> None:
    place = f"{API}/projects/{world.values['slug']}/members/extra"
    assert client_of(token_text(world.people.owner)).delete(place).status_code == 403
    assert world.callers["owner"].delete(place).status_code == 200


def test_a_bound_token_sees_only_tokens_of_its_project(world: World) -> None:
    items = world.callers["bound_token"].get(f"{API}/tokens").json()["items"]
    assert [item["project"] for item in items] == ["elsewhere"]


def test_the_pool_names_no_job_to_outsiders(world: World, node_make: Any) -> None:
    from harness.jobs.models import Allocation, JobAttempt
    from harness.pool.models import Device

    node_make("node-1")
    attempt = JobAttempt.objects.create(job=world.job, number=1, plan={})
    Allocation.objects.create(device=Device.objects.first(), job=world.job, attempt=attempt, rank=0)
    for name, shown in (("outsider", None), ("bound_token", None), ("viewer", world.job.pk)):
        nodes = world.callers[name].get(f"{API}/pool").json()["nodes"]
        held = [device for node in nodes for device in node["devices"] if device["busy"]]
        assert [device["job_id"] for device in held] == [shown]


def test_a_template_for_somebody_elses_dataset_is_not_found(world: World) -> None:
    place = f"{API}/spec/template?dataset={world.dataset.pk}"
    assert world.callers["outsider"].get(place).status_code == 404
    assert world.callers["viewer"].get(place).status_code == 200
