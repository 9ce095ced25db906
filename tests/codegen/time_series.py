"""Small tables of time series, profiled as uploads are, and specs for them."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from codegen.profile import profile_dataset
from codegen.profile.types import DatasetProfile, ProfileOptions

BEGIN = datetime(2020, 1, 1)


def days(count: int, begin: datetime = BEGIN) -> list[datetime]:
    return [begin + timedelta(days=day) for day in range(count)]


def months(count: int) -> list[datetime]:
    return [datetime(1990 + month // 12, 1 + month % 12, 1) for month in range(count)]


def rising(count: int = 400) -> pa.Table:
    """Days of a value that rises by 1 a day, up and down with the week, and chance."""
    place, chance = np.arange(count), np.random.default_rng(0)
    values = 100.0 + place + 10 * np.sin(2 * np.pi * place / 7) + chance.normal(size=count)
    return pa.table({"day": days(count), "sold": values})


def shops(count: int = 150) -> pa.Table:
    """Three shops, mixed: each sells as much every week, on other days than the others; and the rain of the day."""
    tables = []
    for number, name in enumerate(("north", "south", "west")):
        place = np.arange(count)
        values = 50.0 * (number + 1) + 20 * ((place + 2 * number) % 7)
        rain = 2.0 + np.random.default_rng(number).random(count)
        tables.append(pa.table({"day": days(count), "shop": [name] * count, "rain": rain, "sold": values}))
    table = pa.concat_tables(tables)
    return table.take(np.random.default_rng(0).permutation(table.num_rows))


def profiled(folder: Path, table: pa.Table, **options: object) -> DatasetProfile:
    """As if the table had been uploaded as a CSV; packed into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    source = folder.parent / f"{folder.name}.csv"
    pa_csv.write_csv(table, source)
    return profile_dataset(source, folder, ProfileOptions(**options), lambda *_: None)
