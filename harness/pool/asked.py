"""What the pool asks of the apps above."""

from __future__ import annotations

from collections.abc import Sequence

from harness.hooks import Question
from harness.pool.models import Node

RETURNING: Question[[Node], Sequence[str]] = Question()
"""Names of jobs whose ranks have ended, and whose results the node has still to return."""
