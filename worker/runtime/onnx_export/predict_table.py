"""Predict with model.onnx for rows of a table; needs numpy and onnxruntime alone.

    pip install numpy onnxruntime
    python predict_onnx.py --input rows.csv --output predictions.csv       also .json: a list of {column: value}

model.onnx takes encoded rows. `encode` below makes them from plain ones, with what preprocess.json holds of the
training rows:

- Numbers: a missing one becomes the median, with a 0/1 indicator beside it; then each column is mapped to a normal
  distribution by its ranks, or scaled by its quartiles with soft limits.
- Categories: the place in the list of known values, from 1 on; 0 for a missing or unknown one.
- Dates, like 2020-01-31 or 2020-01-31 08:30:00: days since 1970, year, month, weekday, hour. Texts: their length in
  characters and in words.
"""

import argparse
import csv
import json
import math
import re
from datetime import UTC, datetime
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np

HERE = Path(__file__).parent
SOFT_LIMIT = 3.0  # quartile-scaled values bend towards +-3
CHUNK = 512  # rows predicted at once
MEASURES = (  # how many of the smallest of its kind each unit is
    {"mm": 1, "cm": 10, "m": 1_000, "km": 1_000_000},
    {"g": 1, "kg": 1_000, "t": 1_000_000},
    {"s": 1, "min": 60, "h": 3_600},
)
MISSING = {
    "", "?", "-", "--", "NA", "N/A", "n/a", "na", "NaN", "nan", "-nan", "NULL", "null", "None", "nil", "<NA>", "n.a.",
    "N.A.", "NaT", "k.A.", "\\N", "#N/A", "#NV", "#DIV/0!", "#VALUE!", "#WERT!", "#REF!", "#BEZUG!", "#NAME?", "#NUM!",
    "#ZAHL!", "#NULL!",
}  # fmt: skip


def read_rows(path: Path) -> list[dict[str, str]]:
    """Rows of a .csv with a header line, or of a .json list of objects, each value as text."""
    if path.suffix == ".json":
        body = json.loads(path.read_text(encoding="utf-8"))
        return [{name: written(value) for name, value in row.items()} for row in body]
    with path.open(newline="", encoding="utf-8-sig") as file:
        return [{name: value or "" for name, value in row.items() if name} for row in csv.DictReader(file)]


def written(value: Any) -> str:
    """A value of JSON as a CSV would have it."""
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def encode(preprocess: dict[str, Any], rows: list[dict[str, str]], first: int = 1) -> list[np.ndarray]:
    """[numeric float32 [N, F], categorical int64 [N, C]] of rows, of which the first has the number `first`.

    Raises `ValueError` that names row and column.
    """
    columns = [entry["column"] for entry in preprocess["numeric"] + preprocess["categorical"]]
    for row in rows[:1]:
        if lacking := sorted(set(columns) - set(row)):
            raise ValueError(f"the rows lack: {', '.join(lacking)}")
    texts = {name: [plain(row.get(name, "")) for row in rows] for name in columns}
    spelling = preprocess.get("spelling", {})
    numeric = [encode_number(entry, texts[entry["column"]], spelling, first) for entry in preprocess["numeric"]]
    categorical = [encode_category(entry["values"], texts[entry["column"]]) for entry in preprocess["categorical"]]
    return [stacked(numeric, len(rows), np.float32), stacked(categorical, len(rows), np.int64)]


def plain(text: str) -> str:
    """Without spaces around it; nothing for the many ways to write that a value is missing."""
    text = text.strip()
    return "" if text in MISSING else text


def stacked(columns: list[np.ndarray], rows: int, dtype: type) -> np.ndarray:
    """Columns [N] side by side: [N, len(columns)]."""
    return np.stack(columns, axis=1).astype(dtype) if columns else np.empty((rows, 0), dtype)


def encode_category(values: list[str], texts: list[str]) -> np.ndarray:
    """Place of each text in the known values, from 1 on; 0 where it is missing or unknown."""
    places = {value: place for place, value in enumerate(values, 1)}
    lowered = {value.lower(): place for value, place in places.items()}
    if len(lowered) == len(places) and lowered.keys() <= {"true", "false"}:  # True, TRUE and true are one value
        return np.array([lowered.get(text.lower(), 0) for text in texts], np.int64)
    return np.array([places.get(text, 0) for text in texts], np.int64)


