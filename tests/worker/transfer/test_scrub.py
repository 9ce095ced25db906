"""A bit that flips in the cache long after its file arrived is found, and what has it is used no more."""

from __future__ import annotations

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.worker.transfer.conftest import tree_of
from worker import chores
from worker.celery_app import _start_heartbeat
from worker.transfer import scrub
from worker.transfer.cache import DAMAGED_LATELY_S, Cache
from worker.transfer.check import tree_check
from worker.transfer.report import cache_report
from worker.transfer.scrub import EVERY_S, Scrub
from worker.transfer.tree import Tree

FILES = {"table.parquet": os.urandom(3_000_000), "profile.json": b"{}"}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scrub, "PACE_BYTES_PER_S", 1 << 40)
    monkeypatch.setattr(scrub, "WANTED_BYTES_PER_S", 1 << 40)


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path, 10_000_000)


def put(cache: Cache, files: dict[str, bytes] = FILES) -> tuple[Tree, Path]:
    tree = tree_of(files)
    folder = cache.path(f"contents/{tree.digest}")
    folder.mkdir(parents=True)
    for name, body in files.items():
        (folder / name).write_bytes(body)
    return tree, folder


def flip(file: Path) -> None:
    """One bit, with size and times as they were."""
    before = file.stat()
    body = bytearray(file.read_bytes())
    body[len(body) // 2] ^= 1
    file.write_bytes(body)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_a_flipped_bit_is_found_by_a_look_and_a_whole_tree_is_not_suspected(cache: Cache) -> None:
    tree, folder = put(cache)
    assert tree_check(folder, tree, 60.0) == ([], True)
    flip(folder / "table.parquet")
    assert tree_check(folder, tree, 60.0) == (["table.parquet"], True)
    (folder / "profile.json").unlink()
    assert tree_check(folder, tree, 60.0) == (["profile.json", "table.parquet"], True)


def test_a_look_without_time_says_that_it_has_not_seen_all_but_sees_what_was_cut_short(cache: Cache) -> None:
    tree, folder = put(cache)
    flip(folder / "table.parquet")
    assert tree_check(folder, tree, 0.0) == ([], False)
    os.truncate(folder / "table.parquet", 10)
    assert tree_check(folder, tree, 0.0).bad == ["table.parquet"]


def test_a_scrub_puts_aside_what_is_damaged_and_leaves_the_rest(cache: Cache) -> None:
    tree, folder = put(cache)
    other, good = put(cache, {"train.py": b"print(1)\n"})
    flip(folder / "table.parquet")
    work = Scrub(cache)
    while work.step():
        pass
    assert cache.contents() == {other.digest} and good.is_dir()
    assert [row["digest"] for row in cache.damages()] == [tree.digest]
    assert not list((cache.root / "damaged").iterdir())


def test_what_is_in_use_goes_out_of_sight_at_once_and_from_the_disk_when_its_user_ends(cache: Cache) -> None:
    tree, folder = put(cache)
    hold = cache.hold(f"contents/{tree.digest}")
    opened = os.open(folder, os.O_RDONLY)

    def inside() -> list[str]:
        return sorted(path.name for path in Path(f"/proc/self/fd/{opened}").iterdir())

    flip(folder / "table.parquet")
    work = Scrub(cache)
    assert work.step() and not folder.exists()
    work.step()
    assert inside() == sorted(FILES), "the run that reads it may still open its files"
    put(cache)
    newer = cache.hold(f"contents/{tree.digest}")
    work.step()
    assert inside() == sorted(FILES)
    assert cache.remove(f"contents/{tree.digest}") == 0, "the new one is held by its own users"
    hold.release()
    work.step()
    assert inside() == [] and folder.is_dir()
    newer.release()
    os.close(opened)


def test_each_content_has_its_turn_once_a_day_and_what_is_asked_for_at_once(cache: Cache) -> None:
    put(cache)
    tree, folder = put(cache, {"train.py": b"print(1)\n"})
    now_s = [1000.0]
    work = Scrub(cache, lambda: now_s[0])
    assert [work.step(), work.step(), work.step()] == [True, True, False]
    flip(folder / "train.py")
    assert not work.step() and folder.is_dir()
    cache.want(tree.digest)
    cache.want("0" * 64)  # removed before its turn
    assert work.step() and not folder.is_dir() and not cache.wanted()
    now_s[0] += EVERY_S
    assert [work.step(), work.step()] == [True, False]


def test_one_that_was_fetched_again_meanwhile_is_not_taken_for_the_damaged_one(cache: Cache) -> None:
    tree, folder = put(cache)
    before = folder.stat().st_ino
    keep = os.open(folder, os.O_RDONLY)  # so that its number is not given out again
    folder.rename(cache.root / "elsewhere")
    put(cache)
    assert not cache.put_aside(tree.digest, before, [])
    assert folder.is_dir() and not cache.damages()
    os.close(keep)


def damage(cache: Cache, number: int) -> None:
    tree, folder = put(cache, {"train.py": b"print(%d)" % number})
    assert cache.put_aside(tree.digest, folder.stat().st_ino, [f"{number}.png"] * 1000)


def test_what_is_kept_of_damages_is_bounded_and_holds_the_newest(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("worker.transfer.cache.DAMAGES_MAX", 3)
    for number in range(5):
        damage(cache, number)
    assert [row["files"][0] for row in cache.damages()] == ["2.png", "3.png", "4.png"]
    assert len((cache.root / "damages").read_bytes()) < 3 * 400


def test_a_line_that_was_cut_off_hides_no_other_damage(cache: Cache) -> None:
    damage(cache, 1)
    with (cache.root / "damages").open("a") as notes:
        notes.write('{"digest": "ab", "fi\n[1]\n{"digest": "ab"}\n')
    assert [row["files"][0] for row in cache.damages()] == ["1.png"]
    damage(cache, 2)
    assert [row["files"][0] for row in cache.damages()] == ["1.png", "2.png"]


def test_damages_that_are_found_at_once_are_all_kept_in_mind(cache: Cache) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(partial(damage, cache), range(24)))
    assert len(cache.damages()) == 24


def test_the_report_of_a_node_tells_what_was_damaged_lately_and_when(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.transfer.report.depot_here", lambda: SimpleNamespace(cache=cache))
    row = {"digest": "ab", "files": [], "bytes": 1}
    moments_s = (time.time() - DAMAGED_LATELY_S - 60.0, time.time() - 60.0)
    (cache.root / "damages").write_text("".join(json.dumps({**row, "at_s": at_s}) + "\n" for at_s in moments_s))
    told = cache_report()["cache"]
    assert (told["damages"], told["damaged_at_s"]) == (1, moments_s[1])


def test_a_node_has_its_chores_however_its_agent_was_started(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []
    monkeypatch.setattr("worker.heartbeat.Heartbeat.start", lambda self: None)
    monkeypatch.setattr("threading.Thread.start", lambda self: begun.append(self.name))
    _start_heartbeat()
    assert begun == [chore.__name__ for chore in chores.CHORES]
