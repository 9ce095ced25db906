"""The words on values to predict for that training has not seen; with the standard library alone, so that they go with
a model as ONNX as well."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

COLUMNS_TOLD = 5
"""Of more columns with such values only how many there are."""
SHOWN = 60
"""Letters of a category."""
VOCABULARY = 10_000
"""A column with so many known values may have had more: data.py keeps the most frequent."""


def numbers_told(sentences: Iterable[str], tell: Callable[[str], None]) -> None:
    """Tell what `number_said` says of each column, of few of them."""
    _told(list(sentences), "So do values of", tell)


def categories_told(sentences: Iterable[str], tell: Callable[[str], None]) -> None:
    """Tell what `category_said` says of each column, of few of them."""
    _told(list(sentences), "So are values of", tell)


def _told(sentences: list[str], so: str, tell: Callable[[str], None]) -> None:
    for sentence in sentences[:COLUMNS_TOLD]:
        tell(sentence)
    more = len(sentences) - COLUMNS_TOLD
    if more > 0:
        tell(f"{so} {more:,} other column{'s' if more > 1 else ''}.")


def number_said(name: str, span: tuple[float, float], count: int, value: float, where: str) -> str:
    """Of a column with so many values outside the `span` of the training rows, of which the first is `value`."""
    lie = "1 value lies" if count == 1 else f"{count:,} values lie"
    return (
        f"Column {name!r}: {lie} outside of {span[0]:,.10g} to {span[1]:,.10g}, all that training has seen, such as "
        f"{value:,.10g} in {where}; the model can only guess there."
    )


def category_said(name: str, known: int, count: int, value: str, where: str) -> str:
    """Of a column with so many values that are not among the `known` ones, of which the first is `value`."""
    are = "1 value is" if count == 1 else f"{count:,} values are"
    those = "those" if known < VOCABULARY else f"the {known:,} most frequent of those"
    return (
        f"Column {name!r}: {are} not among {those} that training has seen at least twice, such as "
        f"{value[:SHOWN]!r} in {where}; the model can only guess there."
    )


def spans(preprocess: Mapping[str, Any]) -> Iterator[tuple[str, tuple[float, float]]]:
    """(column, (least, largest) of the training rows); a person's own data.py may note anything, an older one none."""
    noted = preprocess.get("numeric")
    for entry in noted if isinstance(noted, list) else ():
        if isinstance(entry, dict) and entry.get("kind") == "numeric":
            low, high = entry.get("low"), entry.get("high")
            if isinstance(low, int | float) and isinstance(high, int | float):
                yield str(entry.get("column")), (low, high)
