"""What becomes of a fetch: a dataset like any other, or words that name what happened; breaks, changes, kills."""

from __future__ import annotations

import gzip
import time
from datetime import timedelta

import pytest
from django.conf import settings as django_settings
from django.db import OperationalError
from django.db.models import F
from django.utils import timezone

from harness.datasets.content import content_source
from harness.datasets.models import Dataset, Upload
from harness.fetches import bringing, claims, pace, source
from harness.fetches.models import Fetch
from harness.fetches.running import fetch_next
from harness.fetches.services import fetch_again, fetch_cancel, fetch_create
from tests.file_servers import (
    CSV,
    chunked,
    one_after_another,
    packed,
    parts,
    status,
    whole,
)


def bytes_of(fetch):
    return content_source(fetch.upload.dataset.sha256).read_bytes()


def asked_parts(files):
    return [headers.get("Range") for _, headers in files.asked]


@pytest.fixture
def short_segments(monkeypatch):
    """Every piece is made durable by itself."""
    monkeypatch.setattr(bringing, "SEGMENT_BYTES", 1)
    for module in (source, bringing):
        monkeypatch.setattr(module, "PIECE_BYTES", 500)


@pytest.mark.parametrize("act", [whole(), chunked(), whole(Content_Length=""), packed(), parts()])
def test_a_file_becomes_a_dataset_like_an_uploaded_one(files, fetched, act, short_segments):
    files.acts["/data/flowers.csv"] = act
    fetch = fetched("/data/flowers.csv?signature=secret", name="Flowers", options={"target": "kind"})
    assert (fetch.state, fetch.problem, fetch.total_bytes) == ("done", None, len(CSV))
    dataset = fetch.upload.dataset
    assert (dataset.name, dataset.source_name, dataset.options) == ("Flowers", "flowers.csv", {"target": "kind"})
    assert bytes_of(fetch) == CSV and dataset.state == "profiling"
    assert "secret" not in fetch.url


def test_the_same_bytes_lie_in_the_store_once(files, fetched):
    files.acts["/t.csv"] = whole()
    first, second = fetched("/t.csv"), fetched("/t.csv")
    assert first.upload.dataset != second.upload.dataset
    assert first.upload.dataset.sha256 == second.upload.dataset.sha256


def test_the_name_is_the_one_that_the_server_says(files, fetched):
    files.acts["/get"] = whole(Content_Disposition='attachment; filename="../../etc/Blumen 1.csv"')
    assert fetched("/get?id=7").upload.dataset.source_name == "Blumen 1.csv"


def test_a_file_that_is_gzip_itself_is_kept_as_it_is(files, fetched):
    body = gzip.compress(CSV)
    files.acts["/t.csv.gz"] = whole(body, Content_Encoding="gzip")
    assert bytes_of(fetched("/t.csv.gz")) == body


def test_a_broken_connection_is_gone_on_with_where_it_stopped(files, fetched):
    files.acts["/t.csv"] = one_after_another(parts(cut_at=1000), parts(cut_at=2500), parts())
    fetch = fetched("/t.csv")
    assert fetch.state == "done" and bytes_of(fetch) == CSV
    assert asked_parts(files) == [None, "bytes=1000-", "bytes=2500-"]
    assert files.asked[1][1]["If-Range"] == '"one"'


def test_a_server_without_parts_is_asked_for_the_whole_again(files, fetched):
    files.acts["/t.csv"] = one_after_another(parts(cut_at=1000), parts(ignores_range=True))
    assert bytes_of(fetched("/t.csv")) == CSV


def test_what_has_no_name_for_its_content_is_never_put_together(files, fetched):
    files.acts["/t.csv"] = one_after_another(whole(CSV[:1000], Content_Length=str(len(CSV))), whole())
    assert bytes_of(fetched("/t.csv")) == CSV
    assert asked_parts(files) == [None, None]


OTHER = CSV.replace(b"iris", b"lily")


def test_a_file_that_was_changed_meanwhile_is_begun_anew(files, fetched):
    files.acts["/t.csv"] = one_after_another(parts(cut_at=1000), parts(OTHER, '"two"'))
    fetch = fetched("/t.csv")
    assert bytes_of(fetch) == OTHER and fetch.restarts == 1


def liar(handler):
    """Sends another file's rest although it was asked for the first one's."""
    handler.say(206, OTHER[1000:], ETag='"two"', Content_Range=f"bytes 1000-{len(OTHER) - 1}/{len(OTHER)}")


@pytest.mark.parametrize(
    "act",
    [
        liar,
        lambda handler: handler.say(206, CSV[1:], Content_Range=f"bytes 1-{len(CSV) - 1}/{len(CSV)}"),
        lambda handler: handler.say(206, CSV[1000:-1], Content_Range=f"bytes 1000-{len(CSV) - 2}/{len(CSV) - 1}"),
        lambda handler: handler.say(206, CSV[1000:]),
        status(416),
    ],
)
def test_a_part_that_does_not_fit_is_not_put_to_what_has_arrived(files, fetched, act):
    files.acts["/t.csv"] = one_after_another(parts(cut_at=1000), act, parts(OTHER, '"two"'))
    assert bytes_of(fetched("/t.csv")) == OTHER


