"""What `make` tells of its targets, and how those that run tests do it."""

import os
import re
import subprocess

import pytest

from harness.env import REPOSITORY


@pytest.mark.parametrize("threads", ["", "1", "7"])
def test_how_many_test_processes_there_are_is_told_by_cores_and_not_by_threads_of_one(threads):
    given = {name: value for name, value in os.environ.items() if name != "ARGS" and not name.startswith("MAKE")}
    told = subprocess.run(
        ["make", "--dry-run", "test"], cwd=REPOSITORY, env=given | {"OMP_NUM_THREADS": threads},
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    assert f"-m tests.postgres -n {len(os.sched_getaffinity(0)) + 1} " in told


def test_help_tells_every_target_that_a_person_types():
    phony = re.search(r"^\.PHONY: ([a-z -]+)", (REPOSITORY / "Makefile").read_text(), re.MULTILINE)[1].split()
    told = subprocess.run(["make", "help"], cwd=REPOSITORY, check=True, capture_output=True, text=True).stdout
    assert set(re.findall(r"^make ([a-z-]+)", told, re.MULTILINE)) == set(phony) - {"help", "setup", "setup-test"}
