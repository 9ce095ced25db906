"""Rows of a table as their file has them, read and spelled as the training data was; with the standard library alone.

`predict_onnx.py` beside it encodes them for the model.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

from worker.runtime.row_text import (
    LOST,
    UnevenError,
    counted,
    decoded,
    delimiter_of,
    empty_tail,
    entries,
    evened,
    form_of,
    has_names,
    listed,
    names_of,
    records_of,
)

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
CURRENCIES = (  # names of one each
    ("US$", "USD"), ("€", "EUR"), ("£", "GBP"), ("₹", "INR"), ("₩", "KRW"), ("₽", "RUB"), ("₺", "TRY"),
    ("₪", "ILS"), ("฿", "THB"), ("zł", "PLN"),
)  # fmt: skip
MISSING = {
    "", "?", "-", "--", "NA", "N/A", "n/a", "na", "NaN", "nan", "-nan", "NULL", "null", "None", "nil", "<NA>", "n.a.",
    "N.A.", "NaT", "k.A.", "\\N", "#N/A", "#NV", "#DIV/0!", "#VALUE!", "#WERT!", "#REF!", "#BEZUG!", "#NAME?", "#NUM!",
    "#ZAHL!", "#NULL!",
}  # fmt: skip
NUMBER = re.compile(r"[+-]?(([0-9]+(\.[0-9]*)?|\.[0-9]+)(e[+-]?[0-9]+)?|inf(inity)?|nan)", re.IGNORECASE)
THOUSANDS = re.compile(r"[+-]?[1-9][0-9]{0,2}(,[0-9]{3})+(\.[0-9]+)?")
DECIMAL_COMMA = re.compile(r"[+-]?([1-9][0-9]{0,2}(\.[0-9]{3})+|[0-9]{1,3}(\.[0-9]{3})+,[0-9]+|[0-9]+,[0-9]+)")
ONE_POINT = re.compile(r"[^.,]*\.[^.,]*")

Rows = list[dict[str, str]]


def read_rows(path: Path, preprocess: dict[str, Any]) -> tuple[Rows, bool]:
    """Rows of a .csv, or of a .json list of objects, each value as text; and whether `1,234` in them is rather one and
    a bit. `preprocess`: what is noted of the data, which text is read like. Raises `ValueError`."""
    form = form_of(preprocess)
    text, _, _ = decoded(path.read_bytes(), form, is_json=path.suffix == ".json")
    if "\0" in text:
        raise ValueError("it contains a NUL byte, so it is not plain text")
    if path.suffix == ".json":
        body = json.loads(text)
        if not isinstance(body, list) or not all(isinstance(row, dict) for row in body):
            raise ValueError("no list of objects, one per row")
        body = [{whole(name): whole(value) for name, value in row.items()} for row in body]
        empty = dict.fromkeys((name for row in body for name in row), "")  # a field that a row lacks is a missing value
        body = categories_spelled(preprocess, body)
        return [empty | {name: written(value) for name, value in row.items()} for row in body], False
    delimiter = delimiter_of(text, form)
    records = list(records_of(text, delimiter))
    names, first = names_of(records, form), records[0]
    names_first = has_names(first, form)
    records = records[1 if names_first else 0 :]
    width = len(names)
    if any(len(record) != width for record in records):
        width -= empty_tail(first) if names_first else 0
    try:
        return [dict(zip(names, record, strict=False)) for record in evened(records, width)], delimiter == ";"
    except UnevenError as error:
        count, verb = counted(len(error.record), "value"), "names" if names_first else "has"
        wanted = counted(width, "column" if names_first else "field")
        raise ValueError(f"row {error.number + 1}: {count} where the first line {verb} {wanted}") from None


def categories_spelled(preprocess: dict[str, Any], body: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Numbers of JSON in a column of nothing else as the categories that they are: `2` as `2.0`, where training had
    that."""
    spelled: dict[str, dict[float, str]] = {}
    for entry in entries(preprocess.get("categorical")):
        name, known = str(entry.get("column")), [str(value) for value in listed(entry.get("values"))]
        values = [row.get(name) for row in body]
        if all(value is None or (isinstance(value, int | float) and not isinstance(value, bool)) for value in values):
            by_number = {float(text): text for text in reversed(known) if NUMBER.fullmatch(text)}
            whole = {float(text): text for text in known if re.fullmatch(r"-?[0-9]+", text)}
            spelled[name] = by_number | whole
    return [
        {
            name: value if value is None or name not in spelled else spelled[name].get(value, value)
            for name, value in row.items()
        }
        for row in body
    ]


def whole(value: Any) -> Any:
    """A text or a name with the sign for a lost letter where JSON spells NUL, as in training; any other value as it
    is."""
    return value.replace("\0", LOST) if isinstance(value, str) else value


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
        alike = next((names for names in CURRENCIES if unit in names), ())
        for names in filter(None, ((unit,), tuple(name for name in alike if name != unit))):
            beside = "|".join(map(re.escape, names))
            amount = rf"([+-]?)(?:(?:{beside})\s?)?([+-]?)(\d[\d.,]*|\.\d+)(?:\s?(?:{beside}))?"
            texts = ["".join(found.groups()) if (found := re.fullmatch(amount, text)) else text for text in texts]
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
    sure_points = sum(text in points - commas and NUMBER.fullmatch(text) is not None for text in texts)
    if 0 < sure_commas < sure_points:  # `0.5` beside a few `2,5`: each as it is written
        texts = texts if trained_comma else [text.replace(",", "") if text in thousands else text for text in texts]
        commas -= points if trained_comma else points | thousands
    elif not (commas - points or (trained_comma and not points - commas)):  # `1.234` alone is one and a bit
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


def plain(text: str) -> str:
    """Without spaces around it; nothing for the many ways to write that a value is missing."""
    text = text.strip()
    return "" if text in MISSING else text


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
