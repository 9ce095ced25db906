"""Predict with model.onnx for rows of a table; needs numpy and onnxruntime alone.

    pip install numpy onnxruntime
    python predict_onnx.py --input rows.csv --output predictions.csv       also .json: a list of {column: value}
    python predict_onnx.py ... --threshold CLASS=P      what is of CLASS with a probability of P or more is called so

A CSV may be separated by commas, semicolons, tabs or bars, in UTF-8 or Windows-1252, with points or decimal commas.
model.onnx takes encoded rows. `encode` below makes them from plain ones, with what preprocess.json holds of the
training rows:

- Numbers: a missing one becomes the median, with a 0/1 indicator beside it; then each column is mapped to a normal
  distribution by its ranks, or scaled by its quartiles with soft limits. Words count as missing where values were
  missing in training, too.
- Categories: the place in the list of known values, from 1 on; 0 for any other, after the last for a missing one where
  the training rows had such.
- Dates, like 2020-01-31 or 2020-01-31 08:30:00: days since 1970, year, month, weekday, hour. Texts: their length in
  characters and in words, how far they lie in the directions of the topics that words of the training rows have, and
  their scores: the sums of what each of their words says of the target.
"""

import argparse
import base64
import csv
import json
import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np

from worker.runtime.onnx_export.answers import ThresholdError, answers_of, unread, write_csv
from worker.runtime.onnx_export.table_rows import Rows, is_number, number, plain, read_rows, respelled
from worker.runtime.row_text import DATE_FORMATS
from worker.runtime.unseen import categories_told, category_said, number_said, numbers_told, spans

HERE = Path(__file__).parent
SOFT_LIMIT = 3.0  # quartile-scaled values bend towards +-3
FIRST_YEAR = 1000  # 0001-01-01 stands for no date
ISO = "iso"  # 2020-01-31, 2020-01-31T08:30:00+02:00
LETTERS = 20_000  # of a longer text the beginning is read
CHUNK = 512  # rows predicted at once
ALIKE_MOST, LACKING_MOST = 5, 50  # columns that are asked for by name; of more that lack nothing is asked


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
    read = preprocess.get("texts", {})
    words = {name: encode_words(learned, texts[name]) for name, learned in read.items() if name in texts}
    numeric = [
        encode_number(entry, texts[entry["column"]], spelling, first, words.get(entry["column"], {}))
        for entry in preprocess["numeric"]
    ]
    categorical = [encode_category(entry, texts[entry["column"]]) for entry in preprocess["categorical"]]
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


def stacked(columns: list[np.ndarray], rows: int, dtype: type) -> np.ndarray:
    """Columns [N] side by side: [N, len(columns)]."""
    return np.stack(columns, axis=1).astype(dtype) if columns else np.empty((rows, 0), dtype)


def encode_category(entry: dict[str, Any], texts: list[str]) -> np.ndarray:
    """Place of each text in the known values, from 1 on; 0 for any other, after the last for a missing one.

    Models of before have one number, 0, for both.
    """
    places = {value: place for place, value in enumerate(entry["values"], 1)}
    lowered = {value.lower(): place for value, place in places.items()}
    if len(lowered) == len(places) and lowered.keys() <= {"true", "false"}:  # True, TRUE and true are one value
        places, texts = lowered, [text.lower() for text in texts]
    if entry.get("missing"):
        places = {"": len(entry["values"]) + 1} | places
    return np.array([places.get(text, 0) for text in texts], np.int64)


def encode_number(
    entry: dict[str, Any], texts: list[str], spelling: dict[str, str], first: int, words: dict[str, np.ndarray]
) -> np.ndarray:
    """One column [N] of the model's numbers; `first`: number of its first row, `words`: see `encode_words`."""
    name, kind, feature = entry["column"], entry["kind"], entry["feature"].removeprefix(f"{entry['column']}: ")
    read = {"numeric": number, "dates": date_number, "texts": text_number}[kind]
    if feature in words:
        values = words[feature]
    else:
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


