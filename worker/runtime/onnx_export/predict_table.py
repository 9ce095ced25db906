"""Predict with model.onnx for rows of a table; needs numpy and onnxruntime alone.

    pip install numpy onnxruntime
    python predict_onnx.py --input rows.csv --output predictions.csv       also .json: a list of {column: value}

A CSV may be separated by commas, semicolons, tabs or bars, in UTF-8 or Windows-1252, with points or decimal commas.
model.onnx takes encoded rows. `encode` below makes them from plain ones, with what preprocess.json holds of the
training rows:

- Numbers: a missing one becomes the median, with a 0/1 indicator beside it; then each column is mapped to a normal
  distribution by its ranks, or scaled by its quartiles with soft limits. Words count as missing where values were
  missing in training, too.
- Categories: the place in the list of known values, from 1 on; 0 for a missing or unknown one.
- Dates, like 2020-01-31 or 2020-01-31 08:30:00: days since 1970, year, month, weekday, hour. Texts: their length in
  characters and in words.
"""

import argparse
import csv
import io
import json
import math
import re
import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np

HERE = Path(__file__).parent
SOFT_LIMIT = 3.0  # quartile-scaled values bend towards +-3
CHUNK = 512  # rows predicted at once
DELIMITERS = (",", "\t", ";", "|")
CELL_LETTERS = 2**31 - 1
SAMPLE_ROWS = 200  # by which the delimiter is told
WIDE_SAMPLE_BYTES = 64 << 10  # by which UTF-16 without its mark is told
ALIKE_MOST, LACKING_MOST = 5, 50  # columns that are asked for by name; of more that lack nothing is asked
CLOCKS = ("h:mm:ss", "h:mm", "m:ss")  # what two figures of a duration or a time of day are; of the first: doubtful
CLOCK = (
    r"(?:(?P<days>-?[0-9]{1,7}) days?,? )?(?P<sign>[+-]?)(?P<first>[0-9]{1,6}):(?P<second>[0-5][0-9])"
    r"(?::(?P<third>[0-5][0-9]))?(?P<fraction>[.,][0-9]+)?"
)
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
NUMBER = re.compile(r"[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|inf(inity)?|nan)", re.IGNORECASE)
THOUSANDS = re.compile(r"[+-]?[1-9][0-9]{0,2}(,[0-9]{3})+(\.[0-9]+)?")
DECIMAL_COMMA = re.compile(r"[+-]?([1-9][0-9]{0,2}(\.[0-9]{3})+|[0-9]{1,3}(\.[0-9]{3})+,[0-9]+|[0-9]+,[0-9]+)")
ONE_POINT = re.compile(r"[^.,]*\.[^.,]*")

Rows = list[dict[str, str]]


def read_rows(path: Path) -> tuple[Rows, bool]:
    """Rows of a .csv with a header line, or of a .json list of objects, each value as text; and whether `1,234` in them
    is rather one and a bit. Raises `ValueError`."""
    text = decoded(path.read_bytes())
    if path.suffix == ".json":
        body = json.loads(text)
        if not isinstance(body, list) or not all(isinstance(row, dict) for row in body):
            raise ValueError("no list of objects, one per row")
        return [{name: written(value) for name, value in row.items()} for row in body], False
    delimiter = max(DELIMITERS, key=lambda delimiter: score(text, delimiter))
    records = records_of(text, delimiter)
    header = unique(next(records, []))
    rows = []
    for number, record in enumerate(records, 1):
        if any(record[len(header) :]):
            raise ValueError(f"row {number}: {len(record)} values where the first line names {len(header)} columns")
        rows.append(dict.fromkeys(header, "") | dict(zip(header, record, strict=False)))
    return rows, delimiter == ";"


