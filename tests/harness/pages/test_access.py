"""Every address of the pages, for an owner, a team mate, a viewer, an outsider and somebody who is not signed in.

A new address without a row fails `test_every_address_has_a_row`.
"""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from harness.pages.urls import urlpatterns

pytestmark = pytest.mark.both_databases

DONE = {200, 302}


@dataclass(frozen=True)
class Row:
    """What each person gets; `post` is the body of a POST, None for a GET."""

    owner: set[int]
    viewer: set[int]
    outsider: set[int]
    args: tuple[str, ...] = ()
    post: dict[str, Any] | None = None
    is_json: bool = False
    open_to_all: bool = False
    mate: frozenset[int] = frozenset()
    """What a member gets who owns none of it; empty: the same as the owner."""

    def wanted(self, who: str) -> set[int]:
        """Answers that are right for this person."""
        return (set(self.mate) or self.owner) if who == "member" else getattr(self, who)


def look(*args: str, outsider: int = 404) -> Row:
    """A page that members see and outsiders do not."""
    return Row({200}, {200}, {outsider}, args)


def act(*args: str, post: dict[str, Any] | None = None, owner: set[int] | None = None, mate: int = 0) -> Row:
    """A change that members make, viewers may not, and outsiders cannot find; `mate`: members who do not own it."""
    return Row(owner or {302}, {403}, {404}, args, post or {}, mate=frozenset({mate} - {0}))


def own(*args: str, post: dict[str, Any] | None = None) -> Row:
    """Something of the person's own: the same for all who are signed in."""
    return Row(DONE, DONE, DONE, args, post)


