"""`dlh projects`: from no project to one with members, from the command line alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.accounts.models import Membership, Role, User
from harness.accounts.services import project_create
from tests.harness.client.conftest import Dlh


def test_who_is_in_no_project_is_told_how_to_make_one_and_makes_it(
    dlh: Dlh, portal: SimpleNamespace, flowers_csv: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    Membership.objects.filter(user__username="outsider").delete()
    monkeypatch.setenv("DLH_TOKEN", portal.token_of("outsider"))
    refused = dlh("data", "add", flowers_csv, "--no-wait")
    assert refused.code == 2 and "`dlh projects add NAME`" in refused.err
    made = dlh("projects", "add", "Small things")
    assert made.code == 0 and "as small-things" in made.out
    assert dlh("data", "add", flowers_csv, "--no-wait").code == 0
    assert [(one["slug"], one["role"]) for one in dlh("projects", "--json").json] == [("small-things", "admin")]


def test_a_member_is_added_changed_and_taken_out(dlh: Dlh, portal: SimpleNamespace) -> None:
    project = portal.project
    assert "outsider is viewer" in dlh("projects", "member", project, "outsider", "viewer").out
    assert dlh("projects", "member", project, "outsider", "admin", "--json").json["role"] == "admin"
    members = {one["username"]: one["role"] for one in dlh("projects", "members", project, "--json").json}
    assert members["outsider"] == "admin" and "outsider" in dlh("projects", "members", project).out
    assert "no longer in" in dlh("projects", "member", project, "outsider", "none").out
    assert "outsider" not in dlh("projects", "members", project).out
    assert project in dlh("projects").out


def test_a_member_is_named_in_any_case_as_at_sign_in(dlh: Dlh, portal: SimpleNamespace) -> None:
    assert "outsider is viewer in" in dlh("projects", "member", portal.project, "Outsider", "viewer").out
    assert dlh("projects", "member", portal.project, "OUTSIDER", "none").code == 0
    assert "outsider" not in dlh("projects", "members", portal.project).out


def test_of_two_names_that_differ_in_case_alone_the_one_written_so_is_meant(dlh: Dlh, portal: SimpleNamespace) -> None:
    User.objects.create_user(username="Outsider")  # older than the rule that names differ in more
    assert "Outsider is viewer in" in dlh("projects", "member", portal.project, "Outsider", "viewer").out
    assert dlh("projects", "member", portal.project, "OUTSIDER", "viewer").code == 3


def test_a_role_or_project_that_is_not_there_is_refused(dlh: Dlh, portal: SimpleNamespace) -> None:
    wrong = dlh("projects", "member", portal.project, "outsider", "boss", "--json")
    assert wrong.code == 2 and "role" in wrong.json["error"]["field"]
    assert dlh("projects", "member", "nowhere", "outsider", "viewer").code == 3
    assert dlh("projects", "member", portal.project, "nobody", "viewer").code == 3


def test_data_goes_to_no_project_that_others_have_added_somebody_to(
    dlh: Dlh, portal: SimpleNamespace, flowers_csv: Path, dataset_make: Callable[..., Any]
) -> None:
    people = portal.people
    Membership.objects.create(project=people.elsewhere, user=people.owner, role=Role.ADMIN)
    theirs = dataset_make(people.outsider, people.elsewhere)  # of the very same bytes
    refused = dlh("data", "add", flowers_csv, "--no-wait")
    assert refused.code == 2 and "birds, elsewhere" in refused.err and "`dlh --project SLUG" in refused.err
    fetched = dlh("data", "add", "https://data.example.org/a.csv", "--no-wait")
    assert fetched.code == 2 and "birds, elsewhere" in fetched.err
    made = dlh("--project", "birds", "data", "add", flowers_csv, "--no-wait", "--json").json
    assert made["project"] == "birds" and made["id"] != theirs.pk


def test_a_file_that_the_only_own_project_has_is_not_sent_again(
    dlh: Dlh, portal: SimpleNamespace, flowers_csv: Path, dataset_make: Callable[..., Any]
) -> None:
    people = portal.people
    own = project_create(user=people.owner, name="Zoo")
    dataset_make(people.outsider, people.elsewhere)
    Membership.objects.create(project=people.elsewhere, user=people.owner, role=Role.ADMIN)
    first = dlh("data", "add", flowers_csv, "--no-wait", "--json").json
    again = dlh("data", "add", flowers_csv, "--no-wait", "--json").json
    assert first["project"] == own.slug and again["id"] == first["id"]


def test_whoever_may_create_no_further_project_is_told(dlh: Dlh, portal: SimpleNamespace, settings: Any) -> None:
    settings.PROJECTS_MAX = 0
    refused = dlh("projects", "add", "Small things")
    assert refused.code != 0 and "Only admins of the installation" in refused.err


def test_a_project_is_deleted_by_its_name_restored_and_deleted_for_good(dlh: Dlh, portal: SimpleNamespace) -> None:
    made = dlh("projects", "add", "Small things", "--json").json["slug"]
    unasked = dlh("projects", "rm", made)
    assert unasked.code == 2 and "--name NAME" in unasked.err and "On the disk" in unasked.out
    assert dlh("projects", "rm", made, "--json").json["error"]["hint"].startswith("Give it: --name")
    wrong = dlh("projects", "rm", made, "--name", "small")
    assert wrong.code == 2 and "Small things" in wrong.err
    assert "dlh projects restore small-things" in dlh("projects", "rm", made, "--name", "Small things").out
    assert made not in dlh("projects").out and made in dlh("projects", "trash").out
    assert "Small things is restored" in dlh("projects", "restore", made).out
    assert made in dlh("projects").out and dlh("projects", "trash", "--json").json == []
    gone = dlh("projects", "rm", made, "--name", "Small things", "--forever", "--json").json
    assert gone["jobs"] == 0 and gone["members"] == 1
    assert dlh("projects", "restore", made).code == 3
