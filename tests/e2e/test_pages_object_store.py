"""How the copy in the object store stands, in a real browser: read from the disk, so that no object store is needed."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.browser import BROWSER_MARKS
from tests.e2e.portal import Portal, until, visit
from tests.e2e.seeded import browser, open_as

pytestmark = BROWSER_MARKS
__all__ = ["browser", "open_as"]
ENDPOINT, PLACE = "http://127.0.0.1:9", "pool/harness/production"
TROUBLE = "the object store at http://127.0.0.1:9 does not answer as it should"


@pytest.fixture(scope="module")
def portal(
    world: tuple[Path, dict[str, str]], tmp_path_factory: pytest.TempPathFactory, broker_url: str
) -> Iterator[Portal]:
    found = Portal(shutil.copytree(world[0], tmp_path_factory.mktemp("objects") / "home"), broker_url)
    given = {"URL": f"s3://{PLACE}", "ENDPOINT": ENDPOINT, "KEY": "the-key", "SECRET": "the-secret"}
    found.env |= {f"DLH_S3_{name}": value for name, value in given.items()}
    found.start()
    yield found
    found.kill()


def note(portal: Portal, **what: Any) -> None:
    """As a pass leaves it."""
    file = Path(portal.env["DLH_HOME"]) / "store" / "bucket" / "state.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    now_s = time.time()
    known = {"place": f"{ENDPOINT} {PLACE}", "complete_s": now_s, "began_s": now_s, "units": 12, "files": 1234}
    file.write_text(json.dumps({**known, **what}))


def test_an_admin_sees_trouble_come_without_loading_the_page_again(open_as: Callable[..., Any], portal: Portal) -> None:
    note(portal)
    page = open_as("admin")
    visit(page, "/pool/")
    section = page.locator("section[aria-labelledby=os]")
    assert "Copy is whole" in section.inner_text() and f"s3://{PLACE}" in section.inner_text()
    assert "ago" in section.inner_text() or "now" in section.inner_text()
    note(portal, trouble=TROUBLE, step="look whether it runs", waiting=3)
    until(page, "document.querySelector('section[aria-labelledby=os]').innerText.includes('Not copied')")
    assert "Next step: look whether it runs." in section.inner_text() and "the-key" not in page.content()
    assert page.locator("section[aria-labelledby=os]").count() == 1


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_section_has_no_serious_accessibility_fault_and_fits_a_phone(
    open_as: Callable[..., Any], portal: Portal, theme: str
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    note(portal, trouble=TROUBLE, step="look whether it runs", waiting=3)
    page = open_as("admin", width=360, theme=theme)
    visit(page, "/pool/")
    page.wait_for_load_state("load")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    faults = [fault for fault in Axe().run(page).response["violations"] if fault["impact"] in {"serious", "critical"}]
    assert not faults, [(fault["id"], [node["target"] for node in fault["nodes"]][:3]) for fault in faults]
