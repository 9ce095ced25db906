"""Reads the table, splits it and turns rows into tensors.

Everything that is learned from data (category vocabularies, quantiles, medians, the target's mean) is learned
from the training rows only and kept in `preprocess`, so that a prediction prepares new rows in exactly the
same way.

- Numbers: missing values become the median, with a 0/1 indicator beside them; then each column is mapped to a
  normal distribution by its ranks (large tables) or scaled by its quartiles with soft limits (small ones).
- Categories: a vocabulary of the values seen at least twice, numbered from 1 on; number 0 stands for any other value,
  the one after the last for a missing one. Where no two training rows lack it, a missing one has number 0, too.
- Dates: days since 1970, year, month, weekday and hour of the day, each as a number.
#: if forecast
- Rows are examples that history.py makes of the series: the last values and others, and how many steps ahead.
#: endif
#: if spec.shape.texts
- Texts: their length in characters and in words, what they are about and what they say of the target (words.py).
#: endif
- What is the same in all training rows (the hour of plain dates) is left out: nothing can be learned from it.
"""

from pathlib import Path

#: if forecast
import history

#: endif
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch

#: if spec.shape.texts
import words

#: endif
from worker.runtime.columns import Columns
from worker.runtime.data import Dataset, Part
from worker.runtime.pulse import pulse

#: if not forecast
from worker.runtime.split import said_of_copies, said_of_random, same_rows, split_rows
from worker.runtime.split_by import said_of_classes, split_groups, split_times

#: endif

RANK_SCALING_ROWS = 2000  # from this many training rows on, ranks are a better scale than quartiles
KNOTS = 512  # quantiles kept per column for the rank scaling
SOFT_LIMIT = 3.0  # quartile-scaled values bend towards +-3
VOCABULARY = 10_000  # most frequent values kept per category column


def load(spec, folder: Path) -> Dataset:
    """Read `table.parquet` below `folder` and return the prepared parts. Rows without a target are left out."""
    table = Columns(folder / "table.parquet")
    #: if not forecast
    regression = spec.task == "tabular_regression"
    rows, targets, classes = read_targets(table[spec.shape.target], regression)
    table = table.take(rows)
    parts, said, notes = split_table(spec, table, targets, classes)

    inputs = table.select(input_columns(spec.shape))
    preprocess = fit(spec.shape, inputs.take(parts["train"]))
    #: if spec.shape.texts
    split = spec.data.split
    grouped = split.get("by") == "group" and split.column in table.column_names
    groups = table.take(parts["train"])[split.column] if grouped else None
    read = words.learn(spec.shape, inputs.take(parts["train"]), targets[parts["train"]], len(classes), groups)
    preprocess["texts"] = read.learned
    for name, numbers in read.numbers.items():
        preprocess["numeric"] += fit_numbers(name, "texts", list(numbers.items()), indicator=False)
    #: endif
    values = targets  # of numbers: as they are, to compare predictions with
    if regression:
        targets = standardised(preprocess, targets, targets[parts["train"]])
    shape = shape_of(preprocess) | {"classes": classes, "outputs": 1 if regression else len(classes)}
    preprocess |= {"classes": classes, "shape": shape}

    order = np.concatenate([parts["train"], parts["val"], parts["test"]])
    numeric = torch.empty(len(order), len(shape["features"]))
    categorical = torch.empty(len(order), len(shape["categorical"]), dtype=torch.int64)
    for places, records in inputs.take(order).blocks():
        numeric[places], categorical[places] = transform(preprocess, records)
    #: if spec.shape.texts
    for place, column in enumerate(preprocess["numeric"]):
        if column["kind"] == "texts" and column["feature"] in read.unseen:  # scores of training rows: the first ones
            numeric[read.rows, place] = torch.from_numpy(scale(column, read.unseen[column["feature"]])).float()
    #: endif

    # the parts are stretches of the same tensors: no row is in memory twice
    tensors = [numeric, categorical, torch.from_numpy(targets[order]), torch.from_numpy(rows[order])]
    tensors += [torch.from_numpy(values[order])] if regression else []
    sizes = [len(parts["train"]), len(parts["val"]), len(parts["test"])]
    pieces = zip(*(tensor.split(sizes) for tensor in tensors), strict=True)
    train, val, test = (Part(piece[:2], *piece[2:]) for piece in pieces)
    return Dataset(train, val, test, classes, preprocess, shape, notes, said)
    #: else
    examples, parts, about, said = history.read(spec, table)
    preprocess = fit(spec.shape, examples.inputs.take(parts["train"])) | {"forecast": about}
    targets = examples.values - examples.base  # what is learned
    targets = standardised(preprocess, targets, targets[parts["train"]])
    shape = shape_of(preprocess) | {"outputs": 1}
    preprocess["shape"] = shape

    numeric, categorical = transform(preprocess, examples.inputs)
    tensors = [torch.from_numpy(each) for each in (targets, examples.rows, examples.values, examples.base)]
    train, val, test = (
        Part((numeric[places], categorical[places]), *(tensor[places] for tensor in tensors))
        for places in parts.values()
    )
    known, moments = ({part: of.take(parts[part]) for part in parts} for of in (examples.inputs, examples.moments))
    return Dataset(train, val, test, [], preprocess, shape, split=said, known=known, moments=moments)
    #: endif


