"""Celery tasks of calibration: translate only."""

from __future__ import annotations

from typing import Any

from celery import shared_task

from harness.measuring import answers, fitting, learning, node_links, ran_out, sweep


@shared_task(name="control.calibrate")
def calibrate() -> None:
    """Have open sweeps take their next step, keep what finished jobs cost and which ran out of memory, priors be those
    that ship now, and links between nodes timed."""
    sweep.calibrations_advance()
    learning.jobs_learn()
    ran_out.ran_out_learn()
    fitting.priors_refresh()
    node_links.links_advance()


@shared_task(name="control.job_learn")
def job_learn(job_id: str) -> None:
    """Keep what a finished job cost."""
    learning.job_learn(job_id)


@shared_task(name="control.measure_done")
def measure_done(report: dict[str, Any]) -> None:
    """A node's answer to `node.measure`: of a sweep, or of a probe of somebody's program."""
    answers.measure_done(report)


@shared_task(name="control.link_told")
def link_told(report: dict[str, Any]) -> None:
    """What a node says when it was asked to time the link to another."""
    node_links.link_told(report)


@shared_task(name="control.calibration_fit")
def calibration_fit(kind: str, model_name: str, run_id: str = "") -> None:
    """Fit the model of a kind of device."""
    fitting.model_fit(kind, model_name, run_id)


@shared_task(name="control.calibration_learn")
def calibration_learn(kind: str, model_name: str) -> None:
    """Have finished jobs correct the model of a kind of device."""
    fitting.model_correct(kind, model_name)
