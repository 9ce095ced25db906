"""No value that a caller may write breaks an address: every field and parameter of the OpenAPI document is tried.

What a tester made from the document alone (schemathesis) found is kept by these few values; it finds more only where
answers change, and would bring twenty packages.

Each is tried where the address would do its work: without such a value it does, but for those in `REFUSED`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from django.core.cache import cache
from django.db import transaction
from django.test import Client

from harness.api.app import api
from tests.harness.api.access_matrix import MATRIX, NAMES
from tests.harness.api.access_requests import query_of, request_of
from tests.harness.api.access_world import World
from tests.harness.api.conftest import API, client_of, is_error
from tests.harness.api.hostile_world import NODE_SECRET, ready_make

REFUSED: dict[tuple[str, str], int] = {
    ("POST", "/queue/{job_id}/move"): 409,  # no other job waits
    ("POST", "/queue/{job_id}/move/consequences"): 409,
    ("POST", "/offers/{offer_id}/accept"): 409,  # the offer is of a pool that is not there
    ("POST", "/node/runs/{job_id}/{token}/commit"): 422,  # no file was sent before
    ("POST", "/pool/links"): 409,  # there is one node
    ("POST", "/pool/calibration/points"): 422,  # an empty file
    ("GET", "/pool/readers"): 503,  # there is no broker
    ("GET", "/health"): 503,
}
"""What the address answers although nothing is wrong with the request."""
# As JSON, since some of them are none of Python's: numbers that no column holds, text that cannot be kept, wrong kinds.
NUMBERS = ("NaN", f"{10**30}", "-1", "true", '"\\ud800"')
BODY_VALUES = (
    *NUMBERS, '"a\\u0000"', "[]",
    '[{"a": NaN}]', f'{{"a": {10**30}}}', f'"{"x" * 3000}"', "[" * 40 + "]" * 40,
)  # fmt: skip
WHOLE = ("", "{", "null", '{"zzz": 1}', *BODY_VALUES)
"""Instead of a body. All are read in one place, so that one address of each kind takes them, and those of
`OWN_READING`."""
OWN_READING = {"/jobs/{job_id}/predictions"}
NUMBER_TEXTS = ("nan", str(10**30), "-1", "")
TEXTS = (*NUMBER_TEXTS, "x" * 3000, "\u202e\u0007")
PATH_NUMBERS = (str(10**30), "-1", "x")
PATH_TEXTS = ("x" * 2000, "\u202e")
HEADERS = ("", "-1", "9" * 40, "x" * 900)
Sent = tuple[str, dict[str, Any]]
"""(address, the rest of a request)."""


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return json.loads(json.dumps(api.get_openapi_schema(path_prefix="/api/v1/"), default=str))


def caller_of(method: str, path: str, world: World) -> Client:
    """Who may do most here."""
    kind = MATRIX[method, path]
    return client_of(NODE_SECRET) if kind == "node" else world.callers["admin" if kind == "admin" else "owner"]


def fields_of(document: dict[str, Any], described: dict[str, Any]) -> dict[str, Any]:
    """Fields of the JSON body that the address takes; none: it takes no such body."""
    content = described.get("requestBody", {}).get("content", {}).get("application/json", {})
    shapes = [content.get("schema", {})]
    for shape in shapes:  # which grows: a body that may be left out is one of two
        if "$ref" in shape:
            shapes.append(document["components"]["schemas"][shape["$ref"].rsplit("/", 1)[1]])
        shapes.extend(shape.get("anyOf", []))
    return next((shape["properties"] for shape in shapes if "properties" in shape), {})


def is_number(shape: dict[str, Any]) -> bool:
    """Whether nothing but a number, true or false is taken there."""
    parts = shape.get("anyOf", [shape])
    return all(part.get("type") in {"integer", "number", "boolean", "null"} for part in parts)


def takes_whole(document: dict[str, Any]) -> set[tuple[str, str]]:
    """Rows at which all of `WHOLE` are tried."""
    first: dict[str, tuple[str, str]] = {}
    for (method, path), kind in MATRIX.items():
        if fields_of(document, document["paths"][API + path][method.lower()]):
            first.setdefault(kind, (method, path))
    return set(first.values()) | {("POST", path) for path in OWN_READING}


def body_with(sent: dict[str, Any], name: str, value: str) -> dict[str, Any]:
    """The request with one field of its body set to what this JSON says."""
    rest = {key: kept for key, kept in json.loads(sent.get("data", "{}")).items() if key != name}
    pairs = [f"{json.dumps(key)}: {json.dumps(kept)}" for key, kept in rest.items()]
    return {**sent, "data": "{" + ", ".join([*pairs, f"{json.dumps(name)}: {value}"]) + "}",
            "content_type": "application/json"}  # fmt: skip


def hostile(document: dict[str, Any], method: str, path: str, world: World) -> Iterator[Sent]:
    """Requests with one value each that nobody means; the first has none."""
    described = document["paths"][API + path][method.lower()]
    values = {**world.values, "name": NAMES.get(path.split("/")[1], "")}
    asked, sent = query_of(method, path, world), request_of(method, path, world)
    place, query = API + path.format(**values), f"?{urlencode(asked)}" if asked else ""
    yield f"{place}{query}", sent
    for parameter in described["parameters"]:
        name, of_number = parameter["name"], is_number(parameter["schema"])
        if parameter["in"] == "path":
            for text in PATH_NUMBERS if of_number else PATH_TEXTS:
                yield API + path.format(**{**values, name: quote(text, safe="")}) + query, sent
        if parameter["in"] == "query":
            for text in NUMBER_TEXTS if of_number else TEXTS:
                yield f"{place}?{urlencode({**asked, name: text})}", sent
        if parameter["in"] == "header":
            yield from ((place, {**sent, "headers": {**sent.get("headers", {}), name: text}}) for text in HEADERS)
    if (method, path) in takes_whole(document):
        yield from ((place, {**sent, "data": text, "content_type": "application/json"}) for text in WHOLE)
    for name, shape in fields_of(document, described).items():
        for value in NUMBERS if is_number(shape) else BODY_VALUES:
            yield place, body_with(sent, name, value)


def never(word: str) -> None:
    raise AssertionError(f"{word} is no JSON")


def rows() -> Iterator[Any]:
    """All of the matrix; those that write on both databases: SQLite keeps NaN as NULL, PostgreSQL refuses NUL."""
    for method, path in MATRIX:
        marks = [pytest.mark.both_databases] if method in {"POST", "PUT", "PATCH"} else []
        yield pytest.param(method, path, marks=marks)


@pytest.mark.parametrize(("method", "path"), list(rows()), ids=lambda value: value)
def test_no_value_breaks_an_address(method: str, path: str, world: World, document: dict[str, Any]) -> None:
    cache.clear()
    ready_make(method, path, world)
    caller, expected = caller_of(method, path, world), REFUSED.get((method, path), 200)
    for number, (place, sent) in enumerate(hostile(document, method, path, world)):
        with transaction.atomic():
            answer = caller.generic(method, place, **sent)
            transaction.set_rollback(True)
        told = f"{method} {place[:200]} {str(sent)[:300]}: {answer.status_code}"
        if number == 0:
            assert answer.status_code == expected or (expected == 200 and answer.status_code < 300), told
        assert answer.status_code != 429, told
        if answer.status_code >= 500:  # what the address needs is away, with any value
            assert answer.status_code == expected == 503, told
            if path != "/health":
                assert answer.json()["error"]["code"] == "unavailable", told
        if method == "HEAD":
            continue
        if answer.status_code >= 400 and path != "/health":
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