ROWS: dict[str, Row] = {
    "home": own(),
    "login": Row({302}, {302}, {302}, open_to_all=True),
    "login_code": Row({302}, {302}, {302}, open_to_all=True),
    "logout": Row({302}, {302}, {302}, post={}, open_to_all=True),
    "provider_start": Row({302}, {302}, {302}, open_to_all=True),
    "provider_back": Row({302}, {302}, {302}, open_to_all=True),
    "account": own(),
    "account_end": own(),
    "provider_link": Row({404}, {404}, {404}, post={}),
    "provider_go": own(),
    "provider_again": own(),
    "provider_unlink": Row({404}, {404}, {404}, post={}),
    "password_change": own(),
    "time_zone": own(post={"time_zone": "Europe/Berlin"}),
    "browser_time_zone": Row({204}, {204}, {204}, post={"name": "Europe/Berlin"}),
    "token_add": own(post={"name": "laptop", "scope": "read", "days": "30"}),
    "token_end": Row({404}, {404}, {404}, ("nosuchtoken1",), {}),
    "notifications": own(),
    "notifications_save": own(post={"job_failed": "on"}),
    "notifications_secret": Row({404}, {404}, {404}, post={}),
    "notifications_test": own(post={}),
    "second_factor": own(),
    "second_factor_add": own(post={"code": "000000"}),
    "second_factor_end": Row({422}, {422}, {422}, post={}),
    "recovery_codes": Row({422}, {422}, {422}, post={}),
    "session_out": Row({404}, {404}, {404}, ("nosuchsessn1",), {}),
    "sessions_out": own(post={}),
    "project_list": own(),
    "project_names": own(),
    "project_add": own(post={"name": "New one"}),
    "user_add": Row({403}, {403}, {403}, post={"username": "someone"}),
    "user_act": Row({403}, {403}, {403}, ("outsider", "disable"), {}),
    "project_page": look("orchard"),
    "project_end": Row({200}, {403}, {404}, ("orchard",), mate=frozenset({403})),
    "project_trash_act": act("orchard", "restore", mate=403),
    "member_set": act("orchard", post={"username": "member", "role": "viewer"}, mate=403),
    "member_remove": act("orchard", "member"),
    "dataset_list": own(),
    "dataset_upload": Row({200}, {403}, {200}),
    "fetch_rows": own(),
    "fetch_act": Row({404}, {404}, {404}, ("nosuchfetch1", "cancel"), {}),
    "dataset_sample": Row({302}, {403}, {404}, post={"project": "orchard", "name": "wine"}),
    "dataset_page": look("digits"),
    "dataset_preview": look("digits"),
    "dataset_progress": look("profiling"),
    "dataset_picture": look("digits", "thumbnail"),
    "dataset_row_picture": look("digits", "0"),
    "dataset_edit": act("digits", post={"name": "renamed"}),
    "dataset_remove": act("failed_dataset", mate=403),
    "dataset_restore": act("failed_dataset"),
    "weights_files": own(),
    "weights_remove": act("weights", mate=403),
    "job_list": own(),
    "job_bulk": own(post={"do": "delete"}),
    "job_compare": look(),
    "seed_curves": look("running"),
    "seed_curves_csv": look("running"),
    "job_groups_csv": own(),
    "job_export": own("csv"),
    "view_list": own(),
    "view_new": own(post={"name": "Mine", "query": "state=failed"}),
    "view_act": act("view", "rename", post={"name": "renamed"}, mate=403),
    "job_new": Row({200}, {403}, {200}),
    "job_new_spec": Row({200}, {403}, {404}, ("wine",)),
    "job_new_check": Row({200}, {200}, {404}, ("wine",), {"yaml": "task: auto"}, is_json=True),
    "job_new_models": Row({200}, {200}, {404}, ("wine",), {"spec": {}}, is_json=True),
    "job_page": look("running"),
    "job_header": look("running"),
    "job_curves": look("running"),
    "job_speedup": look("succeeded"),
    "job_log_lines": look("running"),
    "job_edit": act("running", post={"name": "renamed"}),
    "job_act": act("paused", "cancel"),
    "job_offer_new": act("draft", owner={200}),
    "job_offer_show": look("draft", "offer"),
    "job_offer_csv": look("draft", "offer"),
    "job_offer_take": act("draft", "offer"),
    "job_offer_probe": act("draft", "offer", owner={200}),
    "job_rates_new": act("draft", owner={200}),
    "job_rates_show": look("draft", "rate_test"),
    "job_rates_csv": look("draft", "rate_test"),
    "job_rates_use": act("draft", "rate_test", post={"rate": "valley"}),
    "program_save": act("draft", post={"name": "model.py", "text": "x = 1\n"}, owner={200}),
    "program_reset": act("draft"),
    "program_diff": look("draft"),
    "program_check": act("draft", owner={200}),
    "program_check_result": look("draft", "nosuchcheck"),
    "checkpoint_file": Row({404}, {404}, {404}, ("running", "step-00000140")),
    "spec_save": act("draft", post={"spec": "task: auto"}),
    "job_predict": look("succeeded"),
    "job_onnx": look("succeeded"),
    "prediction_page": look("succeeded", "prediction"),
    "prediction_remove": act("succeeded", "prediction", mate=403),
    "job_tab": look("running", "logs"),
    "pool": own(),
    "node_new": Row({403}, {403}, {403}, post={"name": "node-9"}),
    "node_act": Row({403}, {403}, {403}, ("node-1", "drain"), {}),
    "node_near": Row({403}, {403}, {403}, ("node-1",), {"near": "rack 2"}),
    "device_slow": Row({403}, {403}, {403}, post={"device": "node-1 cpu:0", "factor": "2"}),
    "pool_object_store": Row({403}, {403}, {403}),
    "pool_links": Row({403}, {403}, {403}, post={}),
    "pool_readers": Row({403}, {403}, {403}),
    "pool_settings": Row({403}, {403}, {403}, post={"max_restarts": "2"}),
    "calibration": own(),
    "calibration_begin": Row({403}, {403}, {403}, post={"node": "node-1", "kind": "cpu", "minutes": "5"}),
    "calibration_take_in": Row({403}, {403}, {403}, post={}),
    "calibration_points": own("csv"),
    "calibration_chart": own("fit"),
    "calibration_end": Row({403}, {403}, {403}, ("nosuchrun123",), {}),
    "accuracy": Row(DONE, DONE, DONE, open_to_all=True),
    "accuracy_chart": own("run_s"),
    "modes": own(),
    "modes_chart": own("speedup"),
    "queue": own(),
    "queue_act": Row({403}, {403}, {403}, ("queued",), {"to": "first"}),
    "reservations": own(),
    "reservation_new": Row(
        {403}, {403}, {403}, post={"target": "node-1", "purpose": "x", "ends_at": "2030-01-01T00:00"}
    ),
    "reservation_end": Row({403}, {403}, {403}, ("nosuchreserv",), {}),
    "quotas": own(),
    "quota_save": Row({403}, {403}, {403}, post={"project": "orchard", "device_kind": "cpu", "devices": "1"}),
    "quota_end": Row({403}, {403}, {403}, ("orchard", "cpu"), {}),
    "pool_storage": own(),
    "storage_quota_save": Row({403}, {403}, {403}, post={"project": "orchard", "gib": "1"}),
    "storage_quota_end": Row({403}, {403}, {403}, ("orchard",), {}),
    "project_storage": look("orchard"),
    "storage_act": act("orchard", "dataset", "failed_dataset", "trash", mate=403),
    "pool_use": own(),
    "node_drain": Row({403}, {403}, {403}, ("node-1",)),
    "audit": Row({403}, {403}, {403}),
    "trash": own(),
}


