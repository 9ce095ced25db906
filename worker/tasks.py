"""Celery tasks of a node: each translates a message and calls one function. Short and idempotent."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from celery import current_task
from kombu.exceptions import KombuError
from redis import RedisError

from worker import agent, exporting, heartbeat, inspection, programs, rate_range, unanswered
from worker.answers import NOW_ALONE, Request, Send, answered
from worker.celery_app import answer_to_control, app, send_to_control
from worker.elastic import resize as resizing
from worker.linking import part
from worker.plan import RunPaths, RunPlan
from worker.transfer.ahead import folders_want
from worker.transfer.depot import run_paths
from worker.transfer.requests import with_files


def _to(task: str) -> Send:
    """Sends an answer to control; what is of use now alone is not sent again."""
    return lambda told: send_to_control(task, [told]) if NOW_ALONE & told.keys() else answer_to_control(task, told)


def _expires_s() -> float | None:
    """When the message of the task under way expires, unix time."""
    told: Any = current_task.request.expires
    return datetime.fromisoformat(told).timestamp() if told else None


def _put(
    queue: programs.ProgramQueue,
    task: str,
    request: Request,
    work: Callable[[Send], None],
    *,
    ends_with_message: bool = True,
) -> None:
    """Have it done as soon as a thread is free, and answered by a task of control. `ends_with_message`: that gives it
    up when the message expires."""
    file = unanswered.note(task, request, _expires_s() if ends_with_message else None)

    def answer() -> None:
        try:
            answered(request, _to(task), work)
        finally:
            unanswered.strike(file)

    queue.put(answer)


def _put_with_files(
    queue: programs.ProgramQueue, task: str, request: Request, work: Callable[[Request, Send], None]
) -> None:
    """The same, with the request's folders on this machine."""
    _put(queue, task, request, lambda send: with_files(request, lambda here: work(here, send), send))


@app.task(name="node.start")
def start(plan: dict[str, Any]) -> bool:
    """Start this node's part of an attempt."""
    run_plan, started = RunPlan.from_dict(plan), False
    try:
        paths = run_paths(run_plan)
    except OSError as error:  # of the node's own cache
        agent.attempt_refuse(run_plan, RunPaths(Path(run_plan.job_dir)), error)
    else:
        started = agent.attempt_start(run_plan, paths)
    heartbeat.heartbeat().now()
    return started


@app.task(name="node.stop")
def stop(job_id: str, token: int, how: str, stream: int = 0) -> bool:
    """Pause (`how` is `pause`) or cancel (`cancel`) an attempt, or have it save its copy and end (`rescue`).

    `end`: its ranks end as if cancelled, but what they have made is wanted. `stream`: that of its events.
    """
    return agent.attempt_stop(job_id, token, how, stream)


@app.task(name="node.resize")
def resize(job_id: str, token: int, number: int, slots: list[int]) -> bool:
    """Have an elastic attempt go on with these ranks; `number` tells an older wish from a newer one."""
    return resizing.attempt_resize(job_id, token, number, slots)


@app.task(name="node.predict")
def predict(request: dict[str, Any]) -> None:
    """Have a job's predict.py run on an input and tell control."""
    _put(programs.queue(), "control.prediction_done", request, lambda send: send(programs.predict(request)))


@app.task(name="node.export")
def export(request: dict[str, Any]) -> None:
    """Have a job's trained model exported as ONNX and tell control."""
    _put(exporting.queue(), "control.export_done", request, lambda send: send(exporting.export(request)))


@app.task(name="node.check")
def check(request: dict[str, Any]) -> None:
    """Have a job's program tried on a few rows and tell control."""

    def work(send: Send) -> None:
        with suppress(KombuError, RedisError, OSError):  # who waits is not told that it has begun
            send_to_control("control.check_begun", [{"check_id": request["check_id"]}])
        with_files(request, lambda here: send(programs.check(here)), send)

    _put(programs.queue(), "control.check_done", request, work)


@app.task(name="node.inspect")
def inspect(request: dict[str, Any]) -> None:
    """Have a program read without running it, and tell control what a step of it does."""
    _put_with_files(
        programs.queue(), "control.inspect_done", request, lambda here, send: send(inspection.inspect(here))
    )


@app.task(name="node.measure")
def measure(request: dict[str, Any]) -> None:
    """Have some real steps of a program timed (or a link), and tell control each answer as it comes."""
    _put_with_files(programs.measuring_queue(), "control.measure_done", request, inspection.measure)


@app.task(name="node.measure_stop")
def measure_stop(request_id: str) -> None:
    """Have steps ended that nobody waits for any more."""
    inspection.measure_stop(request_id)


@app.task(name="node.link")
def link(request: dict[str, Any]) -> None:
    """Take part in timing the link to another node, and tell control."""
    came_s = time.monotonic()

    def work(send: Send) -> None:
        part.link_time(request, send, waited_s=time.monotonic() - came_s)

    # It is to begin within seconds, and is waited for longer; its id is of this one order alone.
    _put(programs.measuring_queue(), "control.link_told", request, work, ends_with_message=False)


@app.task(name="node.rate_range")
def rate_test(request: dict[str, Any]) -> None:
    """Have a learning-rate range test of a program made, and tell control how far it is and what came of it."""
    _put_with_files(programs.measuring_queue(), "control.rate_range_done", request, rate_range.rate_test)


@app.task(name="node.rate_stop")
def rate_stop(request_id: str) -> None:
    """Have a range test ended that nobody waits for any more."""
    rate_range.rate_test_stop(request_id)


@app.task(name="node.preload")
def preload(folders: list[str]) -> None:
    """Have folders of the store in the cache before the jobs start that wait for this node, the most urgent first."""
    folders_want(folders)


@app.task(name="node.purge")
def purge(job_id: str) -> None:
    """Forget a job."""
    agent.job_purge(job_id)
