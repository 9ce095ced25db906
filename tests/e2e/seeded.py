"""Fixtures of the browser tests over the seeded world; imported by the modules that use them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.browser import chromium, open_page, signed_in
from tests.e2e.portal import Portal
from tests.factories import PASSWORD


@pytest.fixture(scope="module")
def portal(
    world: tuple[Path, dict[str, str]], tmp_path_factory: pytest.TempPathFactory, broker_url: str
) -> Iterator[Portal]:
    """A portal over a copy of the world, which the tests of a file may change."""
    home = shutil.copytree(world[0], tmp_path_factory.mktemp("pages") / "home")
    found = Portal(home, broker_url)
    found.start()
    yield found
    found.kill()


@pytest.fixture(scope="module")
def ids(world: tuple[Path, dict[str, str]]) -> dict[str, str]:
    """Of jobs by state and of datasets by file."""
    return world[1]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture
def open_as(browser: Any, portal: Portal) -> Iterator[Callable[..., Any]]:
    """Sign in and return an empty page: `open_as("owner", width=1440, theme="light")`. Fails on a request elsewhere."""
    pages = []
    strange: list[str] = []

    def make(user: str = "owner", *, width: int = 1440, theme: str = "light") -> Any:
        page = open_page(browser, portal.url, strange, width=width, theme=theme)
        pages.append(page)
        signed_in(page, portal.url, user, PASSWORD)
        return page

    yield make
    for page in pages:
        page.context.close()
    assert not strange, strange
