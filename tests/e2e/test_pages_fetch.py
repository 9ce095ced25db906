"""A dataset from a web address, by hand: pasted, fetched by control's own code, told how far, and what went wrong."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.e2e.browser import BROWSER_MARKS
from tests.e2e.portal import ROOT, Portal, until, visit
from tests.e2e.seeded import browser, open_as, portal
from tests.file_servers import Files, files_running, one_after_another, parts, status

pytestmark = BROWSER_MARKS
__all__ = ["browser", "open_as", "portal"]
FETCH = """
import time, django
django.setup()
from harness.fetches.running import fetch_next
while not fetch_next():
    time.sleep(0.1)
"""


@pytest.fixture
def files() -> Iterator[Files]:
    with files_running() as found:
        yield found


@pytest.fixture
def control_fetches(portal: Portal) -> Callable[[], None]:
    """What control's thread does, once, as soon as something is due."""

    def run() -> None:
        subprocess.run([sys.executable, "-c", FETCH], cwd=ROOT, env=portal.env, check=True, timeout=120)

    return run


def test_an_address_is_pasted_followed_and_becomes_a_dataset(
    open_as: Callable[..., Any], files: Files, control_fetches: Callable[[], None]
) -> None:
    files.acts["/data/trees.csv"] = one_after_another(status(503), parts())
    page = open_as()
    visit(page, "/datasets/upload/")
    page.fill("#name", "Trees")
    page.fill("#url", "https://github.com/a/b/blob/main/trees.csv")
    page.click("button:has-text('Fetch')")
    until(page, "document.querySelector('#url').value.includes('/raw/main/trees.csv')")
    assert "not the file" in page.inner_text(".alert") and page.input_value("#name") == "Trees"

    page.fill("#url", files.url("/data/trees.csv?signature=secret"))
    page.click("button:has-text('Fetch')")
    until(page, "document.querySelector('[data-state=waiting]') !== null")
    assert "secret" not in page.content() and page.input_value("#url") == ""
    control_fetches()
    # The page follows by itself: it broke off, is tried again, is there.
    until(page, "document.querySelector('[data-state=waiting]').textContent.includes('503')")
    control_fetches()
    until(page, "document.querySelector('[data-state=done]') !== null")
    page.click("a:has-text('Open the dataset')")
    until(page, "document.querySelector('h1').textContent.includes('Trees')")
    assert len(files.asked) == 2


def test_one_that_failed_says_why_and_is_removed(
    open_as: Callable[..., Any], files: Files, control_fetches: Callable[[], None]
) -> None:
    page = open_as(width=390, theme="dark")
    visit(page, "/datasets/upload/")
    page.fill("#url", files.url("/missing.csv"))
    page.click("button:has-text('Fetch')")
    until(page, "document.querySelector('[data-state=waiting]') !== null")
    control_fetches()
    until(page, "document.querySelector('[data-state=failed]') !== null")
    assert "404" in page.inner_text("[data-state=failed]")
    page.click("button:has-text('Remove')")
    until(page, "document.querySelector('[data-state=failed]') === null")
    assert "missing.csv is no longer being fetched" in page.inner_text("main")
