"""What a process keeps until its end is not looked through for what can go."""

import gc
import importlib

import pytest

import worker.runtime
from worker.loading import loading


@pytest.fixture(autouse=True)
def collecting():
    gc.enable()
    yield
    gc.enable()


def test_what_is_loaded_within_stays_out_of_the_collectors_way_and_what_comes_later_does_not():
    before = gc.get_freeze_count()
    with loading():
        assert not gc.isenabled()
        kept = [[] for _ in range(1000)]
    assert gc.isenabled() and gc.get_freeze_count() >= before + len(kept)
    later: list[object] = []
    assert any(found is later for found in gc.get_objects()) and not any(found is kept for found in gc.get_objects())


def test_the_collector_is_back_after_a_failure_to_load():
    with pytest.raises(ImportError), loading():
        raise ImportError("no such module")
    assert gc.isenabled()


def test_who_switched_the_collector_off_finds_it_off():
    gc.disable()
    with loading():
        pass
    assert not gc.isenabled()


def test_a_program_that_has_the_runtime_loaded_it_for_good():
    before, kept = gc.get_freeze_count(), [[] for _ in range(1000)]
    importlib.reload(worker.runtime)
    assert gc.isenabled() and gc.get_freeze_count() >= before + len(kept)
