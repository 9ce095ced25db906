from __future__ import annotations

import os

import pytest

from tests.untested import untested
from worker import scratch as scratch_module
from worker.home import run_dir
from worker.sandbox import cgroup
from worker.scratch import abandoned_remove


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("DLH_HOME", str(tmp_path))


def scratch(name, *, old=True):
    folder = run_dir("sandbox") / name
    (folder / "tmp").mkdir(parents=True)
    (folder / "tmp" / "large").write_bytes(b"x" * 1000)
    if old:
        os.utime(folder, (0, 0))
    return folder


def test_what_a_killed_reading_left_goes_and_what_may_be_in_use_stays():
    (run_dir("attempts", "node-2") / "job1-3.json").write_text("{}")
    abandoned = [scratch("packing-abc-12345678"), scratch("job1-30-12345678"), scratch("job1-2-12345678")]
    kept = [scratch("job1-3-12345678"), scratch("job1-3-node-2-12345678"), scratch("packing-new-12345678", old=False)]
    assert abandoned_remove() == 3
    assert not [folder for folder in abandoned if folder.exists()]
    assert all((folder / "tmp" / "large").exists() for folder in kept)


def test_a_home_without_sandboxes_has_nothing_removed():
    assert abandoned_remove() == 0


def test_a_control_group_of_a_killed_reading_goes_and_that_of_a_known_attempt_stays(monkeypatch):
    (run_dir("attempts", "node-2") / "job1-3.json").write_text("{}")
    names = ("inspect-abc", "job1-30", "job1-3", "job1-3-node-2")
    groups = [cgroup.create(name, None, 10) for name in names]
    if None in groups:
        pytest.skip(untested("scratch of control groups", "this process may make none"))
    try:
        assert abandoned_remove() == 0
        monkeypatch.setattr(scratch_module, "ABANDONED_AFTER_S", -1.0)
        assert abandoned_remove() == 2
        assert [group.folders[0].exists() for group in groups] == [False, False, True, True]
    finally:
        for group in groups:
            group.remove()
