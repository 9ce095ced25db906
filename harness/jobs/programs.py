"""Spec and program of a job: checked, resolved, rendered, written to disk and read back.

The only module of the harness that calls `codegen`'s generator.
"""

from __future__ import annotations

import ast
import hashlib
import re
import shutil
from pathlib import Path
from typing import Any

import yaml

from codegen import spec_yaml
from codegen.profile.types import DatasetProfile
from codegen.render import render
from codegen.resolve import resolve
from codegen.spec import TaskSpec
from codegen.suggest import suggest
from codegen.types import PROGRAM_FILES, Hardware, Program, Resolved, SpecError
from harness.errors import Invalid, NotFound
from worker.plan import RunPaths
from worker.words import size_words

FILE_BYTES_MAX = 1 << 20
FILES_MAX = 50
_EXTRA_FILE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,60}\.py")
_RESERVED = {"worker.py"}
"""Would hide the runtime that every program imports."""
GENERATOR_FILES = frozenset(PROGRAM_FILES)
_YAML_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class SpecInvalid(Invalid):
    """The spec is wrong; `details` lists `{field, message}`, the first of which is the error itself."""

    default_code = "spec_invalid"

    def __init__(self, problems: list[dict[str, Any]]) -> None:
        first = problems[0]
        super().__init__(
            f"{first['field']}: {first['message']}" if first["field"] else first["message"],
            field=first["field"] or None,
            hint="Correct the field; `auto` lets the harness choose." if first["field"] else "Correct the spec there.",
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
        raise SpecInvalid(_problems(error)) from error


def suggestions_of(spec: TaskSpec, profile: DatasetProfile, hardware: Hardware) -> list[dict[str, Any]]:
    """Models that fit, best first, as plain values. Raises `SpecInvalid`."""
    try:
        return [suggestion.to_dict() for suggestion in suggest(spec, profile, hardware)]
    except SpecError as error:
        raise SpecInvalid(_problems(error)) from error


def program_render(resolved: Resolved, profile: DatasetProfile, own_model: str | None) -> Program:
    """The program's files. Raises `SpecInvalid`."""
    try:
        return render(resolved, profile, own_model)
    except SpecError as error:
        raise SpecInvalid(_problems(error)) from error


def file_name_check(name: str) -> str:
    """A name that may be written in a program folder. Raises `Invalid`."""
    if name in GENERATOR_FILES or (_EXTRA_FILE.fullmatch(name) and name not in _RESERVED):
        return name
    raise Invalid(
        f"{name!r} cannot be the name of a program file.",
        field="name",
        code="file_name",
        hint=f"Use {', '.join(PROGRAM_FILES)} or another plain name ending in .py.",
    )


def file_text_check(name: str, text: str) -> str:
    """A text that may be written. Raises `Invalid`."""
    if len(text.encode("utf-8", "replace")) > FILE_BYTES_MAX:
        raise Invalid(f"{name} is larger than {size_words(FILE_BYTES_MAX)}.", field=name, hint="Split the file.")
    if "\0" in text:
        raise Invalid(f"{name} holds a NUL character.", field=name, hint="Remove it.")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise Invalid(f"{name} is not valid text at character {error.start}.", field=name) from error
    return text


def text_sha256(text: str) -> str:
    """By which a file is known to be the one that was opened."""
    return hashlib.sha256(text.encode()).hexdigest()


def files_check(files: dict[str, str]) -> dict[str, str]:
    """Names and texts given by a person. Raises `Invalid`."""
    if len(files) > FILES_MAX:
        raise Invalid(f"A program has at most {FILES_MAX} files.", field="files")
    return {file_name_check(name): file_text_check(name, text) for name, text in files.items()}


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
    draft = folder / f".{name}.new"
    draft.write_text(text)
    draft.replace(folder / name)


def files_replace(folder: Path, files: dict[str, str]) -> None:
    """Make the folder hold exactly these files."""
    if folder.exists():
        for path in folder.iterdir():
            if path.name not in files:
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    for name, text in files.items():
        file_write(folder, name, text)


def program_of(paths: RunPaths) -> Program:
    """The program as it would run. Raises `NotFound`."""
    files = files_read(paths.program)
    if not files:
        raise NotFound("The program's files are gone.", hint="Clone the job to create them again.")
    return Program(files=files)


def program_is_edited(paths: RunPaths) -> bool:
    """Whether a file differs from what was generated."""
    return files_read(paths.program) != files_read(paths.generated)


def program_syntax_check(files: dict[str, str]) -> None:
    """Pass if every Python file and spec.yaml parses. Raises `Invalid` with file and line."""
    for name, text in files.items():
        try:
            if name.endswith(".py"):
                ast.parse(text, filename=name)
            elif name.endswith(".yaml"):
                yaml.compose(text, Loader=_YAML_LOADER)
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            told = getattr(error, "problem", None) or str(error)
            raise _syntax_fault(name, mark.line + 1 if mark else None, f"not YAML: {told}") from error
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise _syntax_fault(name, getattr(error, "lineno", None), str(getattr(error, "msg", error))) from error


def program_build_check(files: dict[str, str]) -> None:
    """Pass if model.py, which parses, names `build`, and it may be called with the spec; a table may be Python, too.
    Raises `Invalid`."""
    tree = ast.parse(files.get("model.py", ""))
    named = [node for node in ast.walk(tree) if _names_build(node)]
    if not named:
        raise Invalid(
            "model.py has no function build(spec).",
            field="model.py",
            code="model_no_build",
            hint="Add `def build(spec)` that returns a torch.nn.Module.",
        )
    only = named[0] if len(named) == 1 and named[0] in tree.body else None
    # What else may have the name, or wraps the function, is known to whoever runs it.
    if isinstance(only, ast.FunctionDef) and not only.decorator_list and not _takes_one(only.args):
        raise Invalid(
            f"model.py, line {only.lineno}: build({ast.unparse(only.args)}) cannot be called as build(spec).",
            field="model.py",
            code="model_build_call",
            hint="Write it as `def build(spec)`; it may ignore what it does not need.",
            details={"file": "model.py", "line": only.lineno},
        )


def _takes_one(takes: ast.arguments) -> bool:
    """Whether a function can be called with one value alone."""
    places = len(takes.posonlyargs) + len(takes.args)
    needed = places - len(takes.defaults)
    return needed <= 1 and (places > 0 or takes.vararg is not None) and None not in takes.kw_defaults


def _names_build(node: ast.AST) -> bool:
    """Whether a statement may give a module the name `build`."""
    if isinstance(node, ast.alias):
        return (node.asname or node.name) in {"build", "*"}
    if isinstance(node, ast.Name):
        return node.id == "build" and isinstance(node.ctx, ast.Store)
    return isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == "build"


def _syntax_fault(name: str, line: int | None, message: str) -> Invalid:
    return Invalid(
        f"{name}, line {line}: {message}." if line else f"{name}: {message}.",
        field=name,
        code="program_syntax",
        hint="Correct the file, and try again.",
        details={"file": name, "line": line},
    )