def test_a_file_that_always_changes_is_given_up(files, fetched):
    count = iter(range(1000))
    files.acts["/t.csv"] = lambda handler: parts(etag=f'"{next(count)}"', cut_at=1000)(handler)
    fetch = fetched("/t.csv")
    assert (fetch.state, fetch.problem["code"]) == ("failed", "changed")
    assert (fetch.upload.size_bytes, fetch.upload.offset_bytes) == (0, 0)


def test_a_server_that_is_away_is_tried_a_few_times_and_then_by_hand(files, fetched, people, run_all):
    files.acts["/t.csv"] = status(503)
    fetch = fetched("/t.csv")
    assert (fetch.state, fetch.problem["code"]) == ("failed", "server")
    assert len(files.asked) == len(claims.TRY_AFTER_S) + 1
    files.acts["/t.csv"] = whole()
    fetch_again(user=people.owner, fetch=fetch)
    run_all()
    fetch.refresh_from_db()
    assert (fetch.state, fetch.problem) == ("done", None)


@pytest.fixture
def waiting(files, people, loopback_allowed, tasks_sent):
    """A fetch that nobody has begun: `waiting("/t.csv", user=...)`."""

    def make(path, user=None):
        return fetch_create(user=user or people.owner, project=people.project, url=files.url(path))

    return make


def test_one_whose_process_was_killed_is_gone_on_with_by_another(files, waiting, monkeypatch):
    files.acts["/t.csv"] = parts()
    fetch = waiting("/t.csv")

    def killed(*_, **__):
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(bringing, "SEGMENT_BYTES", 1)
        for module in (source, bringing):
            patch.setattr(module, "PIECE_BYTES", 500)
        patch.setattr(claims, "failed", killed)
        appended = bringing.upload_append
        patch.setattr(bringing, "upload_append", lambda **given: appended(**given) and killed())
        with pytest.raises(SystemExit):
            fetch_next()
    assert not fetch_next(), "its process may still be at it"
    Fetch.objects.update(beat_at=timezone.now() - claims.STALE - timedelta(seconds=1))
    assert fetch_next()
    fetch.refresh_from_db()
    assert fetch.state == "done" and bytes_of(fetch) == CSV
    assert asked_parts(files)[1].startswith("bytes=")


@pytest.mark.parametrize("state", ["fetching", "waiting"])
def test_days_in_which_control_was_off_are_not_counted(files, waiting, state):
    files.acts["/t.csv"] = parts()
    fetch = waiting("/t.csv")
    off_since = timezone.now() - timedelta(days=2)
    begun_at = off_since - timedelta(hours=3)
    Fetch.objects.update(state=state, begun_at=begun_at, beat_at=off_since, due_at=off_since)
    assert fetch_next()
    fetch.refresh_from_db()
    assert fetch.state == "done", fetch.problem
    assert timedelta(hours=3) <= timezone.now() - fetch.begun_at < timedelta(hours=4)


def killed_once(monkeypatch, **moved):
    """Whoever takes it up is killed, and found to be so; `moved`: what they had written before."""
    monkeypatch.setattr(claims, "STALE", timedelta(hours=1))
    assert claims.claim()
    past = {name: F(name) - claims.STALE - timedelta(seconds=1) for name in ("beat_at", "begun_at")}
    Fetch.objects.update(**past, **moved)


def test_what_kills_its_process_again_and_again_is_given_up_after_a_few_tries(files, waiting, monkeypatch):
    files.acts["/t.csv"] = parts()
    fetch = waiting("/t.csv")
    for _ in range(len(claims.TRY_AFTER_S) + 1):
        killed_once(monkeypatch)
    assert fetch_next()
    fetch.refresh_from_db()
    assert (fetch.state, fetch.problem["code"]) == ("failed", "killed")
    assert "killed" in fetch.problem["message"] and "out of memory" in fetch.problem["hint"]
    assert not files.asked


def test_of_tries_that_ended_otherwise_before_the_last_was_killed_their_reason_is_told(files, waiting, monkeypatch):
    fetch = waiting("/t.csv")
    problem = {"code": "server", "message": "The server answered 503.", "hint": ""}
    Fetch.objects.update(tries=len(claims.TRY_AFTER_S), problem=problem)
    killed_once(monkeypatch)
    assert fetch_next()
    fetch.refresh_from_db()
    assert fetch.problem["code"] == "killed" and "in the last one the process" in fetch.problem["message"]
    assert fetch.problem["message"].endswith("Before that: The server answered 503.")


