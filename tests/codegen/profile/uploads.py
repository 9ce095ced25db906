"""Small uploads, made and profiled."""

from __future__ import annotations

import io
import json
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from codegen.profile import profile_dataset
from codegen.profile.types import (
    IMAGES_FILE,
    TABLE_FILE,
    DataError,
    DataProblem,
    DatasetProfile,
    Finding,
    ProfileOptions,
)


class Lab:
    """One folder to profile uploads in."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.out = root / "packed"
        self.progress: list[float] = []

    def write(self, name: str, body: bytes | str) -> Path:
        path = self.root / name
        path.write_bytes(body.encode() if isinstance(body, str) else body)
        return path

    def profile(self, name: str, body: bytes | str, **options: object) -> DatasetProfile:
        source = self.write(name, body)
        return profile_dataset(
            source, self.out, ProfileOptions(**options), lambda share, _: self.progress.append(share)
        )

    def problem(self, name: str, body: bytes | str, **options: object) -> DataProblem:
        with pytest.raises(DataError) as caught:
            self.profile(name, body, **options)
        assert not list(self.out.glob("*")), "a refused upload leaves nothing behind"
        assert caught.value.problem.hint
        return caught.value.problem

    def table(self) -> pa.Table:
        return pq.read_table(self.out / TABLE_FILE)

    def images(self) -> pa.Table:
        return pq.read_table(self.out / IMAGES_FILE)


def finding(profile: DatasetProfile, code: str, column: str | None = None) -> Finding:
    """The one finding of this kind."""
    found = [entry for entry in profile.warnings if entry.code == code and column in (None, entry.column)]
    assert len(found) == 1, [entry.code for entry in profile.warnings]
    assert found[0].meaning
    return found[0]


def picture(
    seed: int = 0, size: tuple[int, int] = (12, 10), mode: str = "RGB", kind: str = "PNG", **save: object
) -> bytes:
    """An encoded picture of noise."""
    channels = {"L": (), "RGB": (3,), "RGBA": (4,)}[mode]
    values = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], *channels), dtype=np.uint8)
    target = io.BytesIO()
    Image.fromarray(values, mode).save(target, kind, **save)
    return target.getvalue()


def png(header: bytes, rows: bytes) -> bytes:
    """A PNG of these header fields and unpacked rows."""

    def chunk(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def pixels(encoded: bytes) -> np.ndarray:
    """Values of an encoded picture."""
    return np.asarray(Image.open(io.BytesIO(encoded)))


def zip_of(files: dict[str, bytes] | Iterable[tuple[str, bytes]]) -> bytes:
    """A zip archive."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, body in files.items() if isinstance(files, dict) else files:
            archive.writestr(zipfile.ZipInfo(name), body, zipfile.ZIP_DEFLATED)
    return target.getvalue()


def tar_of(files: dict[str, bytes], mode: str = "w:gz") -> bytes:
    """A tar archive."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode=mode) as archive:  # type: ignore[call-overload]
        for name, body in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(body)
            archive.addfile(member, io.BytesIO(body))
    return target.getvalue()


def two_classes(prefix: str = "", count: int = 3) -> dict[str, bytes]:
    """cat/0.png ... dog/2.png below `prefix`."""
    return {
        f"{prefix}{label}/{number}.png": picture(zlib.crc32(prefix.encode()) + 100 * at + number)
        for at, label in enumerate(("cat", "dog"))
        for number in range(count)
    }


NAMES = ("id", "age", "city", "born", "notes", "same", "income")


def people(rows: int = 200) -> list[tuple[object, ...]]:
    rng = np.random.default_rng(3)
    return [
        (
            1000 + row,
            int(rng.integers(18, 90)),
            ("Köln", "Paris", "Łódź")[row % 3],
            f"19{50 + row % 40}-0{1 + row % 9}-1{row % 9}",
            f'a longer note, number {row}, with words and "quotes"',
            "x",
            (">50K", "<=50K")[int(rng.random() < 0.7)],
        )
        for row in range(rows)
    ]


def as_csv(delimiter: str = ",", newline: str = "\n") -> str:
    def cell(value: object) -> str:
        text = str(value)
        return '"' + text.replace('"', '""') + '"' if any(mark in text for mark in (delimiter, '"', "\n")) else text

    lines = [delimiter.join(NAMES), *(delimiter.join(cell(value) for value in row) for row in people())]
    return newline.join(lines) + newline


def as_json() -> str:
    return "\n".join(json.dumps(dict(zip(NAMES, row, strict=True)), ensure_ascii=False) for row in people())


def as_parquet() -> bytes:
    target = io.BytesIO()
    columns = dict(zip(NAMES, map(list, zip(*people(), strict=True)), strict=True))
    columns["born"] = [datetime.fromisoformat(str(text)) for text in columns["born"]]
    pq.write_table(pa.table(columns), target)
    return target.getvalue()
