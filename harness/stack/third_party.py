"""Prints docs/third-party.md: every package that an installation runs on, with version and licence.

`make third-party`. Python packages are the dependency closure of this project in the environment that runs the
command; front-end packages come from package-lock.json and node_modules.
"""

from __future__ import annotations

import json
import re
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.markers import Marker
from packaging.requirements import Requirement

from harness.env import REPOSITORY

PROJECT = "deep-learning-harness"
BESIDES = ("horovod",)
"""Installed by deploy/setup.py from a wheel that it builds."""
LICENSE_LENGTH_MAX = 60
SYSTEM = (
    ("bubblewrap", "sandbox from level 2 on", "LGPL-2.0-or-later"),
    ("iproute2", "networks of ranks on several nodes", "GPL-2.0"),
    ("util-linux", "the same (`nsenter`, `setpriv`, `unshare`)", "GPL-2.0-or-later"),
    ("wireguard-go", "their encryption where the kernel has none", "MIT"),
    ("wireguard-tools", "their encryption (`wg`)", "GPL-2.0"),
)
"""Debian packages whose programs a node starts where they are there: name, what for, licence."""


def closure(project: str, extras: frozenset[str]) -> dict[str, Distribution]:
    """All installed packages that the project asks for, directly or not."""
    found: dict[str, Distribution] = {}
    waiting = [(project, extras), *((name, frozenset[str]()) for name in BESIDES)]
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        name, wanted = waiting.pop()
        key = re.sub(r"[-_.]+", "-", name).lower()
        if (key, wanted) in seen:
            continue
        seen.add((key, wanted))
        try:
            package = distribution(name)
        except PackageNotFoundError:
            continue
        found[key] = package
        for text in package.requires or []:
            need = Requirement(text)
            if marker_holds(need.marker, wanted):
                waiting.append((need.name, frozenset(need.extras)))
    found.pop(project, None)
    return found


def marker_holds(marker: Marker | None, extras: frozenset[str]) -> bool:
    """Whether a requirement applies here for any of the extras."""
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in extras or {""})


def license_of(package: Distribution) -> str:
    """The licence as the package's metadata tell it."""
    metadata = package.metadata
    expression = next(iter(metadata.get_all("License-Expression") or []), "")
    classifiers = [
        item.split("::")[-1].strip()
        for item in metadata.get_all("Classifier") or []
        if item.startswith("License ::") and not item.endswith("OSI Approved")
    ]
    plain = next(iter(metadata.get_all("License") or []), "").strip().splitlines()
    short = plain[0] if plain and len(plain[0]) <= LICENSE_LENGTH_MAX else ""
    return expression or ", ".join(classifiers) or short or "see the package"


def python_rows(extras: frozenset[str]) -> list[tuple[str, str, str]]:
    """Name, version, licence of each Python package."""
    return [
        (name, package.version.split("+")[0], license_of(package))
        for name, package in sorted(closure(PROJECT, extras).items())
    ]


def npm_rows(repository: Path, *, checks: bool) -> list[tuple[str, str, str]]:
    """Name, version, licence of each front-end package that is bundled or builds the bundle, or of those for checks."""
    lock = repository / "package-lock.json"
    if not lock.is_file():
        return []
    rows = set()
    for place, entry in json.loads(lock.read_text())["packages"].items():
        if not place or entry.get("optional") or entry.get("dev", False) != checks:
            continue
        manifest = repository / place / "package.json"
        told = json.loads(manifest.read_text()).get("license", "") if manifest.is_file() else ""
        name = place.rsplit("node_modules/", 1)[-1]
        rows.add((name, str(entry.get("version", "")), str(entry.get("license") or told or "see the package")))
    return sorted(rows)


def table(rows: list[tuple[str, str, str]]) -> str:
    """Rows as a Markdown table."""
    lines = ["| Package | Version | Licence |", "|---|---|---|"]
    return "\n".join([*lines, *(f"| {name} | {version} | {text} |" for name, version, text in rows)])


def system_table() -> str:
    """The programs of the system as a Markdown table."""
    lines = ["| Package | What for | Licence |", "|---|---|---|"]
    return "\n".join([*lines, *(f"| {name} | {purpose} | {text} |" for name, purpose, text in SYSTEM)])


def page() -> str:
    """The whole page."""
    running = python_rows(frozenset({"", "postgres", "s3"}))
    names = {name for name, _, _ in running}
    tools = [row for row in python_rows(frozenset({"", "postgres", "s3", "dev", "checks"})) if row[0] not in names]
    return "\n\n".join(
        [
            "# Third-party packages",
            "Made by `make third-party`; do not edit. None of these is copied into the repository: pip and npm\n"
            "install them. Where a package's metadata name no licence, the package itself does.",
            "## Python, at run time",
            table(running),
            "## Python, for tests and checks",
            table(tools),
            "## Front end (npm)",
            table(npm_rows(REPOSITORY, checks=False)),
            "## Front end, for tests and checks (npm)",
            table(npm_rows(REPOSITORY, checks=True)),
            "## Programs of the system (Debian)",
            "Started as programs of their own, where they are installed. `deploy/setup.sh` installs bubblewrap and,\n"
            "as root, the two of WireGuard.",
            system_table(),
        ]
    )


if __name__ == "__main__":
    sys.stdout.write(page() + "\n")