def decoded(body: bytes) -> str:
    """UTF-8, UTF-16 by its mark or zeros, else Windows-1252 or Latin-1. Raises `ValueError`."""
    for encoding in (wide_encoding(body) or "utf-8-sig", "cp1252", "latin-1"):
        try:
            text = body.decode(encoding)
        except UnicodeDecodeError:
            continue
        break
    if "\0" in text:
        raise ValueError("it contains a NUL byte, so it is not plain text")
    return text


def wide_encoding(body: bytes) -> str:
    """UTF-16 where its mark stands in front, or nearly every second byte of the beginning is 0; else nothing."""
    if body.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    even, odd = body[:WIDE_SAMPLE_BYTES:2].count(0), body[1:WIDE_SAMPLE_BYTES:2].count(0)
    half = len(body[1:WIDE_SAMPLE_BYTES:2])
    if max(even, odd) <= 0.9 * half or min(even, odd) >= 0.1 * half:
        return ""
    return "utf-16-le" if odd > even else "utf-16-be"


def unique(header: list[str]) -> list[str]:
    """Names without blanks and repeats: a second `name` is `name_2`, as in the data to train on."""
    names: dict[str, None] = {}
    stripped = [name.strip() for name in header]
    for number, given in enumerate(stripped, start=1):
        name = given or f"column_{number}"
        copy = 2
        while name in names or (name != given and name in stripped):
            name = f"{given or f'column_{number}'}_{copy}"
            copy += 1
        names[name] = None
    return list(names)


def records_of(text: str, delimiter: str) -> Iterator[list[str]]:
    """Fields of each line that is not blank."""
    csv.field_size_limit(CELL_LETTERS)
    return filter(None, csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))


def score(text: str, delimiter: str) -> tuple[float, int]:
    """(share of rows as wide as the header, its width): what the file is separated by has the best."""
    try:
        rows = list(islice(records_of(text, delimiter), SAMPLE_ROWS))
    except csv.Error:
        return 0.0, 0
    width = len(rows[0]) if rows else 0
    return (round(sum(len(row) == width for row in rows) / len(rows), 2), width) if width > 1 else (0.0, width)


def written(value: Any) -> str:
    """A value of JSON as a CSV would have it."""
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def respelled(preprocess: dict[str, Any], rows: Rows, prefer_comma: bool = False) -> Rows:
    """The rows with their numbers as `1234.5`, and nothing for words where values were missing in training, too."""
    kinds = {entry["column"]: entry["kind"] for entry in preprocess["numeric"]}
    spelling, missing = preprocess.get("spelling", {}), preprocess.get("missing", [])
    columns = {}
    for name, kind in kinds.items():
        texts = [plain(row.get(name, "")) for row in rows]
        if kind == "numeric":
            texts = plain_numbers(texts, spelling.get(name, ""), prefer_comma)
        if kind != "texts" and name in missing:
            texts = without_words(texts, name, "number" if kind == "numeric" else "date", spelling.get(name, ""))
        columns[name] = texts
    return [row | {name: columns[name][at] for name in columns if name in row} for at, row in enumerate(rows)]


def plain_numbers(texts: list[str], spelled: str, prefer_comma: bool) -> list[str]:
    """`1,234.5`, `1.234,5` and `€ 1,234.5` as 1234.5, and `3 cm` as 30.0 where the training data was in mm.

    `spelled`: how the training data wrote them, such as `decimal comma, €`.
    """
    style, _, unit = spelled.partition(", ")
    trained_comma, trained_thousands = style == "decimal comma", style == "thousands"
    prefer_comma = prefer_comma and not trained_thousands  # what the training data says weighs more
    unit = unit if trained_comma or trained_thousands else style
    if factors := next((kind for kind in MEASURES if unit in kind), None):
        parts = [re.fullmatch(rf"([+-]?(?:\d[\d.,]*|\.\d+))\s?({'|'.join(factors)})", text) for text in texts]
        texts = [part[1] if part else text for part, text in zip(parts, texts, strict=True)]
        own = [part[2] if part else unit for part in parts]
        return [
            text if of == unit or not NUMBER.fullmatch(text) else str(float(text) * factors[of] / factors[unit])
            for text, of in zip(settled(texts, trained_comma, prefer_comma), own, strict=True)
        ]
    if unit:
        texts = [re.sub(rf"\s?{re.escape(unit)}\s?", "", text) for text in texts]
    return settled(texts, trained_comma, prefer_comma)


