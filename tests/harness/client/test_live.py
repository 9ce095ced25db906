"""Reading server-sent events, and following a job by them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from harness.client.errors import ApiError, ClientError, Unreachable
from harness.client.live import LiveEvent, events_read
from harness.client.patience import AWAY_S
from harness.client.watch import job_updates, log_follow


def test_events_are_read_as_the_standard_says() -> None:
    lines = [
        ": hello", "id: 7-0", "event: metric", 'data: {"a":', "data: 1}", "", "event: empty", "", "data:no space",
        "retry: 10", "", "data: never ended",
    ]  # fmt: skip
    assert list(events_read(lines)) == [
        LiveEvent(id="", name="ping", data=None),
        LiveEvent(id="7-0", name="metric", data={"a": 1}),
        LiveEvent(id="7-0", name="message", data="no space"),
    ]


class FakeClient:
    """A portal whose job passes through states, with a live stream that may be away."""

    def __init__(self, states: list[str], events: list[str] | None = None) -> None:
        self.states, self.events, self.asked = states, events, 0

    def job(self, job_id: str) -> dict[str, Any]:
        state = self.states[min(self.asked, len(self.states) - 1)]
        self.asked += 1
        return {"id": job_id, "state": state}

    @contextmanager
    def live(self, *topics: str) -> Iterator[Iterator[LiveEvent]]:
        if self.events is None:
            raise Unreachable("no stream")
        yield (LiveEvent(id="1-0", name=name, data={}) for name in self.events)


def states_seen(client: FakeClient) -> list[str]:
    return [job["state"] for job in job_updates(client, "x", sleep=lambda _: None)]  # type: ignore[arg-type]


def test_a_job_is_followed_by_events_to_its_end() -> None:
    client = FakeClient(["queued", "queued", "running", "succeeded"], ["state", "state", "state"])
    assert states_seen(client) == ["queued", "queued", "running", "succeeded"]


def test_an_end_that_came_before_the_stream_opened_is_not_missed() -> None:
    assert states_seen(FakeClient(["running", "succeeded"], ["ping"])) == ["running", "succeeded"]


def test_without_a_stream_the_job_is_polled() -> None:
    assert states_seen(FakeClient(["queued", "running", "running", "running", "running", "failed"]))[-1] == "failed"


def test_a_stream_that_ends_early_is_opened_again() -> None:
    assert states_seen(FakeClient(["queued"] * 6 + ["running"] * 6 + ["succeeded"], ["state"]))[-1] == "succeeded"


def test_a_job_at_rest_needs_no_stream() -> None:
    assert states_seen(FakeClient(["paused"])) == ["paused"]


class Away(FakeClient):
    """Its portal is away after the first answer, for so many seconds and in this way."""

    def __init__(self, seconds: float, error: ClientError) -> None:
        super().__init__(["running", "succeeded"])
        self.seconds, self.error, self.now_s = seconds, error, 0.0
        self.told: list[ClientError] = []

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def job(self, job_id: str) -> dict[str, Any]:
        if self.asked and self.now_s < self.seconds:
            raise self.error
        return super().job(job_id)

    def followed(self) -> list[str]:
        jobs = job_updates(self, "x", away=self.told.append, sleep=self.sleep, clock_s=lambda: self.now_s)  # type: ignore[arg-type]
        return [job["state"] for job in jobs]


FULL = ApiError(507, {"code": "disk_full", "message": "The disk of this installation is full."})


@pytest.mark.parametrize("error", [Unreachable("nobody listens"), FULL], ids=["away", "its disk is full"])
def test_a_portal_that_is_away_for_minutes_is_outlasted_and_told_once(error: ClientError) -> None:
    client = Away(AWAY_S - 10, error)
    assert client.followed() == ["running", "succeeded"] and client.told == [error]


def test_a_portal_that_stays_away_and_a_job_that_is_gone_are_told_as_errors() -> None:
    with pytest.raises(Unreachable):
        Away(AWAY_S + 10, Unreachable("nobody listens")).followed()
    gone = Away(10, ApiError(404, {"code": "not_found", "message": "There is no such job."}))
    with pytest.raises(ApiError):
        gone.followed()
    assert not gone.told


def test_a_draft_that_is_queued_while_the_portal_reads_it_is_followed() -> None:
    class Torn(FakeClient):
        def job(self, job_id: str) -> dict[str, Any]:
            return {**super().job(job_id), "rate_test_first": self.asked == 1}

    assert states_seen(Torn(["draft", "draft", "queued", "succeeded"]))[-1] == "succeeded"


def test_followed_logs_come_once_and_go_on_in_the_next_attempt() -> None:
    class Logs(FakeClient):
        def job_part(self, job_id: str, part: str, **params: Any) -> dict[str, Any]:
            token = 1 if self.asked < 3 else 2
            count = self.asked + 1 if token == 1 else 2
            lines = [
                {"token": token, "rank": 0, "line": number, "text": f"{token}.{number}", "level": "info"}
                for number in range(params.get("after_line", 0) + 1, count + 1)
            ]
            return {"lines": lines, "ranks": [0], "token": token, "more": False}

    client = Logs(["running", "running", "queued", "running", "succeeded"])
    lines = [line["text"] for line in log_follow(client, "x", sleep=lambda _: None)]  # type: ignore[arg-type]
    assert lines == ["1.1", "1.2", "1.3", "2.1", "2.2"]


def test_the_last_words_of_an_attempt_are_told_though_the_next_one_runs_already() -> None:
    written = {1: 1, 2: 0}

    class Logs(FakeClient):
        def job_part(self, job_id: str, part: str, **params: Any) -> dict[str, Any]:
            if self.asked > 1:
                written.update({1: 3, 2: 1})
            token = params.get("token", 2 if written[2] else 1)
            first = params.get("after_line", 0) + 1
            lines = [
                {"token": token, "rank": 0, "line": number, "text": f"{token}.{number}", "level": "info"}
                for number in range(first, written[token] + 1)
            ]
            return {"lines": lines, "ranks": [0], "token": token, "more": False}

    client = Logs(["running", "running", "succeeded"])
    lines = [line["text"] for line in log_follow(client, "x", sleep=lambda _: None)]  # type: ignore[arg-type]
    assert lines == ["1.1", "1.2", "1.3", "2.1"]


@pytest.mark.parametrize("part", ["job", "head", "page"])
def test_followed_logs_outlast_a_portal_that_is_away_and_repeat_no_line(part: str) -> None:
    class Logs(Away):
        def back_check(self, asked: str) -> None:
            if asked == part and self.asked > 1 and self.now_s < self.seconds:
                raise self.error

        def job(self, job_id: str) -> dict[str, Any]:
            self.back_check("job")
            return FakeClient.job(self, job_id)

        def job_part(self, job_id: str, part: str, **params: Any) -> dict[str, Any]:
            self.back_check("page" if "after_line" in params else "head")
            numbers = range(params.get("after_line", 0) + 1, self.asked + 1)
            lines = [{"token": 1, "rank": 0, "line": number, "text": str(number), "level": ""} for number in numbers]
            return {"lines": lines, "ranks": [0], "token": 1, "more": False}

    client = Logs(AWAY_S - 10, Unreachable("nobody listens"))
    client.states = ["running", "running", "succeeded"]
    followed = log_follow(client, "x", away=client.told.append, sleep=client.sleep, clock_s=lambda: client.now_s)  # type: ignore[arg-type]
    assert [line["text"] for line in followed] == ["1", "2", "3"] and len(client.told) == 1
