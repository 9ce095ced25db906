"""How counts, sizes and times are written for people: alike everywhere, in browsers too."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from harness.client.cli import output, taking
from harness.pages.figures import figure
from scheduler.offers.words import energy_words
from tests.untested import untested
from worker.words import (
    counted,
    duration_words,
    energy_unit,
    number_words,
    share_span_words,
    share_words,
    size_words,
    step_words,
)

REPOSITORY = Path(__file__).parents[2]
WRITTEN = json.loads((REPOSITORY / "tests" / "frontend" / "written.json").read_text("utf-8"))
FIGURES = json.loads((REPOSITORY / "tests" / "figures.json").read_text("utf-8"))


@pytest.mark.parametrize(("number", "said"), [(0, "0 ranks"), (1, "1 rank"), (2, "2 ranks"), (1024, "1,024 ranks")])
def test_only_one_of_a_thing_stands_in_the_singular(number: int, said: str) -> None:
    assert counted(number, "rank") == said


@pytest.mark.parametrize(("value", "said"), WRITTEN["number"][1:])
def test_a_number_is_told_alike_in_sentences_on_pages_and_on_the_command_line(value: float, said: str) -> None:
    assert number_words(value) == figure(value) == output.number(value) == said


def test_thousands_are_parted_by_a_comma_in_whatever_unit() -> None:
    assert [counted(12345, "row"), energy_words(4.5e9), step_words(1234.5)] == ["12,345 rows", "1,250 kWh", "1,234 s"]


@pytest.mark.parametrize(
    ("energy_j", "unit"), [(0.0, "J"), (999.9, "J"), (1000.0, "Wh"), (3.59e6, "Wh"), (3.6e6, "kWh"), (4.5e9, "kWh")]
)
def test_an_energy_has_the_same_unit_on_pages_and_on_the_command_line(energy_j: float, unit: str) -> None:
    in_a_table = taking.energy_words({"low": 0.0, "mid": energy_j, "high": energy_j}, energy_j)
    assert energy_unit(energy_j)[1] == energy_words(energy_j).split()[-1] == in_a_table.split()[1] == unit


@pytest.mark.parametrize(("value", "said"), [(float("inf"), "not finite"), (float("nan"), "not finite")])
def test_what_is_no_finite_number_is_said_to_be_none(value: float, said: str) -> None:
    assert number_words(value) == said


@pytest.mark.parametrize(
    ("share", "decimals", "said"),
    [
        (0.99996, 1, "99.996 %"),
        (0.9983, 0, "99.8 %"),
        (0.00004, 2, "0.004 %"),
        (0.431, 1, "43.1 %"),
        (1.0, 1, "100.0 %"),
        (0.0, 1, "0.0 %"),
        (1.5, 0, "150 %"),
        (1e-12, 1, "0.0 %"),
    ],
)
def test_nearly_all_is_not_called_all_and_a_few_are_not_called_none(share: float, decimals: int, said: str) -> None:
    assert share_words(share, decimals) == said


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (0.817, 0.993, "82 to 99 %"),
        (0.962, 0.9996, "96.20 to 99.96 %"),
        (0.004, 0.031, "0.4 to 3.1 %"),
        (0.964, 1.0, "96 to 100 %"),
        (0.0, 0.036, "0 to 4 %"),
        (0.9601, 0.9662, "96.0 to 96.6 %"),
    ],
)
def test_the_ends_of_an_interval_have_as_many_decimals_and_are_neither_all_nor_none(
    low: float, high: float, said: str
) -> None:
    assert share_span_words(low, high) == said


@pytest.mark.parametrize(("number", "said"), [(1, "1 row repeats"), (3, "3 rows repeat")])
def test_words_that_are_no_plain_plural_are_given(number: int, said: str) -> None:
    assert counted(number, "row repeats", "rows repeat") == said


@pytest.mark.parametrize(("size_bytes", "said"), FIGURES["sizes"])
def test_a_size_is_told_in_the_unit_that_it_is_rounded_to(size_bytes: int, said: str) -> None:
    assert size_words(size_bytes) == said


@pytest.mark.parametrize(("seconds", "said", "promised"), FIGURES["durations"])
def test_a_duration_is_told_to_the_nearest_and_a_promised_one_rounded_up(
    seconds: float, said: str, promised: str
) -> None:
    assert (duration_words(seconds), duration_words(seconds, up=True)) == (said, promised)


def test_pages_write_live_sizes_and_durations_as_the_server_does() -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip(untested("words of pages beside ours", "Node.js is not installed"))
    module = (REPOSITORY / "harness/frontend/src/format.js").as_uri()
    script = f"""
        import {{ bytes, duration }} from "{module}";
        const asked = JSON.parse(process.argv[1]);
        const said = [asked.sizes.map(([size]) => bytes(size)), asked.durations.map(([time]) => duration(time))];
        console.log(JSON.stringify(said));
    """
    command = [node, "--input-type=module", "--eval", script, json.dumps(FIGURES)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    sizes, durations = json.loads(done.stdout)
    assert sizes == [said for _, said in FIGURES["sizes"]]
    assert durations == [said for _, said, _ in FIGURES["durations"]]


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.0042, "4.2 ms"), (0.9994, "999 ms"), (0.9996, "1 s"), (1.534, "1.53 s"), (99.97, "100 s"), (1234.5, "1,234 s")],
)
def test_the_time_of_a_step_is_never_written_as_a_power_of_ten(seconds: float, said: str) -> None:
    assert step_words(seconds) == said
