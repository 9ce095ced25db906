"""Small uploads, made and profiled."""

from __future__ import annotations

import io
import tarfile
import zipfile
import zlib
from collections.abc import Iterable
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
