"""What is wrong in a form is said on its own page, by the name that the page gives the field."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from html import unescape
from types import SimpleNamespace

import pytest
from django import forms
from django.forms.models import model_to_dict
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from harness.accounts.models import AuditEvent, Project
from harness.calibration.models import CalibrationRun, DeviceModelRow
from harness.jobs.models import Job
from harness.pages.forms import Tabler
from harness.pages.pool_forms import CalibrationForm, PoolForm, SlowForm
from harness.pool.models import Device, Quota, Reservation
from harness.pool.services import pool_setting_get, pool_setting_update
from harness.storage.models import StorageQuota


@pytest.fixture
def admin(world: SimpleNamespace, client: Client) -> Client:
    client.force_login(world.admin)
    return client


def told(client: Client, place: str, **given: str) -> str:
    answer = client.post(reverse(place), given, follow=True)
    assert answer.status_code == 200 and answer.redirect_chain
    return unescape(answer.content.decode())


def test_what_was_written_about_a_job_is_kept_where_it_is_refused(world: SimpleNamespace, client: Client) -> None:
    client.force_login(world.owner)
    for job in (world.jobs["succeeded"], world.jobs["draft"]):
        before = (job.name, job.tags, job.notes)
        sent = {"name": "A & B", "tags": f"good, {'x' * 61}", "notes": "What I saw:\n<nothing>"}
        answer = client.post(reverse("job_edit", args=[job.pk]), sent)
        page = unescape(answer.content.decode())
        dialog = page.partition('id="edit-dialog"')[2].partition("</dialog>")[0]
        assert answer.status_code == 422 and "at most 20 tags" in dialog
        assert re.match(r"[^>]*\bopen\b", dialog) and all(text in dialog for text in sent.values())
        job.refresh_from_db()
        assert (job.name, job.tags, job.notes) == before
        dialog = client.get(reverse("job_page", args=[job.pk])).content.decode().partition('id="edit-dialog"')[2]
        assert not re.match(r"[^>]*\bopen\b", dialog)


def test_tags_of_a_job_with_an_older_name_are_saved_beside_the_name_that_the_form_shows(
    world: SimpleNamespace, client: Client
) -> None:
    client.force_login(world.owner)
    job = world.jobs["draft"]
    Job.objects.filter(pk=job.pk).update(name="first\nsecond")
    dialog = client.get(reverse("job_page", args=[job.pk])).content.decode().partition('id="edit-dialog"')[2]
    assert 'value="first second"' in dialog.partition("</dialog>")[0]
    answer = client.post(reverse("job_edit", args=[job.pk]), {"name": "first second", "tags": "good", "notes": ""})
    job.refresh_from_db()
    assert (answer.status_code, job.name, job.tags) == (302, "first\nsecond", ["good"])


def test_a_name_of_nobody_is_corrected_beside_the_role_that_was_chosen(admin: Client) -> None:
    answer = admin.post(reverse("member_set", args=["orchard"]), {"username": "ouner", "role": "viewer"})
    form = unescape(answer.content.decode()).partition('id="am"')[2].partition("</form>")[0]
    assert answer.status_code == 422 and "There is no user ouner." in form
    assert 'value="ouner"' in form and '<option value="viewer" selected>' in form


def test_a_member_without_a_name_is_told_one_error(admin: Client) -> None:
    answer = admin.post(reverse("member_set", args=["orchard"]), {"username": " ", "role": "viewer", "add": "1"})
    form = unescape(answer.content.decode()).partition('id="am"')[2].partition("</form>")[0]
    assert answer.status_code == 422 and form.count("This field is required.") == 1 and "There is no user" not in form


SETTINGS = {
    "minimum_sandbox_level_own_code": "1",
    "minimum_sandbox_level_generated": "0",
    "backend": "horovod",
    "network_encryption": "kernel",
    "max_restarts": "3",
    "policy": "deadline_energy",
    "co2_g_per_kwh": "400",
    "data_mib_per_s": "100",
    "power_table": "{}",
}


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("co2_g_per_kwh", "-5", "Enter a number from 0 to 5,000."),
        ("power_table", "{broken", "This is not JSON"),
        ("power_table", "[" * 100_000, "This is not JSON"),
        ("power_table", f'{{"cpu": {"9" * 5000}}}', "This is not JSON"),
        ("power_table", "[" * 300 + "]" * 300, "maps at most"),
        ("power_table", '{"cpu": {"idle_w": -1}}', "idle_w"),
        ("max_restarts", "", "Enter a whole number from 0 to 100."),
    ],
)
def test_a_wrong_setting_of_the_pool_can_be_corrected(admin: Client, field: str, value: str, said: str) -> None:
    before = pool_setting_get()
    answer = admin.post(reverse("pool_settings"), {**SETTINGS, "data_mib_per_s": "77.5", field: value})
    assert answer.status_code == 422
    page = unescape(answer.content.decode())
    section = page.partition('id="ps"')[2].partition("</form>")[0]
    assert said in section and value in section and 'value="77.5"' in section, "what was typed is still there"
    assert model_to_dict(pool_setting_get()) == model_to_dict(before)


def settings_shown(admin: Client) -> dict[str, str]:
    """What the page of the pool sends where nobody touches its settings."""
    settings = {name: value for name, value in model_to_dict(pool_setting_get()).items() if name != "id"}
    settings["power_table"] = json.dumps(settings["power_table"])
    shown = {f"initial-{name}": str(value) for name, value in settings.items()}
    page = unescape(admin.get(reverse("pool")).content.decode())
    assert all(f'name="{name}" value="{value}"' in page for name, value in shown.items())
    return {**shown, **{name: str(value) for name, value in settings.items() if value is not False}}


def test_of_two_admins_who_change_different_settings_none_undoes_what_the_other_did(
    admin: Client, world: SimpleNamespace
) -> None:
    seen, shown = pool_setting_get(), settings_shown(admin)
    pool_setting_update(user=world.admin, policy="fifo", span_nodes=True)
    admin.post(reverse("pool_settings"), {**shown, "co2_g_per_kwh": "35", "own_network": ""})
    now = pool_setting_get()
    assert (now.policy, now.span_nodes, now.co2_g_per_kwh) == ("fifo", True, 35.0)
    assert now.own_network is not seen.own_network, "a tick that is taken away is a change"


MEANWHILE = {
    "policy": ("fifo", "Jobs get devices by: changed meanwhile to First come, first served; it stays."),
    "minimum_sandbox_level_own_code": (3, "programs: changed meanwhile to L3; it stays."),
    "own_network": (False, "Its ranks have a network of their own: changed meanwhile to off; it stays."),
    "max_restarts": (7, "Restarts of a job after faults of the platform: changed meanwhile to 7; it stays."),
    "data_mib_per_s": (2500.0, "Speed at which data come to nodes, MiB/s: changed meanwhile to 2,500; it stays."),
    "power_table": ({"cpu": {"idle_w": 1.5, "busy_w": 8}}, 'to {"cpu": {"busy_w": 8, "idle_w": 1.5}}; it stays.'),
}


@pytest.mark.parametrize("changed", [{}, {"co2_g_per_kwh": "35"}], ids=["nothing", "another setting"])
@pytest.mark.parametrize("field", MEANWHILE)
def test_a_setting_that_was_changed_since_the_page_was_made_stays_and_is_told(
    admin: Client, world: SimpleNamespace, field: str, changed: dict[str, str]
) -> None:
    (value, said), shown = MEANWHILE[field], settings_shown(admin)
    pool_setting_update(user=world.admin, **{field: value})
    rows = AuditEvent.objects.count()
    page = told(admin, "pool_settings", **{**shown, **changed})
    assert said in page and page.count("changed meanwhile") == 1 and "Choose again to change it." in page
    assert getattr(pool_setting_get(), field) == value
    assert ("Nothing was changed." in page, "The settings of the pool are saved." in page) == (
        not changed,
        bool(changed),
    )
    assert AuditEvent.objects.count() == rows + len(changed)


@pytest.mark.parametrize(
    ("table", "sent"),
    [({}, ""), ({}, "{}"), ({"cpu": {"idle_w": 1.5, "busy_w": 8}}, '{"cpu": {"busy_w": 8, "idle_w": 1.5}}')],
)
def test_settings_that_are_saved_as_they_are_are_no_change(
    admin: Client, world: SimpleNamespace, table: dict[str, dict[str, float]], sent: str
) -> None:
    pool_setting_update(user=world.admin, power_table=table)
    rows = AuditEvent.objects.count()
    page = told(admin, "pool_settings", **{**settings_shown(admin), "power_table": sent})
    assert "Nothing was changed." in page and "changed meanwhile" not in page
    assert pool_setting_get().power_table == table and AuditEvent.objects.count() == rows


@pytest.mark.parametrize(
    ("device", "factor", "said"),
    [
        ("node-1 cpu:0", "0", "Enter a number from 1 to 100."),
        ("node-1 cpu:0", "fast", "Enter a number from 1 to 100."),
        ("node-1 cpu:77", "3.5", "node-1 has no device cpu:77."),
        ("gone cpu:0", "3.5", "gone"),
        ("", "3.5", "This field is required."),
    ],
)
def test_a_declaration_that_is_refused_can_be_corrected(admin: Client, device: str, factor: str, said: str) -> None:
    answer = admin.post(reverse("device_slow"), {"device": device, "factor": factor})
    assert answer.status_code == 422
    section = unescape(answer.content.decode()).partition('id="ed"')[2].partition("</form>")[0]
    assert said in section and f'value="{factor}"' in section, "what was typed is still there"
    assert not device or f'<option value="{device}" selected>' in section
    assert not Device.objects.exclude(slowdown=1.0).exists()


def refused(client: Client, place: str, **given: str) -> str:
    """The page with the form as it was sent."""
    answer = client.post(reverse(place), given)
    page = unescape(answer.content.decode())
    assert answer.status_code == 422
    assert all(f'value="{value}"' in page for value in given.values() if value), "what was typed is still there"
    return page


@pytest.mark.parametrize("gib", ["-1", "nan", "inf", "999999999999"])
def test_a_storage_quota_that_is_none_is_told_in_the_unit_of_its_form(admin: Client, gib: str) -> None:
    assert f"'{gib}' is not a number of GiB" in refused(admin, "storage_quota_save", project="orchard", gib=gib)
    assert not StorageQuota.objects.exists()


@pytest.mark.parametrize("look", [{}, {"look": "1"}], ids=["saved", "looked at"])
@pytest.mark.parametrize("devices", ["", "many", "2.5", "-1", "1000001"])
def test_a_quota_that_is_none_can_be_corrected(admin: Client, devices: str, look: dict[str, str]) -> None:
    before = list(Quota.objects.values())
    given = {"project": "orchard", "device_kind": "cuda", "devices": devices, **look}
    page = refused(admin, "quota_save", **given)
    assert "Enter a whole number from 0 to 1,000,000." in page and '<option value="cuda" selected>' in page
    assert list(Quota.objects.values()) == before


def test_a_quota_whose_number_alone_is_changed_lends_as_before(admin: Client, world: SimpleNamespace) -> None:
    Quota.objects.all().delete()
    for devices, borrow, kept, said in (
        ("2", "", True, "Saved: Orchard may use more while no other project wants them."),
        ("3", "no", False, "Saved: Orchard never uses more."),
        ("4", "", False, "Saved: Orchard never uses more."),
        ("4", "yes", True, "Saved: Orchard may use more while no other project wants them."),
    ):
        given = {"project": "orchard", "device_kind": "cuda", "devices": devices, "may_borrow": borrow}
        assert admin.post(reverse("quota_save"), {**given, "look": "1"}).status_code == 200
        page = told(admin, "quota_save", **given)
        assert said in page and '<option value="" selected>As it is; yes for a new quota</option>' in page
        assert list(Quota.objects.values_list("devices", "may_borrow")) == [(int(devices), kept)]


@pytest.mark.parametrize("name", [" ", "Long " * 25])
def test_a_name_that_a_project_cannot_have_is_corrected_where_it_was_typed(admin: Client, name: str) -> None:
    before = Project.objects.count()
    page = refused(admin, "project_add", name=name)
    assert page.count("A project needs a name of at most 120 characters.") == 1
    assert Project.objects.count() == before


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"minutes": "0"}, "The budget is from 0.2 to 1,440 minutes."),
        ({"minutes": "many"}, "The budget is from 0.2 to 1,440 minutes."),
        ({"kind": "cuda"}, "node-1"),
        ({"node": "gone"}, "gone"),
    ],
)
def test_a_calibration_that_is_refused_can_be_corrected(admin: Client, changed: dict[str, str], said: str) -> None:
    given, before = {"node": "node-1", "kind": "cpu", "model": "", "minutes": "7.5", **changed}, _runs()
    answer = admin.post(reverse("calibration_begin"), given)
    page = unescape(answer.content.decode())
    assert answer.status_code == 422 and said in page
    assert f'value="{given["minutes"]}"' in page and f'<option value="{given["kind"]}" selected>' in page
    assert _runs() == before
    models = re.findall(r'href="([^"]*model=[^"]*)"', page)
    shown = {f"{reverse('calibration')}?model={row.pk}" for row in DeviceModelRow.objects.all()}
    assert shown and shown <= set(models) and not any(link.startswith("?") for link in models)


def _runs() -> int:
    return CalibrationRun.objects.count()


RESERVATION = {"target": "node-1", "purpose": "a course", "ends_at": "2099-01-01T00:00"}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"ends_at": "soon"}, "Enter a valid date/time."),
        ({"target": "node-1/cpu:77"}, "Select a valid choice."),
        ({"purpose": ""}, "This field is required."),
        ({}, "A reservation lasts a year at most."),
        ({"ends_at": "2020-01-01T00:00"}, "The reservation would be over before it begins."),
        ({"starts_at": "2020-01-01T00:00"}, "The reservation would begin in the past."),
    ],
)
def test_a_reservation_that_is_refused_can_be_corrected(admin: Client, changed: dict[str, str], said: str) -> None:
    given, before = {**RESERVATION, **changed}, Reservation.objects.count()
    answer = admin.post(reverse("reservation_new"), given)
    page = unescape(answer.content.decode())
    assert answer.status_code == 422 and said in page
    assert all(value in page for value in given.values()), "what was typed is still there"
    assert Reservation.objects.count() == before


def test_of_two_wrong_times_of_a_reservation_the_start_is_named_first(admin: Client) -> None:
    answer = admin.post(reverse("reservation_new"), {**RESERVATION, "starts_at_utc": "early", "ends_at_utc": "late"})
    assert answer.status_code == 422 and "'early' is not a valid time." in unescape(answer.content.decode())


def test_what_is_only_looked_at_is_refused_as_it_would_be(admin: Client) -> None:
    Reservation.objects.all().delete()
    wanted = {**RESERVATION, "ends_at": (timezone.now() + timedelta(hours=1)).isoformat()}
    assert admin.post(reverse("reservation_new"), wanted).status_code == 302
    answer = admin.post(reverse("reservation_new"), {**wanted, "purpose": "", "look": "1"})
    assert answer.status_code == 422 and "is reserved already for a course" in answer.content.decode()
    assert Reservation.objects.count() == 1


@pytest.mark.parametrize("value", ["", "many", "-1", "1e12", "nan"])
@pytest.mark.parametrize(
    ("form", "field", "said"),
    [
        (SlowForm, "factor", "Enter a number from 1 to 100."),
        (CalibrationForm, "minutes", "Enter a number from 0.2 to 1,440."),
        (PoolForm, "max_restarts", "Enter a whole number from 0 to 100."),
        (PoolForm, "data_mib_per_s", "Enter a number from 0.01 to 1,000,000."),
    ],
)
def test_a_number_that_a_form_does_not_take_is_told_with_its_bounds(
    form: type[Tabler], field: str, said: str, value: str
) -> None:
    assert form({field: value}).errors[field] == [said]


def test_a_form_that_comes_back_has_the_first_field_that_is_wrong_in_focus() -> None:
    page = SlowForm({"device": "", "factor": "0"}).as_p()
    assert page.count("autofocus") == 1 and "autofocus" in page.partition('name="device"')[2].partition(">")[0]
    assert "autofocus" not in SlowForm().as_p()
    late = SlowForm({"device": "", "factor": "0"})
    late.fields["device"].required = False
    assert late.errors.keys() == {"factor"}
    late.add_error("device", "What a service says later, of an earlier field.")
    page = late.as_p()
    assert page.count("autofocus") == 1 and "autofocus" in page.partition('name="device"')[2].partition(">")[0]


def test_what_a_form_says_itself_of_a_number_stays() -> None:
    class Own(Tabler):
        rows = forms.IntegerField(min_value=1, error_messages={"required": "How many?", "min_value": "One at least."})

    told = {value: Own({"rows": value}).errors["rows"] for value in ("", "0", "many")}
    assert told == {"": ["How many?"], "0": ["One at least."], "many": ["Enter a whole number from 1."]}
