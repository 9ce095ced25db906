"""One upload to profile and packed files; nothing half-done is left behind."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from codegen.profile.blocks import WrongEncoding
from codegen.profile.delimited import DelimitedSource
from codegen.profile.images import profile_images
from codegen.profile.json_lines import JsonLinesSource
from codegen.profile.parquet_source import ParquetSource
from codegen.profile.problems import machine_limits
from codegen.profile.sheet_source import SheetSource
from codegen.profile.sniff import Format, Sniffed, sniff
from codegen.profile.streams import ByteSource
from codegen.profile.table import profile_table
from codegen.profile.types import (
    IMAGES_FILE,
    PROFILE_FILE,
    TABLE_FILE,
    THUMBNAILS_FOLDER,
    DataKind,
    DatasetProfile,
    ProfileOptions,
)

Progress = Callable[[float, str], None]
_SCRATCH = ".profile-"


def profile_file(
    source: Path, out: Path, options: ProfileOptions, progress: Progress, name: str = ""
) -> DatasetProfile:
    """See `codegen.profile.profile_dataset`."""
    with machine_limits():
        out.mkdir(parents=True, exist_ok=True)
        for left in out.glob(f"{_SCRATCH}*"):  # of a reading that was killed
            shutil.rmtree(left, ignore_errors=True)
        scratch = Path(tempfile.mkdtemp(prefix=_SCRATCH, dir=out))
        try:
            return _profile(_named(source, scratch, name) if name else source, out, scratch, options, progress)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


def _named(source: Path, scratch: Path, name: str) -> Path:
    """The same file under a name of its uploader's: whatever reads it calls it by the last part of its path."""
    named = scratch / "named" / Path(name).name
    named.parent.mkdir()
    named.symlink_to(source.absolute())
    return named


def _profile(source: Path, out: Path, scratch: Path, options: ProfileOptions, progress: Progress) -> DatasetProfile:
    progress(0.0, "looking at the file")
    sniffed = sniff(source, is_text=bool(options.encoding))
    made = scratch / "made"
    made.mkdir()
    if sniffed.format in (Format.ZIP, Format.TAR):
        profile = profile_images(source, sniffed, made, options, progress)
    else:
        profile = _table(source, sniffed, made, scratch, options, progress)
    packed = made / (TABLE_FILE if profile.kind is DataKind.TABLE else IMAGES_FILE)
    profile = replace(profile, source_bytes=source.stat().st_size, packed_bytes=packed.stat().st_size)
    (made / PROFILE_FILE).write_text(json.dumps(profile.to_dict(), allow_nan=False), encoding="utf-8")
    _publish(made, out)
    progress(1.0, "done")
    return profile


def _table(
    source: Path, sniffed: Sniffed, made: Path, scratch: Path, options: ProfileOptions, progress: Progress
) -> DatasetProfile:
    body = ByteSource(source, sniffed.gzipped)
    if sniffed.format is Format.JSON_LINES:
        return profile_table(JsonLinesSource(body), made, scratch, options, progress)
    if sniffed.format is Format.SHEET:
        return profile_table(SheetSource(source), made, scratch, options, progress)
    if sniffed.format is Format.PARQUET:
        return profile_table(ParquetSource(body, scratch), made, scratch, options, progress)
    wrong: WrongEncoding | None = None
    while True:  # ends: what is tried last, latin-1, decodes every byte
        try:
            return profile_table(DelimitedSource(body, options, wrong), made, scratch, options, progress)
        except WrongEncoding as error:
            wrong = error


def _publish(made: Path, out: Path) -> None:
    """Move the finished files into place, the profile last; what an earlier profile left is replaced."""
    (out / PROFILE_FILE).unlink(missing_ok=True)
    for name in (TABLE_FILE, IMAGES_FILE):
        if not (made / name).exists():
            (out / name).unlink(missing_ok=True)
    shutil.rmtree(out / THUMBNAILS_FOLDER, ignore_errors=True)
    for entry in sorted(made.iterdir(), key=lambda entry: entry.name == PROFILE_FILE):
        entry.replace(out / entry.name)