def test_one_that_is_killed_now_and_then_goes_on_as_long_as_bytes_arrive(files, waiting, monkeypatch, short_segments):
    files.acts["/t.csv"] = parts()
    fetch = waiting("/t.csv")
    for _ in claims.TRY_AFTER_S:
        killed_once(monkeypatch)
    monkeypatch.setattr(claims, "LITTLE_BYTES", 400)
    appended, count = bringing.upload_append, iter(range(1000))

    def killed(**given):
        if next(count) == 2:
            raise SystemExit
        return appended(**given)

    monkeypatch.setattr(bringing, "upload_append", killed)
    with pytest.raises(SystemExit):
        fetch_next()
    fetch.refresh_from_db()
    assert (fetch.state, fetch.tries) == ("fetching", 0)
    Fetch.objects.update(beat_at=timezone.now() - claims.STALE - timedelta(seconds=1))
    assert fetch_next()
    fetch.refresh_from_db()
    assert fetch.state == "done" and bytes_of(fetch) == CSV


def test_the_time_of_those_that_were_killed_counts_for_the_day(files, waiting, monkeypatch):
    """Each time it is taken up as soon as nobody is at it any more."""
    fetch = waiting("/t.csv")
    for _ in range(25):
        killed_once(monkeypatch, tries=0)
    assert fetch_next()
    fetch.refresh_from_db()
    assert (fetch.state, fetch.problem["code"]) == ("failed", "too_slow")


def test_what_is_fetched_for_a_whole_day_is_given_up(files, waiting):
    fetch = waiting("/t.csv")
    Fetch.objects.update(begun_at=timezone.now() - timedelta(days=1, minutes=1))
    assert fetch_next()
    fetch.refresh_from_db()
    assert (fetch.state, fetch.problem["code"]) == ("failed", "too_slow")


def test_a_fault_of_ours_that_passes_loses_no_byte(files, fetched, monkeypatch, short_segments):
    files.acts["/t.csv"] = parts()
    written, count = claims.write, iter(range(1000))

    def away_once(fetch, **fields):
        if "rate_bytes_s" in fields and next(count) == 2:
            raise OperationalError("database is locked")
        written(fetch, **fields)

    monkeypatch.setattr(claims, "write", away_once)
    fetch = fetched("/t.csv")
    assert fetch.state == "done" and bytes_of(fetch) == CSV
    assert asked_parts(files)[1].startswith("bytes=")


def test_who_was_thought_to_be_dead_writes_nothing_any_more(files, waiting):
    fetch = waiting("/t.csv")
    old = claims.claim()
    Fetch.objects.update(beat_at=timezone.now() - claims.STALE - timedelta(seconds=1))
    new = claims.claim()
    assert (old.pk, new.run) == (fetch.pk, old.run + 1)
    with pytest.raises(claims.Lost):
        claims.write(old, rate_bytes_s=1.0)
    claims.write(new, rate_bytes_s=2.0)


def test_one_person_holds_a_few_slots_at_a_time_and_leaves_the_rest_to_others(files, waiting, people):
    for number in range(claims.PER_PERSON + 2):
        waiting(f"/{number}.csv")
    others = waiting("/mate.csv", user=people.mate)
    taken = [claims.claim() for _ in range(claims.PER_PERSON + 2)]
    assert taken[-1] is None and taken[-2].pk == others.pk


def test_one_that_is_given_up_while_it_comes_leaves_nothing(files, waiting, people, monkeypatch, short_segments):
    fetch = waiting("/t.csv")
    appended = bringing.upload_append

    def given_up(**given):
        appended(**given)
        fetch_cancel(user=people.owner, fetch=fetch)

    monkeypatch.setattr(bringing, "upload_append", given_up)
    files.acts["/t.csv"] = whole()
    fetch_next()
    assert not Upload.objects.exists() and not Dataset.objects.exists()
    assert not django_settings.STORE.upload(fetch.pk).exists()


def test_who_is_put_out_of_the_project_meanwhile_adds_nothing_to_it(files, waiting, people):
    fetch = waiting("/t.csv", user=people.mate)
    people.project.memberships.filter(user=people.mate).delete()
    files.acts["/t.csv"] = whole()
    fetch_next()
    fetch.refresh_from_db()
    assert (fetch.state, fetch.problem["code"]) == ("failed", "forbidden") and files.asked == []


def test_whoever_drips_bytes_of_which_nothing_is_unpacked_is_left(
    files, people, loopback_allowed, tasks_sent, monkeypatch
):
    monkeypatch.setattr(pace, "SLOW_S", 0.1)

    def act(handler):
        handler.say(200, Content_Length="", Content_Encoding="gzip")
        handler.wfile.write(b"\x1f\x8b\x08\x08" + bytes(6))  # a name follows, which does not end
        for _ in range(50):
            handler.wfile.write(b"x")
            time.sleep(0.02)

    files.acts["/t.csv"] = act
    fetch = fetch_create(user=people.owner, project=people.project, url=files.url("/t.csv"))
    assert fetch_next()
    fetch.refresh_from_db()
    assert fetch.problem["code"] == "too_slow"
