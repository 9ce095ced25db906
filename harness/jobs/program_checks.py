"""What a file of a program may be: its name, its size, whether it parses. The one place of these rules.

Parsing takes about 900 bytes and 5 microseconds for each letter of a dense text, and other requests wait meanwhile.
So Python files are bounded far below other files, and counted before they are parsed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any

from codegen import safe_yaml
from codegen.types import PROGRAM_FILES
from harness.errors import Invalid
from worker.words import size_words

FILE_BYTES_MAX = 1 << 20
FILES_MAX = 50
PYTHON_FILE_BYTES_MAX = 256 << 10
PYTHON_BYTES_MAX = 512 << 10
"""Of all Python files of a program."""
PYTHON_WORDS_MAX = 150_000
"""Words and signs of all of them: as many as there are in `PYTHON_BYTES_MAX` of what people write."""
_EXTRA_FILE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,60}\.py")
_RESERVED = {"worker.py"}
"""Would hide the runtime that every program imports."""
_WORD = re.compile(r"\w+|[^\w\s]|\n")
_HINT = "Move tables into the data, or leave out what the program does not need."


def file_name_check(name: str) -> str:
    """A name that may be written in a program folder. Raises `Invalid`."""
    if name in PROGRAM_FILES or (_EXTRA_FILE.fullmatch(name) and name not in _RESERVED):
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


def files_check(files: Mapping[str, str]) -> dict[str, str]:
    """Names and texts given by a person. Raises `Invalid`."""
    if len(files) > FILES_MAX:
        raise Invalid(f"A program has at most {FILES_MAX} files.", field="files")
    checked = {file_name_check(name): file_text_check(name, text) for name, text in files.items()}
    python_size_check(checked)
    yaml_limits_check(checked)
    return checked


def file_change_check(have: Mapping[str, str], name: str, text: str) -> None:
    """Pass if one file of a program may become this text; what was larger before may shrink. Raises `Invalid`."""
    file_name_check(name)
    file_text_check(name, text)
    yaml_limits_check({name: text})
    if name.endswith(".py") and len(text) > len(have.get(name, "")):
        python_size_check({**have, name: text})


def file_count_check(have: Mapping[str, str], name: str) -> None:
    """Pass if a program of these files may have that one, too. Raises `Invalid`."""
    if name not in have and len(have) >= FILES_MAX:
        raise Invalid(f"A program has at most {FILES_MAX} files.", field="name")


def yaml_limits_check(files: Mapping[str, str]) -> None:
    """Pass unless spec.yaml holds what is not read at all; one that is half written may be kept. Raises `Invalid`."""
    try:
        safe_yaml.compose(files.get("spec.yaml", ""))
    except safe_yaml.YamlRefused as refused:
        raise _syntax_fault("spec.yaml", refused.line, refused.message) from refused
    except safe_yaml.YamlFault:
        pass


def python_size_check(files: Mapping[str, str]) -> None:
    """Pass if the Python files are small enough to be parsed. Raises `Invalid` that names file and limit."""
    sizes = {name: len(text.encode()) for name, text in files.items() if name.endswith(".py")}
    if not sizes:
        return
    largest = max(sizes, key=lambda name: sizes[name])
    if sizes[largest] > PYTHON_FILE_BYTES_MAX:
        limit = size_words(PYTHON_FILE_BYTES_MAX)
        raise _too_large(largest, f"{largest} has {size_words(sizes[largest])}: a Python file has at most {limit}.")
    if (together := sum(sizes.values())) > PYTHON_BYTES_MAX:
        told = f"{size_words(together)} together, with {largest} as the largest"
        raise _too_large(largest, f"The Python files have {told}: at most {size_words(PYTHON_BYTES_MAX)}.")
    words = {name: len(_WORD.findall(files[name])) for name in sizes}
    if (many := sum(words.values())) > PYTHON_WORDS_MAX:
        largest = max(words, key=lambda name: words[name])
        told = f"{many:,} words and signs together, {words[largest]:,} of them in {largest}"
        raise _too_large(largest, f"The Python files have {told}: at most {PYTHON_WORDS_MAX:,}.")


def program_syntax_check(files: Mapping[str, str], *, needs_build: bool = False) -> None:
    """Pass if every Python file and spec.yaml parses, and with `needs_build` model.py names `build`, which may be
    called with the spec; a table may be Python, too. Raises `Invalid` with file and line."""
    python_size_check(files)
    model = ast.Module([], [])
    for name, text in files.items():
        try:
            if name.endswith(".py"):
                tree = ast.parse(text, filename=name)
                model = tree if name == "model.py" else model
            elif name.endswith(".yaml"):
                safe_yaml.compose(text)
        except safe_yaml.YamlFault as fault:
            raise _syntax_fault(name, fault.line, fault.message) from fault
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise _syntax_fault(name, getattr(error, "lineno", None), str(getattr(error, "msg", error))) from error
    if needs_build:
        _build_check(model)


def file_fault(name: str, text: str) -> dict[str, Any] | None:
    """Message and line of what keeps one file of a program, which may be saved all the same, from being parsed."""
    try:
        program_syntax_check({name: text})
    except Invalid as fault:
        return {"message": fault.message, "line": (fault.details or {}).get("line")}
    return None


def _build_check(model: ast.Module) -> None:
    named = [node for node in ast.walk(model) if _names_build(node)]
    if not named:
        raise Invalid(
            "model.py has no function build(spec).",
            field="model.py",
            code="model_no_build",
            hint="Add `def build(spec)` that returns a torch.nn.Module.",
        )
    only = named[0] if len(named) == 1 and named[0] in model.body else None
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


def _too_large(name: str, message: str) -> Invalid:
    return Invalid(message, field=name, code="program_too_large", hint=_HINT, details={"file": name, "line": None})


def _syntax_fault(name: str, line: int | None, message: str) -> Invalid:
    return Invalid(
        f"{name}, line {line}: {message}." if line else f"{name}: {message}.",
        field=name,
        code="program_syntax",
        hint="Correct the file, and try again.",
        details={"file": name, "line": line},
    )
