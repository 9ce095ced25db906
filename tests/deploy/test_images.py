"""The images: a linter finds nothing, nobody is root, versions are the pinned ones, no secret and no data gets in."""

import pytest

from tests.deploy.conftest import DEPLOY

FILES = ["Dockerfile", "Dockerfile.cuda"]


def stages(name):
    """Instructions of each stage, with continued lines joined and comments out."""
    text = (DEPLOY / "images" / name).read_text().replace("\\\n", " ")
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    found = []
    for line in lines:
        if line.startswith("FROM "):
            found.append([])
        if found:
            found[-1].append(line)
    return found


@pytest.mark.parametrize("name", FILES)
def test_the_linter_finds_nothing(tool, name):
    done = tool("hadolint", "--failure-threshold", "info", DEPLOY / "images" / name)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", FILES)
def test_what_runs_is_no_root_has_no_compiler_and_says_whether_it_works(name):
    *builders, last = stages(name)
    assert builders
    assert "USER 10001:10001" in last
    assert any(line.startswith("HEALTHCHECK") for line in last)
    assert not any("g++" in line or "pip install" in line for line in last)


@pytest.mark.parametrize("name", FILES)
def test_everything_is_installed_by_the_constraints_and_horovod_is_built_by_our_script(name):
    builder = stages(name)[-2]
    assert any("PIP_CONSTRAINT=/app/deploy/constraints.txt" in line for line in builder)
    assert any("deploy/horovod/build.sh" in line for line in builder)


def test_only_sources_go_into_an_image():
    lines = (DEPLOY.parent / ".dockerignore").read_text().splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "**"
    let_in = {line[1:] for line in rules if line.startswith("!")}
    assert not any(name.startswith(("var", ".git", ".venv", "deploy/compose")) or name == "deploy" for name in let_in)
    assert all((DEPLOY.parent / name).exists() for name in let_in)
