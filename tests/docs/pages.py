"""The documents of the repository, taken apart: links, headings, code, tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_OUTSIDE = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "deploy/README.md")
PAGES = (*(ROOT / name for name in _OUTSIDE), *sorted((ROOT / "docs").rglob("*.md")))
_FENCE = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
_SPAN = re.compile(r"`([^`]+)`")
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


@lru_cache
def text(page: Path) -> str:
    """A page as it is."""
    return page.read_text()


def fences(page: Path, *languages: str) -> list[str]:
    """Blocks of code of a page in one of the languages; without one all of them."""
    return [body for language, body in _FENCE.findall(text(page)) if not languages or language in languages]


def spans(page: Path) -> list[str]:
    """Pieces of code within sentences."""
    return [" ".join(span.split()) for span in _SPAN.findall(_FENCE.sub("", text(page)))]


def links(page: Path) -> list[str]:
    """Targets of links and pictures that lie in the repository."""
    return [link for link in _LINK.findall(_FENCE.sub("", text(page))) if "://" not in link]


@lru_cache
def anchors(page: Path) -> frozenset[str]:
    """What `page#...` may name: headings, spelled as GitHub does."""
    heads = re.findall(r"^#+ (.+)$", _FENCE.sub("", text(page)), re.MULTILINE)
    words = (re.sub(r"[^\w\- ]", "", head.lower()) for head in heads)
    return frozenset(word.replace(" ", "-") for word in words)


def cells(line: str) -> list[str]:
    """Of one line of a table."""
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]]


def tables(page: Path) -> list[list[str]]:
    """The lines of each table of a page."""
    found = re.findall(r"(?:^ *\|.*\n)+", _FENCE.sub("", text(page)), re.MULTILINE)
    return [lines.rstrip("\n").split("\n") for lines in found]


def table(page: Path, head: str) -> list[list[str]]:
    """Cells of the table whose first line begins with `head`, below its two lines of head."""
    (lines,) = (lines for lines in tables(page) if lines[0].startswith(head))
    return [cells(line) for line in lines[2:]]


def commands(page: Path, program: str) -> Iterator[str]:
    """What a page tells to type that begins with `program`, in blocks and sentences, without comments."""
    for body in fences(page, "sh", ""):
        for line in body.replace("\\\n", " ").split("\n"):
            for part in re.split(r"; |&& |\|\| ", line.split("  #")[0].split(" # ")[0]):
                found = re.match(rf"\s*(?:[A-Z_]+=\S* )*(?:\.venv/bin/)?{program} (.*)", part)
                if found:
                    yield found[1].strip()
    for span in spans(page):
        found = re.match(rf"(?:\.venv/bin/)?{program} (.*)", span)
        if found:
            yield found[1]
