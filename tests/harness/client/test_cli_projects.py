"""`dlh projects`: from no project to one with members, from the command line alone."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from harness.accounts.models import Membership
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


def test_a_role_or_project_that_is_not_there_is_refused(dlh: Dlh, portal: SimpleNamespace) -> None:
    wrong = dlh("projects", "member", portal.project, "outsider", "boss", "--json")
    assert wrong.code == 2 and "role" in wrong.json["error"]["field"]
    assert dlh("projects", "member", "nowhere", "outsider", "viewer").code == 3
    assert dlh("projects", "member", portal.project, "nobody", "viewer").code == 3
