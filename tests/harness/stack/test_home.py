"""The home folder: lock, record, secrets."""

import errno
import json
import stat

import pytest

from harness.pool.terms import NODE_NAME
from harness.stack.home import StackError, StackHome, node_name


@pytest.fixture
def home(tmp_path):
    home = StackHome(tmp_path / "home")
    home.make_folders()
    return home


def test_only_one_stack_holds_the_lock(home):
    first = home.lock()
    assert first is not None
    assert home.lock() is None
    first.close()
    assert home.lock() is not None


def test_the_record_is_readable_by_the_owner_only(home):
    home.state_write({"state": "running", "redis_url": "redis://:secret@127.0.0.1:1/0"})
    assert stat.S_IMODE(home.state_file.stat().st_mode) == 0o600
    assert home.state_read()["state"] == "running"


@pytest.mark.parametrize("text", ["", "{", "[1]", "null"])
def test_a_torn_record_counts_as_none(home, text):
    home.state_file.write_text(text)
    assert home.state_read() == {}


def test_replacing_the_record_leaves_no_draft_behind(home):
    for number in range(3):
        home.state_write({"number": number})
    assert [path.name for path in home.run.iterdir()] == ["stack.json"]
    assert json.loads(home.state_file.read_text()) == {"number": 2}


def test_a_home_that_cannot_be_written_says_what_to_do(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StackError, match="next: choose another folder"):
        StackHome(tmp_path / "file" / "home").make_folders()


def test_the_broker_password_stays_the_same(home):
    assert home.broker_password() == home.broker_password()
    assert len(home.broker_password()) >= 40


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("GPU Box.1", "gpu-box-1"), ("node-2", "node-2"), ("lab_pc", "lab-pc"), ("...", "node-1"),
        ("x" * 99, "x" * 60),
    ],
)  # fmt: skip
def test_a_node_name_is_a_slug_that_the_pool_takes(monkeypatch, given, expected):
    monkeypatch.setenv("DLH_NODE_NAME", given)
    assert node_name() == expected
    assert NODE_NAME.fullmatch(expected)


def test_a_full_disk_keeps_the_old_record_and_leaves_no_draft(home, monkeypatch):
    home.state_write({"state": "running"})

    def refuse(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("harness.stack.home.json.dump", refuse)
    with pytest.raises(OSError):
        home.state_write({"state": "stopping"})
    monkeypatch.undo()
    assert home.state_read() == {"state": "running"}
    assert [path.name for path in home.state_file.parent.iterdir()] == [home.state_file.name]