def settled(texts: list[str], trained_comma: bool, prefer_comma: bool) -> list[str]:
    """What comma and point mean is told by those that leave no doubt."""
    thousands = {text for text in texts if THOUSANDS.fullmatch(text)}
    commas = {text for text in texts if DECIMAL_COMMA.fullmatch(text)}
    points = {text for text in texts if ONE_POINT.fullmatch(text)}
    surely = (thousands - commas, commas - points - thousands)
    sure_thousands, sure_commas = (sum(text in of for text in texts) for of in surely)
    if sure_commas < sure_thousands or (sure_commas == sure_thousands and not (prefer_comma or trained_comma)):
        return [text.replace(",", "") if text in thousands else text for text in texts]
    if not (commas - points or (trained_comma and not points - commas)):  # `1.234` alone is one and a bit
        commas -= points
    return [text.replace(".", "").replace(",", ".") if text in commas else text for text in texts]


def without_words(texts: list[str], name: str, what: str, spelled: str) -> list[str]:
    """Nothing for what is no number or holds no figure of a date, told on stderr."""
    fits = [is_number(text, spelled) if what == "number" else bool(re.search("[0-9]", text)) for text in texts]
    words = [row for row, (text, fit) in enumerate(zip(texts, fits, strict=True), 1) if text and not fit]
    if words:
        count = f"{len(words):,} values are not {what}s" if len(words) > 1 else f"1 value is not a {what}"
        such = f"such as {texts[words[0] - 1]!r} in row {words[0]:,}"
        print(f"Column {name!r}: {count}, {such}; counted as missing, as in training.", file=sys.stderr)
    return [text if fit else "" for text, fit in zip(texts, fits, strict=True)]


def encode(preprocess: dict[str, Any], rows: list[dict[str, str]], first: int = 1) -> list[np.ndarray]:
    """[numeric float32 [N, F], categorical int64 [N, C]] of rows, of which the first has the number `first`.

    Raises `ValueError` that names row and column.
    """
    columns = [entry["column"] for entry in preprocess["numeric"] + preprocess["categorical"]]
    for row in rows[:1]:
        if lacking := sorted(set(columns) - set(row)):
            raise ValueError(
                f"the rows lack: {', '.join(lacking)}. {alike(lacking, set(row) - set(columns))}".strip(". ")
            )
    texts = {name: [plain(row.get(name, "")) for row in rows] for name in columns}
    spelling = preprocess.get("spelling", {})
    numeric = [encode_number(entry, texts[entry["column"]], spelling, first) for entry in preprocess["numeric"]]
    categorical = [encode_category(entry["values"], texts[entry["column"]]) for entry in preprocess["categorical"]]
    return [stacked(numeric, len(rows), np.float32), stacked(categorical, len(rows), np.int64)]


def alike(lacking: Iterable[str], others: Iterable[str]) -> str:
    """Which other columns of the input may be those that it lacks, in words; nothing where none is like them, or where
    so many are lacking that it is another table."""
    missing, lowered = sorted(lacking), {name.lower(): name for name in sorted(others)}
    if len(missing) > LACKING_MOST:
        return ""
    asked = []
    for name in missing[:ALIKE_MOST]:
        for near in get_close_matches(name.lower(), lowered, n=1, cutoff=0.5):
            asked.append(f"For {name!r}, did you mean {lowered.pop(near)!r}?")
    return " ".join(asked)


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
    """The number that `respelled` leaves, or the seconds of `0:20:34.5` where the training data was such."""
    if spelled in CLOCKS and (clock := re.fullmatch(CLOCK, text)):
        return seconds(clock, spelled)
    if not NUMBER.fullmatch(text):
        raise ValueError(f"{text!r} is not a number")
    return float(text)


