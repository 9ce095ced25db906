"""predict.py of a trained program: rows and pictures in, predictions out, clear words for bad input."""

from __future__ import annotations

import csv
import json
import zipfile
from pathlib import Path
from typing import Any

import openpyxl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import torch
import yaml

from tests.worker.runtime import samples
from worker.plan import EXIT_REPORTED
from worker.runtime import serving


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained regression on a table."""
    folder = tmp_path_factory.mktemp("diabetes")
    samples.program(folder, samples.diabetes(folder / "data"), training={"epochs": 3}, model={"family": "mlp"})
    assert samples.run(folder, "train.py").returncode == 0
    return folder


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained classification of pictures."""
    folder = tmp_path_factory.mktemp("digits")
    samples.program(folder, samples.digits(folder / "data", rows=300), training={"epochs": 2})
    assert samples.run(folder, "train.py").returncode == 0
    return folder


def predict(program: Path, given: Path, output: Path, *more: str) -> Any:
    """Run predict.py."""
    return samples.run(program, "predict.py", "--input", str(given), "--output", str(output), *more)


def known(program: Path, rows: int) -> tuple[pa.Table, list[float]]:
    """The first rows as uploaded and what the results say about them."""
    told = pq.read_table(program / "work" / "results" / "predictions.parquet")
    return pq.read_table(program / "data" / "table.parquet").slice(0, rows), told["predicted"].to_pylist()[:rows]


def test_the_true_values_of_the_results_are_those_of_the_data_to_the_last_digit(table: Path) -> None:
    name = yaml.safe_load((table / "spec.yaml").read_text())["shape"]["target"]
    target = pq.read_table(table / "data" / "table.parquet")[name].to_pylist()
    told = pq.read_table(table / "work" / "results" / "predictions.parquet")
    assert told["true"].to_pylist() == target
    charts = json.loads((table / "work" / "results" / "results.json").read_text())["charts"]
    worst = next(chart for chart in charts if chart["id"] == "worst_samples")
    assert all(row[2] == target[row[0]] for row in worst["rows"])


