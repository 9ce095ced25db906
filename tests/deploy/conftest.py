"""What checks deploy/ without an engine: the tools come as pinned wheels (extra `checks`), for Linux on x86-64."""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

DEPLOY = Path(__file__).resolve().parent.parent.parent / "deploy"
COMPOSE = DEPLOY / "compose"
NO_TOOLS = "DEPLOY NOT CHECKED: docker-compose, hadolint, helm and caddy come as wheels for Linux on x86-64 only"
HERE = sys.platform == "linux" and platform.machine() == "x86_64"


def pytest_collection_modifyitems(items):
    if not HERE:
        for item in items:
            if item.path.parent == Path(__file__).parent:
                item.add_marker(pytest.mark.skip(reason=NO_TOOLS))


def pytest_terminal_summary(terminalreporter):
    if any(NO_TOOLS in str(report.longrepr) for report in terminalreporter.stats.get("skipped", ())):
        terminalreporter.write_line(NO_TOOLS, red=True, bold=True)


@pytest.fixture
def tool():
    """Run a program of the environment: `tool("hadolint", ...)`."""

    def run(name, *arguments, **options):
        command = [Path(sys.executable).parent / name, *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, **options)

    return run


@pytest.fixture
def compose(tool, tmp_path):
    def run(*arguments, files=("compose.yaml",), **given):
        environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), **given}
        named = [word for name in files for word in ("-f", COMPOSE / name)]
        return tool("docker-compose", *named, "--env-file", "/dev/null", *arguments, env=environment)

    return run


@pytest.fixture
def config(compose):
    """What compose makes of the files, with every profile."""

    def read(*files, **given):
        done = compose("--profile", "*", "config", "--format", "json", files=files, **given)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return read
