"""Datasets come to a node while the jobs that need them wait, and are in nobody's way."""

from __future__ import annotations

import errno
import os
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.waiting import wait_for
from tests.worker.transfer.conftest import FileServer
from worker.plan import RunPaths
from worker.tasks import preload
from worker.transfer import ahead
from worker.transfer.ahead import Ahead, copying_report, folders_want
from worker.transfer.brought import Brought
from worker.transfer.cache import STARTING, Cache, CacheFull, Hold
from worker.transfer.depot import Depot
from worker.transfer.folders import AHEAD_S, Folders
from worker.transfer.portal import PortalRefused, Stopped
from worker.transfer.report import _used, cache_report

NAME, OTHER = "a" * 64, "b" * 64
FOLDER, OTHER_FOLDER = f"datasets/{NAME}/packed", f"datasets/{OTHER}/packed"
JOB = RunPaths(Path("jobs/j1"))
PROGRAM, CHECKPOINT = str(JOB.program), str(JOB.checkpoints / "step-00000010")
CHUNK = 1 << 16


@pytest.fixture
def depot(server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Depot:
    """On a node with a cache, which fetches in small parts."""
    made = Depot(Cache(tmp_path / "cache", 10 * CHUNK), server.portal)
    server.files = {"train.parquet": os.urandom(4 * CHUNK), "meta.json": b"{}"}
    monkeypatch.setattr("worker.transfer.fetch.CHUNK_BYTES", CHUNK)
    monkeypatch.setattr(ahead, "ASK_S", 0.0)
    monkeypatch.setattr(ahead, "depot_here", lambda: made)
    monkeypatch.setattr("worker.transfer.report.depot_here", lambda: made)
    return made


@pytest.fixture
def folders(depot: Depot) -> Folders:
    return Folders(depot.cache.root)


def age(depot: Depot, s: float) -> None:
    """Everything in the cache was last used so long ago."""
    moment = time.time() - s
    for lock in (depot.cache.root / "locks").iterdir():
        os.utime(lock, (moment, moment))


class Interrupted(Ahead):
    """A run starts on the node as soon as something has arrived."""

    hold: Hold | None = None

    def _arrived(self, here_bytes: int, total_bytes: int) -> None:
        super()._arrived(here_bytes, total_bytes)
        self.shares = [*getattr(self, "shares", []), copying_report()["copying"]["share"]]
        if here_bytes >= CHUNK and self.hold is None:
            self.hold = self._cache.hold(STARTING)


def test_what_a_waiting_job_needs_is_here_before_its_run_which_fetches_nothing(
    server: FileServer, depot: Depot, folders: Folders
) -> None:
    preload([f"/var/lib/dlh/store/{FOLDER}"])
    preload([f"/var/lib/dlh/store/{FOLDER}"])
    work = Ahead(depot)
    assert not folders.datasets_here() and work.step() and not work.step()
    assert cache_report(**copying_report())["cache"]["datasets"] == [NAME] and not copying_report()
    sent = server.sent_bytes
    brought = Brought()
    found = depot.content(FOLDER, brought, lambda: False)
    assert (found.path / "train.parquet").read_bytes() == server.files["train.parquet"]
    assert (brought.fetched_bytes, server.sent_bytes) == (0, sent) and sent == server.tree.bytes


@pytest.mark.parametrize("folder", [PROGRAM, CHECKPOINT])
def test_a_program_and_a_checkpoint_come_ahead_stay_while_they_are_wanted_and_are_told_to_nobody(
    server: FileServer, depot: Depot, folders: Folders, folder: str
) -> None:
    preload([f"/var/lib/dlh/store/{folder}"])
    assert folders.wanted() == [folder] and not folders.has(folder)
    assert Ahead(depot).step() and not Ahead(depot).step() and folders.has(folder)
    assert folders.kept() == {server.tree.digest} and folders.datasets_here() == []
    folders.forget(folder)
    assert not folders.kept() and depot.cache.contents() == {server.tree.digest}
    assert folders.datasets_here() == [] and not list((depot.cache.root / "datasets").iterdir())
    age(depot, 100.0)
    assert depot.cache.room_make(10 * CHUNK) > 4 * CHUNK, "it goes as other contents do"


def test_a_checkpoint_that_the_job_has_here_is_not_fetched_ahead(depot: Depot, folders: Folders) -> None:
    (depot.cache.root / CHECKPOINT).mkdir(parents=True)
    folders.want([CHECKPOINT])
    assert folders.has(CHECKPOINT) and not Ahead(depot).step()


def test_what_the_portal_gives_no_more_is_not_asked_for_again(
    server: FileServer, depot: Depot, folders: Folders
) -> None:
    folders.want([CHECKPOINT, FOLDER])
    refusals = [404]
    real = Depot._listed

    def listed(depot: Depot, folder: str, stopped: object) -> object:
        if refusals:
            raise PortalRefused(refusals.pop(), "not_found", "There is no such file.", None)
        return real(depot, folder, stopped)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Depot, "_listed", listed)
        work = Ahead(depot)
        assert not work.step() and folders.wanted() == [FOLDER]
        assert work.step() and folders.datasets_here() == [NAME]


