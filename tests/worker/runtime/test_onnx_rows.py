"""The script beside model.onnx encodes every kind of column as data.py does, from a CSV's texts."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from tests.codegen.data_tables import TABULAR, load_table, make_table
from worker.runtime.onnx_export import predict_table
from worker.runtime.onnx_export.scripts import _plain_rows, scripts_for


@pytest.mark.parametrize("rows", [400, 3000])  # by quartiles, by ranks
def test_all_kinds_of_columns_are_encoded_as_in_training(rows: int, tmp_path) -> None:
    table = make_table(rows)
    dataset = load_table(tmp_path, table)
    sample = table.slice(40, 64)  # with a missing age and a missing city
    tensors = [tensor.numpy() for tensor in TABULAR.transform(dataset.preprocess, sample)]
    assert {entry["kind"] for entry in dataset.preprocess["numeric"]} >= {"numeric", "dates"}
    made = predict_table.encode(dataset.preprocess, _plain_rows(sample))
    for one, other in zip(made, tensors, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
    assert set(scripts_for(dataset.preprocess, sample, tensors)) == {"predict_onnx.py"}
    assert not scripts_for(dataset.preprocess, sample, [tensors[0] + 1, tensors[1]])


@pytest.mark.parametrize(
    ("text", "spelled", "value"),
    [
        ("1,234.5", "", 1234.5), ("1234.5", "", 1234.5), ("1.234,5", "decimal comma", 1234.5),
        ("2,5", "decimal comma", 2.5),
        ("€ 12", "€", 12.0), ("3,5 €", "decimal comma, €", 3.5), ("-7e2", "", -700.0),
        ("3 mm", "mm", 3.0), ("38,5 cm", "decimal comma, mm", 385.0), ("5mm", "m", 0.005), ("45 min", "h", 0.75),
        ("7", "kg", 7.0), ("1,250 g", "kg", 1.25),
    ],
)  # fmt: skip
def test_numbers_are_read_as_they_were_written_in_training(text: str, spelled: str, value: float) -> None:
    assert predict_table.number(text, "", spelled) == value


def test_what_cannot_be_read_is_told_with_row_and_column() -> None:
    entry = {"column": "age", "kind": "numeric", "feature": "age", "scaling": "quartiles", "median": 1.0, "scale": 2.0}
    preprocess = {"numeric": [entry], "categorical": []}
    with pytest.raises(ValueError, match="row 2: column 'age': could not convert"):
        predict_table.encode(preprocess, [{"age": "3"}, {"age": "old"}])
    with pytest.raises(ValueError, match="the rows lack: age"):
        predict_table.encode(preprocess, [{"size": "3"}])
    day = {**entry, "kind": "dates", "feature": "age: days"}
    with pytest.raises(ValueError, match="not a date; write it like 2020-01-31"):
        predict_table.encode({"numeric": [day], "categorical": []}, [{"age": "31/1/2020"}])


def test_rows_are_numbered_through_all_chunks(tmp_path, monkeypatch) -> None:
    entry = {"column": "age", "kind": "numeric", "feature": "age", "scaling": "quartiles", "median": 1.0, "scale": 2.0}
    for name, body in (("onnx", {"inputs": []}), ("preprocess", {"numeric": [entry], "categorical": []})):
        (tmp_path / f"{name}.json").write_text(json.dumps(body | {"classes": []}))
    session = SimpleNamespace(run=lambda *_: [np.zeros(predict_table.CHUNK)])
    fake = SimpleNamespace(InferenceSession=lambda *_, **__: session)
    monkeypatch.setitem(sys.modules, "onnxruntime", fake)
    rows = [{"age": "3"}] * predict_table.CHUNK + [{"age": "old"}]
    with pytest.raises(ValueError, match=f"row {len(rows)}: column 'age'"):
        predict_table.predict(rows, tmp_path)
