"""Which nodes try a program with the weights that its job starts from: agents of an earlier release leave them aside.

A run is no matter of this: such an agent refuses its plan.
"""

from __future__ import annotations

from harness.errors import Conflict
from harness.jobs.models import Job
from harness.pool.models import Node

TOLD = "start_weights"
"""Key of `Node.description`, by which an agent says that it knows of them (`worker.heartbeat`)."""


def node_tries(node: Node, job: Job) -> bool:
    """Whether what it tries of the job's program starts as a run of it does."""
    return job.weights_id is None or bool(node.description.get(TOLD))


def only_older_nodes() -> Conflict:
    """Where none does."""
    return Conflict(
        "This job starts from a weights file, and the agents of all nodes that could try its program are of an earlier "
        "release: they would try it with fresh weights.",
        code="older_agents",
        hint="An admin updates the nodes and starts their agents anew.",
    )
