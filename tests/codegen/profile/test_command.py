"""`python -m codegen.profile` as control calls it: JSON lines out, exit codes, little memory, a full disk."""

from __future__ import annotations

import errno
import json
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from codegen.profile import spool
from codegen.profile.types import PROFILE_FILE, TABLE_FILE
from tests.codegen.profile.uploads import Lab, two_classes, zip_of

TABLE = "x,note,label\n" + "".join(f"{i},text number {i},{'ab'[i % 2]}\n" for i in range(200))


def run(
    source: Path, out: Path, *more: str, limit: Callable[[], None] | None = None
) -> tuple[int, list[dict[str, object]]]:
    command = [sys.executable, "-m", "codegen.profile", str(source), str(out), *more]
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=limit, timeout=200)
    assert done.returncode in (0, 3), done.stderr
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


def test_progress_and_a_good_end_are_told(lab: Lab) -> None:
    code, lines = run(lab.write("a.csv", TABLE), lab.out)
    assert code == 0 and lines[-1] == {"ok": True}
    shares = [line["progress"] for line in lines[:-1]]
    assert shares[0] == 0 and shares[-1] == 1
    assert (lab.out / PROFILE_FILE).is_file() and (lab.out / TABLE_FILE).is_file()


def test_options_are_obeyed(lab: Lab) -> None:
    options = {"target": "note", "column_types": {"x": "category"}, "header": True}
    code, _ = run(lab.write("a.csv", TABLE), lab.out, "--options", json.dumps(options))
    profile = json.loads((lab.out / PROFILE_FILE).read_text())
    assert (code, profile["target"], profile["columns"][0]["type"]) == (0, "note", "category")


def test_a_problem_is_told_with_exit_code_3(lab: Lab) -> None:
    code, lines = run(lab.write("a.csv", ""), lab.out)
    assert code == 3
    assert lines[-1]["problem"]["code"] == "empty_file"  # type: ignore[index]


def test_a_problem_calls_the_file_by_the_name_given(lab: Lab) -> None:
    code, lines = run(lab.write("a.csv", ""), lab.out, "--name=-of mine.csv")
    problem = lines[-1]["problem"]
    assert code == 3
    assert (problem["message"], problem["file"]) == ("-of mine.csv is empty.", "-of mine.csv")  # type: ignore[index]


def test_a_profile_is_the_same_under_any_name(lab: Lab) -> None:
    source = lab.write("a.csv", TABLE + "1,2\n")
    profiles = []
    for name in ("one.csv", "two.csv"):
        assert run(source, lab.out, f"--name={name}")[0] == 0
        profiles.append((lab.out / PROFILE_FILE).read_text())
    assert profiles[0] == profiles[1] and "ragged_rows" in profiles[0]


@pytest.mark.parametrize("options", ['{"colour": 1}', '{"column_types": {"x": "number"}}', "nonsense", "[]"])
def test_bad_options_are_a_problem(lab: Lab, options: str) -> None:
    code, lines = run(lab.write("a.csv", TABLE), lab.out, "--options", options)
    assert code == 3 and lines[-1]["problem"]["code"] == "bad_options"  # type: ignore[index]


@pytest.mark.parametrize("kind", ["table", "pictures"])
def test_a_full_disk_is_a_problem_and_nothing_is_left(lab: Lab, kind: str) -> None:
    """A limit on file sizes stands for the full disk: both end a write."""
    body = (
        "x,z,label\n" + "".join(f"{i * 7919 % 10007},{i * 31 % 997},{'ab'[i % 2]}\n" for i in range(20_000))
    ).encode()
    source = lab.write("a", body if kind == "table" else zip_of(two_classes(count=60)))

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    code, lines = run(source, lab.out, limit=limit)
    assert code == 3 and lines[-1]["problem"]["code"] == "disk_full"  # type: ignore[index]
    assert not list(lab.out.iterdir())


def test_no_space_left_is_a_problem_and_the_earlier_profile_stays(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.profile("a.csv", TABLE)
    before = (lab.out / PROFILE_FILE).read_text()

    def full(self: object, table: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(spool.PackedWriter, "write", full)
    with pytest.raises(Exception) as caught:
        lab.profile("a.csv", TABLE + "1,2,a\n")
    assert caught.value.problem.code == "disk_full"  # type: ignore[attr-defined]
    assert (lab.out / PROFILE_FILE).read_text() == before


PEAK = """
import resource, sys
from pathlib import Path
import codegen.profile.run
from codegen.profile import profile_dataset
from codegen.profile.types import ProfileOptions
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
profile_dataset(Path(sys.argv[1]), Path(sys.argv[2]), ProfileOptions(), lambda share, note: None)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
MIB = 1 << 20


@pytest.mark.parametrize(
    ("rows", "note_length", "size_mib", "extra_mib"),
    [(1_000_000, 0, 6, 350), (250_000, 1000, 240, 240)],
    ids=["many short rows", "few long rows"],
)
def test_a_table_is_read_in_little_memory(
    tmp_path: Path, rows: int, note_length: int, size_mib: int, extra_mib: int
) -> None:
    """1 GB in less than 1 GB: fixed buffers fill with the short rows, and the long rows are more than what is allowed.

    What grows with the rows are 16 bytes of hashes each for at most 20 million rows, 320 MB.
    """
    source = tmp_path / "large.csv"
    with source.open("w") as target:
        target.write("x,note,label\n")
        for row in range(rows):
            target.write(f"{row * 7919 % 100_003},{str(row % 10) * note_length},{'abc'[row % 3]}\n")
    assert source.stat().st_size > size_mib * MIB
    command = [sys.executable, "-c", PEAK, str(source), str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=250)
    before_kib, after_kib = (int(line) for line in done.stdout.split())
    assert (after_kib - before_kib) * 1024 < extra_mib * MIB
