"""Files that people should not upload, and do: one maker per kind, each small and made anew."""

from __future__ import annotations

import gzip
import io
import random
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

_random = random.Random(1)
HEADER = "x,z,label"
ROWS = [f"{_random.gauss(0, 1):.3f},{i % 7},{'ab'[i % 2]}" for i in range(120)]
SIDE = 12
HUGE = 50_000


def table(*changes: tuple[int, str], header: str = HEADER) -> bytes:
    """The good table with some lines (1-based, the header is line 1) replaced."""
    lines = [header, *ROWS]
    for line, text in changes:
        lines[line - 1] = text
    return "\n".join(lines).encode()


def columns(header: str, row: Callable[[int], str], rows: int = 120) -> bytes:
    """A table of made rows."""
    return "\n".join([header, *map(row, range(rows))]).encode()


def picture() -> bytes:
    """A small PNG of noise."""
    target = io.BytesIO()
    Image.frombytes("RGB", (SIDE, SIDE), _random.randbytes(3 * SIDE * SIDE)).save(target, "PNG")
    return target.getvalue()


PICTURES = {f"{name}/{number}.png": picture() for name in ("cat", "dog") for number in range(20)}


def zipped(extra: dict[str | zipfile.ZipInfo, bytes], base: dict[str, bytes] | None = None) -> bytes:
    """The good pictures and `extra` as a zip."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, body in [*(PICTURES if base is None else base).items(), *extra.items()]:
            archive.writestr(name, body, zipfile.ZIP_DEFLATED)
    return target.getvalue()


def zip_link() -> zipfile.ZipInfo:
    """A symbolic link as an entry."""
    info = zipfile.ZipInfo("cat/link.png")
    info.create_system, info.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
    return info


def tarred(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> bytes:
    """The good pictures and one entry more as a tar."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w:gz") as archive:
        for path, body in PICTURES.items():
            info = tarfile.TarInfo(path)
            info.size = len(body)
            archive.addfile(info, io.BytesIO(body))
        info = tarfile.TarInfo(name)
        info.type, info.linkname = kind, link
        archive.addfile(info, io.BytesIO())
    return target.getvalue()


def huge_png() -> bytes:
    """A valid header that promises 50,000 x 50,000 pixels."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", HUGE, HUGE, 1, 0, 0, 0, 0)
    rows = zlib.compress(bytes((HUGE // 8 + 1) * 100))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def parquet() -> bytes:
    """A good table as Parquet."""
    target = io.BytesIO()
    pq.write_table(pa.table({"x": list(range(2000)), "label": ["a", "b"] * 1000}), target)
    return target.getvalue()


def half(body: bytes) -> bytes:
    """What a broken copy leaves."""
    return body[: len(body) // 2]


Made = Callable[[], bytes]
REFUSED: dict[str, tuple[Made, str, str]] = {
    "header_only.csv": (lambda: b"x,z,label\n", "header_only", "no rows"),
    "ragged.csv": (lambda: table(*((i, "1,2,a,9") for i in range(4, 100, 3))), "ragged_rows", "line 4"),
    "nul.csv": (lambda: table((41, "1,\0,a")), "nul_byte", "Line 41"),
    "binary.csv": (lambda: bytes(range(256)) * 8, "unknown_format", "binary.csv"),
    "half.csv.gz": (lambda: half(gzip.compress(table())), "cut_file", "too early"),
    "half.parquet": (lambda: half(parquet()), "cut_file", "cut after"),
    "half.zip": (lambda: half(zipped({})), "broken_archive", "cut"),
    "no_classes.zip": (lambda: zipped({}, {n.replace("/", "_"): b for n, b in PICTURES.items()}), "", "class folder"),
    "bomb.zip": (lambda: zipped({"dog/bomb.png": picture() + bytes(60 << 20)}), "archive_bomb", "dog/bomb.png"),
    "dots.zip": (lambda: zipped({"../../evil.png": picture()}), "unsafe_name", "../../evil.png"),
    "absolute.zip": (lambda: zipped({"/etc/evil.png": picture()}), "unsafe_name", "/etc/evil.png"),
    "link.zip": (lambda: zipped({zip_link(): b"/etc/passwd"}), "unsafe_entry", "cat/link.png"),
    "dots.tar.gz": (lambda: tarred("../evil.png"), "unsafe_name", "../evil.png"),
    "absolute.tar.gz": (lambda: tarred("/evil.png"), "unsafe_name", "/evil.png"),
    "symlink.tar.gz": (lambda: tarred("cat/l.png", tarfile.SYMTYPE, "/etc/passwd"), "unsafe_entry", "cat/l.png"),
    "hardlink.tar.gz": (lambda: tarred("cat/l.png", tarfile.LNKTYPE, "/etc/passwd"), "unsafe_entry", "cat/l.png"),
}
"""File -> (maker, code of the problem or any, words of its message)."""

WARNED: dict[str, tuple[Made, str, str]] = {
    "good.csv": (table, "", ""),
    "semicolon.csv": (lambda: table().replace(b",", b";"), "", ""),
    "few_ragged.csv": (lambda: table((5, "1,2,a,9"), (21, "1")), "ragged_rows", "line 5: 4 fields; line 21: 1"),
    "mixed.csv": (lambda: table((8, "about six,1,a")), "mixed_types", "about six"),
    "all_missing.csv": (lambda: columns("x,void,label", lambda i: f"{i},,{'ab'[i % 2]}"), "all_missing", "'void'"),
    "nothing_to_learn.csv": (lambda: columns("void,label", lambda i: f",{'ab'[i % 2]}"), "no_features", "No column"),
    "one_class.csv": (lambda: columns("x,z,label", lambda i: f"{i * 0.37},{i % 9},a"), "target_passed_over", "'label'"),
    "single_sample.csv": (lambda: table((34, "32,4,c")), "single_sample_class", "'c'"),
    "same_names.csv": (lambda: table(header="x,x,label"), "duplicate_headers", "'x'"),
    "target_missing.csv": (lambda: table((6, "4,4,")), "target_missing_values", "1 of 120"),
    "many_classes.csv": (
        lambda: columns("x,label", lambda i: f"{i * 0.1},class {i % 10_000}", 20_001),
        "many_classes",
        "10,000 classes",
    ),
    "broken_picture.zip": (lambda: zipped({"cat/7b.png": half(picture())}), "broken_picture", "cat/7b.png"),
    "huge_picture.zip": (lambda: zipped({"dog/huge.png": huge_png()}), "broken_picture", "2,500,000,000 pixels"),
}
"""File -> (maker, code of a warning or none, words of its message)."""