def is_number(text: str, spelled: str) -> bool:
    """Whether `number` reads it."""
    try:
        number(text, "", spelled)
    except ValueError:
        return False
    return True


def seconds(clock: re.Match[str], spelled: str) -> float:
    """Seconds of a match of `CLOCK`; two figures with a fraction are minutes and seconds."""
    days, sign, first, second, third, fraction = clock.groups()
    if third is None and fraction is None and spelled == CLOCKS[0]:
        raise ValueError(f"{clock[0]!r} may be hours or minutes; write it like 0:38:53")
    in_minutes = third is None and (spelled == CLOCKS[2] or fraction is not None)
    first_s, second_s = (60, 1) if in_minutes else (3_600, 60)
    clock_s = float(first) * first_s + float(second) * second_s + float(third or 0)
    clock_s += float("0" + fraction.replace(",", ".")) if fraction else 0.0
    return 86_400 * float(days or 0) + (-clock_s if sign == "-" else clock_s)


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


def predict(rows: Rows, folder: Path = HERE, *, prefer_comma: bool = False) -> list[dict[str, Any]]:
    """The answer for each row, with the files in `folder`. Raises `ValueError` that names row and column."""
    import onnxruntime

    about = json.loads((folder / "onnx.json").read_text(encoding="utf-8"))
    preprocess = json.loads((folder / "preprocess.json").read_text(encoding="utf-8"))
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])
    answers: list[dict[str, Any]] = []
    rows = respelled(preprocess, rows, prefer_comma)
    for start in range(0, len(rows), CHUNK):
        tensors = encode(preprocess, rows[start : start + CHUNK], start + 1)
        outputs = session.run(None, {given["name"]: tensors[given["place"]] for given in about["inputs"]})
        answers += answers_of(about["classes"], outputs, preprocess.get("prediction_ranges"))
    return answers


def answers_of(
    classes: list[str], outputs: list[np.ndarray], ranges: dict[str, Any] | None = None
) -> list[dict[str, Any]]:
    """One mapping per row: the prediction, of classes also how probable each is, of a number the ends of its range."""
    if not classes:
        columns = {"prediction": outputs[0], **range_ends(outputs[0], ranges)}
        return [{name: float(values[row]) for name, values in columns.items()} for row in range(len(outputs[0]))]
    return [
        {"prediction": classes[int(shares.argmax())], "confidence": float(shares.max())}
        | {f"probability of {name}": float(share) for name, share in zip(classes, shares, strict=True)}
        for shares in outputs[1]
    ]


def range_ends(values: np.ndarray, ranges: dict[str, Any] | None) -> dict[str, np.ndarray]:
    """Ends [N] of the range around each predicted number, by name, as wide as in its part of the predictions; none
    where the training program could find none."""
    if not ranges:
        return {}
    half = np.asarray(ranges["half_widths"])[np.searchsorted(ranges["edges"], values, side="right")]
    return {"prediction_low": values - half, "prediction_high": values + half}


def main() -> None:
    """Read, predict, write."""
    parser = argparse.ArgumentParser(description="Predict with model.onnx.")
    parser.add_argument("--input", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    try:
        rows, prefer_comma = read_rows(options.input)
        answers = [{"row": at} | answer for at, answer in enumerate(predict(rows, prefer_comma=prefer_comma), 1)]
    except (OSError, ValueError, csv.Error) as error:
        sys.exit(str(error) if isinstance(error, OSError) else f"{options.input.name}: {error}")
    with options.output.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(answers[0]) if answers else ["row"])
        writer.writeheader()
        writer.writerows(answers)
    print(f"{len(answers)} predicted, written to {options.output}")


if __name__ == "__main__":
    main()
