"""No value that a caller may write breaks an address: every field and parameter of the OpenAPI document is tried.

What a tester made from the document alone (schemathesis) found is kept by these few values; it finds more only where
answers change, and would bring twenty packages.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from django.db import transaction
from django.test import Client

from harness.api.app import api
from harness.pool.terms import digest_of
from tests.harness.api.access_matrix import MATRIX, NAMES
from tests.harness.api.access_requests import request_of
from tests.harness.api.access_world import World
from tests.harness.api.conftest import API, client_of, is_error

pytestmark = pytest.mark.both_databases

NODE_SECRET = "dlhn_" + "s" * 43
# As JSON, since some of them are none of Python's: numbers that no column holds, text that cannot be kept, wrong kinds.
BODY_VALUES = (
    "NaN", f"{10**30}", "-1", '"a\\u0000"', '"\\ud800"', "true", "[]",
    '[{"a": NaN}]', f'{{"a": {10**30}}}', f'"{"x" * 3000}"', "[" * 40 + "]" * 40,
)  # fmt: skip
TEXTS = ("nan", str(10**30), "-1", "", "x" * 3000, "\u202e\u0007")
PATH_TEXTS = (str(10**30), "-1", "x" * 2000, "\u202e")
HEADERS = ("", "-1", "9" * 40, "x" * 900)
Sent = tuple[str, dict[str, Any]]
"""(address, the rest of a request)."""


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return json.loads(json.dumps(api.get_openapi_schema(path_prefix="/api/v1/"), default=str))


def caller_of(method: str, path: str, world: World) -> Client:
    """Who may do most here."""
    if MATRIX[method, path] == "node":
        from harness.pool.models import Node

        Node.objects.filter(name="node-9").update(secret_digest=digest_of(NODE_SECRET))
        return client_of(NODE_SECRET)
    return world.callers["admin" if MATRIX[method, path] == "admin" else "owner"]


def fields_of(document: dict[str, Any], described: dict[str, Any]) -> dict[str, Any]:
    """Fields of the JSON body that the address takes; none: it takes no such body."""
    content = described.get("requestBody", {}).get("content", {}).get("application/json", {})
    shapes = [content.get("schema", {})]
    for shape in shapes:  # which grows: a body that may be left out is one of two
        if "$ref" in shape:
            shapes.append(document["components"]["schemas"][shape["$ref"].rsplit("/", 1)[1]])
        shapes.extend(shape.get("anyOf", []))
    return next((shape["properties"] for shape in shapes if "properties" in shape), {})


def body_with(sent: dict[str, Any], name: str, value: str) -> dict[str, Any]:
    """The request with one field of its body set to what this JSON says."""
    rest = {key: kept for key, kept in json.loads(sent.get("data", "{}")).items() if key != name}
    pairs = [f"{json.dumps(key)}: {json.dumps(kept)}" for key, kept in rest.items()]
    return {**sent, "data": "{" + ", ".join([*pairs, f"{json.dumps(name)}: {value}"]) + "}",
            "content_type": "application/json"}  # fmt: skip


def hostile(document: dict[str, Any], method: str, path: str, world: World) -> Iterator[Sent]:
    """Requests with one value each that nobody means."""
    described = document["paths"][API + path][method.lower()]
    values = {**world.values, "name": NAMES.get(path.split("/")[1], "")}
    place, sent = API + path.format(**values), request_of(method, path, world)
    asked = {item["name"]: "1" for item in described["parameters"] if item["in"] == "query" and item["required"]}
    for parameter in described["parameters"]:
        name = parameter["name"]
        if parameter["in"] == "path":
            yield from ((API + path.format(**{**values, name: quote(text, safe="")}), sent) for text in PATH_TEXTS)
        if parameter["in"] == "query":
            yield from ((f"{place}?{urlencode({**asked, name: text})}", sent) for text in TEXTS)
        if parameter["in"] == "header":
            yield from ((place, {**sent, "headers": {**sent.get("headers", {}), name: text}}) for text in HEADERS)
    fields = fields_of(document, described)
    if fields:
        whole = ("", "{", "null", "[]", '{"zzz": 1}', *BODY_VALUES)
        yield from ((place, {**sent, "data": text, "content_type": "application/json"}) for text in whole)
    for name in fields:
        yield from ((place, body_with(sent, name, value)) for value in BODY_VALUES)


def never(word: str) -> None:
    raise AssertionError(f"{word} is no JSON")


@pytest.mark.parametrize(("method", "path"), list(MATRIX), ids=lambda value: value)
def test_no_value_breaks_an_address(method: str, path: str, world: World, document: dict[str, Any]) -> None:
    caller = caller_of(method, path, world)
    for place, sent in hostile(document, method, path, world):
        with transaction.atomic():
            answer = caller.generic(method, place, **sent)
            transaction.set_rollback(True)
        told = f"{method} {place[:200]} {str(sent)[:300]}: {answer.status_code}"
        assert answer.status_code < 500 or answer.status_code == 503, told  # there is no node here
        if method == "HEAD":
            continue
        if answer.status_code >= 400:
            assert is_error(answer), told
        elif not answer.streaming and answer.get("Content-Type", "").startswith("application/json"):
            json.loads(answer.content, parse_constant=never)


def is_time(shape: dict[str, Any]) -> bool:
    return shape.get("format") == "date-time" or any(map(is_time, shape.get("anyOf", [])))


def test_no_address_takes_a_number_for_a_time(world: World, document: dict[str, Any]) -> None:
    tried = []
    for method, path in MATRIX:
        described = document["paths"][API + path][method.lower()]
        place = API + path.format(**{**world.values, "name": ""})
        sent = request_of(method, path, world)
        requests = [
            (parameter["name"], f"{place}?{parameter['name']}=2030", sent)
            for parameter in described["parameters"]
            if parameter["in"] == "query" and is_time(parameter["schema"])
        ]
        fields = fields_of(document, described)
        requests += [(name, place, body_with(sent, name, "2030")) for name, shape in fields.items() if is_time(shape)]
        for name, address, request in requests:
            answer = world.callers["admin"].generic(method, address, **request)
            assert answer.status_code == 422, (method, path, name)
            assert name in {problem["field"] for problem in answer.json()["error"]["details"]}, (method, path, name)
            tried.append((method, path, name))
    assert len(tried) >= 12