def encode_number(entry: dict[str, Any], texts: list[str], spelling: dict[str, str], first: int) -> np.ndarray:
    """One column [N] of the model's numbers; `first`: number of its first row."""
    name, kind, feature = entry["column"], entry["kind"], entry["feature"].removeprefix(f"{entry['column']}: ")
    read = {"numeric": number, "dates": date_number, "texts": text_number}[kind]
    values = np.array(
        [value_of(read, text, feature, spelling.get(name, ""), name, row) for row, text in enumerate(texts, first)]
    )
    if entry["scaling"] == "missing":
        missing: np.ndarray = ~np.isfinite(values)
        return missing
    return scaled(entry, np.where(np.isfinite(values), values, entry["median"]))


def value_of(read: Any, text: str, feature: str, spelled: str, name: str, row: int) -> float:
    """What `read` makes of one text; NaN where it is missing."""
    try:
        return read(text, feature, spelled) if text else math.nan
    except ValueError as error:
        raise ValueError(f"row {row}: column {name!r}: {error}") from None


def number(text: str, _feature: str, spelled: str) -> float:
    """1234.5 of `1234.5`, and of `1,234.5`, `1.234,5`, `€ 1,234.5` or `1,234.5 mm` where the training data was so."""
    style, _, unit = spelled.partition(", ")
    has_comma = style == "decimal comma"
    unit = unit if has_comma else style
    alike = next((kind for kind in MEASURES if unit in kind), {})
    own = next((other for other in alike if re.search(rf"[^a-z]{other}$", text)), unit)
    text = text.removesuffix(own).strip() if alike else text.replace(unit, "").strip()
    if has_comma and "," in text:
        text = text.replace(".", "").replace(",", ".")
    elif re.fullmatch(r"[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d+)?", text):
        text = text.replace(",", "")
    return float(text) * alike.get(own, 1) / alike.get(unit, 1)


def date_number(text: str, feature: str, spelled: str) -> float:
    """Days since 1970, year, month, weekday (Monday is 0) or hour of a date."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = datetime.strptime(text, spelled) if spelled else _not_a_date(text)
    utc = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    days = (utc - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() / 86_400
    whole = {"year": utc.year, "month": utc.month, "weekday": utc.weekday()}
    return float(whole[feature]) if feature in whole else 24 * (days % 1) if feature == "hour" else days


def _not_a_date(text: str) -> datetime:
    raise ValueError(f"{text!r} is not a date; write it like 2020-01-31")


def text_number(text: str, feature: str, _spelled: str) -> float:
    """Length in characters or in words."""
    return float(len(text) if feature == "characters" else len(text.split()))


def scaled(entry: dict[str, Any], values: np.ndarray) -> np.ndarray:
    """Values [N] about normally distributed."""
    if entry["scaling"] == "quartiles":
        moved = (values - entry["median"]) / entry["scale"]
        bent: np.ndarray = moved / np.hypot(1, moved / SOFT_LIMIT)
        return bent
    knots = np.asarray(entry["knots"])
    places = np.linspace(0, 1, len(knots))
    # equal knots (many rows with one value): the middle between reading from the left and from the right
    left, right = np.interp(values, knots, places), 1 - np.interp(-values, -knots[::-1], places)
    share = np.clip((left + right) / 2, 1e-3, 1 - 1e-3)
    return np.array([NormalDist().inv_cdf(each) for each in share])


def predict(rows: list[dict[str, str]], folder: Path = HERE) -> list[dict[str, Any]]:
    """The answer for each row, with the files in `folder`."""
    import onnxruntime

    about = json.loads((folder / "onnx.json").read_text(encoding="utf-8"))
    preprocess = json.loads((folder / "preprocess.json").read_text(encoding="utf-8"))
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])
    answers: list[dict[str, Any]] = []
    for start in range(0, len(rows), CHUNK):
        tensors = encode(preprocess, rows[start : start + CHUNK], start + 1)
        outputs = session.run(None, {given["name"]: tensors[given["place"]] for given in about["inputs"]})
        answers += answers_of(about["classes"], outputs)
    return answers


def answers_of(classes: list[str], outputs: list[np.ndarray]) -> list[dict[str, Any]]:
    """One mapping per row: the prediction, of classes also how probable each is."""
    if not classes:
        return [{"prediction": float(value)} for value in outputs[0]]
    return [
        {"prediction": classes[int(shares.argmax())], "confidence": float(shares.max())}
        | {f"probability of {name}": float(share) for name, share in zip(classes, shares, strict=True)}
        for shares in outputs[1]
    ]


def main() -> None:
    """Read, predict, write."""
    parser = argparse.ArgumentParser(description="Predict with model.onnx.")
    parser.add_argument("--input", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    answers = [{"row": at} | answer for at, answer in enumerate(predict(read_rows(options.input)), 1)]
    with options.output.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(answers[0]) if answers else ["row"])
        writer.writeheader()
        writer.writerows(answers)
    print(f"{len(answers)} predicted, written to {options.output}")


if __name__ == "__main__":
    main()
