"""The result of *Check that it runs* on the page of a draft."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from harness.broker import client
from harness.jobs.check_queue import TOOK_KEY, check_begun
from harness.jobs.models import Job
from harness.jobs.predictions import check_done

pytestmark = pytest.mark.usefixtures("broker")


def shown(owner: Client, job: Job) -> str:
    """What the program tab tells of trial runs."""
    page = owner.get(reverse("job_tab", args=[job.pk, "program"])).content.decode()
    return " ".join(page.partition('id="check"')[2].partition('class="program"')[0].split())


def asked(owner: Client, job: Job) -> str:
    """The id of a trial run that the button asked for."""
    answer = owner.post(reverse("program_check", args=[job.pk]), headers={"HX-Request": "true"})
    return answer.content.decode().partition("/program/check/")[2].partition("/")[0]


def test_a_check_under_way_is_waited_for_again_after_a_reload(owner: Client, draft: Job) -> None:
    assert "alert" not in shown(owner, draft)
    check_id = asked(owner, draft)
    page = shown(owner, draft)
    assert f"/program/check/{check_id}/?asked=" in page and "It usually takes less than a minute." in page


def test_an_answer_stays_on_the_page_until_the_program_is_another(owner: Client, draft: Job) -> None:
    check_id = asked(owner, draft)
    check_begun(check_id)
    check_done({"check_id": check_id, "ok": True, "parameters": 1234, "output_shape": [16, 3]})
    page = shown(owner, draft)
    assert "The program runs." in page and "1,234 parameters." in page and "was changed since" not in page
    saved = owner.post(
        reverse("program_save", args=[draft.pk]), {"name": "model.py", "text": "def build(spec):\n    return None\n"}
    )
    assert saved.status_code == 200
    page = shown(owner, draft)
    assert "The program was changed since it was tried." in page and "The program ran." in page
    fragment = owner.get(reverse("program_check_result", args=[draft.pk, check_id])).content.decode()
    assert "The program was changed since it was tried." in fragment
    newer = asked(owner, draft)
    assert "It usually takes" in shown(owner, draft)
    check_done({"check_id": newer, "ok": False, "problem": {"message": "build returns None.", "hint": "Return one."}})
    assert "build returns None." in (page := shown(owner, draft)) and "was changed since" not in page


def test_an_answer_of_an_unknown_state_of_the_program_says_so(owner: Client, draft: Job) -> None:
    check_done({"check_id": f"{draft.pk}-forgotten", "ok": True})
    assert "The program may have been changed since it was tried." in shown(owner, draft)


def test_the_place_of_a_fault_is_told_once_and_the_traceback_is_there(owner: Client, draft: Job) -> None:
    problem = {"hint": "Correct it.", "file": "model.py", "line": 7, "traceback": "Traceback: <7>"}
    check_done({"check_id": f"{draft.pk}-1", "ok": False, "problem": {**problem, "message": "model.py, line 7: no."}})
    page = shown(owner, draft)
    assert page.count("model.py, line 7") == 1 and "Traceback: &lt;7&gt;" in page
    check_done({"check_id": f"{draft.pk}-2", "ok": False, "problem": {**problem, "message": "It has no such column."}})
    assert "It has no such column.</div>" in (page := shown(owner, draft)) and "model.py, line 7. Correct it." in page


def test_one_check_before_tells_how_long_it_took_and_no_longest(owner: Client, draft: Job) -> None:
    first = asked(owner, draft)
    check_begun(first)
    check_done({"check_id": first, "ok": True})
    asked(owner, draft)
    page = shown(owner, draft)
    assert "It usually takes" in page and "the longest of the last ones" not in page
    client().lpush(TOOK_KEY, "40.0")
    assert "the longest of the last ones took 40 s." in shown(owner, draft)


def test_names_in_what_a_check_tells_are_code_and_no_markup(owner: Client, draft: Job) -> None:
    note = "`model.head` gets no gradient: `a < b` & 1 ` more"
    check_done({"check_id": asked(owner, draft), "ok": True, "notes": [note]})
    told = "<code>model.head</code> gets no gradient: <code>a &lt; b</code> &amp; 1 ` more"
    assert told in shown(owner, draft)
    problem = {"message": "`<b>` is at fault.", "hint": "Write `def build(spec)`; it may ignore it."}
    check_done({"check_id": asked(owner, draft), "ok": False, "problem": problem})
    page = shown(owner, draft)
    assert "<code>&lt;b&gt;</code> is at fault." in page and "Write <code>def build(spec)</code>; it may" in page