def date_number(text: str, feature: str, spelled: str) -> float:
    """Days since 1970, year, month, weekday (Monday is 0) or hour of a date; missing outside of the years 1000 to 9999,
    as in the data to train on: programs write 0001-01-01 for no date."""
    try:
        utc = moment_of(text, spelled)
    except OverflowError:  # before the year 1, or behind 9999, in UTC
        return math.nan
    if utc.year < FIRST_YEAR:
        return math.nan
    days = (utc - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() / 86_400
    whole = {"year": utc.year, "month": utc.month, "weekday": utc.weekday()}
    return float(whole[feature]) if feature in whole else 24 * (days % 1) if feature == "hour" else days


def moment_of(text: str, spelled: str) -> datetime:
    """A date, in UTC: as the data to train on wrote them, else as leaves no doubt. Raises `ValueError`."""
    moment = next(_moments_read(text, [ISO, spelled]), None)
    if moment is None:
        found = sorted(set(_moments_read(text, DATE_FORMATS)))
        if len(found) != 1:
            told = f"may be {' or '.join(f'{each:%d %B %Y}' for each in found)}" if found else "is not a date"
            raise ValueError(f"{text!r} {told}; write it like 2020-01-31")
        moment = found[0]
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _moments_read(text: str, formats: Iterable[str]) -> Iterator[datetime]:
    # Python takes no `z`, and not every blank before a zone
    iso = re.sub(r"(:\d\d(?:\.\d+)?) *([Zz]|[+-]\d\d(?::?\d\d)?)$", lambda zone: zone[1] + zone[2].upper(), text)
    for form in filter(None, formats):
        with suppress(ValueError):
            yield datetime.fromisoformat(iso) if form == ISO else datetime.strptime(text, form)


def text_number(text: str, feature: str, _spelled: str) -> float:
    """Length in characters or in words."""
    return float(len(text) if feature == "characters" else len(text.split()))


def words_of(text: str, alone: str) -> list[str]:
    """Its words; a letter in the ranges `alone` is a word by itself, and each two of them that follow each other are.

    Models of before have no such ranges.
    """
    if not alone:
        return re.findall(r"\w+", text)
    words = re.findall(rf"[{alone}]|(?:(?![{alone}])\w)+", text)
    by_itself = [re.fullmatch(f"[{alone}]", word) is not None for word in words]
    return words + [words[at] + words[at + 1] for at in range(len(words) - 1) if by_itself[at] and by_itself[at + 1]]


def encode_words(learned: dict[str, Any], texts: list[str]) -> dict[str, np.ndarray]:
    """How far each text lies in the direction of each topic, and its scores, [N] each; NaN where it is missing.

    Models of before have no scores.
    """
    places = {word: place for place, word in enumerate(learned["words"])}
    directions = unpacked(learned["directions"], learned["topics"])
    scores = np.empty((len(places), 0))
    if "scores" in learned:
        scores = unpacked(learned["score_weights"], learned["scores"])
    found = np.full((len(texts), learned["topics"] + scores.shape[1]), math.nan)
    for row, text in enumerate(texts):
        if not text:
            continue
        lowered = "".join(letter.lower()[0] for letter in text[:LETTERS])  # whole words have another last sigma
        times = Counter(places[word] for word in words_of(lowered, learned.get("alone", "")) if word in places)
        weights = np.array([(1 + math.log(count)) * learned["weights"][place] for place, count in times.items()])
        weights = weights / np.sqrt(weights @ weights) if times else weights
        known = np.array(list(times), np.int64)
        of_topics = known < len(directions)  # which consist of the most frequent words
        found[row] = [*weights[of_topics] @ directions[known[of_topics]], *weights @ scores[known]]
    names = [f"topic {number + 1}" for number in range(learned["topics"])]
    names += [f"score {number + 1}" for number in range(scores.shape[1])]
    return dict(zip(names, found.T, strict=True))


@lru_cache(maxsize=128)
def unpacked(text: str, columns: int) -> np.ndarray:
    """Numbers [words, columns] that lie in preprocess.json as the Base64 of their float16."""
    return np.frombuffer(base64.b64decode(text), "<f2").astype(np.float64).reshape(-1, max(1, columns))[:, :columns]


def scaled(entry: dict[str, Any], values: np.ndarray) -> np.ndarray:
    """Values [N] about normally distributed."""
    if entry["scaling"] == "quartiles":
        with np.errstate(over="ignore"):
            moved = np.nan_to_num((values - entry["median"]) / entry["scale"])  # finite, however far it lies
        bent: np.ndarray = moved / np.hypot(1, moved / SOFT_LIMIT)
        return bent
    knots = np.asarray(entry["knots"])
    places = np.linspace(0, 1, len(knots))
    # equal knots (many rows with one value): the middle between reading from the left and from the right
    left, right = np.interp(values, knots, places), 1 - np.interp(-values, -knots[::-1], places)
    share = np.clip((left + right) / 2, 1e-3, 1 - 1e-3)
    return np.array([NormalDist().inv_cdf(each) for each in share])


def unseen_tell(preprocess: dict[str, Any], rows: Rows, where: Callable[[int], str]) -> None:
    """Tell on stderr of values that training has not seen, as predict.py does; `where`: a row, from 0 on, in words."""
    given = rows[0].keys() if rows else ()
    numbers, categories = [], []
    for name, (low, high) in spans(preprocess):
        spelled = preprocess.get("spelling", {}).get(name, "")
        texts = [plain(row.get(name, "")) for row in rows] if name in given else []
        values = [number(text, "", spelled) if is_number(text, spelled) else math.nan for text in texts]
        outside = [row for row, value in enumerate(values) if value < low or value > high]
        if outside:
            numbers.append(number_said(name, (low, high), len(outside), values[outside[0]], where(outside[0])))
    for entry in preprocess["categorical"]:
        name, known = entry["column"], entry["values"]
        texts = [plain(row.get(name, "")) for row in rows] if known and name in given else []
        unknown = [row for row, place in enumerate(encode_category(entry, texts)) if texts[row] and not place]
        if unknown:
            said = category_said(name, len(known), len(unknown), texts[unknown[0]], where(unknown[0]))
            categories.append(said)
    numbers_told(numbers, _note)
    categories_told(categories, _note)


def _note(sentence: str) -> None:
    print(sentence, file=sys.stderr)


def predict(
    rows: Rows, folder: Path = HERE, *, prefer_comma: bool = False, threshold: str = ""
) -> list[dict[str, Any]]:
    """The answer for each row, with the files in `folder`. Raises `ValueError` that names row and column,
    `ThresholdError`."""
    import onnxruntime

    about = json.loads((folder / "onnx.json").read_text(encoding="utf-8"))
    preprocess = json.loads((folder / "preprocess.json").read_text(encoding="utf-8"))
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])
    answers: list[dict[str, Any]] = []
    rows = respelled(preprocess, rows, prefer_comma)
    for start in range(0, len(rows), CHUNK):
        tensors = encode(preprocess, rows[start : start + CHUNK], start + 1)
        outputs = session.run(None, {given["name"]: tensors[given["place"]] for given in about["inputs"]})
        answers += answers_of(about["classes"], outputs, preprocess.get("prediction_ranges"), threshold)
    unseen_tell(preprocess, rows, lambda row: f"row {row + 1:,}")
    return answers


def main() -> None:
    """Read, predict, write."""
    parser = argparse.ArgumentParser(description="Predict with model.onnx.")
    parser.add_argument("--input", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--threshold", default="", metavar="CLASS=P")
    options = parser.parse_args()
    try:
        preprocess = json.loads((HERE / "preprocess.json").read_text(encoding="utf-8"))
        rows, prefer_comma = read_rows(options.input, preprocess)
        found = predict(rows, prefer_comma=prefer_comma, threshold=options.threshold)
    except ThresholdError as error:
        sys.exit(str(error))
    except OSError as error:
        sys.exit(unread(error))
    except (ValueError, csv.Error) as error:
        sys.exit(f"{options.input.name}: {error}")
    write_csv([{"row": at} | answer for at, answer in enumerate(found, 1)], options.output)


if __name__ == "__main__":
    main()
