"""What learning the words of texts is foretold to take, and that a step is traced without learning them well."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.csv as pa_csv
import pytest

from codegen.profile import profile_dataset
from codegen.profile.types import ProfileOptions
from codegen.types import PROGRAM_FILES
from tests.codegen.data_tables import make_reviews
from tests.codegen.programs import module
from tests.worker.runtime.apart import apart
from tests.worker.runtime.samples import program
from tests.worker.runtime.traces import traced
from worker.runtime.inspection import trace as tracing
from worker.runtime.inspection import workloads
from worker.runtime.inspection.standin import OWN_MODULES


def reviews_program(tmp_path: Path) -> tuple[Path, Path]:
    """(program, packed data)."""
    data = tmp_path / "data"
    data.mkdir()
    pa_csv.write_csv(make_reviews(), tmp_path / "reviews.csv")
    profile = profile_dataset(tmp_path / "reviews.csv", data, ProfileOptions(), lambda *_: None)
    return program(tmp_path / "program", profile, model={"family": "mlp"}), data


def traced_from(folder: Path, data: Path, learn_rows: int) -> dict[str, Any]:
    """The workload, in a process of its own, where words are learned from so many rows at most."""
    tracing.LEARN_ROWS = learn_rows
    answer = tracing.trace(folder, data)
    assert answer["ok"], answer["problem"]
    return {**answer["workload"], "load_s": None}


def few_learned(folder: Path, data: Path) -> str:
    """What a program says that fails once words are learned."""
    tracing.LEARN_ROWS = 200
    return str(tracing.trace(folder, data)["problem"]["message"])


def test_a_traced_step_is_the_same_from_whatever_rows_words_were_learned(tmp_path: Path) -> None:
    folder, data = reviews_program(tmp_path)
    from_few = apart(traced_from, folder, data, 60)
    assert from_few["operators"] and from_few == apart(traced_from, folder, data, 10**9)
    learn = (folder / "words.py").read_text()
    told = learn.replace(
        "    return Read(rows, learned", "    raise ValueError(f'{len(rows)} rows')\n    return Read(rows, learned"
    )
    assert told != learn
    (folder / "words.py").write_text(told)
    assert "200 rows" in apart(few_learned, folder, data)


def test_learning_words_counts_where_a_program_learns_them(tmp_path: Path) -> None:
    folder, data = reviews_program(tmp_path)
    learning = traced(folder, data)
    assert learning.words_s > workloads.WORDS_S
    letters = sum(len(text or "") for text in make_reviews()["review"].to_pylist())
    least = workloads.WORDS_BYTES + workloads.SCORE_BYTES + workloads.WORDS_TIMES * letters
    assert least < learning.loading_bytes < least + 20 * letters
    (folder / "words.py").rename(folder / "word_list.py")
    data_py = (folder / "data.py").read_text()
    (folder / "data.py").write_text(data_py.replace("import words\n", "import word_list as words\n"))
    without = traced(folder, data)
    assert without.loading_bytes < learning.loading_bytes and without.words_s == 0


def test_what_learning_takes_is_limited_as_it_is_in_programs() -> None:
    assert workloads.LEARNED_LETTERS == module("words.py").LEARN_LETTERS
    huge, twice = (workloads.words_peak(times * 1e9, scores=5) for times in (1, 2))
    assert twice - huge == workloads.COLUMN_TIMES * 1e9 and workloads.words_peak(0, scores=5) == 0


def test_learning_words_takes_longer_with_more_text_and_scores_up_to_what_is_learned_from() -> None:
    assert workloads.LEARNED_ROWS == module("words.py").LEARN_ROWS
    assert workloads.words_s(0, 700, 1000, targets=4) == 0
    small, large, scored = (
        workloads.words_s(size, 700, 1000, targets=targets) for size, targets in ((1e6, 1), (5e6, 1), (5e6, 20))
    )
    assert 0 < small < large < scored
    huge, twice = (workloads.words_s(times * 1e9, 7e5, 1e6, targets=4) for times in (1, 2))
    assert twice - huge == pytest.approx(workloads.READ_LETTER_S * 1e9)
    few_rows, many_rows = (workloads.words_s(1e7, 0.7 * rows, rows, targets=4) for rows in (1e4, 1e6))
    assert many_rows < few_rows  # of short texts no more than so many are learned from


def test_no_module_of_another_program_is_left_when_one_is_looked_at() -> None:
    assert set(OWN_MODULES) == {Path(name).stem for name in PROGRAM_FILES if name.endswith(".py")}
