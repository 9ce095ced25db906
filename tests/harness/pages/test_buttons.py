"""No button is shown to whom it is refused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from django.db import transaction
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from harness.datasets.models import Dataset
from harness.jobs.models import Job

REFUSED = {403, 404, 405}
EVERYBODY = ("owner", "member", "viewer", "outsider", "admin")


@pytest.fixture
def thrown_away(world: SimpleNamespace) -> SimpleNamespace:
    """The world with a job and a dataset of the owner in the trash."""
    now = timezone.now()
    Job.objects.filter(pk=world.jobs["failed"].pk).update(deleted_at=now)
    Dataset.objects.filter(pk=world.failed_dataset.pk).update(deleted_at=now)
    return world


def pages(world: SimpleNamespace) -> list[str]:
    """Where things are deleted, restored and changed."""
    jobs = [reverse("job_page", args=[job.pk]) for job in world.jobs.values()]
    data = [reverse("dataset_page", args=[one.pk]) for one in (world.wine, world.failed_dataset)]
    project = [reverse(name, args=[world.project.slug]) for name in ("project_page", "project_storage")]
    names = ("home", "trash", "weights_files", "view_list", "queue", "reservations", "quotas", "pool_storage", "pool")
    return [*jobs, *data, *project, *map(reverse, names)]


def buttons(page: str) -> Iterator[tuple[str, dict[str, str | list[str]]]]:
    """(address, what is sent) of each button of a form that changes something."""
    for form in re.findall(r"<form\b.*?</form>", page, re.DOTALL):
        head = form.partition(">")[0]
        action = re.search(r'\baction="([^"]+)"', head)
        if action is None or 'method="post"' not in head:
            continue
        hidden = dict(re.findall(r'<input\s+type="hidden"\s+name="([^"]+)"\s+value="([^"]*)"', form))
        ticked = re.findall(r'<input[^>]*type="checkbox"[^>]*name="job"[^>]*value="([^"]+)"', form)
        for button in re.findall(r"<button\b([^>]*)>", form):
            if 'type="button"' in button or "disabled" in button:
                continue
            own = re.search(r'name="([^"]+)"\s+value="([^"]*)"', button)
            yield action[1], {**hidden, **({"job": ticked} if ticked else {}), **({own[1]: own[2]} if own else {})}


@pytest.mark.parametrize("who", EVERYBODY)
def test_no_button_of_a_page_leads_to_a_refusal(thrown_away: SimpleNamespace, client: Client, who: str) -> None:
    client.force_login(getattr(thrown_away, who))
    pressed, refused = set(), []
    for address in pages(thrown_away):
        answer = client.get(address)
        if answer.status_code != 200:
            continue
        for action, sent in buttons(answer.content.decode()):
            if (action, str(sent)) in pressed or action == reverse("logout"):
                continue
            pressed.add((action, str(sent)))
            with transaction.atomic():
                status = client.post(action, sent).status_code
                transaction.set_rollback(True)
            if status in REFUSED:
                refused.append(f"{action} on {address}: {status}")
    assert not refused, "\n".join(refused)
    assert pressed or who in {"viewer", "outsider"}


def test_what_lies_in_the_trash_is_brought_back_by_members_and_deleted_for_good_by_its_owner(
    thrown_away: SimpleNamespace, client: Client
) -> None:
    offered = {}
    for who in ("owner", "member", "viewer"):
        client.force_login(getattr(thrown_away, who))
        page = client.get(reverse("trash")).content.decode()
        assert thrown_away.jobs["failed"].pk in page and thrown_away.failed_dataset.pk in page
        restores = reverse("dataset_restore", args=[thrown_away.failed_dataset.pk])
        offered[who] = ('value="restore"' in page, restores in page, 'value="purge"' in page, "/forever/" in page)
    assert offered["owner"] == (True, True, True, True)
    assert offered["member"] == (True, True, False, False)
    assert offered["viewer"] == (False, False, False, False)
