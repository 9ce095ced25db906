"""What is put before a waiting reader, and what is not."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from worker.readers import slot as slot_module
from worker.readers.slot import Slot, Unfit, slot_make, slots_remove


@pytest.fixture
def slot(home: Path) -> Slot:
    return slot_make()


@pytest.fixture
def folders(home: Path) -> tuple[Path, Path]:
    """(program, data), as strict as an agent writes them."""
    program, data = home / "job" / "program", home / "store" / "packed"
    for folder in (program / "parts", data / "pictures"):
        folder.mkdir(parents=True, mode=0o700)
    for file in (program / "model.py", program / "parts" / "more.py", data / "table.parquet", data / "pictures" / "1"):
        file.write_text(file.name)
        file.chmod(0o600)
    return program, data


def test_the_program_is_copied_and_the_data_are_linked(slot: Slot, folders: tuple[Path, Path]) -> None:
    program, data = folders
    slot.fill(program, data, readable=True)
    assert (slot.program / "parts" / "more.py").read_text() == "more.py"
    (program / "model.py").write_text("edited meanwhile")
    assert (slot.program / "model.py").read_text() == "model.py"
    for name in ("table.parquet", "pictures/1"):
        assert (slot.data / name).samefile(data / name)
    for path in slot.folder.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) & 0o044 == 0o044, path
    slot.remove()
    assert (data / "pictures" / "1").read_text() == "1" and not slot.folder.exists()


@pytest.mark.parametrize("part", [0, 1], ids=["program", "data"])
@pytest.mark.parametrize("kind", ["link", "folder link", "pipe"])
def test_what_is_no_plain_file_is_not_followed_and_leaves_it_empty(
    slot: Slot, folders: tuple[Path, Path], home: Path, part: int, kind: str
) -> None:
    secret = home / "secrets"
    secret.mkdir()
    (secret / "key").write_text("key")
    strange = folders[part] / "zz"
    if kind == "pipe":
        os.mkfifo(strange)
    else:
        strange.symlink_to(secret if kind == "folder link" else secret / "key")
    with pytest.raises(Unfit, match="zz"):
        slot.fill(*folders, readable=True)
    assert not list(slot.program.iterdir()) and not list(slot.data.iterdir())


def test_a_large_program_or_a_folder_that_is_gone_is_unfit(
    slot: Slot, folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    program, data = folders
    with pytest.raises(Unfit):
        slot.fill(program, data / "gone", readable=False)
    monkeypatch.setattr(slot_module, "PROGRAM_BYTES", 10)
    with pytest.raises(Unfit, match="large"):
        slot.fill(program, data, readable=False)
    assert not list(slot.program.iterdir()) and not list(slot.data.iterdir())


def test_what_a_killed_agent_left_is_removed(slot: Slot, folders: tuple[Path, Path]) -> None:
    slot.fill(*folders, readable=False)
    slots_remove()
    assert not slot.folder.exists()
    assert (folders[1] / "table.parquet").read_text() == "table.parquet"
