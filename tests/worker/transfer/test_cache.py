"""The cache stays within its limit and never removes what is in use."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.waiting import wait_for
from worker.home import REPOSITORY
from worker.transfer import cache as cache_module
from worker.transfer.cache import Cache, CacheFull
from worker.transfer.portal import Stopped

HOLDER = """
import sys, time
from pathlib import Path
from worker.transfer.cache import Cache
hold = Cache(Path(sys.argv[1]), 0).hold("contents/a")
print("held", flush=True)
time.sleep(600)
"""


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path, 1000)


def put(cache: Cache, name: str, size: int, *, used_s_ago: float) -> Path:
    """An entry as a run leaves it."""
    folder = cache.path(name)
    folder.mkdir(parents=True)
    (folder / "file").write_bytes(bytes(size))
    cache.hold(name).release()
    moment = time.time() - used_s_ago
    os.utime(cache.root / "locks" / name.replace("/", "-"), (moment, moment))
    return folder


def test_what_was_unused_for_longest_goes_first_and_no_more_than_is_needed(cache: Cache) -> None:
    new, old, older = (put(cache, f"contents/{age}", 300, used_s_ago=age) for age in (100, 200, 300))
    assert cache.room_make(100) == 0
    assert cache.room_make(400) == 300
    assert [folder.exists() for folder in (new, old, older)] == [True, True, False]
    assert cache.used_bytes() == 600


def test_contents_half_fetched_ones_and_folders_of_jobs_count_alike(cache: Cache) -> None:
    for name in ("contents/a", "incoming/b", "jobs/c"):
        put(cache, name, 300, used_s_ago=100)
    assert cache.used_bytes() == 900
    assert cache.room_make(1000) == 900
    assert cache.used_bytes() == 0 and not list((cache.root / "locks").iterdir())


def test_what_is_held_stays_until_it_is_let_go(cache: Cache) -> None:
    held = put(cache, "contents/a", 600, used_s_ago=500)
    hold = cache.hold("contents/a")
    moment = time.time() - 500
    os.utime(cache.root / "locks" / "contents-a", (moment, moment))
    with pytest.raises(CacheFull, match="no room"):
        cache.room_make(500)
    assert held.exists()
    hold.release()
    assert cache.room_make(500) == 600 and not held.exists()


def test_what_was_used_a_moment_ago_stays(cache: Cache) -> None:
    put(cache, "contents/a", 600, used_s_ago=1)
    with pytest.raises(CacheFull):
        cache.room_make(500)


def test_a_clock_that_was_set_back_keeps_no_room_from_a_run(cache: Cache) -> None:
    put(cache, "contents/a", 900, used_s_ago=-24 * 3600)
    assert cache.room_make(500) == 900


def test_more_than_the_whole_cache_removes_nothing(cache: Cache) -> None:
    folder = put(cache, "contents/a", 600, used_s_ago=500)
    with pytest.raises(CacheFull):
        cache.room_make(1001)
    assert folder.exists()


def test_a_killed_process_holds_nothing(cache: Cache) -> None:
    put(cache, "contents/a", 600, used_s_ago=500)
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(cache.root)],
        env={"PYTHONPATH": str(REPOSITORY), "PATH": os.environ["PATH"]}, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert holder.stdout and holder.stdout.readline() == "held\n"
        moment = time.time() - 500
        os.utime(cache.root / "locks" / "contents-a", (moment, moment))
        with pytest.raises(CacheFull):
            cache.room_make(500)
    finally:
        holder.kill()
        holder.wait()
    assert cache.room_make(500) == 600


def test_one_alone_makes_an_entry_and_another_waits_or_gives_up(cache: Cache) -> None:
    asked = iter([False, True])
    with (
        cache.alone("incoming/a", lambda: False),
        pytest.raises(Stopped),
        cache.alone("incoming/a", lambda: next(asked)),
    ):
        raise AssertionError
    with cache.alone("incoming/a", lambda: True):
        pass


def test_a_lock_on_a_removed_entry_is_not_mistaken_for_one_on_its_successor(cache: Cache) -> None:
    put(cache, "contents/a", 600, used_s_ago=500)
    before = (cache.root / "locks" / "contents-a").stat().st_ino
    keep = (cache.root / "locks" / "contents-a").open()  # so that its number is not given out again
    cache.room_make(500)
    hold = cache.hold("contents/a")
    assert (cache.root / "locks" / "contents-a").stat().st_ino != before
    hold.release()
    keep.close()
    wait_for(lambda: cache.used_bytes() == 0)


def test_an_entry_goes_though_something_of_an_earlier_one_of_its_name_would_not(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(cache, "jobs/a", 300, used_s_ago=100)
    with monkeypatch.context() as patched:
        patched.setattr(cache_module, "tree_remove", lambda folder: None)
        assert cache.remove("jobs/a") == 300
    folder = put(cache, "jobs/a", 200, used_s_ago=100)
    assert cache.remove("jobs/a") == 200 and not folder.exists()
