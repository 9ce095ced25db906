"""The page that explains the modes shows what was measured, each figure with where and how."""

from __future__ import annotations

from types import SimpleNamespace

from django.test import Client
from django.urls import reverse

from codegen.modes import MODES as NAMES
from codegen.spec import MODE_WORDS
from harness.pages.modes_view import MODES, TOPICS, mode_charts


def test_every_mode_is_explained() -> None:
    assert {mode[0] for mode in MODES} == set(MODE_WORDS) == NAMES


def test_each_topic_has_its_measured_pictures_with_machine_and_command() -> None:
    charts = {chart["id"]: chart for chart in mode_charts()}
    assert set(charts) == {name for _, names, _ in TOPICS for name in names}
    for chart in charts.values():
        assert chart["drawn"] and "CPU cores" in chart["note"] and "make bench-modes" in chart["note"]


def test_figures_of_emulated_devices_are_called_emulated() -> None:
    charts = {chart["id"]: chart for chart in mode_charts()}
    for name in ("async-throughput", "async-accuracy"):
        assert "mulated" in charts[name]["note"]
    slow = [row[0] for chart in charts.values() for row in chart["data"]["rows"] if "slow" in str(row[0])]
    assert slow and all("emulated" in name for name in slow)


def test_the_page_is_open_to_all_who_are_signed_in(world: SimpleNamespace) -> None:
    client = Client()
    assert client.get(reverse("modes")).status_code == 302
    client.force_login(world.outsider)
    text = client.get(reverse("modes")).content.decode()
    for chart in mode_charts():
        assert chart["title"] in text
        table = b"".join(client.get(chart["csv"])).decode()
        assert table.splitlines()[0] == ",".join(chart["columns"]) and table.count("\n") == 1 + len(chart["rows"])
    assert client.get(reverse("modes_chart", args=["none"])).status_code == 404


def test_a_job_and_the_form_of_a_spec_lead_to_it(world: SimpleNamespace, owner: Client) -> None:
    link = f'href="{reverse("modes")}"'
    assert link in owner.get(reverse("job_header", args=[world.jobs["running"].pk])).content.decode()
    assert link in owner.get(reverse("job_tab", args=[world.jobs["draft"].pk, "spec"])).content.decode()
