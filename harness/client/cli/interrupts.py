"""Ctrl-C while the portal makes a job: whoever stops has to learn what was made, or it is taken away."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

import typer

from harness.client.cli.output import ExitCode, notes
from harness.client.client import Json


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

    signal.signal(signal.SIGINT, heard)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, was)
    if is_pressed:
        raise KeyboardInterrupt


def job_made(ask: Callable[[], Json]) -> Json:
    """The job that a request makes. Ctrl-C ends the command and names the job: the same command once more would make
    another."""
    job: Json = {}
    try:
        with answer_awaited():
            job = ask()
    except KeyboardInterrupt:
        if not job:
            raise
        interrupted(f"The job was made all the same: {job['id']} ({job['state']}). {_next_words(job)}")
    return job


def _next_words(job: Json) -> str:
    if job["state"] == "draft":
        return f"`dlh submit {job['id']}` submits it."
    return f"`dlh watch {job['id']}` follows it, `dlh cancel {job['id']}` ends it."


def interrupted(told: str) -> NoReturn:
    """End the command after Ctrl-C. Raises `typer.Exit`."""
    notes().print(f"Interrupted. {told}", markup=False, soft_wrap=True)
    raise typer.Exit(ExitCode.INTERRUPTED) from None
