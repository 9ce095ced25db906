"""How a project is called in addresses and commands, made from its name."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from django.utils.text import slugify

from harness.accounts.models import Project

NAMELESS = "project"
"""Of names without a letter or digit that an address can have, as those in other scripts."""


def slugs_free(name: str) -> Iterator[str]:
    """What a new project of that name may be called, the shortest first: however many there are of one name."""
    base = slugify(name)[:50].strip("-") or NAMELESS
    taken = set(Project.objects.filter(slug__startswith=base).values_list("slug", flat=True))
    for number in count(1):
        slug = base if number == 1 else f"{base}-{number}"
        if slug not in taken:
            yield slug
