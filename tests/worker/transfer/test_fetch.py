"""Trees are fetched by ranges, over several connections, whole or not at all."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from tests.waiting import wait_for
from tests.worker.transfer.conftest import FileServer, tree_of
from worker.transfer import fetch
from worker.transfer.fetch import Damaged, Manner, Source, tree_fetch
from worker.transfer.portal import Portal, PortalAway, PortalRefused, Stopped
from worker.transfer.tree import FILES_MAX

SOURCE = Source("/files", {"folder": "jobs/x/program"})
CHUNK = 1 << 16


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "CHUNK_BYTES", CHUNK)


@pytest.fixture
def files(server: FileServer) -> dict[str, bytes]:
    server.files = {"table.parquet": os.urandom(20 * CHUNK + 123), "profile.json": b"{}", "empty.txt": b""}
    return server.files


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_tree_arrives_over_several_connections_at_once(
    server: FileServer, files: dict[str, bytes], tmp_path: Path
) -> None:
    server.meet = threading.Barrier(2)
    assert tree_fetch(server.portal, SOURCE, server.tree, tmp_path / "new") == sum(map(len, files.values()))
    assert content(tmp_path / "new") == files
    assert server.most_at_once > 1
    assert len(server.asked) == 22


def test_after_a_cut_only_what_is_missing_is_fetched(
    server: FileServer, files: dict[str, bytes], tmp_path: Path
) -> None:
    server.cut_after_bytes = 10 * CHUNK
    ended = threading.Event()
    outcome: list[BaseException] = []

    def first() -> None:
        try:
            tree_fetch(server.portal, SOURCE, server.tree, tmp_path, stopped=ended.is_set)
        except Stopped as stopped:
            outcome.append(stopped)

    thread = threading.Thread(target=first)
    thread.start()
    wait_for(lambda: server.sent_bytes >= 10 * CHUNK and len(server.asked) > 14)
    ended.set()  # as if the process had been ended: what has arrived lies there
    thread.join(60)
    assert outcome and (tmp_path / "table.parquet").read_bytes() != files["table.parquet"]
    server.cut_after_bytes = None
    again = tree_fetch(server.portal, SOURCE, server.tree, tmp_path)
    assert 0 < again < 20 * CHUNK
    assert content(tmp_path) == files


def test_a_portal_that_comes_back_is_asked_again(server: FileServer, files: dict[str, bytes], tmp_path: Path) -> None:
    server.away = True
    thread = threading.Thread(target=tree_fetch, args=(server.portal, SOURCE, server.tree, tmp_path))
    thread.start()
    assert not server.asked
    server.away = False
    thread.join(60)
    assert content(tmp_path) == files


def test_a_proxy_that_has_no_way_to_the_portal_for_now_is_not_taken_for_it(
    server: FileServer, files: dict[str, bytes], tmp_path: Path
) -> None:
    server.proxy_says = [401, 403, 404, 502]
    tree_fetch(server.portal, SOURCE, server.tree, tmp_path)
    assert content(tmp_path) == files and not server.proxy_says


def test_a_portal_that_stays_away_is_given_up(
    server: FileServer, files: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "AWAY_LIMIT_S", 0.3)
    server.away = True
    with pytest.raises(PortalAway):
        tree_fetch(server.portal, SOURCE, server.tree, tmp_path)


def test_a_wrong_byte_is_noticed_and_the_file_fetched_anew(
    server: FileServer, files: dict[str, bytes], tmp_path: Path
) -> None:
    server.damage = {"table.parquet"}
    fetched = tree_fetch(server.portal, SOURCE, server.tree, tmp_path)
    assert content(tmp_path) == files
    assert fetched == len(files["table.parquet"]) * 2 + 2


def test_a_file_that_is_wrong_twice_is_refused(server: FileServer, files: dict[str, bytes], tmp_path: Path) -> None:
    server.damage = {"!table.parquet"}
    with pytest.raises(Damaged, match=r"table\.parquet"):
        tree_fetch(server.portal, SOURCE, server.tree, tmp_path)
    assert not (tmp_path / "table.parquet").exists()


def test_what_a_half_fetched_file_claims_to_have_is_not_believed(
    server: FileServer, files: dict[str, bytes], tmp_path: Path
) -> None:
    (tmp_path / "table.parquet").write_bytes(bytes(len(files["table.parquet"])))
    (tmp_path / ".table.parquet.chunks").write_text("".join(f"{chunk}\n" for chunk in range(21)))
    tree_fetch(server.portal, SOURCE, server.tree, tmp_path)
    assert content(tmp_path) == files


def test_a_link_in_the_place_of_a_file_is_not_followed(
    server: FileServer, files: dict[str, bytes], tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    folder = tmp_path / "new"
    folder.mkdir()
    (folder / "profile.json").symlink_to(victim)
    with pytest.raises(OSError, match="symbolic"):
        tree_fetch(server.portal, SOURCE, server.tree, folder)
    assert victim.read_text() == "mine"


def test_a_file_that_is_gone_and_a_wrong_secret_are_told(server: FileServer, tmp_path: Path) -> None:
    with pytest.raises(PortalRefused) as gone:
        tree_fetch(server.portal, SOURCE, tree_of({"gone.py": b"x"}), tmp_path)
    assert gone.value.code == "not_found"
    with pytest.raises(PortalRefused) as refused:
        tree_fetch(Portal(server.url, "other"), SOURCE, tree_of({"gone.py": b"x"}), tmp_path)
    assert refused.value.status == 401


def descriptors() -> int:
    """Open files of this process."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_a_tree_of_many_files_has_few_of_them_open_at_once(server: FileServer, tmp_path: Path) -> None:
    server.files = {f"{number}.bin": os.urandom(number) for number in range(FILES_MAX)}
    before, most = descriptors(), 0

    def arrived(_: int, __: int) -> None:
        nonlocal most
        most = max(most, descriptors() - before)

    tree_fetch(server.portal, SOURCE, server.tree, tmp_path, manner=Manner(connections=4, arrived=arrived))
    assert content(tmp_path) == server.files
    assert most < 60, "two of each file that has chunks under way, and both ends of the connections"


def test_a_file_that_cannot_be_opened_leaves_none_open(
    server: FileServer, files: dict[str, bytes], tmp_path: Path
) -> None:
    (tmp_path / max(files)).symlink_to(tmp_path / "elsewhere")
    before = descriptors()
    for _ in range(5):
        with pytest.raises(OSError, match="symbolic link"):
            tree_fetch(server.portal, SOURCE, server.tree, tmp_path)
    assert descriptors() <= before
    assert server.asked == []


def test_notes_that_cannot_be_opened_leave_no_file_open(
    server: FileServer, files: dict[str, bytes], tmp_path: Path
) -> None:
    (tmp_path / ".table.parquet.chunks").mkdir()
    before = descriptors()
    with pytest.raises(OSError, match="directory"):
        tree_fetch(server.portal, SOURCE, server.tree, tmp_path)
    assert descriptors() <= before
