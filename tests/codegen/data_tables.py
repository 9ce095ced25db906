"""A small table of every type of column, and programs' own way to load it."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.codegen.programs import module, program_spec

TABULAR = module("data_tabular.py")
ROWS = 400


def make_table(rows: int = ROWS) -> pa.Table:
    generator = np.random.default_rng(0)
    age = [None if index % 10 == 0 else float(value) for index, value in enumerate(generator.normal(40, 10, rows))]
    return pa.table(
        {
            "age": pa.array(age, pa.float64()),
            "hours": pa.array(generator.integers(0, 80, rows), pa.int64()),
            "city": pa.array([f"town {index % 3}" if index % 50 else None for index in range(rows)]),
            "joined": pa.array([dt.datetime(2020, 1, 1) + dt.timedelta(days=index) for index in range(rows)]),
            "note": pa.array(["a word or two"] * rows),
            "income": pa.array(["high" if index % 4 == 0 else "low" for index in range(rows)]),
            "price": pa.array(generator.normal(1000, 50, rows)),
        }
    )


def make_reviews(rows: int = ROWS) -> pa.Table:
    """Good and bad reviews of 5 to 14 words from two lists, some missing, beside a number that says nothing."""
    generator = np.random.default_rng(1)
    said = {"good": [f"lovely{word}" for word in range(30)], "bad": [f"awful{word}" for word in range(30)]}
    labels = [("good", "bad")[row % 2] for row in range(rows)]
    lengths = generator.integers(5, 15, rows)
    reviews = [" ".join(generator.choice(said[label], size)) for label, size in zip(labels, lengths, strict=True)]
    reviews = [None if row % 50 == 7 else text for row, text in enumerate(reviews)]
    return pa.table({"review": reviews, "day": generator.normal(size=rows), "label": labels})


REVIEWS_SHAPE = {
    "numeric": ["day"], "indicators": ["review"], "dates": [], "texts": ["review"], "topics": 8, "scores": 1,
    "categorical": [], "target": "label",
}  # fmt: skip


def table_spec(task: str = "tabular_classification", target: str = "income", seed: int = 0, **shape):
    shape = {
        "numeric": ["age", "hours"],
        "indicators": ["age"],
        "dates": ["joined"],
        "texts": ["note"],
        "topics": 8,
        "scores": 1,
        "categorical": ["city"],
        "target": target,
    } | shape
    split = {"validation": 0.15, "test": 0.15, "stratify": task == "tabular_classification"}
    return program_spec({"task": task, "data": {"split": split}, "training": {"seed": seed}, "shape": shape})


def load_table(folder, table: pa.Table, **options):
    pq.write_table(table, folder / "table.parquet")
    return TABULAR.load(table_spec(**options), folder)
