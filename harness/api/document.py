"""What the OpenAPI document says of all operations alike: refusals, downloads, names of HEAD."""

from __future__ import annotations

from copy import deepcopy
from pathlib import PurePosixPath
from typing import Any

from ninja.openapi.schema import REF_TEMPLATE, OpenAPISchema

from harness.api.schemas.base import Refusal

_FILE: dict[str, Any] = {"type": "string", "format": "binary"}
_MEDIA = {".csv": "text/csv", ".txt": "text/plain", ".zip": "application/zip"}
_BYTES = "application/octet-stream"
_REFUSED = "Not done; `error` says why and what to do."
_UNCHANGED = {304: {"description": "Not changed since the `ETag` that was sent"}}
_RANGED = {
    206: {"description": "The `Range` that was asked for"},
    **_UNCHANGED,
    416: {"description": "The file has no such `Range`"},
}


def media(*kinds: str, ranges: bool = False) -> dict[str, Any]:
    """`openapi_extra` of an operation that answers with bytes of one of these kinds; none: of any.

    `ranges`: it honours `Range`. All with a HEAD beside their GET do and need not say so.
    """
    whole = {200: {"content": {kind: {"schema": _FILE} for kind in kinds or (_BYTES,)}}}
    return {"responses": {**whole, **(_RANGED if ranges else {})}}


def unless_same() -> dict[str, Any]:
    """`openapi_extra` of an operation that answers 304 to whoever holds this version already."""
    return {"responses": _UNCHANGED}


def document_complete(document: OpenAPISchema) -> OpenAPISchema:
    """The same document; what an operation says of itself stays."""
    shape = Refusal.model_json_schema(ref_template=REF_TEMPLATE)
    document["components"]["schemas"] |= shape.pop("$defs") | {Refusal.__name__: shape}
    for path, methods in document["paths"].items():
        is_file = {"get", "head"} <= set(methods)
        for method, operation in methods.items():
            made = methods[method] = deepcopy(operation)  # GET and HEAD of a file are one operation of one name
            if method == "head" and is_file:
                made["operationId"] += "_head"
            made["responses"] = _responses(method, path, made["responses"], is_file=is_file)
    return document


def _responses(method: str, path: str, told: dict[Any, Any], *, is_file: bool) -> dict[Any, Any]:
    if method == "get" and 200 in told:
        told[200].setdefault("content", {_MEDIA.get(PurePosixPath(path).suffix, _BYTES): {"schema": _FILE}})
    if is_file:
        told |= _RANGED
    if 206 in told:
        told[206] = {**told[200], **told[206]}
    return told | {"default": _refusal(has_body=method != "head")}


def _refusal(*, has_body: bool) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": REF_TEMPLATE.format(model=Refusal.__name__)}}}
    return {"description": _REFUSED, **({"content": content} if has_body else {})}
