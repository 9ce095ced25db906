"""A node keeps in mind how fast its last datasets came, and tells control."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.worker.transfer.conftest import FileServer
from worker.transfer.brought import Brought
from worker.transfer.cache import Cache
from worker.transfer.depot import Depot
from worker.transfer.fetches import FETCHES_MAX, LEAST_BYTES, fetch_note, fetches
from worker.transfer.report import cache_report

DATASET = f"datasets/{'d' * 64}/packed"


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    root = tmp_path / "cache"
    root.mkdir()
    return Cache(root, 1 << 30)


def test_each_dataset_that_really_comes_is_kept_in_mind_and_told(
    server: FileServer, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.files = {"table.parquet": os.urandom(LEAST_BYTES + 7)}
    depot = Depot(cache, server.portal)
    monkeypatch.setattr("worker.transfer.report.depot_here", lambda: depot)
    assert "fetches" not in cache_report()["cache"]
    for _ in range(2):  # the second time it is here
        brought = Brought()
        depot.content(DATASET, brought, lambda: False)
        brought.release()
    (told,) = fetches(cache)
    assert told["bytes"] == LEAST_BYTES + 7 and told["seconds"] > 0
    assert cache_report()["cache"]["fetches"] == [told]


def test_programs_and_small_data_tell_nothing_of_a_line(server: FileServer, cache: Cache) -> None:
    depot = Depot(cache, server.portal)
    server.files = {"train.py": os.urandom(LEAST_BYTES)}
    depot.content("jobs/abc/program", Brought(), lambda: False)
    server.files = {"table.parquet": os.urandom(LEAST_BYTES - 1)}
    depot.content(DATASET, Brought(), lambda: False)
    assert fetches(cache) == []


def test_the_rest_of_what_was_mostly_there_tells_nothing(cache: Cache) -> None:
    fetch_note(cache, LEAST_BYTES, 2 * LEAST_BYTES, 1.0)
    fetch_note(cache, LEAST_BYTES, 2 * LEAST_BYTES + 1, 1.0)
    assert fetches(cache) == [{"bytes": LEAST_BYTES, "seconds": 1.0}]


def test_the_newest_ones_are_kept(cache: Cache) -> None:
    for number in range(FETCHES_MAX + 3):
        fetch_note(cache, LEAST_BYTES + number, LEAST_BYTES, 1.5)
    assert [row["bytes"] - LEAST_BYTES for row in fetches(cache)] == list(range(3, FETCHES_MAX + 3))
    assert {row["seconds"] for row in fetches(cache)} == {1.5}


@pytest.mark.parametrize(
    "line", ["", "{", "7", '{"bytes": 5}', '{"bytes": 9000000, "seconds": 0}', '{"bytes": 9000000, "seconds": NaN}',
             '{"bytes": "x", "seconds": 1}', '{"bytes": 12, "seconds": 1}'],
)  # fmt: skip
def test_lines_that_are_none_are_passed_over(cache: Cache, line: str) -> None:
    fetch_note(cache, LEAST_BYTES, LEAST_BYTES, 2.0)
    with (cache.root / "fetches").open("a") as notes:
        notes.write(line + "\n")
    assert fetches(cache) == [{"bytes": LEAST_BYTES, "seconds": 2.0}]


def test_a_disk_that_takes_no_note_keeps_no_data_from_a_run(cache: Cache) -> None:
    (cache.root / "fetches").mkdir()
    fetch_note(cache, LEAST_BYTES, LEAST_BYTES, 2.0)
    assert fetches(cache) == []
