"""Signs that few columns have, looked for in all columns of a batch at once: one by one costs far more."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from codegen.profile.values import POINTED_THOUSANDS, leading_zeros

_SHORT_ROWS = 1000
"""Of longer batches the columns are looked at one by one: what is done per value weighs more than per column."""
_CODED = r"^\s*0\d+\s*$"
_POINTED = rf"^\s*{POINTED_THOUSANDS.removeprefix('^').removesuffix('$')}\s*$"


@dataclass(frozen=True)
class Marks:
    """What a column of texts holds in one batch, spaces taken off."""

    coded: int
    """Numbers with leading zeros."""
    pointed: npt.NDArray[np.bool_]
    """[rows] where a text is `POINTED_THOUSANDS`."""


def marks_of(texts: pl.Series) -> Marks:
    """The marks of one column, spaces taken off."""
    pointed = texts.to_frame("text").select_seq(pl.col("text").str.contains(POINTED_THOUSANDS).fill_null(False))
    return Marks(leading_zeros(texts), pointed.to_series().to_numpy())


def batch_marks(batch: pl.DataFrame) -> dict[str, Marks]:
    """The marks of the columns of texts, by name; empty where they are better looked for one by one."""
    texts = pl.col(pl.String).str
    if batch.height > _SHORT_ROWS or pl.String not in batch.dtypes:
        return {}
    coded = batch.select(texts.contains(_CODED).sum())
    pointed = batch.select(texts.contains(_POINTED).fill_null(False))
    return {
        name: Marks(count, column.to_numpy())
        for name, count, column in zip(coded.columns, coded.row(0), pointed.iter_columns(), strict=True)
    }
