"""A program for texts, from the file that a person uploads to predictions, on a machine that knows nothing of us."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from codegen.profile import profile_dataset
from codegen.profile.types import ProfileOptions
from tests.codegen.data_tables import make_reviews
from tests.worker.runtime import samples


def test_a_program_learns_what_reviews_say_and_reads_new_ones(tmp_path: Path) -> None:
    source, data = tmp_path / "reviews.csv", tmp_path / "program" / "data"
    data.mkdir(parents=True)
    pa_csv.write_csv(make_reviews().drop_columns(["day"]), source)
    profile = profile_dataset(source, data, ProfileOptions(), lambda *_: None)
    folder = samples.program(data.parent, profile, alone=True, training={"epochs": 8})
    assert all(f"| `{name}` |" in (folder / "README.md").read_text() for name in ("words.py", "word_scores.py"))

    done = samples.python(folder, "train.py", PYTHONPATH="")
    assert done.returncode == 0, done.stderr[-3000:]
    assert "Warning" not in done.stderr
    results = json.loads((folder / "work/results/results.json").read_text())
    assert results["metric"]["value_test"] > 0.9
    (importance,) = [chart for chart in results["charts"] if chart["id"] == "importance"]
    assert [row[0] for row in importance["rows"]] == ["review"] and importance["rows"][0][1] > 0.1

    (folder / "new.csv").write_text('review\n"LOVELY1, lovely2; lovely3!"\nawful4 and awful5\n')
    done = samples.python(folder, "predict.py", "--input", "new.csv", "--output", "out.csv", PYTHONPATH="")
    assert done.returncode == 0, done.stderr[-3000:]
    assert pa_csv.read_csv(folder / "out.csv")["prediction"].to_pylist() == ["good", "bad"]
    assert pq.read_table(data / "table.parquet").column_names == ["review", "label"]