def test_a_run_that_starts_comes_first_and_what_has_arrived_is_not_fetched_again(
    server: FileServer, depot: Depot, folders: Folders
) -> None:
    folders.want([FOLDER])
    work = Interrupted(depot)
    assert not work.step() and work.hold is not None and not folders.datasets_here()
    assert 0 < work.shares[-1] < 1 and not copying_report()
    asked = len(server.asked)
    assert not work.step() and len(server.asked) == asked, "nothing begins while a run starts"
    brought = Brought()
    depot.content(FOLDER, brought, lambda: False)  # the run's own: it waits for nothing
    assert 0 < brought.fetched_bytes < server.tree.bytes and folders.datasets_here() == [NAME]
    work.hold.release()


def test_a_run_makes_itself_known_while_its_files_come_and_not_after(
    depot: Depot, folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    monkeypatch.setattr(Depot, "program", lambda *_: seen.append(depot.cache.is_held(STARTING)))
    monkeypatch.setattr(Depot, "checkpoints", lambda *_: seen.append(depot.cache.is_held(STARTING)))
    plan = SimpleNamespace(job_dir="/store/jobs/j1", dataset_dir=f"/store/{FOLDER}", weights_dir="")
    paths = RunPaths(depot.cache.path("jobs/j1"))
    depot.run_bring(plan, paths, first=True, stopped=lambda: False).release()
    assert seen == [True, True] and not depot.cache.is_held(STARTING)
    with depot.request_here({"job_dir": "/store/jobs/j1", "request_id": "r1"}):
        assert seen[2:] == [True] and not depot.cache.is_held(STARTING)
    monkeypatch.setattr(Depot, "program", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        depot.run_bring(plan, paths, first=True, stopped=lambda: False)
    assert not depot.cache.is_held(STARTING)


def test_a_wish_ends_by_itself_and_with_it_the_fetch(depot: Depot, folders: Folders) -> None:
    folders.want([FOLDER, "../../etc", OTHER_FOLDER])
    assert folders.wanted() == [FOLDER, OTHER_FOLDER]
    folders.want([OTHER_FOLDER, FOLDER])
    assert folders.wanted() == [OTHER_FOLDER, FOLDER]
    mark = depot.cache.root / "ahead" / OTHER
    for end_s in (time.time() - 1.0, time.time() + 2 * AHEAD_S):  # over; from before the clock was set back
        mark.touch()
        os.utime(mark, (end_s, end_s))
        assert folders.wanted() == [FOLDER] and not mark.exists()

    class Unwanted(Ahead):
        def _arrived(self, here_bytes: int, total_bytes: int) -> None:
            (depot.cache.root / "ahead" / NAME).unlink(missing_ok=True)

    assert not Unwanted(depot).step() and not folders.datasets_here()


def test_what_waits_for_its_job_outlives_other_contents_but_no_run_fails_for_it(
    server: FileServer, depot: Depot, folders: Folders
) -> None:
    folders.want([FOLDER])
    assert Ahead(depot).step()
    digest = server.tree.digest
    for name in ("new", "newer"):
        (depot.cache.path(f"contents/{name}") / "x").mkdir(parents=True)
        (depot.cache.path(f"contents/{name}") / "file").write_bytes(bytes(2 * CHUNK))
        depot.cache.hold(f"contents/{name}").release()
    age(depot, 100.0)
    os.utime(depot.cache.root / "locks" / f"contents-{digest}", (1.0, 1.0))  # unused for longest, by far
    kept = folders.kept()
    assert kept == {digest}
    assert depot.cache.room_make(3 * CHUNK, kept=kept) == 2 * CHUNK
    assert digest in depot.cache.contents(), "a run takes the room of others first"
    assert depot.cache.room_make(5 * CHUNK, kept=kept, spare=True) == 2 * CHUNK
    assert depot.cache.contents() == {digest}
    with pytest.raises(CacheFull):
        depot.cache.room_make(8 * CHUNK, kept=kept, spare=True)
    assert folders.datasets_here() == [NAME]
    depot.cache.hold(f"contents/{digest}").release()  # used a moment ago: a run has room all the same
    assert depot.cache.room_make(8 * CHUNK, kept=kept) > 4 * CHUNK and not folders.datasets_here()


def test_what_has_no_room_is_tried_again_later_and_keeps_nobody_else_waiting(
    server: FileServer, depot: Depot, folders: Folders
) -> None:
    hold = depot.cache.hold("contents/used")
    depot.cache.path("contents/used").mkdir(parents=True)
    (depot.cache.path("contents/used") / "file").write_bytes(bytes(8 * CHUNK))
    folders.want([FOLDER])
    now_s = [0.0]
    work = Ahead(depot, lambda: now_s[0])
    assert not work.step() and depot.cache.contents() == {"used"}
    hold.release()
    age(depot, 100.0)
    assert not work.step(), "not at once"
    now_s[0] += ahead.AGAIN_S
    assert work.step() and folders.datasets_here() == [NAME]


def test_a_run_gets_the_room_of_what_is_fetched_ahead_just_then(
    server: FileServer, depot: Depot, folders: Folders
) -> None:
    server.files["train.parquet"] = os.urandom(6 * CHUNK)
    folders.want([FOLDER])
    stopped = threading.Event()

    class Slow(Ahead):
        def _arrived(self, here_bytes: int, total_bytes: int) -> None:
            if here_bytes:
                stopped.wait(30.0)

    work = Slow(depot)
    thread = threading.Thread(target=work.step)
    thread.start()
    wait_for(lambda: list(depot.cache.path("incoming").glob("*/train.parquet")), what="it is on its way")
    hold = depot.cache.hold(STARTING)
    room = threading.Thread(target=depot._room_make, args=(8 * CHUNK, lambda: False))
    room.start()
    stopped.set()
    thread.join(30.0)
    room.join(30.0)
    hold.release()
    assert not thread.is_alive() and not room.is_alive() and depot.cache.used_bytes() == 0
    with depot.cache.alone("ahead", lambda: False), pytest.raises(Stopped):
        hold = depot.cache.hold("contents/used")
        depot.cache.path("contents/used").mkdir(parents=True)
        (depot.cache.path("contents/used") / "file").write_bytes(bytes(8 * CHUNK))
        depot._room_make(8 * CHUNK, lambda: True)


def test_one_whose_hash_is_wrong_does_not_count_as_here(server: FileServer, depot: Depot, folders: Folders) -> None:
    server.damage = {"!train.parquet"}
    listing = server.tree
    folders.want([FOLDER])
    assert not Ahead(depot).step() and not folders.datasets_here()
    server.damage = set()
    assert Ahead(depot).step() and depot.cache.contents() == {listing.digest}


def test_a_note_of_what_has_gone_is_forgotten(depot: Depot, folders: Folders) -> None:
    brought = Brought()
    depot.content(FOLDER, brought, lambda: False)
    brought.release()
    assert folders.datasets_here() == [NAME]
    age(depot, 100.0)
    depot.cache.room_make(10 * CHUNK)
    assert folders.datasets_here() == [] and not list((depot.cache.root / "datasets").iterdir())


def test_notes_that_cannot_be_read_or_removed_keep_no_node_from_reporting(
    depot: Depot, folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "the disk can only be read")

    folders.note(FOLDER, "c" * 64)
    folders.want([OTHER_FOLDER])
    spoilt = depot.cache.root / "datasets" / OTHER
    spoilt.write_bytes(b"\xff\xfe")
    os.utime(depot.cache.root / "ahead" / OTHER, (1.0, 1.0))
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refuse)
        assert cache_report()["cache"]["datasets"] == [] and not folders.wanted()
    assert folders.datasets_here() == [] and not spoilt.exists()


def test_contents_that_a_disk_does_not_give_keep_no_node_from_reporting(
    depot: Depot, folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    content = depot.cache.path(f"contents/{'c' * 64}")
    content.mkdir(parents=True)
    (content / "table.parquet").write_bytes(b"x")
    folders.note(FOLDER, content.name)
    _used.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(Path, "is_dir", fail)
        patch.setattr("worker.transfer.cache._children", fail)
        told = cache_report()["cache"]
        assert told == {"limit_bytes": depot.cache.limit_bytes, "datasets": []}, "0 would read as an empty cache"
    _used.cache_clear()
    folders.note(FOLDER, content.name)
    told = cache_report()["cache"]
    assert (told["datasets"], told["used_bytes"]) == ([NAME], 1)


def test_a_note_for_which_the_disk_has_no_room_leaves_nothing(
    depot: Depot, folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, text: str) -> None:
        path.touch()
        raise OSError(errno.ENOSPC, "the disk is full")

    monkeypatch.setattr(Path, "write_text", full)
    folders.note(FOLDER, "c" * 64)
    assert not list((depot.cache.root / "datasets").iterdir())


def test_of_many_datasets_those_that_were_used_last_are_told(
    depot: Depot, folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.transfer.folders.TOLD_MAX", 2)
    names = [letter * 64 for letter in "bca"]
    for age_s, name in enumerate(names):
        depot.cache.path(f"contents/{name}").mkdir(parents=True)
        folders.note(f"datasets/{name}/packed", name)
        os.utime(depot.cache.root / "datasets" / name, (1e9 - age_s, 1e9 - age_s))
    assert folders.datasets_here() == names[:2]


def test_a_wish_is_whole_from_its_first_moment_on(folders: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    utime = os.utime

    def looked_at(path: Path, times: tuple[float, float]) -> None:
        """Another thread looks through the wishes just then."""
        folders.wanted()
        utime(path, times)

    monkeypatch.setattr("worker.transfer.folders.os.utime", looked_at)
    folders.want([FOLDER, OTHER_FOLDER])
    assert folders.wanted() == [FOLDER, OTHER_FOLDER]


def test_nothing_is_fetched_ahead_into_the_last_tenth_of_a_disk(
    server: FileServer, depot: Depot, folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    free_bytes = [10 * CHUNK]
    monkeypatch.setattr(
        "worker.transfer.cache.shutil.disk_usage", lambda _: SimpleNamespace(total=100 * CHUNK, free=free_bytes[0])
    )
    folders.want([FOLDER])
    now_s = [0.0]
    work = Ahead(depot, lambda: now_s[0])
    assert not work.step() and not server.asked
    now_s[0], free_bytes[0] = ahead.AGAIN_S, 15 * CHUNK
    assert work.step() and folders.datasets_here() == [NAME]


def test_a_run_that_cannot_say_that_it_starts_holds_nothing(depot: Depot, monkeypatch: pytest.MonkeyPatch) -> None:
    hold = Cache.hold

    def full(cache: Cache, name: str) -> Hold:
        if name == STARTING:
            raise OSError(errno.ENOSPC, "the disk is full")
        return hold(cache, name)

    monkeypatch.setattr(Cache, "hold", full)
    plan = SimpleNamespace(job_dir="/store/jobs/j1", dataset_dir=f"/store/{FOLDER}", weights_dir="")
    with pytest.raises(OSError, match="full"):
        depot.run_bring(plan, RunPaths(depot.cache.path("jobs/j1")), first=True, stopped=lambda: False)
    assert not depot.cache.is_held("jobs/j1")


def test_a_node_that_sees_the_store_fetches_nothing_and_a_folder_that_is_no_dataset_is_refused(
    depot: Depot, folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ValueError, match="not a folder"):
        folders_want(["/etc/passwd"])
    monkeypatch.setattr(ahead, "depot_here", lambda: None)
    folders_want([FOLDER])
    ahead.ahead()  # ends at once
    assert not folders.wanted()
