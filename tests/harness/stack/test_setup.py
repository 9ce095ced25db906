"""The set-up script: steps are done once, and failures say the next step."""

import importlib.util
import shutil
import subprocess
from types import SimpleNamespace

import pytest

from harness.env import REPOSITORY


@pytest.fixture
def setup(tmp_path, monkeypatch):
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


@pytest.fixture
def apt(setup, monkeypatch):
    """A machine of root's without a browser: `apt("chromium", ...)` says what apt knows; a list of what it installs.

    `broken`: what it knows and cannot install.
    """
    installed = []

    def make(*known, broken=()):
        def run(command, **_):
            names = [name for name in command[2:] if not name.startswith("-")]
            fails = command[:2] == ("apt-cache", "show") and names[0] not in known
            if command[:2] == ("apt-get", "install"):
                fails = not {*broken}.isdisjoint(names)
                installed.extend([] if fails else names)
            return SimpleNamespace(returncode=int(fails))

        monkeypatch.setattr(setup.subprocess, "run", run)
        return installed

    setup.STAMPS.mkdir()
    monkeypatch.setattr(setup.os, "geteuid", lambda: 0)
    monkeypatch.setattr(setup.shutil, "which", lambda name: None if name in setup.BROWSERS else f"/usr/bin/{name}")
    return make


@pytest.mark.parametrize("lightest", ["chromium-headless-shell", "chromium"])
def test_for_the_tests_the_lightest_browser_that_apt_knows_is_installed(setup, apt, lightest):
    installed = apt(lightest)
    setup.install_debian_packages("test")
    assert lightest in installed and len({*installed} & {*setup.BROWSERS}) == 1


@pytest.mark.parametrize(
    ("broken", "browser"), [("chromium-headless-shell", "chromium"), ("wireguard-go", "chromium-headless-shell")]
)
def test_a_package_that_cannot_be_installed_takes_no_other_with_it(setup, apt, monkeypatch, broken, browser):
    monkeypatch.setattr(setup.shutil, "which", lambda name: "/usr/bin/apt-get" if name == "apt-get" else None)
    installed = apt("chromium-headless-shell", broken=[broken])
    setup.install_debian_packages("test")
    assert {"bubblewrap", "wireguard-tools", browser} <= {*installed} and broken not in installed
    assert len({*installed} & {*setup.BROWSERS}) == 1


def test_whoever_has_a_browser_is_given_no_other(setup, apt, monkeypatch):
    monkeypatch.setattr(setup.shutil, "which", lambda name: f"/usr/bin/{name}" if name == "google-chrome" else None)
    installed = apt("chromium-headless-shell")
    setup.install_debian_packages("test")
    assert not {*installed} & {*setup.BROWSERS}


def test_what_was_compiled_is_there_for_processes_that_may_write_nothing(setup, tmp_path):
    for package in setup.PACKAGES:
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").touch()
    (tmp_path / "worker" / "half_written.py").write_text("def\n")
    setup.compile_sources()
    assert {file.parent.parent.name for file in tmp_path.rglob("__init__.*.pyc")} == {*setup.PACKAGES}
