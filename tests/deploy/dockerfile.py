"""What a Dockerfile asks for, read as an engine reads it: its steps, and what .dockerignore lets into an image."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from tests.deploy.conftest import DEPLOY

REPOSITORY = DEPLOY.parent
FILES = ("Dockerfile", "Dockerfile.cuda")
_JOINT = re.compile(r"&&|\|\||[;|]|\$\(")


@dataclass
class Stage:
    """The steps of one FROM."""

    base: str
    name: str
    steps: list[tuple[str, str]] = field(default_factory=list)

    def of(self, *kinds: str) -> list[str]:
        """What follows these instructions."""
        return [text for kind, text in self.steps if kind in kinds]

    def exec_form(self, kind: str) -> list[str]:
        """The last ENTRYPOINT, CMD, ... as a list."""
        words: list[str] = json.loads(self.of(kind)[-1])
        return words

    @property
    def commands(self) -> list[list[str]]:
        """Each command of each RUN, split into words."""
        lines = [part for text in self.of("RUN") for part in _JOINT.split(text)]
        return [words for line in lines if (words := re.sub(r"['\")]", " ", line).split())]

    def copies(self) -> list[tuple[str, list[str], str]]:
        """(stage or nothing, sources, target) of each COPY."""
        found = []
        for text in self.of("COPY", "ADD"):
            words = shlex.split(text)
            options = [word for word in words if word.startswith("--")]
            places = [word for word in words if not word.startswith("--")]
            origin = next((word.partition("=")[2] for word in options if word.startswith("--from=")), "")
            found.append((origin, places[:-1], places[-1]))
        return found


def stages(name: str) -> list[Stage]:
    """The stages of a file below deploy/images, with continued lines joined and comments out."""
    lines = (DEPLOY / "images" / name).read_text().splitlines()
    text = "\n".join(line for line in lines if not line.lstrip().startswith("#")).replace("\\\n", " ")
    found: list[Stage] = []
    for line in filter(None, map(str.strip, text.splitlines())):
        kind, _, rest = line.partition(" ")
        if kind == "FROM":
            base, _, alias = rest.partition(" AS ")
            found.append(Stage(base.strip(), alias.strip()))
        elif kind == "HEALTHCHECK":
            found[-1].steps.append((kind, rest.partition(" CMD ")[2].strip()))
        elif found:
            found[-1].steps.append((kind, rest.strip()))
    return found


def _matches(rule: str, path: str) -> bool:
    parts = [".*" if part == "**" else re.escape(part).replace(r"\*", "[^/]*") for part in rule.strip("/").split("/")]
    pattern = "/".join(parts).replace(".*/", "(?:.*/)?")
    return re.fullmatch(pattern, path) is not None


def let_in(path: str) -> bool:
    """Whether a file of the repository gets into the build: the last rule for it, or a folder above it, decides."""
    rules = [line.strip() for line in (REPOSITORY / ".dockerignore").read_text().splitlines()]
    places = [str(place) for place in (PurePosixPath(path), *PurePosixPath(path).parents) if str(place) != "."]
    answer = True
    for rule in rules:
        if rule and not rule.startswith("#") and any(_matches(rule.removeprefix("!"), place) for place in places):
            answer = rule.startswith("!")
    return answer


def context() -> set[str]:
    """Every file that an engine would be sent."""
    roots = [line[1:] for line in (REPOSITORY / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    files: set[Path] = set()
    for root in roots:
        place = REPOSITORY / root
        files |= {place} if place.is_file() else {file for file in place.rglob("*") if file.is_file()}
    names = {file.relative_to(REPOSITORY).as_posix() for file in files}
    return {name for name in names if let_in(name)}
