"""A spec as YAML or plain values: reading with errors that name field and line, writing with a comment per field."""

from __future__ import annotations

import difflib
import io
from collections.abc import Iterator
from datetime import date
from functools import cache
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap
from ruamel.yaml.scalarstring import DoubleQuotedScalarString, SingleQuotedScalarString
from yaml.resolver import Resolver

from codegen import safe_yaml
from codegen.catalog import FAMILIES
from codegen.spec import TaskSpec
from codegen.types import SpecError

MOST_CHARACTERS = 200_000
FIELD_CHARACTERS_MAX = 500
"""Longer ones are no fields of a spec; kept for each value below, one of them would fill the memory."""
COMMENT_COLUMN = 34
_AUTO_WANTED = "must be 'auto'"
_WHOLE, _NUMBER, _MAPPING = "a whole number", "a number", "a mapping of fields"
_MOMENT = "a date with or without a time, such as 2030-01-31 or 2030-01-31T18:00:00Z"
_WORDS = {
    "int_type": _WHOLE, "int_parsing": _WHOLE, "int_from_float": _WHOLE, "int_parsing_size": _WHOLE,
    "float_type": _NUMBER, "float_parsing": _NUMBER, "finite_number": "a finite number",
    "model_type": _MAPPING, "model_attributes_type": _MAPPING, "dict_type": _MAPPING,
    "datetime_type": _MOMENT, "datetime_parsing": _MOMENT, "datetime_from_date_parsing": _MOMENT,
    "string_type": "a text", "list_type": "a list", "bool_type": "true or false", "bool_parsing": "true or false",
}  # fmt: skip
"""Plain words for pydantic's types of errors."""
_ELSEWHERE: dict[tuple[int | str, ...], str] = {
    ("resources", "device"): "; models of device go into resources.device_model"
}
"""Where a value belongs that people write into another field."""


def load(text: str) -> TaskSpec:
    """Read YAML. Raises `SpecError`; each message begins with the line where one is known."""
    if len(text) > MOST_CHARACTERS:
        raise SpecError([("", f"the spec has {len(text):,} characters; at most {MOST_CHARACTERS:,} are read")])
    try:
        node = safe_yaml.compose(text)
        body = safe_yaml.construct(node)
    except safe_yaml.YamlFault as error:
        raise SpecError([("", str(error))]) from error
    if body is None:
        return TaskSpec()
    if not isinstance(body, dict):
        raise SpecError([("", "line 1: a spec is a mapping of fields, e.g. `task: tabular_classification`")])
    lines: dict[str, int] = {}
    repeated: list[tuple[str, str]] = []
    _find_lines(node, "", lines, repeated)
    if repeated:
        raise SpecError(repeated)
    try:
        return from_dict(body)
    except SpecError as error:
        raise SpecError([(field, _at_line(field, message, lines)) for field, message in error.problems]) from error


def from_dict(body: dict[str, Any]) -> TaskSpec:
    """Validate plain values. Raises `SpecError` with one problem per field."""
    try:
        strange = [(field, "holds a NUL character; take it out") for field in _fields_with_nul(body)]
    except RecursionError as error:
        raise SpecError([("", "values lie too deep in one another")]) from error
    if strange:
        raise SpecError(strange)
    unknown = _unknown_family(body.get("model"))
    try:
        spec = TaskSpec.model_validate(body)
    except ValidationError as error:
        raise SpecError([*_problems(error), *unknown]) from error
    if unknown:
        raise SpecError(unknown)
    return spec


def _problems(error: ValidationError) -> list[tuple[str, str]]:
    problems: dict[str, list[str]] = {}
    for detail in error.errors(include_url=False):
        messages = problems.setdefault(_field(detail), [])
        message = _message(detail)
        if message not in messages:
            messages.append(message)
    return [(field, _joined(problems[field])) for field in _innermost(problems)]


def _unknown_family(model: Any) -> list[tuple[str, str]]:
    """What the schema leaves open: told with its problems, and without data as well."""
    family = model.get("family", "auto") if isinstance(model, dict) else "auto"
    if not isinstance(family, str) or family == "auto" or family in FAMILIES:
        return []
    return [("model.family", f"{family!r} is unknown; choose one of {', '.join(FAMILIES)}")]


def _fields_with_nul(value: Any, field: str = "") -> list[str]:
    """Dotted fields whose name or text no database can hold."""
    if isinstance(value, str):
        return [field] if "\0" in value else []
    if isinstance(value, list):
        return [name for part in value for name in _fields_with_nul(part, field)][:1]
    if not isinstance(value, dict):
        return []
    found = []
    for key, part in value.items():
        name = f"{field}.{key}" if field else str(key)
        found += [name.replace("\0", "\\0")] if "\0" in str(key) else _fields_with_nul(part, name)
    return found


def _innermost(problems: dict[str, list[str]]) -> list[str]:
    """Without the fields that are only wrong because something inside them is."""
    return [
        field
        for field, messages in problems.items()
        if not (messages[0].startswith(_AUTO_WANTED) and any(other.startswith(f"{field}.") for other in problems))
    ]


def dump(spec: TaskSpec) -> str:
    """YAML with every field and its description as a comment; `load` reads it back equal."""
    out = io.StringIO()
    writer = YAML()
    writer.width = 100
    writer.dump(_commented(_quoted(spec.model_dump(mode="json")), spec), out)
    return out.getvalue()


