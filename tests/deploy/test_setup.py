"""The set-up script: steps are done once, and failures say the next step."""

import importlib.util
import shutil
import subprocess
import sys

import pytest

from harness.env import REPOSITORY


@pytest.fixture
def setup(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(REPOSITORY / "deploy"))
    spec = importlib.util.spec_from_file_location("dlh_setup", REPOSITORY / "deploy" / "setup.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "STAMPS", tmp_path / "stamps")
    monkeypatch.setattr(module, "ROOT", tmp_path)
    return module


def test_a_step_is_done_once_until_its_key_changes(setup):
    done = []
    for key in ("a", "a", "b", "b"):
        setup.step("packages", key, lambda key=key: done.append(key))
    assert done == ["a", "b"]


def test_a_step_whose_product_is_gone_is_done_again(setup, tmp_path):
    product = tmp_path / "dist"
    for _ in range(2):
        setup.step("frontend", "a", product.mkdir, made=product)
        product.rmdir()
    product.mkdir()
    done = []
    setup.step("frontend", "a", lambda: done.append(1), made=product)
    assert done == []


def test_a_step_that_fails_leaves_no_stamp(setup):
    def fail():
        raise setup.SetupError("no")

    with pytest.raises(setup.SetupError):
        setup.step("packages", "a", fail)
    done = []
    setup.step("packages", "a", lambda: done.append(1))
    assert done == [1]


def test_the_digest_sees_content_and_names_but_not_what_the_build_wrote(setup, tmp_path, monkeypatch):
    folder = tmp_path / "frontend"
    (folder / "dist").mkdir(parents=True)
    monkeypatch.setattr(setup, "FRONTEND_OUTPUT", folder / "dist")
    (folder / "a.js").write_text("1")
    first = setup.digest([folder])
    (folder / "dist" / "a.js").write_text("bundle")
    assert setup.digest([folder]) == first
    (folder / "a.js").write_text("2")
    assert setup.digest([folder]) != first


def test_a_failing_command_shows_its_last_lines_and_the_next_step(setup):
    with pytest.raises(setup.SetupError) as caught:
        setup.run(["sh", "-c", "echo broken pipe in the cellar; exit 4"], what="Plumbing", hint="call a plumber")
    assert "broken pipe in the cellar" in str(caught.value)
    assert "next: call a plumber" in str(caught.value)


def environment_of(setup, monkeypatch, version):
    """As set-up leaves it."""
    monkeypatch.setattr(setup, "VENV", setup.ROOT / ".venv")
    monkeypatch.setattr(setup, "PYTHON", setup.VENV / "bin/python")
    for folder in (setup.PYTHON.parent, setup.STAMPS):
        folder.mkdir(parents=True)
    setup.PYTHON.symlink_to(sys.executable)
    (setup.VENV / "pyvenv.cfg").write_text(f"home = /usr/bin\nversion = {version}\n")


def test_an_environment_of_another_python_is_kept_and_that_is_said_to_who_named_one(setup, monkeypatch, capsys):
    environment_of(setup, monkeypatch, "3.12.1")
    monkeypatch.setattr(setup, "RUNNING", "3.13")
    monkeypatch.delenv("PYTHON", raising=False)
    setup.make_environment()
    assert setup.environment_version() == "3.12" and not capsys.readouterr().out
    monkeypatch.setenv("PYTHON", "python3.13")
    setup.make_environment()
    assert "keeps its Python 3.12; remove it to have Python 3.13" in capsys.readouterr().out


def test_an_environment_whose_python_is_gone_is_made_again(setup, monkeypatch):
    environment_of(setup, monkeypatch, "3.9.2")
    setup.PYTHON.unlink()
    monkeypatch.setattr(setup, "run", lambda command, **_: subprocess.run([*command, "--without-pip"], check=True))
    setup.make_environment()
    assert setup.PYTHON.exists() and setup.environment_version() == setup.RUNNING


def test_a_machine_without_python_311_is_told_what_to_install(tmp_path):
    old = tmp_path / "python3"
    old.write_text('#!/bin/sh\ncase "$2" in *exit*) exit 1;; *) echo 3.9;; esac\n')
    old.chmod(0o755)
    for tool in ("sh", "dirname"):
        (tmp_path / tool).symlink_to(shutil.which(tool))
    done = subprocess.run(
        ["/bin/sh", str(REPOSITORY / "deploy" / "setup.sh")],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "Python 3.11 or newer is needed; found: python3=3.9" in done.stderr
    assert "next:" in done.stderr


def test_constraints_pin_every_package_that_pyproject_asks_for():
    import re
    import tomllib

    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    asked = project["dependencies"] + [item for extra in project["optional-dependencies"].values() for item in extra]
    names = {re.match(r"[A-Za-z0-9._-]+", item)[0] for item in asked}
    lines = (REPOSITORY / "deploy" / "constraints.txt").read_text().splitlines()
    pinned = {line.split("==")[0] for line in lines if "==" in line and not line.startswith("#")}
    normal = {re.sub(r"[-_.]+", "-", name).lower() for name in pinned}
    assert {re.sub(r"[-_.]+", "-", name).lower() for name in names} <= normal


def test_what_was_compiled_is_there_for_processes_that_may_write_nothing(setup, tmp_path):
    for package in setup.PACKAGES:
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").touch()
    (tmp_path / "worker" / "half_written.py").write_text("def\n")
    setup.compile_sources()
    assert {file.parent.parent.name for file in tmp_path.rglob("__init__.*.pyc")} == {*setup.PACKAGES}