def test_rows_of_every_format_get_the_predictions_of_the_results(table: Path, tmp_path: Path) -> None:
    rows, expected = known(table, 5)
    records = rows.to_pylist()
    with (tmp_path / "a.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows.column_names)
        writer.writeheader()
        writer.writerows(records)
    (tmp_path / "b.json").write_text(json.dumps(records))
    (tmp_path / "c.jsonl").write_text("\n".join(json.dumps(record) for record in records))
    pq.write_table(rows, tmp_path / "d.parquet")
    book = openpyxl.Workbook()
    for line in (["Measured in May"], rows.column_names, *(list(record.values()) for record in records)):
        book.active.append(line)
    book.save(tmp_path / "e.xlsx")
    for name in ("a.csv", "b.json", "c.jsonl", "d.parquet", "e.xlsx"):
        done = predict(table, tmp_path / name, tmp_path / "output.json")
        assert done.returncode == 0, done.stderr
        body = json.loads((tmp_path / "output.json").read_text())
        assert body["columns"] == ["row", "prediction", "prediction_low", "prediction_high"]
        assert [row[1] for row in body["rows"]] == pytest.approx(expected, rel=1e-4)
        assert body["inputs"]["columns"] == rows.column_names
        assert [float(row[0]) for row in body["inputs"]["rows"]] == pytest.approx(rows.column(0).to_pylist())
        with (tmp_path / "output.csv").open(newline="") as file:
            lines = list(csv.DictReader(file))
        assert len(lines) == 5 and list(lines[0]) == [*body["columns"], *rows.column_names]
        assert float(lines[4]["bmi"]) == pytest.approx(rows.column("bmi").to_pylist()[4])


@pytest.mark.parametrize("output", ["output.json", "answer.csv"])
def test_a_persons_own_file_comes_back_in_its_own_style(table: Path, tmp_path: Path, output: str) -> None:
    rows, expected = known(table, 3)
    cells = [[str(value).replace(".", ",") for value in row.values()] for row in rows.to_pylist()]
    lines = [";".join(row) for row in ([f'"{name}"' for name in rows.column_names], *cells)]
    (tmp_path / "rows.csv").write_text("\r\n".join(lines), encoding="utf-16", newline="")
    done = predict(table, tmp_path / "rows.csv", tmp_path / output)
    assert done.returncode == 0, done.stderr
    path = tmp_path / ("output-answered.csv" if output == "output.json" else output)
    header, *made = path.read_bytes().decode("utf-16").split("\r\n")
    assert header == lines[0] + ';"prediction";"prediction_low";"prediction_high"'
    assert [line.rsplit(";", 3)[0] for line in made] == lines[1:]
    assert [float(line.split(";")[-3].replace(",", ".")) for line in made] == pytest.approx(expected, rel=1e-3)


def test_a_number_comes_with_the_range_that_the_run_tells_of_and_that_of_a_checkpoint_without(
    table: Path, tmp_path: Path
) -> None:
    rows, _ = known(table, 5)
    pq.write_table(rows, tmp_path / "rows.parquet")
    done = predict(table, tmp_path / "rows.parquet", tmp_path / "output.json")
    body = json.loads((tmp_path / "output.json").read_text())
    told = json.loads((table / "work" / "results" / "results.json").read_text())["ranges"]
    assert body["ranges"] == told["said"] and told["said"] in done.stdout and told["edges"] == []
    for _, value, low, high in body["rows"]:
        assert (value - low, high - value) == pytest.approx([told["half_widths"][0]] * 2)
    every = pq.read_table(table / "work" / "results" / "predictions.parquet").to_pylist()
    inside = [abs(row["error"]) <= told["half_widths"][0] for row in every if row["split"] == "test"]
    assert told["test"]["inside"] == pytest.approx(sum(inside) / len(inside)) and len(inside) == told["test"]["rows"]
    checkpoint = sorted((table / "work" / "checkpoints").glob("step-*"))[-1]
    done = predict(table, tmp_path / "rows.parquet", tmp_path / "output.json", "--weights", str(checkpoint))
    assert done.returncode == 0, done.stderr
    body = json.loads((tmp_path / "output.json").read_text())
    assert body["columns"] == ["row", "prediction"] and "ranges" not in body


@pytest.mark.parametrize("kind", ["bf16", "fp16"])
def test_a_model_trained_in_sixteen_bits_is_judged_as_exactly_as_it_predicts(kind: str, tmp_path: Path) -> None:
    training = {"epochs": 1, "precision": kind}
    samples.program(tmp_path, samples.diabetes(tmp_path / "data"), training=training, model={"family": "mlp"})
    assert samples.run(tmp_path, "train.py").returncode == 0
    rows, expected = known(tmp_path, 20)
    pq.write_table(rows, tmp_path / "rows.parquet")
    assert predict(tmp_path, tmp_path / "rows.parquet", tmp_path / "output.json").returncode == 0
    body = json.loads((tmp_path / "output.json").read_text())
    assert [row[1] for row in body["rows"]] == pytest.approx(expected, rel=1e-5)


def test_large_amounts_are_predicted_to_the_last_digit(tmp_path: Path) -> None:
    """Of times in seconds a float32 would keep every 128th."""
    samples.program(tmp_path, samples.diabetes(tmp_path / "data"), training={"epochs": 1}, model={"family": "mlp"})
    path = tmp_path / "data" / "table.parquet"
    plain = pq.read_table(path)
    at = plain.column_names.index("progression")
    pq.write_table(plain.set_column(at, "progression", pc.add(plain["progression"], 1.7e9)), path)
    assert samples.run(tmp_path, "train.py").returncode == 0
    rows, expected = known(tmp_path, 20)
    pq.write_table(rows, tmp_path / "rows.parquet")
    assert predict(tmp_path, tmp_path / "rows.parquet", tmp_path / "output.json").returncode == 0
    body = json.loads((tmp_path / "output.json").read_text())
    assert [row[1] for row in body["rows"]] == pytest.approx(expected, abs=0.01)


def test_a_column_of_the_input_is_told_apart_from_the_answers_own(tmp_path: Path) -> None:
    given = pa.table({"row": ["a", "b"], "debt": ["-1.5", "=1+1"]})
    serving.write_output(tmp_path / "out.csv", ["row", "prediction"], [[1, 0.5], [2, 0.25]], inputs=given)
    lines = (tmp_path / "out.csv").read_text().splitlines()
    assert lines == ["row,prediction,row (input),debt", "1,0.5,a,-1.5", "2,0.25,b,'=1+1"]


def test_a_missing_column_is_named(table: Path, tmp_path: Path) -> None:
    rows, _ = known(table, 3)
    pq.write_table(rows.drop_columns(["bmi"]), tmp_path / "rows.parquet")
    done = predict(table, tmp_path / "rows.parquet", tmp_path / "out.csv")
    assert done.returncode == EXIT_REPORTED
    message, hint = done.stderr.splitlines()[-2:]
    assert "bmi" in message
    assert "with the same names" in hint


def test_a_column_of_another_name_is_asked_for(table: Path, tmp_path: Path) -> None:
    rows, _ = known(table, 3)
    renamed = ["BMI (kg)" if name == "bmi" else name for name in rows.column_names]
    pq.write_table(rows.rename_columns(renamed), tmp_path / "rows.parquet")
    done = predict(table, tmp_path / "rows.parquet", tmp_path / "out.csv")
    assert "For 'bmi', did you mean 'BMI (kg)'?" in done.stderr.splitlines()[-1]


def test_a_bad_value_is_named_with_row_and_column(table: Path, tmp_path: Path) -> None:
    rows, _ = known(table, 3)
    records = rows.to_pylist()
    records[1]["bmi"] = "heavy"
    (tmp_path / "rows.json").write_text(json.dumps(records))
    done = predict(table, tmp_path / "rows.json", tmp_path / "out.csv")
    assert done.returncode == EXIT_REPORTED
    message = done.stderr.splitlines()[-2]
    assert "Row 2" in message
    assert "bmi" in message


def test_words_in_a_column_with_missing_values_count_as_missing_and_are_told(tmp_path: Path) -> None:
    rows = {"a": [1.0, None, 2.5, 4.0] * 30, "b": [float(row) for row in range(120)], "label": ["x", "y"] * 60}
    profile = samples.pack_table(tmp_path / "data", rows, "label")
    samples.program(tmp_path, profile, training={"epochs": 1}, model={"family": "mlp", "size": "small"})
    assert samples.run(tmp_path, "train.py").returncode == 0
    (tmp_path / "rows.csv").write_text("a,b\nunknown,3\n,3\n1,4\n")
    done = predict(tmp_path, tmp_path / "rows.csv", tmp_path / "output.json")
    assert done.returncode == 0, done.stderr
    body = json.loads((tmp_path / "output.json").read_text())
    said = "Column 'a': 1 value is not a number, such as 'unknown' in row 1; it counts as missing, as in training."
    assert body["notes"] == [said] and said in done.stdout
    (first, *chances), (second, *same), (_, *others) = (row[1:] for row in body["rows"])
    assert first == second and chances == pytest.approx(same, abs=1e-6)  # rounded by their place in the batch
    assert chances != pytest.approx(others, abs=1e-6)
    (tmp_path / "rows.csv").write_text("a,b\n1,many\n")  # b never missed a value
    done = predict(tmp_path, tmp_path / "rows.csv", tmp_path / "output.json")
    assert done.returncode == EXIT_REPORTED
    message, hint = done.stderr.splitlines()[-2:]
    assert message == "Row 1: column 'b': 'many' is not a number."
    assert hint.startswith("Write a plain number like 12.5 there, or leave it empty")


def test_numbers_outside_of_what_training_has_seen_are_remarked(table: Path, tmp_path: Path) -> None:
    rows, _ = known(table, 3)
    seen = pq.read_table(table / "data" / "table.parquet")
    preprocess = json.loads((table / "work" / "results" / "preprocess.json").read_text())
    (noted,) = (entry for entry in preprocess["numeric"] if entry["column"] == "bmi")
    assert pc.min(seen["bmi"]).as_py() <= noted["low"] < noted["high"] <= pc.max(seen["bmi"]).as_py()
    records = [{**row, "bmi": value} for row, value in zip(rows.to_pylist(), (noted["low"], -40, 900.5), strict=True)]
    (tmp_path / "rows.json").write_text(json.dumps(records))
    done = predict(table, tmp_path / "rows.json", tmp_path / "output.json")
    assert done.returncode == 0, done.stderr
    said = (
        f"Column 'bmi': 2 values lie outside of {noted['low']:,.10g} to {noted['high']:,.10g}, all that training has "
        "seen, such as -40 in row 2; the model can only guess there."
    )
    body = json.loads((tmp_path / "output.json").read_text())
    assert [note for note in body["notes"] if "'bmi'" in note] == [said] and len(body["rows"]) == 3


def test_empty_input_is_refused(table: Path, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("")
    done = predict(table, tmp_path / "rows.csv", tmp_path / "out.csv")
    assert done.returncode == EXIT_REPORTED
    assert "empty" in done.stderr


def test_a_zip_of_pictures_gets_a_line_each_from_any_checkpoint(pictures: Path, tmp_path: Path) -> None:
    packed = pq.read_table(pictures / "data" / "images.parquet").slice(0, 3)
    with zipfile.ZipFile(tmp_path / "input.zip", "w") as archive:
        for name, body in zip(packed["name"].to_pylist(), packed["image"].to_pylist(), strict=True):
            archive.writestr(name, body)
    checkpoint = sorted((pictures / "work" / "checkpoints").glob("step-*"))[-1]
    for more in ((), ("--weights", str(checkpoint))):
        done = predict(pictures, tmp_path / "input.zip", tmp_path / "output.json", *more)
        assert done.returncode == 0, done.stderr
        body = json.loads((tmp_path / "output.json").read_text())
        assert body["columns"][:3] == ["name", "prediction", "confidence"]
        assert [row[0] for row in body["rows"]] == packed["name"].to_pylist()
        assert sum(body["rows"][0][3:]) == pytest.approx(1.0, abs=1e-4)


def test_a_threshold_calls_by_a_class_what_is_probable_enough_and_nothing_else(pictures: Path, tmp_path: Path) -> None:
    packed = pq.read_table(pictures / "data" / "images.parquet").slice(0, 8)
    with zipfile.ZipFile(tmp_path / "input.zip", "w") as archive:
        for name, body in zip(packed["name"].to_pylist(), packed["image"].to_pylist(), strict=True):
            archive.writestr(name, body)

    def called(threshold: str) -> Any:
        done = predict(pictures, tmp_path / "input.zip", tmp_path / "output.json", "--threshold", threshold)
        return done, [row[1] for row in json.loads((tmp_path / "output.json").read_text())["rows"]]

    done, every = called("3=0")
    assert set(every) == {"3"} and "3" not in called("3=1")[1]
    assert "What is '3' with a probability of 0 or more is called so, nothing else." in done.stdout
    done, _ = called("thirteen=0.5")
    assert done.returncode == EXIT_REPORTED
    message, hint = done.stderr.splitlines()[-2:]
    assert "'thirteen=0.5' is not a class and a probability" in message and "one of the classes 0, 1, 2" in hint


def test_rows_below_a_threshold_are_called_by_the_most_probable_of_the_other_classes() -> None:
    shares = torch.tensor([[0.5, 0.3, 0.2], [0.6, 0.25, 0.15], [0.2, 0.2, 0.6]])
    classes = ["no", "a=b", "maybe"]
    assert serving.answers(shares, classes).tolist() == [0, 0, 2]
    assert serving.answers(shares, classes, "a=b=0.3").tolist() == [1, 0, 2]
    assert serving.answers(shares, classes, "no=0.55").tolist() == [1, 0, 2]
    for wrong in ("no", "no=", "no=nan", "no=1.5", "=0.5"):
        with pytest.raises(serving.InputError):
            serving.answers(shares, classes, wrong)


def test_a_broken_picture_is_named(pictures: Path, tmp_path: Path) -> None:
    (tmp_path / "input.png").write_bytes(b"not a picture")
    done = predict(pictures, tmp_path / "input.png", tmp_path / "out.csv")
    assert done.returncode == EXIT_REPORTED
    message, hint = done.stderr.splitlines()[-2:]
    assert "input.png is not a PNG" in message
    assert "<" not in message
    assert "replace the picture" in hint


def test_an_answer_into_a_folder_that_is_not_there_is_refused_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(serving.InputError, match=r"There is no folder .*nowhere to write out.csv to"):
        serving.write_output(tmp_path / "nowhere" / "out.csv", ["name"], [["a.png"]])


def test_a_broken_picture_of_a_zip_is_named_and_the_others_are_predicted(pictures: Path, tmp_path: Path) -> None:
    packed = pq.read_table(pictures / "data" / "images.parquet").slice(0, 2)
    good, other = packed["image"].to_pylist()
    with zipfile.ZipFile(tmp_path / "input.zip", "w") as archive:
        for name, body in (
            ("a.png", good),
            ("rot/b.png", b"x"),
            ("c.tif", b"II*"),
            ("._d.png", b"x"),
            ("e.png", other),
        ):
            archive.writestr(name, body)
    done = predict(pictures, tmp_path / "input.zip", tmp_path / "output.json")
    assert done.returncode == 0, done.stderr
    body = json.loads((tmp_path / "output.json").read_text())
    assert [row[0] for row in body["rows"]] == ["a.png", "e.png", "rot/b.png", "c.tif"]
    assert all(row[1] for row in body["rows"][:2])
    empty = [None] * (len(body["columns"]) - 1)
    assert [row[1:] for row in body["rows"][2:]] == [empty, empty]
    why = "is not a PNG, JPEG, WebP, BMP or GIF. It has no prediction."
    assert body["notes"] == [f"rot/b.png {why}", f"c.tif {why}"]
    assert "2 predicted" in done.stdout and body["notes"][0] in done.stdout
    assert (tmp_path / "output.csv").read_text().splitlines()[3] == "rot/b.png" + "," * len(empty)


def test_results_hold_the_charts_of_each_task(table: Path, pictures: Path) -> None:
    def charts(program: Path) -> dict[str, Any]:
        body = json.loads((program / "work" / "results" / "results.json").read_text())
        assert body["environment"]["versions"]["torch"]
        assert body["timing"]["parameters"] > 0
        for name, (low, high) in body["intervals"]["test"].items():
            assert body["rows"]["test"] and low <= body["metrics"]["test"][name] <= high
        return {chart["id"]: chart for chart in body["charts"]}

    numbers, classes = charts(table), charts(pictures)
    assert set(numbers) == {
        "residuals", "predicted_vs_true", "error_by_feature", "worst_samples", "best_samples", "importance",
    }  # fmt: skip
    assert set(classes) == {
        "confusion_matrix", "per_class", "roc", "pr", "average_precision", "calibration", "error_by_feature",
        "worst_samples", "best_samples",
    }  # fmt: skip
    for chart in (*numbers.values(), *classes.values()):
        assert chart["split"] == "test"
        assert chart["rows"]
        assert all(len(row) == len(chart["columns"]) for row in chart["rows"]), chart["id"]


def test_a_formula_in_the_output_is_disarmed(tmp_path: Path) -> None:
    from worker.runtime.serving import write_output

    write_output(tmp_path / "out.csv", ["row", "prediction"], [[1, "=cmd|x"], [-2, "fine"]])
    assert (tmp_path / "out.csv").read_text().splitlines() == ["row,prediction", "1,'=cmd|x", "-2,fine"]


def test_an_empty_cell_stays_empty_in_the_output(tmp_path: Path) -> None:
    given = pa.table({"city": ["", None, "Bonn"], "debt": [None, 1.5, None]})
    serving.write_output(tmp_path / "out.csv", ["row", "prediction"], [[1, "a"], [2, "b"], [3, ""]], inputs=given)
    assert (tmp_path / "out.csv").read_text().splitlines()[1:] == ["1,a,,", "2,b,,1.5", "3,,Bonn,"]


@pytest.mark.parametrize(
    ("kind", "number", "shown"),
    [
        (pa.timestamp("ns"), 1_577_836_800_123_456_789, "2020-01-01 00:00:00.123456789"),
        (pa.duration("ns"), 5, "5"),
        (pa.timestamp("s"), 1 << 61, "<value out of range: 2305843009213693952>"),
    ],
)
def test_a_moment_that_python_cannot_hold_is_written_beside_its_answer(
    tmp_path: Path, kind: pa.DataType, number: int, shown: str
) -> None:
    given = pa.table({"at": pa.array([number, None], kind)})
    serving.write_output(tmp_path / "out.json", ["row", "prediction"], [[1, "a"], [2, "b"]], inputs=given)
    assert json.loads((tmp_path / "out.json").read_text())["inputs"]["rows"] == [[shown], [None]]
    assert (tmp_path / "out.csv").read_text().splitlines()[1:] == [f"1,a,{shown}", "2,b,"]


@pytest.mark.parametrize("start", "=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
def test_every_letter_that_begins_a_formula_somewhere_is_defused_in_the_output(tmp_path: Path, start: str) -> None:
    serving.write_output(tmp_path / "out.csv", ["row", "prediction"], [[1, f"{start}1+1"]])
    with (tmp_path / "out.csv").open(newline="", encoding="utf-8") as file:
        assert list(csv.reader(file))[1] == ["1", f"'{start}1+1"]