def _quoted(value: Any) -> Any:
    """The same with texts in quotes that would be read as something else: to YAML 1.1, as which a spec is read, `no` is
    false and `1:30` a number, to 1.2, as which it is written, both are words."""
    if isinstance(value, dict):
        return {_quoted(name): _quoted(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_quoted(item) for item in value]
    if not isinstance(value, str):
        return value
    if "\x85" in value:  # the end of a line to YAML
        return DoubleQuotedScalarString(value)
    tag = Resolver().resolve(yaml.ScalarNode, value, (True, False))  # type: ignore[no-untyped-call]
    return value if tag == "tag:yaml.org,2002:str" else SingleQuotedScalarString(value)


def _commented(body: dict[str, Any], model: BaseModel, indent: int = 0) -> CommentedMap:
    commented = CommentedMap()
    for name, value in body.items():
        inner = getattr(model, name)
        commented[name] = _commented(value, inner, indent + 2) if isinstance(inner, BaseModel) else value
        description = type(model).model_fields[name].description
        if description:
            if isinstance(commented[name], CommentedMap | list | dict) and commented[name]:
                commented.yaml_set_comment_before_after_key(name, before=description, indent=indent)
            else:
                commented.yaml_add_eol_comment(description, name, column=COMMENT_COLUMN)
    return commented


def _find_lines(node: yaml.Node | None, field: str, lines: dict[str, int], repeated: list[tuple[str, str]]) -> None:
    """Fill `lines` with the line (1-based) of each dotted field."""
    if not isinstance(node, yaml.MappingNode) or field.count(".") > 8:
        return
    for key, value in node.value:
        name = f"{field}.{key.value}" if field else str(key.value)
        if len(name) > FIELD_CHARACTERS_MAX:
            continue
        line = key.start_mark.line + 1
        if name in lines:
            repeated.append((name, f"line {line}: given twice, first in line {lines[name]}; keep one"))
        lines[name] = line
        _find_lines(value, name, lines, repeated)


def _at_line(field: str, message: str, lines: dict[str, int]) -> str:
    known = field
    while known and known not in lines:
        known = known.rpartition(".")[0]
    return f"line {lines[known]}: {message}" if known else message


def _joined(messages: list[str]) -> str:
    """The messages of all members of a union as one; `auto` is always the last way out."""
    other = [message for message in messages if not message.startswith(_AUTO_WANTED)]
    if not other or len(other) == len(messages) or not other[0].startswith("must be"):
        return ", or ".join(other or messages)
    return ", or ".join(other) + " (or `auto`)"


def _field(detail: ErrorDetails) -> str:
    """Dotted field without the names that pydantic adds for the members of a union."""
    location = detail["loc"]
    model: type[BaseModel] | None = TaskSpec
    names: list[str] = []
    for place, name in enumerate(location):
        if model is None:
            if names[-1:] == ["params"] and place == len(names):
                names.append(str(name))
            break
        if isinstance(name, str) and name in model.model_fields:
            names.append(name)
            model = _part_of(model, name)
        elif place == len(location) - 1 and detail["type"] == "extra_forbidden":
            names.append(str(name))
    return ".".join(names)


def _part_of(model: type[BaseModel], name: str) -> type[BaseModel] | None:
    annotation = model.model_fields[name].annotation
    members = [annotation, *getattr(annotation, "__args__", ())]
    return next((part for part in members if isinstance(part, type) and issubclass(part, BaseModel)), None)


def _meant(detail: ErrorDetails) -> str:
    """What an unknown field may stand for: one that is spelt alike, or of this name in another part."""
    model: type[BaseModel] | None = TaskSpec
    for name in detail["loc"][:-1]:
        model = (_part_of(model, str(name)) if model and name in model.model_fields else model) or None
    known, written = list(model.model_fields) if model else [], str(detail["loc"][-1])
    everywhere = _by_name()
    found = everywhere.get(written) or difflib.get_close_matches(written, known)
    if not found:
        alike = difflib.get_close_matches(written, everywhere, n=1, cutoff=0.8)
        found = [field for name in alike for field in everywhere[name]]
    if not found:
        return f"known are: {', '.join(known)}"
    return f"did you mean {' or '.join(f'`{name}`' for name in found)}?"


@cache
def _by_name() -> dict[str, list[str]]:
    """Name -> the fields of this name."""
    found: dict[str, list[str]] = {}
    for field in _dotted(TaskSpec):
        found.setdefault(field.rpartition(".")[2], []).append(field)
    return found


def _dotted(model: type[BaseModel], before: str = "") -> Iterator[str]:
    """Every field that a spec has, such as `training` and `training.epochs`."""
    for name in model.model_fields:
        yield before + name
        if (part := _part_of(model, name)) is not None:
            yield from _dotted(part, f"{before}{name}.")


def _message(detail: ErrorDetails) -> str:
    """pydantic's words, with a hint for misspelt fields."""
    if detail["type"] == "extra_forbidden":
        return f"unknown field; {_meant(detail)}"
    if detail["type"] == "string_too_long":
        return f"must have at most {detail['ctx']['max_length']:,} characters, not {len(detail['input']):,}"
    text = detail["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    if detail["loc"][:2] == ("model", "params") and len(detail["loc"]) > 2:
        text = "a number, a text, or true or false"  # one sentence for all members of the union
    elif detail["type"] in _WORDS:
        text = _WORDS[detail["type"]]
    elif text == detail["msg"] or detail["msg"].startswith("Value error"):
        return text[0].lower() + text[1:]
    given = detail["input"]
    shown = str(given) if isinstance(given, date) else repr(given)
    said = f"must be {text}" + (f", not {shown}" if len(shown) < 60 else "")
    if detail["type"] == "string_type" and isinstance(given, int | float | date):  # a column may be called so
        said += "; in quotes it is one"
    return said + _ELSEWHERE.get(detail["loc"][:2], "")
