"""A real browser: the system's Chromium driven by Playwright, and when there is none.

Its headless shell is taken where there is one: the same engine without the browser's own windows, which nobody sees and
which take more of the processor, for each page that a test opens, than most of our pages do.
"""

from __future__ import annotations

import re
import runpy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.e2e.portal import ROOT, visit
from tests.untested import untested

DIST = ROOT / "harness" / "frontend" / "dist" / "dlh" / "app.js"
CHROMIUM = runpy.run_path(str(ROOT / "deploy" / "debian.py"))["installed_browser"]()
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
LONG_MS = 60_000
NO_CHROMIUM = (
    "no Chromium starts here (Debian: apt-get install chromium-headless-shell fonts-dejavu-core; Ubuntu: Google Chrome)"
)
NO_PAGES = "run `npm ci && npm run build` first"
NO_BROWSER = untested("pages in a browser", NO_CHROMIUM)
BROWSER_MARKS = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason=NO_BROWSER),
    pytest.mark.skipif(not DIST.exists(), reason=untested("pages in a browser", NO_PAGES)),
]


@contextmanager
def chromium() -> Iterator[Any]:
    """A running browser."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield found
        found.close()


def open_page(browser: Any, url: str, strange: list[str], *, width: int = 1440, theme: str = "light") -> Any:
    """A page of its own context; requests to other hosts and script errors are added to `strange`."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=theme, base_url=url)
    context.set_default_timeout(LONG_MS)
    context.add_cookies([{"name": "theme", "value": theme, "url": url}])
    page = context.new_page()
    page.on("request", lambda request: strange.append(request.url) if _is_elsewhere(request.url, url) else None)
    page.on("pageerror", lambda error: strange.append(f"script error: {error}"))
    return page


def sign_in(page: Any, url: str, user: str, password: str) -> None:
    """Through the form, as a person does."""
    visit(page, "/login")
    page.fill("#id_username", user)
    page.fill("#id_password", password)
    page.click("button:has-text('Sign in')")
    page.wait_for_url(f"{url}/")


def signed_in(page: Any, url: str, user: str, password: str) -> None:
    """The same for a page that has not been anywhere yet, by requests of its context alone: to draw the form and the
    page after it takes half a second of the processor."""
    asked = page.request
    token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', asked.get(f"{url}/login").text())
    assert token, "the form has no token"
    form = {"username": user, "password": password, "csrfmiddlewaretoken": token[1]}
    answer = asked.post(f"{url}/login", form=form, headers={"Referer": f"{url}/login"}, max_redirects=0)
    assert answer.status == 302, answer.text()


def _is_elsewhere(url: str, own: str) -> bool:
    return not url.startswith((own, "data:", "blob:", "about:"))
