"""From file names to classes and parts: class folders, train/val/test folders above, wrapping folders above all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from codegen.profile.archive import ignored_folder
from codegen.profile.problems import fail
from codegen.profile.splits import split_name
from worker.words import counted

PICTURE_SUFFIXES = (".png", ".jpg", ".jpeg", ".jpe", ".jfif", ".webp", ".bmp", ".gif")
OTHER_PICTURES = (".tif", ".tiff", ".svg", ".heic", ".heif", ".avif", ".eps", ".ico", ".psd", ".jp2", ".raw", ".dcm")
_TABLES = (".csv", ".tsv", ".parquet", ".jsonl", ".ndjson", ".json", ".txt", ".csv.gz", ".tsv.gz", ".jsonl.gz")
_ARCHIVES = (".zip", ".tar", ".tgz", ".gz", ".7z", ".rar", ".bz2", ".xz", ".zst")
_LISTS = (".csv", ".tsv", ".parquet", ".jsonl", ".ndjson", ".json")
_SHOWN = 10
_HOW = (
    "Put the pictures of each class in a folder of its name: cats/1.jpg, dogs/2.jpg (train/ and test/ above are fine)."
)


@dataclass(frozen=True)
class Place:
    """Where a picture belongs."""

    label: str
    split: str | None


@dataclass
class Layout:
    """The pictures, and the files that are none."""

    places: dict[str, Place] = field(default_factory=dict)
    """File name -> class and part."""
    unlabelled: list[str] = field(default_factory=list)
    """Pictures outside of class folders."""
    deeper: list[str] = field(default_factory=list)
    """Pictures in folders below those of their classes."""
    outside: list[str] = field(default_factory=list)
    """Pictures beside the train/test folders."""
    unsupported: list[str] = field(default_factory=list)
    """Pictures of formats that are not read."""
    others: list[str] = field(default_factory=list)
    ignored: Counter[str] = field(default_factory=Counter)
    """Pictures in each folder that programs leave behind, such as .git: none of them is read."""

    @property
    def lists(self) -> list[str]:
        """Tables beside the pictures, which may hold labels."""
        return [name for name in self.others if name.lower().endswith(_LISTS)]

    @property
    def has_split(self) -> bool:
        """Whether the archive came with its own parts."""
        return any(place.split for place in self.places.values())


def layout_of(names: Sequence[str], archive: str) -> Layout:
    """Sort the names of an archive. Raises `DataError` where there is no picture in a class folder."""
    layout = Layout()
    pictures = []
    for name in names:
        lower = name.lower()
        if lower.endswith(PICTURE_SUFFIXES):
            pictures.append(name)
        elif lower.endswith(OTHER_PICTURES):
            layout.unsupported.append(name)
        else:
            layout.others.append(name)
    if not pictures:
        _refuse(layout, archive)
    depth = _wrapping(pictures)
    parts = {name: name.split("/")[depth:] for name in pictures}
    tops = Counter(part[0] for part in parts.values() if len(part) > 1)
    split = any(split_name(top) == "train" for top in tops) and not _train_is_class(parts.values())
    split = split or (bool(tops) and all(split_name(top) for top in tops) and not _train_is_class(parts.values()))
    for name, part in parts.items():
        _place(layout, name, part, split)
    if not layout.places:
        fail(
            "no_class_folders",
            f"{archive} holds {counted(len(pictures), 'picture')}, but none in a class folder (e.g. {pictures[0]}).",
            not_read(layout) + _HOW,
            file=pictures[0],
        )
    return layout


def not_read(layout: Layout) -> str:
    """What to tell whoever has the labels in a table beside the pictures; empty where there is none."""
    return f"Labels in a file ({layout.lists[0]}) are not read. " if layout.lists else ""


def ignored_pictures(names: Iterable[str]) -> Counter[str]:
    """How many pictures lie in each folder that is ignored."""
    found: Counter[str] = Counter()
    for name in names:
        file = name.rpartition("/")[2].lower()
        if file.endswith(PICTURE_SUFFIXES) and not file.startswith("._") and (folder := ignored_folder(name)):
            found[folder] += 1
    return found


def ignored_words(ignored: Counter[str]) -> str:
    """The folders and what each holds: `'.git' (3 pictures)`."""
    shown = [f"'{folder}' ({counted(count, 'picture')})" for folder, count in ignored.most_common(_SHOWN)]
    return ", ".join(shown) + (", ..." if len(ignored) > _SHOWN else "")


def _place(layout: Layout, name: str, part: list[str], split: bool) -> None:
    own = split_name(part[0]) if split and len(part) > 1 else None
    if split and own is None:
        layout.outside.append(name)
    elif len(part) < (3 if split else 2):
        layout.unlabelled.append(name)
    else:
        layout.places[name] = Place(part[1] if split else part[0], own)
        if len(part) > (3 if split else 2):
            layout.deeper.append(name)


def _wrapping(pictures: Sequence[str]) -> int:
    """How many folders wrap everything: all in one, with class folders still below it, and not a train folder."""
    parts = [name.split("/") for name in pictures]
    depth = 0
    while True:
        tops = {part[depth] for part in parts if len(part) > depth}
        deep = sum(len(part) - depth > 2 for part in parts)
        if len(tops) != 1 or deep * 2 <= len(parts) or split_name(next(iter(tops))):
            return depth
        depth += 1


def _train_is_class(parts: object) -> bool:
    """`train/1.jpg, plane/2.jpg`: folders named like parts that hold pictures directly are classes."""
    listed = [part for part in parts if len(part) > 1 and split_name(part[0])]  # type: ignore[attr-defined]
    return bool(listed) and all(len(part) == 2 for part in listed)


def _refuse(layout: Layout, archive: str) -> None:
    tables = [name for name in layout.others if name.lower().endswith(_TABLES)]
    if len(tables) == 1:
        fail(
            "table_in_archive",
            f"{archive} holds a table ({tables[0]}) and no pictures.",
            "Upload the table itself; compress it with gzip if it is large.",
            file=tables[0],
        )
    if tables:
        fail(
            "table_in_archive",
            f"{archive} holds {len(tables):,} tables and no pictures.",
            "Upload one table; join the parts first if they belong together.",
            file=tables[0],
        )
    if inner := [name for name in layout.others if name.lower().endswith(_ARCHIVES)]:
        fail(
            "archive_in_archive",
            f"{archive} holds another archive ({inner[0]}) and no pictures.",
            "Unpack it, and upload the table or pack the class folders in it.",
            file=inner[0],
        )
    if layout.unsupported:
        fail(
            "unsupported_pictures",
            f"{archive} holds pictures only of formats that are not read (e.g. {layout.unsupported[0]}).",
            "Convert them to PNG or JPEG.",
            file=layout.unsupported[0],
        )
    fail(
        "no_pictures",
        f"{archive} holds no pictures ({counted(len(layout.others), 'other file')}).",
        f"PNG, JPEG, WebP, BMP and GIF are read. {_HOW}",
        file=archive,
    )
