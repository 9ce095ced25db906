"""Figures over the pictures of a dataset, gathered one picture at a time."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

import numpy as np

from codegen.profile.layout import Place
from codegen.profile.pictures import MAX_SIDE, Picture
from codegen.profile.spellings import similar_classes
from codegen.profile.types import EXAMPLES, Finding, ImagesProfile, Severity
from worker.words import counted

_THUMBNAILS = 6
_THUMBNAIL_FILES = 600
_LEVELS = np.arange(256) / 255.0


class Gallery:
    """Sizes, colours, classes, copies and thumbnails. Holds about 100 bytes per picture."""

    def __init__(self, thumbnails: Path) -> None:
        self._folder = thumbnails
        self._folder.mkdir(parents=True, exist_ok=True)
        self.pictures = 0
        self.classes: Counter[str] = Counter()
        self.splits: Counter[str] = Counter()
        self._by_split: defaultdict[str, set[str]] = defaultdict(set)
        self._formats: Counter[str] = Counter()
        self._widths: list[int] = []
        self._heights: list[int] = []
        self._grey = 0
        self._histogram = np.zeros((3, 256), np.int64)
        self._thumbnails: list[tuple[str, str]] = []
        self._first: dict[bytes, tuple[str, Place]] = {}
        self.duplicates = 0
        self._copies: list[tuple[str, str]] = []
        self._conflicts: list[tuple[str, str]] = []
        self._leaks: list[tuple[str, str]] = []
        self._counts: Counter[str] = Counter()
        self._files: defaultdict[str, list[str]] = defaultdict(list)

    def add(self, name: str, place: Place, picture: Picture) -> None:
        """Count one good picture."""
        self._add_thumbnail(place.label, picture)
        self.pictures += 1
        self.classes[place.label] += 1
        if place.split:
            self.splits[place.split] += 1
            self._by_split[place.split].add(place.label)
        self._formats[picture.format] += 1
        self._widths.append(picture.width)
        self._heights.append(picture.height)
        self._grey += picture.grey
        self._histogram += picture.histogram
        for code, true in (
            ("resized", picture.resized),
            ("several_frames", picture.frames > 1),
            ("transparency", picture.see_through),
            ("deep_grey", picture.deep and picture.grey),
            ("deep_colour", picture.deep and not picture.grey),
        ):
            if true:
                self._note(code, name)
        self._compare(name, place, picture.digest)

    def profile(self) -> ImagesProfile:
        """All of it in figures. At least one picture must have been added."""
        grey = self._grey == self.pictures
        counts = self._histogram[:1] if grey else self._histogram
        shares = counts / counts.sum(axis=1, keepdims=True)
        mean = shares @ _LEVELS
        std = np.sqrt(np.maximum(0.0, shares @ _LEVELS**2 - mean**2))
        return ImagesProfile(
            width_min=min(self._widths),
            width_max=max(self._widths),
            width_median=int(np.median(self._widths)),
            height_min=min(self._heights),
            height_max=max(self._heights),
            height_median=int(np.median(self._heights)),
            channels=1 if grey else 3,
            formats=tuple(self._formats.most_common()),
            thumbnails=tuple(self._thumbnails),
            channel_mean=tuple(float(value) for value in mean),
            channel_std=tuple(float(value) for value in std),
        )

    def findings(self) -> list[Finding]:
        """Copies, sizes, colours, classes missing in a part."""
        return [*self._copy_findings(), *self._picture_findings(), *self._size_findings(), *self._class_findings()]

    def _note(self, code: str, name: str) -> None:
        self._counts[code] += 1
        if len(self._files[code]) < EXAMPLES:
            self._files[code].append(name)

    def _add_thumbnail(self, label: str, picture: Picture) -> None:
        taken = self.classes[label]
        if taken >= _THUMBNAILS or len(self._thumbnails) >= _THUMBNAIL_FILES:
            return
        if taken and len(self.classes) * _THUMBNAILS > _THUMBNAIL_FILES:
            return
        file = f"{len(self._thumbnails):04d}.png"
        (self._folder / file).write_bytes(picture.thumbnail())
        self._thumbnails.append((label, file))

    def _compare(self, name: str, place: Place, digest: bytes) -> None:
        if digest not in self._first:
            self._first[digest] = (name, place)
            return
        first, where = self._first[digest]
        self.duplicates += 1
        if where.label != place.label:
            self._conflicts.append((first, name))
        elif where.split != place.split:
            self._leaks.append((first, name))
        else:
            self._copies.append((first, name))

    def _copy_findings(self) -> list[Finding]:
        kinds = (
            (
                "conflicting_labels",
                Severity.DANGER,
                self._conflicts,
                "the same picture lies in two classes",
                "One of the labels is wrong. The model is punished for either answer: correct or remove them.",
            ),
            (
                "split_leak",
                Severity.DANGER,
                self._leaks,
                "the same picture lies in two parts of the split",
                "The test figures will be too good: remove the copy from the test or validation folder.",
            ),
            (
                "duplicate_pictures",
                Severity.WARNING if len(self._copies) * 100 >= self.pictures else Severity.INFO,
                self._copies,
                "a picture repeats an earlier one of its class",
                "A random split keeps copies in one part, but each copy counts separately. Remove mistakes.",
            ),
        )
        return [
            Finding(
                code=code,
                severity=severity,
                message=f"{counted(len(pairs), 'time')} {what}: {pairs[0][1]} equals {pairs[0][0]}.",
                meaning=meaning,
                files=tuple(dict.fromkeys(name for pair in pairs[:EXAMPLES] for name in pair)),
            )
            for code, severity, pairs, what, meaning in kinds
            if pairs
        ]

    def _picture_findings(self) -> list[Finding]:
        texts = {
            "resized": (
                f"larger than {MAX_SIDE} pixels, scaled down to that",
                "Training reads the small ones, which is much faster. Cut out the part that matters if it is tiny.",
            ),
            "several_frames": ("with several frames", "Only the first frame is used."),
            "transparency": ("with transparent parts", "These were placed on a white background."),
            "deep_grey": (
                "with 16 bits of grey, reduced to 8",
                "The range 0 to 65,535 became 0 to 255. Pictures that use less of it, such as 12-bit ones of a "
                "camera, are now dark and coarse: stretch them before you upload.",
            ),
            "deep_colour": (
                "with 16 bits per colour, reduced to 8",
                "The range 0 to 65,535 became 0 to 255. Pictures that use less of it are now dark and coarse: "
                "stretch them before you upload.",
            ),
        }
        return [
            Finding(
                code=code,
                severity=Severity.INFO,
                message=f"{counted(self._counts[code], 'picture')} {what} ({self._files[code][0]}).",
                meaning=meaning,
                files=tuple(self._files[code]),
            )
            for code, (what, meaning) in texts.items()
            if self._counts[code]
        ]

    def _size_findings(self) -> list[Finding]:
        found = []
        if max(self._widths) > 2 * min(self._widths) or max(self._heights) > 2 * min(self._heights):
            found.append(
                Finding(
                    code="sizes_differ",
                    severity=Severity.INFO,
                    message=f"Sizes run from {min(self._widths)} x {min(self._heights)} to "
                    f"{max(self._widths)} x {max(self._heights)} pixels.",
                    meaning="All are brought to one size for training; objects in very small ones lose detail.",
                )
            )
        if 0 < self._grey < self.pictures:
            found.append(
                Finding(
                    code="grey_and_colour",
                    severity=Severity.INFO,
                    message=f"{self._grey:,} of {self.pictures:,} pictures {'is' if self._grey == 1 else 'are'} grey, "
                    "the rest in colour.",
                    meaning="Grey ones get three equal channels. If one class is all grey, colour gives it away.",
                )
            )
        return found

    def _class_findings(self) -> list[Finding]:
        found = []
        trained = self._by_split.get("train", set(self.classes) if not self.splits else set())
        for part in ("val", "test"):
            unknown = sorted(self._by_split[part] - trained)
            if unknown:
                found.append(
                    Finding(
                        code="class_not_in_train",
                        severity=Severity.DANGER,
                        message=f"{', '.join(repr(label) for label in unknown[:10])} occur in {part} but not in train.",
                        meaning="The model can never predict them, so each counts as wrong. Check the folder names.",
                    )
                )
        return [*found, *similar_classes(self.classes, "Join the folders")]
