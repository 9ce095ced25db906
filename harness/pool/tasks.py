"""Celery tasks of the pool: translate only."""

from __future__ import annotations

from typing import Any

from celery import shared_task

from harness.pool import services


@shared_task(name="control.node_report", time_limit=60)
def node_report(report: dict[str, Any]) -> None:
    """Heartbeat of an agent."""
    services.node_report(report)


@shared_task(name="control.node_leave", time_limit=60)
def node_leave(name: str, agent_id: str = "") -> None:
    """An agent's last word; those of an earlier release have no id."""
    services.node_leave(name, agent_id)
