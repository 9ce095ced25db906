"""Celery tasks of a node: each translates a message and calls one function. Short and idempotent."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from worker import agent, exporting, heartbeat, inspection, programs, rate_range
from worker.celery_app import answer_to_control, app, send_to_control
from worker.elastic import resize as resizing
from worker.linking import part
from worker.plan import RunPlan
from worker.transfer.ahead import folders_want
from worker.transfer.depot import run_paths
from worker.transfer.requests import with_files


def _to(task: str) -> Callable[[dict[str, Any]], None]:
    """Sends an answer to control; what is of use now alone is not sent again: how far it is, where a node listens."""
    now_alone = {"progress", "port"}
    return lambda told: send_to_control(task, [told]) if now_alone & told.keys() else answer_to_control(task, told)


@app.task(name="node.start")
def start(plan: dict[str, Any]) -> bool:
    """Start this node's part of an attempt."""
    run_plan = RunPlan.from_dict(plan)
    started = agent.attempt_start(run_plan, run_paths(run_plan))
    heartbeat.heartbeat().now()
    return started


@app.task(name="node.stop")
def stop(job_id: str, token: int, how: str, stream: int = 0) -> bool:
    """Pause (`how` is `pause`) or cancel (`cancel`) an attempt, or have it save its copy and end (`rescue`).

    `stream`: that of its events.
    """
    return agent.attempt_stop(job_id, token, how, stream)


@app.task(name="node.resize")
def resize(job_id: str, token: int, number: int, slots: list[int]) -> bool:
    """Have an elastic attempt go on with these ranks; `number` tells an older wish from a newer one."""
    return resizing.attempt_resize(job_id, token, number, slots)


@app.task(name="node.probe")
def probe() -> None:
    """Report the node's state now."""
    heartbeat.heartbeat().now()


@app.task(name="node.predict")
def predict(request: dict[str, Any]) -> None:
    """Have a job's predict.py run on an input and tell control."""
    programs.queue().put(lambda: answer_to_control("control.prediction_done", programs.predict(request)))


@app.task(name="node.export")
def export(request: dict[str, Any]) -> None:
    """Have a job's trained model exported as ONNX and tell control."""
    exporting.queue().put(lambda: answer_to_control("control.export_done", exporting.export(request)))


@app.task(name="node.check")
def check(request: dict[str, Any]) -> None:
    """Have a job's program tried on a few rows and tell control."""
    send = _to("control.check_done")

    def work() -> None:
        send_to_control("control.check_begun", [{"check_id": request["check_id"]}])
        with_files(request, lambda here: send(programs.check(here)), send)

    programs.queue().put(work)


@app.task(name="node.inspect")
def inspect(request: dict[str, Any]) -> None:
    """Have a program read without running it, and tell control what a step of it does."""
    send = _to("control.inspect_done")
    programs.queue().put(lambda: with_files(request, lambda here: send(inspection.inspect(here)), send))


@app.task(name="node.measure")
def measure(request: dict[str, Any]) -> None:
    """Have some real steps of a program timed (or a link), and tell control each answer as it comes."""
    send = _to("control.measure_done")
    programs.measuring_queue().put(
        lambda: with_files(request, lambda here: inspection.measure(here, send), send),
    )


@app.task(name="node.link")
def link(request: dict[str, Any]) -> None:
    """Take part in timing the link to another node, and tell control."""
    came_s = time.monotonic()
    send = _to("control.link_told")
    programs.measuring_queue().put(lambda: part.link_time(request, send, waited_s=time.monotonic() - came_s))


@app.task(name="node.rate_range")
def rate_test(request: dict[str, Any]) -> None:
    """Have a learning-rate range test of a program made, and tell control how far it is and what came of it."""
    send = _to("control.rate_range_done")
    programs.measuring_queue().put(
        lambda: with_files(request, lambda here: rate_range.rate_test(here, send), send),
    )


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
