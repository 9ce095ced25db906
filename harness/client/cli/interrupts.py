"""Ctrl-C while the portal makes a job: whoever stops has to learn what was made, or it is taken away."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

import typer

from harness.client.cli.output import ExitCode, notes, standing
from harness.client.client import Client, Json
from harness.client.errors import ClientError


@contextmanager
def answer_awaited() -> Iterator[None]:
    """Let a request be answered: Ctrl-C counts after it; pressed a second time, at once."""
    was = signal.getsignal(signal.SIGINT)
    if was is not signal.default_int_handler or threading.current_thread() is not threading.main_thread():
        yield
        return
    is_pressed = False

    def heard(number: int, frame: FrameType | None) -> None:
        nonlocal is_pressed
        if is_pressed:
            raise KeyboardInterrupt
        is_pressed = True
        notes().print("Waiting for the portal's answer; Ctrl-C again ends at once.", markup=False, soft_wrap=True)

    signal.signal(signal.SIGINT, heard)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, was)
    if is_pressed:
        raise KeyboardInterrupt


def job_made(ask: Callable[[], Json], submitted_by: str = "`dlh submit {}`") -> Json:
    """The job that a request makes. Ctrl-C ends the command and names the job: the same command once more would make
    another. `submitted_by`: what submits a draft of this id."""
    job: Json = {}
    try:
        with answer_awaited():
            job = ask()
    except KeyboardInterrupt:
        if not job:
            interrupted("A job may have been made: look with `dlh jobs`.")
        told = f"{job['id']} ({standing(job).rstrip('.')})"
        interrupted(f"The job was made all the same: {told}. {_next_words(job, submitted_by)}")
    return job


@contextmanager
def submit_awaited(client: Client, job_id: str) -> Iterator[None]:
    """Around what submits a draft. Ctrl-C ends the command after it, and tells what has become of the job."""
    is_answered = False
    try:
        with answer_awaited():
            yield
            is_answered = True
    except KeyboardInterrupt:
        interrupted(_submitted_words(client, job_id) if is_answered else _unsure_words(job_id))


def _submitted_words(client: Client, job_id: str) -> str:
    try:
        job = client.job(job_id)
    except (KeyboardInterrupt, ClientError):
        return _unsure_words(job_id)
    return f"The job is {job_id} ({standing(job).rstrip('.')}). {_next_words(job)}"


def _unsure_words(job_id: str) -> str:
    return f"The job is {job_id}; it may have been submitted: look with `dlh show {job_id}`."


def _next_words(job: Json, submitted_by: str = "`dlh submit {}`") -> str:
    if job["state"] == "draft" and not job.get("rate_test_first"):
        return f"{submitted_by.format(job['id'])} submits it."
    return f"`dlh watch {job['id']}` follows it, `dlh cancel {job['id']}` ends it."


def interrupted(told: str) -> NoReturn:
    """End the command after Ctrl-C. Raises `typer.Exit`."""
    notes().print(f"Interrupted. {told}", markup=False, soft_wrap=True)
    raise typer.Exit(ExitCode.INTERRUPTED) from None
