"""Spec and program of a job: read, resolved, rendered, written to disk and read back.

The only module of the harness that calls `codegen`'s generator.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from codegen import spec_yaml
from codegen.profile.types import DatasetProfile
from codegen.render import render
from codegen.resolve import resolve
from codegen.spec import TaskSpec
from codegen.suggest import suggest
from codegen.types import PROGRAM_FILES, Hardware, Program, Resolved, SpecError
from harness.errors import Invalid, NotFound
from harness.plain import value_at
from worker.plan import RunPaths

GENERATOR_FILES = frozenset(PROGRAM_FILES)


class SpecInvalid(Invalid):
    """The spec is wrong; `details` lists `{field, message}`, the first of which is the error itself."""

    default_code = "spec_invalid"

    def __init__(self, problems: list[dict[str, Any]], spec: TaskSpec | None = None) -> None:
        first = problems[0]
        left_open = spec is not None and value_at(spec.model_dump(mode="json"), first["field"]) == "auto"
        correct = "Set the field" if left_open else "Correct the field; `auto` lets the harness choose"
        super().__init__(
            f"{first['field']}: {first['message']}" if first["field"] else first["message"],
            field=first["field"] or None,
            hint=f"{correct}." if first["field"] else "Correct the spec there.",
            details=problems,
        )
        self.problems = problems


def spec_read(spec: str | dict[str, Any]) -> TaskSpec:
    """A spec from YAML text or plain values. Raises `SpecInvalid`."""
    try:
        return spec_yaml.load(spec) if isinstance(spec, str) else spec_yaml.from_dict(spec)
    except SpecError as error:
        raise SpecInvalid(_problems(error)) from error


def _problems(error: SpecError) -> list[dict[str, Any]]:
    return [{"field": field, "message": message} for field, message in error.problems]


def resolve_spec(spec: TaskSpec, profile: DatasetProfile, hardware: Hardware, *, is_own: bool = False) -> Resolved:
    """Replace each `auto`; `is_own`: for a person's model.py. Raises `SpecInvalid`."""
    try:
        return resolve(spec, profile, hardware, is_own=is_own)
    except SpecError as error:
        raise SpecInvalid(_problems(error), spec) from error


def suggestions_of(spec: TaskSpec, profile: DatasetProfile, hardware: Hardware) -> list[dict[str, Any]]:
    """Models that fit, best first, as plain values. Raises `SpecInvalid`."""
    try:
        return [suggestion.to_dict() for suggestion in suggest(spec, profile, hardware)]
    except SpecError as error:
        raise SpecInvalid(_problems(error), spec) from error


def program_render(resolved: Resolved, profile: DatasetProfile, own_model: str | None) -> Program:
    """The program's files. Raises `SpecInvalid`."""
    try:
        return render(resolved, profile, own_model)
    except SpecError as error:
        raise SpecInvalid(_problems(error)) from error


def text_sha256(text: str) -> str:
    """By which a file is known to be the one that was opened."""
    return hashlib.sha256(text.encode()).hexdigest()


def files_read(folder: Path) -> dict[str, str]:
    """The files of a program folder by name, generated ones first and in their usual order."""
    if not folder.is_dir():
        return {}
    names = {path.name for path in folder.iterdir() if path.is_file() and not path.name.startswith(".")}
    order = [name for name in PROGRAM_FILES if name in names] + sorted(names - GENERATOR_FILES)
    return {name: (folder / name).read_text() for name in order}


def file_write(folder: Path, name: str, text: str) -> None:
    """Write one file so that a reader sees the old or the new text, never half."""
    folder.mkdir(parents=True, exist_ok=True)
    draft = _draft_of(folder, name)
    draft.write_text(text)
    draft.replace(folder / name)


def files_replace(folder: Path, files: Mapping[str, str]) -> None:
    """Make the folder hold exactly these files."""
    folders_replace({folder: files})


def folders_replace(wanted: Mapping[Path, Mapping[str, str]]) -> None:
    """Make each folder hold exactly these files; where the disk has no room for all of them, none changes."""
    drafts: dict[Path, Path] = {}
    try:
        for folder, files in wanted.items():
            folder.mkdir(parents=True, exist_ok=True)
            for name, text in files.items():
                draft = _draft_of(folder, name)
                drafts[draft] = folder / name
                draft.write_text(text)
    except BaseException:
        for draft in drafts:
            draft.unlink(missing_ok=True)
        raise
    for folder, files in wanted.items():
        for path in folder.iterdir():
            if path.name not in files and path not in drafts:
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    for draft, file in drafts.items():
        draft.replace(file)


def _draft_of(folder: Path, name: str) -> Path:
    return folder / f".{name}.new"


def program_of(paths: RunPaths) -> Program:
    """The program as it would run. Raises `NotFound`."""
    files = files_read(paths.program)
    if not files:
        raise NotFound("The program's files are gone.", hint="Clone the job to create them again.")
    return Program(files=files)


def program_is_edited(paths: RunPaths) -> bool:
    """Whether a file differs from what was generated."""
    return files_read(paths.program) != files_read(paths.generated)
