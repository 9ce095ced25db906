"""What is sent compressed, and what never is."""

from __future__ import annotations

import gzip
from collections.abc import Iterator

import pytest
from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.test import RequestFactory

from harness.compression import CompressionMiddleware

LONG = b"the same words over and over. " * 100


def sent(response: HttpResponseBase, accepts: str = "gzip, br") -> HttpResponseBase:
    def view(_: HttpRequest) -> HttpResponseBase:
        return response

    answer = CompressionMiddleware(view)(RequestFactory().get("/", headers={"accept-encoding": accepts}))
    assert isinstance(answer, HttpResponseBase)
    return answer


@pytest.mark.parametrize("kind", ["text/html; charset=utf-8", "application/json"])
def test_pages_and_json_are_sent_smaller_to_who_can_read_them(kind: str) -> None:
    answer = sent(HttpResponse(LONG, content_type=kind))
    assert answer["Content-Encoding"] == "gzip" and "Accept-Encoding" in answer["Vary"]
    assert isinstance(answer, HttpResponse) and gzip.decompress(answer.content) == LONG
    assert len(answer.content) < len(LONG) / 2
    assert "Content-Encoding" not in sent(HttpResponse(LONG, content_type=kind), accepts="identity")


def words() -> Iterator[bytes]:
    yield LONG


@pytest.mark.parametrize(
    "response",
    [
        StreamingHttpResponse(words(), content_type="text/event-stream"),
        StreamingHttpResponse(words(), content_type="application/json"),
        HttpResponse(LONG, content_type="image/png"),
        HttpResponse(LONG, content_type="text/html", headers={"Cache-Control": "no-store"}),
        HttpResponse(b"short", content_type="text/html"),
    ],
    ids=["live words", "stream", "picture", "a secret that is shown once", "short"],
)
def test_streams_and_secrets_are_sent_as_they_are(response: HttpResponseBase) -> None:
    assert "Content-Encoding" not in sent(response)


def test_two_answers_of_the_same_words_differ_in_length() -> None:
    lengths = {len(sent(HttpResponse(LONG, content_type="text/html")).content) for _ in range(50)}  # type: ignore[attr-defined]
    assert len(lengths) > 1