def address(world: SimpleNamespace, name: str, row: Row) -> str:
    """The URL, with ids in place of the words used in the table."""
    ids = {state: job.pk for state, job in world.jobs.items()}
    made = ("digits", "wine", "profiling", "failed_dataset", "prediction", "view", "weights")
    ids |= {word: getattr(world, word).pk for word in made}
    ids["offer"] = world.jobs["draft"].offers.get().pk
    ids["rate_test"] = world.jobs["draft"].rate_tests.get().pk
    ids["thumbnail"] = world.digits.profile["images"]["thumbnails"][0][1]
    # A second argument is the name of an action or tab, even where a state has the same name.
    inner = {"thumbnail", "prediction", "offer", "rate_test", "failed_dataset"}
    args = [ids.get(word, word) if at == 0 or word in inner else word for at, word in enumerate(row.args)]
    url = reverse(name, args=args)
    if name == "job_compare":
        url += f"?job={ids['running']}&job={ids['succeeded']}"
    if name == "job_groups_csv":
        url += "?group=dataset"
    return url


def answer(client: Client, url: str, row: Row) -> int:
    if row.post is None:
        return client.get(url).status_code
    if row.is_json:
        return client.post(url, json.dumps(row.post), content_type="application/json").status_code
    return client.post(url, row.post).status_code


def test_every_address_has_a_row() -> None:
    assert {pattern.name for pattern in urlpatterns} == set(ROWS)


def test_every_person_gets_what_the_table_says(world: SimpleNamespace) -> None:
    from django.db import transaction

    wrong = []
    signed_in = {}
    for who in ("outsider", "viewer", "member", "owner"):
        signed_in[who] = Client()
        signed_in[who].force_login(getattr(world, who))
    for name, row in ROWS.items():
        url = address(world, name, row)
        for who, before in signed_in.items():
            client = Client()
            client.cookies = copy.deepcopy(before.cookies)  # what the row makes of the session goes with the rest
            with transaction.atomic():
                got = answer(client, url, row)
                transaction.set_rollback(True)
            if got not in row.wanted(who):
                wrong.append(f"{name} for {who}: {got}, not {row.wanted(who)}")
    assert not wrong, "\n".join(wrong)


def test_nobody_gets_in_without_signing_in(world: SimpleNamespace) -> None:
    for name, row in ROWS.items():
        if row.open_to_all:
            continue
        url = address(world, name, row)
        client = Client()
        response = client.get(url) if row.post is None else client.post(url)
        assert response.status_code == 302 and response["Location"].startswith("/login?next="), name


def test_but_for_signing_in_one_page_is_open_to_all_and_it_reads_only() -> None:
    signing_in = {"login", "login_code", "logout", "provider_start", "provider_back"}
    assert {name for name, row in ROWS.items() if row.open_to_all} == {*signing_in, "accuracy"}
    assert ROWS["accuracy"].post is None


