"""Debian packages of set-up: helpful, never required."""

import importlib.util
from types import SimpleNamespace

import pytest

from harness.env import REPOSITORY


@pytest.fixture
def debian():
    spec = importlib.util.spec_from_file_location("dlh_debian", REPOSITORY / "deploy" / "debian.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def said():
    """What set-up printed."""
    return []


@pytest.fixture
def install(debian, tmp_path, said):
    return lambda purpose: debian.install_debian_packages(purpose, tmp_path / "stamp", said.append)


@pytest.fixture
def apt(debian, monkeypatch):
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

        monkeypatch.setattr(debian.subprocess, "run", run)
        return installed

    monkeypatch.setattr(debian.os, "geteuid", lambda: 0)
    monkeypatch.setattr(debian.shutil, "which", lambda name: None if name in debian.BROWSERS else f"/usr/bin/{name}")
    return make


@pytest.mark.parametrize("lightest", ["chromium-headless-shell", "chromium"])
def test_for_the_tests_the_lightest_browser_that_apt_knows_is_installed(debian, install, apt, lightest):
    installed = apt(lightest)
    install("test")
    assert lightest in installed and len({*installed} & {*debian.BROWSERS}) == 1


@pytest.mark.parametrize(
    ("broken", "browser"), [("chromium-headless-shell", "chromium"), ("wireguard-go", "chromium-headless-shell")]
)
def test_a_package_that_cannot_be_installed_takes_no_other_with_it(debian, install, apt, monkeypatch, broken, browser):
    monkeypatch.setattr(debian.shutil, "which", lambda name: "/usr/bin/apt-get" if name == "apt-get" else None)
    installed = apt("chromium-headless-shell", broken=[broken])
    install("test")
    assert {"bubblewrap", "wireguard-tools", browser} <= {*installed} and broken not in installed
    assert len({*installed} & {*debian.BROWSERS}) == 1


def test_what_only_asks_for_a_browsers_snap_is_no_browser(debian, tmp_path, monkeypatch):
    for name, status in (("chromium", 1), ("google-chrome", 0)):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\nexit {status}\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert debian.installed_browser() == str(tmp_path / "google-chrome")
    (tmp_path / "google-chrome").unlink()
    assert debian.installed_browser() is None and "chromium" in debian.missing_debian_packages("test")


def test_where_a_browsers_package_only_asks_for_its_snap_another_is_named_in_its_place(
    debian, install, said, tmp_path, monkeypatch
):
    (tmp_path / "chromium").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "chromium").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(debian.os, "geteuid", lambda: 1000)
    install("test")
    named = said[-1].split("apt-get install ")[1].split()
    assert "bubblewrap" in named and "chromium" not in named
    assert "what is installed only asks for its snap: install Google Chrome" in said[-1]
    monkeypatch.setattr(debian.shutil, "which", lambda name: None if name in debian.BROWSERS else f"/usr/bin/{name}")
    monkeypatch.setattr(debian.Path, "exists", lambda _: True)
    install("test")
    assert said[-1].endswith("sudo apt-get install chromium")
    monkeypatch.setattr(debian.shutil, "which", lambda name: str(tmp_path / "chromium"))
    install("test")
    assert said[-1].endswith("install Google Chrome).")


def test_whoever_has_a_browser_is_given_no_other(debian, install, apt, monkeypatch):
    monkeypatch.setattr(debian.shutil, "which", lambda name: f"/usr/bin/{name}" if name == "google-chrome" else None)
    installed = apt("chromium-headless-shell")
    install("test")
    assert not {*installed} & {*debian.BROWSERS}


def test_a_mirror_that_does_not_answer_ends_nothing_and_is_not_asked_twice(
    debian, install, said, tmp_path, monkeypatch
):
    asked = tmp_path / "asked"
    slow = tmp_path / "bin/apt-get"
    slow.parent.mkdir()
    slow.write_text(f"#!/bin/sh\necho $* >> {asked}\nexec sleep 60\n")
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{slow.parent}:/usr/bin:/bin")
    monkeypatch.setattr(debian.os, "geteuid", lambda: 0)
    monkeypatch.setattr(debian, "APT_S", 0.2)
    monkeypatch.setattr(debian, "missing_debian_packages", lambda _: {"bubblewrap": "a weaker sandbox"})
    for _ in range(2):
        install("run")
        assert said.pop().startswith("NOT INSTALLED: bubblewrap (a weaker sandbox).")
    assert [line.split()[0] for line in asked.read_text().splitlines()] == ["update", "install", "install"]
