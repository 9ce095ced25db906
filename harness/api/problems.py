"""What is wrong with the values of a request, in words: which field, what it takes, and what to do next."""

from __future__ import annotations

import difflib
import re
from typing import Any

from ninja import NinjaAPI
from ninja.errors import ValidationError, ValidationErrorContext
from ninja.openapi.schema import OpenAPISchema
from pydantic import BaseModel

from harness.api.document import document_complete

_OUTER = {"body", "filters", "query"}
"""Names of lone arguments, which say nothing to a caller."""
_LISTED = re.compile(r"\^(?P<minus>-\?)?\((?P<names>[a-z_|]+)\)\$")
_QUOTED = re.compile(r"'([^']*)'")
_SHOWN_MAX = 60
_WORDS = {
    "missing": "is missing",
    "bool_parsing": "must be true or false", "bool_type": "must be true or false",
    "int_parsing": "must be a whole number", "int_type": "must be a whole number",
    "int_from_float": "must be a whole number", "int_parsing_size": "is too large a number",
    "float_parsing": "must be a number", "float_type": "must be a number", "finite_number": "must be a finite number",
    "string_type": "must be a string", "list_type": "must be a list", "dict_type": "must be an object",
    "model_attributes_type": "must be an object", "model_type": "must be an object",
    "greater_than": "must be above {gt}", "greater_than_equal": "must be {ge} or more",
    "less_than": "must be below {lt}", "less_than_equal": "must be {le} or less",
    "string_too_long": "can have at most {max_length} characters",
    "string_too_short": "must have at least {min_length} characters",
    "too_long": "can have at most {max_length} entries", "too_short": "must have at least {min_length} entries",
    "timezone_aware": "needs a zone, as in 2030-01-31T12:00:00Z",
}  # fmt: skip
_TIME = "must be a time, as in 2030-01-31T12:00:00Z"


class WordedApi(NinjaAPI):
    """An API whose refusals of values are made for people, and whose document tells of them."""

    def get_openapi_schema(
        self, *, path_prefix: str | None = None, path_params: dict[str, Any] | None = None
    ) -> OpenAPISchema:
        """The document, with what holds for all operations."""
        return document_complete(super().get_openapi_schema(path_prefix=path_prefix, path_params=path_params))

    def validation_error_from_error_contexts(
        self, error_contexts: list[ValidationErrorContext[Any]]
    ) -> ValidationError:
        """All problems as `{field, message, hint, type}`."""
        found = []
        for context in error_contexts:
            reverse = context.model.__ninja_flatten_map_reverse__
            for item in context.pydantic_validation_error.errors(include_url=False):
                place = reverse.get(item["loc"], item["loc"])
                found.append(_problem(dict(item), place, _siblings(context.model, item["loc"])))
        return ValidationError(found)


def _problem(item: dict[str, Any], place: tuple[Any, ...], siblings: list[str]) -> dict[str, Any]:
    # Of a list in an address the place says nothing: each of its values is given by the same name.
    is_query = len(place) > 1 and place[0] in {"filters", "query"}
    names = [str(part) for part in place if not (is_query and isinstance(part, int))]
    if (names[1:] and names[0] in _OUTER) or names == ["body"]:
        names = names[1:]
    field = ".".join(names)
    is_no_body = not names and item.get("type") == "missing"
    return {
        "field": field or None,
        "message": "The request has no body." if is_no_body else problem_words(item),
        "hint": _hint(item, names[-1] if names else "", siblings),
        "type": item.get("type", ""),
    }


def problem_words(item: dict[str, Any]) -> str:
    """What is wrong with a value, of an error as pydantic tells it."""
    kind, context = str(item.get("type", "")), item.get("ctx") or {}
    listed = _LISTED.fullmatch(str(context.get("pattern", ""))) if kind == "string_pattern_mismatch" else None
    if listed is not None:
        turned = "; a - in front turns the order" if listed["minus"] else ""
        return f"must be one of {', '.join(listed['names'].split('|'))}{turned}"
    if kind in {"enum", "literal_error"}:
        return f"must be one of {', '.join(_QUOTED.findall(str(context.get('expected', ''))))}"
    if kind == "extra_forbidden":
        return "is not known here"
    if kind.startswith(("datetime_", "date_")):
        return _TIME
    if kind in _WORDS:
        return _WORDS[kind].format(**context)
    return str(item.get("msg", "")).removeprefix("Value error, ")


def _hint(item: dict[str, Any], name: str, siblings: list[str]) -> str:
    known = f"Known are: {', '.join(siblings)}." if siblings else ""
    if item.get("type") == "extra_forbidden":
        close = difflib.get_close_matches(name, siblings, n=3)
        return f"Did you mean {' or '.join(close)}? {known}" if close else known
    if item.get("type") == "missing" and not name:
        return "Send one as JSON; /api/v1/docs describes what it takes."
    if item.get("type") == "missing":
        return f"Add {name}. {known}".strip()
    shown = repr(item.get("input"))
    given = f"It was {shown}. " if len(shown) < _SHOWN_MAX and "password" not in name else ""
    return f"{given}Correct it and try again."


def _siblings(model: type[BaseModel], place: tuple[Any, ...]) -> list[str]:
    """Names of the fields beside the one at `place`."""
    found: type[BaseModel] | None = model
    for name in place[:-1]:
        if found is None:
            return []
        if isinstance(name, str) and name in found.model_fields:
            found = _part_of(found.model_fields[name].annotation)
    return list(found.model_fields) if found is not None else []


def _part_of(annotation: Any) -> type[BaseModel] | None:
    """The shape in `X`, `X | None`, `list[X]`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((part for member in getattr(annotation, "__args__", ()) if (part := _part_of(member))), None)