def standardised(preprocess: dict, targets: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Targets less the mean of the `known` ones, over their deviation; both are noted, to read predictions by."""
    preprocess |= {"target_mean": float(known.mean()), "target_std": float(known.std()) or 1.0}
    return ((targets - preprocess["target_mean"]) / preprocess["target_std"]).astype(np.float32)


def shape_of(preprocess: dict) -> dict:
    """Which inputs a row has."""
    return {
        "features": [column["feature"] for column in preprocess["numeric"]],
        "categorical": [column["column"] for column in preprocess["categorical"]],
        "cardinalities": [len(column["values"]) + 1 + column["missing"] for column in preprocess["categorical"]],
    }


#: if not forecast
def split_table(spec, table: Columns, targets: np.ndarray, classes: list[str]):
    """Return (rows of `train`, `val`, `test`; how they were chosen; what else to know), as `spec.data.split` says."""
    split, seed = spec.data.split, spec.training.seed
    labels = targets if split.stratify and classes else None
    given = table["__split__"].to_pylist() if "__split__" in table.column_names else None
    by = split.get("by", "random") if given is None else "given"
    if by in ("group", "time"):
        if by == "group":  # all rows of one group in one part: the test is of groups never seen
            found = split_groups(table, split.column, split.validation, split.test, seed, labels)
        else:  # the latest rows are the test
            found = split_times(table, split.column, split.validation, split.test)
        return found.parts, found.said + said_of_classes(found.parts, targets, classes), []
    copies = same_rows(table.select(input_columns(spec.shape)), targets, labels)  # a copy would be no test
    parts = split_rows(len(targets), split.validation, split.test, seed, labels, given, copies=copies)
    return parts, said_of_random(parts, labels, given), said_of_copies(copies, parts)


def input_columns(shape) -> list[str]:
    """Names of all columns that the model may see."""
    return [name for kind in ("numeric", "dates", "texts", "categorical") for name in getattr(shape, kind)]


def read_targets(column, regression: bool):
    """Return (rows int64 [N] that have a target, targets [N], class names)."""
    if regression:
        values = to_numbers(column, "target")
        rows = np.flatnonzero(np.isfinite(values))
        return rows, values[rows], []
    values = pc.unique(column)
    names = [class_name(value) for value in values.to_pylist()]
    classes = sorted({name for name in names if name}, key=natural_order)
    number = {name: index for index, name in enumerate(classes)}
    numbers = np.array([number.get(name, -1) for name in names], dtype=np.int64)[pc.index_in(column, values)]
    rows = np.flatnonzero(numbers >= 0)
    return rows, numbers[rows], classes


def class_name(value) -> str:
    """Text of a class; whole numbers without a fraction, missing values as ''."""
    if value is None or value != value:
        return ""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def natural_order(name: str):
    """Sort key that puts '2' before '10'."""
    try:
        number = float(name)
    except ValueError:
        return (1, 0.0, name)
    return (0, number, name) if number == number else (1, 0.0, name)  # "nan" is neither before nor after a number


#: endif
def fit(shape, table: Columns) -> dict:
    """Learn the preparation from the training rows. Returns JSON values."""
    numeric, categorical = [], []
    for kind in ("numeric", "dates", "texts"):
        for name in getattr(shape, kind):
            numeric += fit_numbers(name, kind, raw_numbers(table[name], name, kind), name in shape.indicators)
            pulse.beat()
    for name in shape.categorical:
        values = table[name]
        column = {"column": name, "values": vocabulary(values), "missing": values.null_count >= 2}
        if len(pc.unique(category_numbers(column, values))) > 1:
            categorical.append(column)
    written = {name: dict(shape.get(name, {})) for name in ("spelling", "form")}  # for predict.py
    return {"numeric": numeric, "categorical": categorical, "missing": list(shape.indicators), **written}


def fit_numbers(name: str, kind: str, features: list, indicator: bool) -> list[dict]:
    """How each number that a column gives is scaled; of several, the first has the indicator of missing values."""
    fitted = []
    for number, (feature, values) in enumerate(features):
        known = values[np.isfinite(values)]
        if len(known) and known.min() < known.max():
            learned = fit_ranks(known) if len(values) >= RANK_SCALING_ROWS else fit_quartiles(known)
            seen = {"low": float(known.min()), "high": float(known.max())}  # predict.py remarks what lies outside
            fitted.append({"column": name, "kind": kind, "feature": feature, **seen, **learned})
        if indicator and number == 0 and 0 < len(known) < len(values):
            fitted.append({"column": name, "kind": kind, "feature": f"{name}: missing", "scaling": "missing"})
    return fitted


def fit_ranks(known: np.ndarray) -> dict:
    """Median and quantiles of the known values."""
    knots = np.quantile(known, np.linspace(0, 1, KNOTS))
    return {"scaling": "ranks", "median": float(np.median(known)), "knots": knots.tolist()}


def fit_quartiles(known: np.ndarray) -> dict:
    """Median and the distance that stands for one standard deviation."""
    low, median, high = np.nan_to_num(np.quantile(known, [0.25, 0.5, 0.75]))
    width = (high - low) / 1.349  # of a normal distribution, the quartiles lie 1.349 standard deviations apart
    scale = np.nan_to_num(width or known.std()) or 1.0
    return {"scaling": "quartiles", "median": float(median), "scale": float(scale)}


def vocabulary(column) -> list[str]:
    """Values seen at least twice, most frequent first."""
    counts = pa.Table.from_struct_array(pc.value_counts(pc.drop_null(column.cast(pa.string()))))
    often = counts.filter(pc.field("counts") >= 2).sort_by([("counts", "descending"), ("values", "ascending")])
    return often["values"].slice(0, VOCABULARY).to_pylist()


def transform(preprocess: dict, records: pa.Table) -> tuple[torch.Tensor, ...]:
    """Prepare rows: (numeric float32 [N, F], categorical int64 [N, C]).

    Raises `ValueError` that names the column if one is missing or holds text where numbers are needed.
    """
    needed = [column["column"] for column in preprocess["numeric"] + preprocess["categorical"]]
    lacking = sorted(set(needed) - set(records.column_names))
    if lacking:
        raise ValueError(f"{'column' if len(lacking) == 1 else 'columns'} missing from the input: {', '.join(lacking)}")
    numeric, raw = [], {}
    for column in preprocess["numeric"]:
        name = column["column"]
        if name not in raw:
            raw[name] = dict(raw_numbers(records[name], name, column["kind"]))
            #: if spec.shape.texts
            if column["kind"] == "texts":
                raw[name] |= words.text_numbers(preprocess["texts"][name], records[name], name)
            #: endif
        if column["scaling"] == "missing":
            first = next(iter(raw[name].values()))
            numeric.append(~np.isfinite(first))
        else:
            numeric.append(scale(column, raw[name][column["feature"]]))
    categorical = [category_numbers(column, records[column["column"]]) for column in preprocess["categorical"]]
    return stack(numeric, records.num_rows, np.float32), stack(categorical, records.num_rows, np.int64)


def category_numbers(column: dict, values: pa.ChunkedArray):
    """Place of each value in the vocabulary, from 1 on; 0 for any other, after the last for a missing one."""
    places = pc.add(pc.index_in(values.cast(pa.string()), pa.array(column["values"], pa.string())), 1)
    missing = len(column["values"]) + 1 if column["missing"] else 0
    return pc.if_else(pc.is_null(values), missing, pc.fill_null(places, 0))


def stack(columns: list, rows: int, dtype) -> torch.Tensor:
    """Columns [N] side by side as a tensor [N, len(columns)]."""
    table = np.empty((rows, len(columns)), dtype=dtype)
    for index, column in enumerate(columns):
        table[:, index] = column
    return torch.from_numpy(table)


def scale(column: dict, values: np.ndarray) -> np.ndarray:
    """Scaled values, about normally distributed; a missing one is the median."""
    values = np.where(np.isfinite(values), values, column["median"])
    if column["scaling"] == "quartiles":
        with np.errstate(over="ignore"):
            scaled = np.nan_to_num((values - column["median"]) / column["scale"])  # finite, however far it lies
        return scaled / np.hypot(1, scaled / SOFT_LIMIT)
    knots = np.asarray(column["knots"])
    places = np.linspace(0, 1, len(knots))
    # equal knots (many rows with one value): the middle between reading from the left and from the right
    left = np.interp(values, knots, places)
    right = 1 - np.interp(-values, -knots[::-1], places)
    share = np.clip((left + right) / 2, 1e-3, 1 - 1e-3)
    return torch.special.ndtri(torch.from_numpy(share)).numpy()


def raw_numbers(column, name: str, kind: str):
    """(feature name, float64 [N] with NaN where missing) for each number that a column gives."""
    if kind == "numeric":
        return [(name, to_numbers(column, name))]
    if kind == "dates":
        return date_numbers(column, name)
    texts = column.cast(pa.string())
    words = pc.list_value_length(pc.utf8_split_whitespace(pc.utf8_trim_whitespace(texts)))
    return [
        (f"{name}: characters", to_numbers(pc.utf8_length(texts), name)),
        (f"{name}: words", to_numbers(words, name)),
    ]


def date_numbers(column, name: str):
    """Days since 1970, year, month, weekday, hour of a date column."""
    try:
        moments = column.cast(pa.timestamp("us"), safe=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ValueError(f"column {name!r}: not a date: {error}") from error
    microseconds = to_numbers(moments.cast(pa.int64()), name)
    numbers = [("days", microseconds / 86_400e6)]
    numbers += [(part.__name__, to_numbers(part(moments), name)) for part in (pc.year, pc.month)]
    numbers += [("weekday", to_numbers(pc.day_of_week(moments), name)), ("hour", microseconds % 86_400e6 / 3_600e6)]
    return [(f"{name}: {part}", values) for part, values in numbers]


def to_numbers(column, name: str) -> np.ndarray:
    """A column as float64 [N]; missing and infinite values as NaN."""
    try:
        values = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False).astype(np.float64)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ValueError(f"column {name!r}: numbers are needed: {error}") from error
    return np.where(np.isfinite(values), values, np.nan)
