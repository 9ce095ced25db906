"""What every call of the API needs, whatever it is about: sending, pages of a list, waiting, live events."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

import httpx

from harness.client.errors import WaitTimeout
from harness.client.live import LiveEvent, events_read
from harness.client.patience import AWAY_S, Away, outlasting, untold
from harness.client.transport import Transport

Json = dict[str, Any]
_POLL_S = 1.0
_PAGE_SIZE_MAX = 200
"""As many as the portal gives at once."""


class Calls:
    """One person at one portal, by paths."""

    def __init__(self, url: str, token: str = "", *, project: str = "", away: Away = untold) -> None:
        self.transport = Transport(url, token)
        self.project = project
        """Slug used where a project is needed and none is named."""
        self.away = away
        """Told of a portal that does not answer any more while something is waited for."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.transport.close()

    def get(self, path: str, **params: Any) -> Any:
        """GET below /api/v1; parameters that are None or empty are left out."""
        return self.transport.json("GET", path, params=params_given(params))

    def get_waiting(self, path: str, *, for_s: float = AWAY_S, **params: Any) -> Any:
        """GET for who waits for something: outlasts for so long a portal that has answered and is away now."""
        for_s = for_s if self.transport.has_answered else 0.0
        return outlasting(lambda: self.get(path, **params), self.away, for_s=for_s)

    def send(self, method: str, path: str, body: Json | None = None) -> Any:
        """POST, PUT, PATCH or DELETE with a JSON body."""
        return self.transport.json(method, path, json=body) if body is not None else self.transport.json(method, path)

    def items(self, path: str, **params: Any) -> Iterator[Json]:
        """Every item of a paged list."""
        page = 1
        while True:
            body = self.get(path, page=page, page_size=_PAGE_SIZE_MAX, **params)
            yield from body["items"]
            if page >= body["pages"]:
                return
            page += 1

    def first(self, path: str, limit: int, **params: Any) -> Json:
        """So many items of a paged list as one page, which may be longer than those that the portal gives.

        What moves on to the next page, as something new comes before it, is listed once.
        """
        size = min(limit, _PAGE_SIZE_MAX)
        found: Json = self.get(path, page_size=size, **params)
        for page in range(2, min(found["pages"], -(-limit // size)) + 1):
            seen = {item["id"] for item in found["items"] if "id" in item}
            more = self.get(path, page=page, page_size=size, **params)["items"]
            found["items"] += [item for item in more if item.get("id") not in seen]
        items, pages = found["items"][:limit], max(1, -(-found["total"] // limit))
        return {**found, "items": items, "page_size": limit, "pages": pages}

    def _wait(
        self,
        path: str,
        done: Callable[[Json], bool],
        timeout_s: float | None,
        progress: Callable[[Json], None] | None,
        **params: Any,
    ) -> Json:
        end_s = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            left_s = AWAY_S if end_s is None else max(0.0, end_s - time.monotonic())
            body: Json = self.get_waiting(path, for_s=min(AWAY_S, left_s), **params)
            if progress:
                progress(body)
            if done(body):
                return body
            if end_s is not None and time.monotonic() > end_s:
                raise WaitTimeout(
                    f"It is still {body['state']} after {timeout_s:.0f} s.", hint="It continues; ask again later."
                )
            time.sleep(_POLL_S)

    @contextmanager
    def live(self, *topics: str, last_id: str = "") -> Iterator[Iterator[LiveEvent]]:
        """Live events of topics (`job:<id>`, `jobs`, `pool`, `dataset:<id>`) as they happen."""
        headers = {"Accept": "text/event-stream", **({"Last-Event-ID": last_id} if last_id else {})}
        # The portal sends a comment every 15 s: silence for three of them is a broken line.
        timeout = httpx.Timeout(45.0, connect=10.0)
        params = {"topics": ",".join(topics)}
        with self.transport.stream("/live", root="", params=params, headers=headers, timeout=timeout) as response:
            yield events_read(response.iter_lines())


def params_given(params: dict[str, Any]) -> dict[str, Any]:
    """Without those that are None or empty."""
    return {key: value for key, value in params.items() if value not in (None, "", [])}
