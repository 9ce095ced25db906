"""Debian packages that a clone is better with: a stronger sandbox, networks for ranks, what tests of pages need.

Standard library only, as `setup.py`, which uses it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

APT_S = 900
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""Any will do for the tests. The first opens no windows, which nobody would see; not every distribution has it."""
ANSWER_S = 60


def missing_debian_packages(purpose: str) -> dict[str, str]:
    """Debian packages that are missing and what is lost without each."""
    wanted = {"bubblewrap": (shutil.which("bwrap"), "runs are fenced in by a weaker sandbox")}
    if os.geteuid() == 0:  # only then can a node make networks for ranks
        loss = "ranks on several nodes cannot have an encrypted network"
        wanted |= {"wireguard-go": (shutil.which("wireguard-go"), loss), "wireguard-tools": (shutil.which("wg"), loss)}
    if purpose == "test":
        snap = "what is installed only asks for its snap: install Google Chrome"
        loss = f"browser tests are skipped; {snap if _has_stand_in() else 'Google Chrome would do as well'}"
        wanted["chromium"] = (installed_browser(), loss)
        fonts = Path("/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf")
        wanted["fonts-dejavu-core"] = (str(fonts) if fonts.exists() else None, "screenshots show boxes for letters")
    return {name: loss for name, (found, loss) in wanted.items() if not found}


def installed_browser() -> str | None:
    """Path of the first browser that starts: Ubuntu's package where no snaps are is a script that asks for its snap."""
    return next((path for path in map(shutil.which, BROWSERS) if path and _starts(path)), None)


def _has_stand_in() -> bool:
    """Whether something has a browser's name. Where none starts it only asks for a snap, and apt has no other."""
    return any(map(shutil.which, BROWSERS))


def _starts(program: str) -> bool:
    none = subprocess.DEVNULL
    try:
        done = subprocess.run([program, "--version"], stdout=none, stderr=none, check=False, timeout=ANSWER_S)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def install_debian_packages(purpose: str, stamp: Path, say: Callable[[str], None]) -> None:
    """Install helpful packages where root and apt allow; never required, one loud line if missing.

    `stamp`: file of those that were tried, and are not tried again. `say` prints a line.
    """
    missing = missing_debian_packages(purpose)
    tried = stamp.read_text().split() if stamp.is_file() else []
    new = [name for name in missing if name not in tried]
    if new and os.geteuid() == 0 and shutil.which("apt-get"):
        say(f"installing Debian packages: {' '.join(new)}")
        _apt("apt-get", "update", "-q")
        light = "chromium" in new and _apt("apt-cache", "show", BROWSERS[0])
        lighter = [BROWSERS[0] if light and name == "chromium" else name for name in new]
        if not _apt_install(*lighter):  # one that cannot be had took all others with it
            for light_name, name in zip(lighter, new, strict=True):
                _ = _apt_install(light_name) or (light_name != name and _apt_install(name))
        missing = missing_debian_packages(purpose)
    if missing:
        say(_not_installed(missing))
    if new:
        stamp.write_text(" ".join(sorted({*tried, *missing})))


def _not_installed(missing: dict[str, str]) -> str:
    losses = "; ".join(f"{name} ({loss})" for name, loss in missing.items())
    names = [name for name in missing if name != "chromium" or not _has_stand_in()]
    advice = f" Debian/Ubuntu: sudo apt-get install {' '.join(names)}" if names else ""
    return f"NOT INSTALLED: {losses}.{advice}"


def _apt_install(*names: str) -> bool:
    return _apt("apt-get", "install", "-y", "-q", "--no-install-recommends", *names)


def _apt(*command: str) -> bool:
    """Run a command of apt; whether it worked in time."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    none = subprocess.DEVNULL
    try:
        done = subprocess.run(command, env=environment, stdout=none, stderr=none, check=False, timeout=APT_S)
    except subprocess.TimeoutExpired:  # a mirror that does not answer: what it has is never required
        return False
    return done.returncode == 0
