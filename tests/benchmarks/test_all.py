from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks.__main__ import USUAL_S, chosen, is_broken, remaining_s
from tests.benchmarks.gather import gathered, public_folder


def test_every_benchmark_is_run_by_make_bench():
    modules = {path.stem.removeprefix("bench_") for path in Path(__file__).parent.glob("bench_*.py")}
    assert set(USUAL_S) == modules


def test_named_benchmarks_run_in_the_usual_order_and_no_name_means_all():
    assert chosen(["ranks", "start"]) == ("start", "ranks")
    assert chosen([]) == tuple(USUAL_S)


def test_a_name_that_no_benchmark_has_is_refused_with_those_there_are():
    with pytest.raises(ValueError, match=r"no benchmark speed; there are start, "):
        chosen(["start", "speed"])


def test_a_machine_half_as_quick_as_usual_needs_twice_the_time_for_what_is_left():
    took_s = 2.0 * USUAL_S["start"]
    assert remaining_s(["loop"], ["start"], took_s) == 2.0 * USUAL_S["loop"]
    assert remaining_s(["loop"], [], 0.0) == USUAL_S["loop"]


def test_a_benchmark_that_breaks_is_told_with_its_exit_code():
    assert gathered("bench_zeus", ["--no-such-option"]) == {"error": "ended with code 2 and no figures"}


def test_a_benchmark_with_a_broken_section_is_a_broken_one():
    whole, broken = {"met": False}, {"error": "ended with code 1 and no figures"}
    assert not is_broken({"benchmark": "modes", "sections": {"sync": whole}}) and not is_broken(whole)
    assert is_broken({"benchmark": "modes", "sections": {"sync": whole, "async": broken}}) and is_broken(broken)


def test_without_public_data_a_benchmark_says_what_it_leaves_out(tmp_path):
    assert gathered("bench_zeus", ["--traces", str(tmp_path)])["skipped"] == ["zeus"]


def test_the_folder_given_comes_before_that_of_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("DLH_TRACES", "/elsewhere")
    assert public_folder(tmp_path, "DLH_TRACES", "traces") == tmp_path
    assert public_folder(None, "DLH_TRACES", "traces") == Path("/elsewhere")
