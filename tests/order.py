"""Which tests run where and in which order: by what they do with the database, and by how long their files take."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
WAITING = {"ranks", "stack", "browser"}
WAITING_FOLDERS = ("e2e", "worker")
"""Where `make test` looks for tests with one of these marks, so that their processes need not read all the others."""
SLOWEST = (
    "e2e/test_node_without_store", "worker/runtime/test_family_modes", "worker/elastic/test_several_nodes",
    "worker/elastic/test_members",
    "worker/runtime/pipeline/test_stage", "e2e/test_bad_input", "e2e/test_faults", "e2e/test_stack_again",
    "e2e/test_several_nodes", "e2e/test_object_store", "worker/runtime/test_async", "e2e/test_demo", "e2e/test_pages",
    "e2e/test_fault_kills", "e2e/test_fault_services", "e2e/test_fault_nodes", "e2e/test_pages_flow",
    "e2e/test_scheduling", "e2e/test_elastic_nodes", "worker/runtime/test_resume", "e2e/test_backup", "e2e/test_jobs",
    "e2e/test_fault_disk", "e2e/test_staged_offer", "e2e/test_elastic", "e2e/test_calibration",
    "e2e/test_elastic_width", "e2e/test_elastic_first_node", "e2e/test_data_on_their_way",
    "worker/runtime/test_other_ranks", "worker/test_supervisor", "e2e/test_rates",
    "worker/test_inspection", "e2e/test_pause_and_cancel", "e2e/test_offer", "worker/elastic/test_spread",
    "e2e/test_fault_stages", "harness/jobs/test_kill_points", "harness/jobs/test_width_kill_points",
    "harness/jobs/test_rescue_kill_points", "harness/jobs/test_readers", "harness/pool/test_turn",
    "harness/backup/test_killed_restore", "harness/api/test_access", "harness/pages/test_access",
    "harness/api/test_hostile_values",
    "harness/backup/test_restore",
)  # fmt: skip
"""Files that take longer than their number of tests says, the longest first as `--durations=0` told. A test process is
given whole files, the next one when it is done."""


def commits(item: pytest.Item) -> bool:
    """Whether the test makes transactions of its own, whose locks and errors are not the same on each database; those
    that merely ask a portal which serves another thread do not count."""
    marker = item.get_closest_marker("django_db")
    if marker is not None and marker.kwargs.get("transaction"):
        return True
    fixtures = getattr(item, "fixturenames", ())
    return "transactional_db" in fixtures and "live_server" not in fixtures


def misplaced(items: list[pytest.Item]) -> list[str]:
    """Tests that `make test` would not find: they have a mark of those that wait, but lie elsewhere."""
    waiting = [item for item in items if any(item.get_closest_marker(mark) for mark in WAITING)]
    folders = [TESTS / name for name in WAITING_FOLDERS]
    return [item.nodeid for item in waiting if not any(item.path.is_relative_to(folder) for folder in folders)]


def slow_first(items: list[pytest.Item]) -> None:
    """Sort by file: the slowest first, the others by how many tests they have; within a file all stays as it is."""
    ranks = {name: number for number, name in enumerate(SLOWEST)}
    counts = Counter(item.path for item in items)

    def place(item: pytest.Item) -> tuple[int, int]:
        name = item.path.relative_to(TESTS).with_suffix("").as_posix() if item.path.is_relative_to(TESTS) else ""
        return ranks.get(name, len(ranks)), -counts[item.path]

    items.sort(key=place)
