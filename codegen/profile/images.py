"""An archive of pictures in class folders to its profile, packed file and thumbnails, streamed."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from codegen.profile.archive import Entry, open_archive
from codegen.profile.findings import as_finding, ranked
from codegen.profile.gallery import Gallery
from codegen.profile.layout import Layout, Place, ignored_pictures, ignored_words, layout_of, not_read
from codegen.profile.pictures import BadPicture, Picture, picture_read
from codegen.profile.problems import fail
from codegen.profile.sniff import Format, Sniffed
from codegen.profile.spool import PackedWriter
from codegen.profile.streams import ByteSource
from codegen.profile.target import IMAGES, target_problems
from codegen.profile.types import (
    EXAMPLES,
    IMAGES_FILE,
    SPLIT_COLUMN,
    THUMBNAILS_FOLDER,
    DataKind,
    DatasetProfile,
    Finding,
    ProfileOptions,
    Severity,
)
from worker.words import counted

Progress = Callable[[float, str], None]
_THREADS = 2
_AHEAD = 16
_STEP = 0.02
_GATHERED = 500
_GATHERED_BYTES = 8 << 20


def profile_images(
    source: Path, sniffed: Sniffed, out: Path, options: ProfileOptions, progress: Progress
) -> DatasetProfile:
    """Profile and pack an archive into `out / IMAGES_FILE`. Raises `DataError`."""
    _refuse_options(options)
    archive = open_archive(ByteSource(source, sniffed.gzipped), is_zip=sniffed.format is Format.ZIP)
    ignored = ignored_pictures(archive.names())
    layout = layout_of(_not_empty(archive.entries(), ignored, source.name), source.name)
    layout.ignored = ignored
    gallery = Gallery(out / THUMBNAILS_FOLDER)
    broken: list[tuple[str, str]] = []
    total = len(layout.places)
    with PackedWriter(out / IMAGES_FILE, _schema(layout.has_split)) as writer:
        rows = _Rows(writer, layout.has_split)
        bodies = archive.read(set(layout.places))
        for done, (name, picture) in enumerate(_decoded(bodies), start=1):
            if isinstance(picture, BadPicture):
                broken.append((name, str(picture)))
            else:
                gallery.add(name, layout.places[name], picture)
                rows.add(name, layout.places[name], picture)
            if done % max(1, int(total * _STEP)) == 0:
                progress(0.02 + 0.95 * done / total, f"reading: {done:,} of {total:,} pictures")
        rows.flush()
        if not gallery.pictures:
            _refuse_broken(broken, source.name)
    return _profile(source, sniffed, layout, gallery, broken)


def _refuse_options(options: ProfileOptions) -> None:
    if options.target or options.column_types:
        fail(
            "bad_options",
            "Target and column types were set, but the file holds pictures.",
            "Pictures take their classes from their folders: leave these options empty.",
        )


def _not_empty(entries: list[Entry], ignored: Counter[str], archive: str) -> list[str]:
    if not entries and ignored:
        fail(
            "no_pictures",
            f"{archive} holds pictures only in folders that programs leave behind: {ignored_words(ignored)}.",
            "Rename these folders if they are classes.",
            file=archive,
        )
    if not entries:
        fail("empty_file", f"{archive} holds no files.", "Put one folder per class into it.", file=archive)
    return [entry.name for entry in entries]


def _schema(split: bool) -> pa.Schema:
    fields = [
        pa.field("image", pa.binary()),
        pa.field("label", pa.string()),
        pa.field("name", pa.string()),
        pa.field("width", pa.int32()),
        pa.field("height", pa.int32()),
    ]
    return pa.schema([*fields, pa.field(SPLIT_COLUMN, pa.string())] if split else fields)


class _Rows:
    """Gathers pictures to tables of `_GATHERED`: one table per picture costs more than to decode a small one."""

    def __init__(self, writer: PackedWriter, split: bool) -> None:
        self._writer = writer
        self._schema = _schema(split)
        self._rows: list[dict[str, bytes | str | int | None]] = []
        self._bytes = 0

    def add(self, name: str, place: Place, picture: Picture) -> None:
        """Append one picture."""
        self._rows.append(
            {
                "image": picture.encoded,
                "label": place.label,
                "name": name,
                "width": picture.packed_width,
                "height": picture.packed_height,
                SPLIT_COLUMN: place.split,
            }
        )
        self._bytes += len(picture.encoded)
        if len(self._rows) >= _GATHERED or self._bytes >= _GATHERED_BYTES:
            self.flush()

    def flush(self) -> None:
        """Hand on what is left."""
        if self._rows:
            self._writer.write(pa.Table.from_pylist(self._rows, schema=self._schema))
        self._rows, self._bytes = [], 0


def _decoded(bodies: Iterator[tuple[str, bytes]]) -> Iterator[tuple[str, Picture | BadPicture]]:
    """Pictures in the order of the files, decoded by threads a few files ahead (Pillow frees the interpreter)."""
    with ThreadPoolExecutor(_THREADS) as pool:
        running: deque[tuple[str, Future[Picture | BadPicture]]] = deque()
        for name, body in bodies:
            running.append((name, pool.submit(_try_read, body)))
            if len(running) >= _AHEAD:
                first, future = running.popleft()
                yield first, future.result()
        while running:
            first, future = running.popleft()
            yield first, future.result()


def _try_read(body: bytes) -> Picture | BadPicture:
    try:
        return picture_read(body)
    except BadPicture as error:
        return error


def _refuse_broken(broken: list[tuple[str, str]], archive: str) -> None:
    name, why = broken[0]
    fail(
        "all_pictures_broken",
        f"{archive} holds {counted(len(broken), 'picture')}, none of which can be used; {name} {why}.",
        "Open one in a picture viewer. PNG, JPEG, WebP, BMP and GIF of up to 89 million pixels are read.",
        file=name,
    )


def _profile(
    source: Path, sniffed: Sniffed, layout: Layout, gallery: Gallery, broken: list[tuple[str, str]]
) -> DatasetProfile:
    profile = DatasetProfile(
        kind=DataKind.IMAGES,
        rows=gallery.pictures,
        images=gallery.profile(),
        task=IMAGES,
        task_reason="pictures in class folders",
        target_reason="the name of the folder",
        classes=tuple(gallery.classes.most_common()),
        given_split=tuple(gallery.splits.items()),
        duplicate_rows=gallery.duplicates,
        source_format=f"{sniffed.format.value}{'; gzip' if sniffed.gzipped else ''} of pictures",
    )
    findings = [*_broken_findings(broken), *_layout_findings(layout), *gallery.findings()]
    single = {label for label, count in profile.classes if count == 1}
    for problem in target_problems(profile, None, IMAGES):
        finding = as_finding(problem)
        if finding.code == "single_sample_class":
            files = [name for name, place in layout.places.items() if place.label in single]
            finding = replace(finding, files=tuple(files[:EXAMPLES]))
        elif finding.code == "one_class":
            finding = replace(finding, meaning=not_read(layout) + finding.meaning, files=tuple(layout.lists[:1]))
        findings.append(finding)
    return replace(profile, warnings=ranked([*findings, *_lost_classes(layout, gallery)]))


def _broken_findings(broken: list[tuple[str, str]]) -> list[Finding]:
    found = []
    reasons: Counter[str] = Counter(why for _, why in broken)
    for why, count in reasons.most_common():
        files = [name for name, reason in broken if reason == why]
        found.append(
            Finding(
                code="broken_picture",
                severity=Severity.WARNING,
                message=f"{files[0]} {why}."
                if count == 1
                else f"{count:,} pictures cannot be used: {files[0]} {why}, and others alike.",
                meaning="Left out; the other pictures are used. Repair or replace it if it matters.",
                files=tuple(files[:EXAMPLES]),
            )
        )
    return found


def _layout_findings(layout: Layout) -> list[Finding]:
    return [*_left_out(layout), *_folder_findings(layout)]


def _left_out(layout: Layout) -> list[Finding]:
    """Pictures that are not used, by why."""
    kinds = (
        ("unlabelled_pictures", layout.unlabelled, "in no class folder", "There is no class to learn."),
        ("outside_split", layout.outside, "beside the train and test folders", "Move such files below one of these."),
        ("unsupported_pictures", layout.unsupported, "in an unsupported format", "Convert to PNG or JPEG."),
    )
    return [
        Finding(
            code=code,
            severity=Severity.WARNING,
            message=f"{counted(len(files), 'picture')} {what}: {', '.join(files[:3])}.",
            meaning=f"Left out. {step}",
            files=tuple(files[:EXAMPLES]),
        )
        for code, files, what, step in kinds
        if files
    ]


def _folder_findings(layout: Layout) -> list[Finding]:
    """How the folders were understood, where that may not be what was meant."""
    found = []
    if layout.ignored:
        found.append(
            Finding(
                code="ignored_folders",
                severity=Severity.INFO,
                message=f"Folders that programs leave behind were left out: {ignored_words(layout.ignored)}.",
                meaning="They are named like caches, recycle bins and the like. Rename any that are classes.",
            )
        )
    if layout.deeper:
        lie = "lies" if len(layout.deeper) == 1 else "lie"
        found.append(
            Finding(
                code="deeper_folders",
                severity=Severity.INFO,
                message=f"{counted(len(layout.deeper), 'picture')} {lie} in folders below those of the classes: "
                f"{layout.deeper[0]} counts as '{layout.places[layout.deeper[0]].label}'.",
                meaning="The upper folder is the class. If the lower folders are the classes, pack only those.",
                files=tuple(layout.deeper[:EXAMPLES]),
            )
        )
    if layout.others:
        found.append(
            Finding(
                code="other_files",
                severity=Severity.INFO,
                message=f"{counted(len(layout.others), 'file is not a picture', 'files are not pictures')}: "
                f"{', '.join(layout.others[:3])}.",
                meaning="Ignored. Labels are taken from folders, never from a list in a file.",
                files=tuple(layout.others[:EXAMPLES]),
            )
        )
    return found


def _lost_classes(layout: Layout, gallery: Gallery) -> list[Finding]:
    lost = sorted({place.label for place in layout.places.values()} - set(gallery.classes))
    if not lost:
        return []
    return [
        Finding(
            code="class_lost",
            severity=Severity.DANGER,
            message=f"All pictures of {', '.join(repr(label) for label in lost[:10])} are broken.",
            meaning="The class cannot be learned. Replace its pictures.",
        )
    ]