def test_changes_need_post_and_a_csrf_token(world: SimpleNamespace) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(world.owner)
    for name, row in ROWS.items():
        if row.post is not None:
            url = address(world, name, row)
            assert strict.post(url, row.post).status_code == 403, name
            shown = strict.get(url)
            assert (shown.status_code, shown.headers.get("Location")) == _shown_on(world).get(name, (405, None)), name


def _shown_on(world: SimpleNamespace) -> dict[str, tuple[int, str]]:
    """Where addresses lead whose form is answered with a whole page when it is refused: a reload asks for them."""
    draft, running = world.jobs["draft"].pk, world.jobs["running"].pk
    pages = {
        reverse("account"): ("token_add", "provider_link", "provider_unlink"),
        reverse("calibration"): ("calibration_begin",),
        reverse("dataset_page", args=[world.digits.pk]): ("dataset_edit",),
        reverse("job_list"): ("job_bulk",),
        reverse("job_page", args=[running]): ("job_edit",),
        reverse("job_tab", args=[draft, "spec"]): ("spec_save",),
        reverse("notifications"): ("notifications_save", "notifications_secret"),
        reverse("pool"): ("node_new", "device_slow", "pool_settings"),
        reverse("pool_storage"): ("storage_quota_save",),
        reverse("project_list"): ("project_add", "user_add", "user_act"),
        reverse("project_page", args=["orchard"]): ("member_set",),
        reverse("queue"): ("queue_act",),
        reverse("quotas"): ("quota_save", "quota_end"),
        reverse("reservations"): ("reservation_new",),
        reverse("second_factor"): ("second_factor_add", "second_factor_end", "recovery_codes"),
    }
    return {name: (302, page) for page, names in pages.items() for name in names}


def test_nobody_learns_from_the_address_of_a_form_what_is_hidden_from_them(world: SimpleNamespace) -> None:
    client = Client()
    client.force_login(world.outsider)
    hidden = {name for name in _shown_on(world) if ROWS[name].args and ROWS[name].outsider == {404}}
    assert hidden == {"dataset_edit", "job_edit", "member_set", "spec_save"}
    for name in hidden:
        assert client.get(address(world, name, ROWS[name])).status_code == 404, name


@pytest.mark.parametrize("name", ["job_edit", "pool_settings"])
def test_the_address_of_a_form_leads_to_its_page_as_it_was_chosen(
    world: SimpleNamespace, client: Client, name: str
) -> None:
    client.force_login(world.owner)
    shown = client.get(address(world, name, ROWS[name]) + "?q=a+%26+b&page=2")
    assert shown.headers["Location"] == _shown_on(world)[name][1] + "?q=a+%26+b&page=2"


def test_pages_that_only_show_something_take_no_post(world: SimpleNamespace) -> None:
    both = {"dataset_upload", "job_new_spec", "job_predict", "job_onnx", "login", "login_code", "password_change"}
    both |= {"account_end", "project_end"}
    client = Client()
    client.force_login(world.owner)
    shown = {name: row for name, row in ROWS.items() if row.post is None}
    taken = {name for name, row in shown.items() if client.post(address(world, name, row)).status_code != 405}
    assert taken == both


@pytest.mark.parametrize("url", ["/jobs/nosuchjob123/", "/datasets/nosuchdata12/", "/projects/nosuch/", "/nosuch"])
def test_what_does_not_exist_looks_like_what_is_hidden(world: SimpleNamespace, client: Client, url: str) -> None:
    client.force_login(world.owner)
    response = client.get(url)
    assert response.status_code == 404
    assert b"There is nothing here." in response.content


def test_only_who_is_signed_in_gets_the_menu_of_a_page_that_is_not_there(
    world: SimpleNamespace, client: Client
) -> None:
    assert "Account menu" not in client.get("/nothing-here").content.decode()
    client.force_login(world.owner)
    assert "Account menu" in client.get("/nothing-here").content.decode()
