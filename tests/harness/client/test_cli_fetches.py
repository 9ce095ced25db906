"""`dlh data add URL` and `dlh data fetches`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction

from harness.client import Client
from harness.client.cli import fetches
from harness.client.errors import Unreachable
from tests.file_servers import Files, files_running, status, whole
from tests.harness.client.conftest import Dlh
from tests.harness.fetches.conftest import LOOPBACK


@pytest.fixture
def files(portal: Any, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Files]:
    """A server of files; what is asked for is fetched as soon as it is asked for."""
    from harness.fetches import running, services

    settings.FETCH_NETWORKS = LOOPBACK
    monkeypatch.setattr(services, "task_send_on_commit", lambda _: transaction.on_commit(running.fetch_next))
    with files_running() as found:
        yield found


def test_data_is_added_from_an_address(dlh: Dlh, files: Files, flowers_csv: Path, read_at_once: None) -> None:
    files.acts["/data/flowers.csv"] = whole(flowers_csv.read_bytes())
    added = dlh("data", "add", files.url("/data/flowers.csv"), "--json")
    assert (added.code, added.json["state"], added.json["name"]) == (0, "ready", "flowers")
    told = dlh("data", "add", files.url("/data/flowers.csv"), "--name", "Blooms")
    assert told.code == 0 and "Blooms" in told.out and "dlh data fetches" in told.err
    assert [one["dataset"] for one in dlh("data", "fetches", "--json").json][1] == added.json["id"]


def test_what_went_wrong_is_said_and_it_may_be_tried_again_or_given_up(
    dlh: Dlh, files: Files, flowers_csv: Path, read_at_once: None
) -> None:
    files.acts["/flowers.csv"] = status(404)
    failed = dlh("data", "add", files.url("/flowers.csv"), "--json")
    assert failed.code != 0 and failed.json["error"]["code"] == "not_found"
    (one,) = dlh("data", "fetches", "--json").json
    files.acts["/flowers.csv"] = whole(flowers_csv.read_bytes())
    assert dlh("data", "fetches", "--again", one["id"], "--json").json[0]["state"] == "done"
    assert dlh("data", "fetches", "--give-up", one["id"], "--json").json == []
    assert len(dlh("data", "list", "--json").json) == 1


def test_of_several_that_are_given_up_one_that_is_gone_keeps_no_other(dlh: Dlh, files: Files) -> None:
    files.acts["/flowers.csv"] = status(404)
    ids = [
        dlh("data", "add", files.url("/flowers.csv"), "--no-wait", "--json").json["id"],
        dlh("data", "add", files.url("/flowers.csv"), "--no-wait", "--json").json["id"],
    ]
    words = [word for one in (ids[0], "nosuch", "neither", ids[1]) for word in ("--give-up", one)]
    refused = dlh("data", "fetches", *words)
    assert refused.code != 0 and "nosuch: There is no such fetch" in refused.err and "neither: There" in refused.err
    assert dlh("data", "fetches", "--json").json == []


def test_one_that_cannot_be_tried_again_keeps_no_other_from_being_given_up(dlh: Dlh, files: Files) -> None:
    files.acts["/flowers.csv"] = status(404)
    known = dlh("data", "add", files.url("/flowers.csv"), "--no-wait", "--json").json["id"]
    refused = dlh("data", "fetches", "--again", "nosuch", "--give-up", known)
    assert refused.code == 3 and "nosuch: There is no such fetch" in refused.err
    assert dlh("data", "fetches", "--json").json == []


def test_what_was_refused_before_the_portal_is_gone_is_told(
    dlh: Dlh, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = Client.send

    def sent(client: Client, method: str, path: str, *rest: Any) -> Any:
        if path.endswith("/later"):
            raise Unreachable("The portal does not answer.")
        return send(client, method, path, *rest)

    monkeypatch.setattr(Client, "send", sent)
    refused = dlh("data", "fetches", "--again", "nosuch", "--again", "neither", "--give-up", "later")
    assert refused.code == 4 and "does not answer" in refused.err
    assert "nosuch: There is no such fetch" in refused.err and "neither: There is" in refused.err


def test_without_waiting_it_says_where_to_look(dlh: Dlh, files: Files) -> None:
    files.acts["/flowers.csv"] = status(503)
    told = dlh("data", "add", files.url("/flowers.csv"), "--no-wait")
    assert told.code == 0 and "dlh data fetches" in told.out
    assert "503" in dlh("data", "fetches", "--json").json[0]["problem"]["message"]


def test_ctrl_c_tells_no_one_to_have_the_file_fetched_a_second_time(
    dlh: Dlh, files: Files, flowers_csv: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    files.acts["/flowers.csv"] = whole(flowers_csv.read_bytes())
    for place, waits in ((Client, "fetch_wait"), (fetches, "dataset_ready")):
        with monkeypatch.context() as patch:
            patch.setattr(place, waits, interrupted)
            ended = dlh("data", "add", files.url("/flowers.csv"))
        assert ended.code == 130 and "The portal goes on with it" in ended.err
        assert "same command again" not in ended.err


def test_a_portal_that_is_gone_while_it_fetches_leaves_the_name_of_what_is_waited_for(
    dlh: Dlh, files: Files, flowers_csv: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: Any, **__: Any) -> None:
        raise Unreachable("The portal does not answer.", hint="Is it running?")

    files.acts["/flowers.csv"] = whole(flowers_csv.read_bytes())
    for place, waits, known in ((Client, "fetch_wait", {"fetch"}), (fetches, "dataset_ready", {"fetch", "dataset"})):
        with monkeypatch.context() as patch:
            patch.setattr(place, waits, gone)
            ended = dlh("data", "add", files.url("/flowers.csv"), "--json")
        error, newest = ended.json["error"], dlh("data", "fetches", "--json").json
        assert ended.code == 4 and "Is it running? It is fetch" in error["hint"]
        assert error["details"].keys() == known
        assert error["details"]["fetch"] in error["hint"] and "`dlh data fetches` shows how far" in error["hint"]
        (one,) = [one for one in newest if one["id"] == error["details"]["fetch"]]
        assert "dataset" not in known or one["dataset"] == error["details"]["dataset"]


def test_an_address_that_is_none_is_refused_by_the_portal(dlh: Dlh, files: Files) -> None:
    refused = dlh("data", "add", "ftp://data.example.org/iris.csv", "--json")
    assert refused.code != 0 and refused.json["error"]["field"] == "url"
    told = dlh("data", "add", "https://github.com/a/b/blob/main/i.csv").err
    assert [line for line in told.splitlines() if line.startswith("Hint:") and "/raw/main/i.csv" in line]


def test_the_client_fetches_and_waits(client: Client, files: Files, flowers_csv: Path, read_at_once: None) -> None:
    files.acts["/flowers.csv"] = whole(flowers_csv.read_bytes())
    fetch = client.dataset_fetch(files.url("/flowers.csv"))
    assert client.dataset(client.fetch_wait(fetch["id"])["dataset"])["state"] == "ready"
