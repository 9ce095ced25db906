"""Columns and views of the list of jobs, by hand: the address, the Back button and the export follow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.e2e.browser import BROWSER_MARKS
from tests.e2e.portal import Portal, until, visit
from tests.e2e.seeded import browser, ids, open_as, portal

pytestmark = BROWSER_MARKS
__all__ = ["browser", "ids", "open_as", "portal"]


def heads(page: Any) -> list[str]:
    """Words of the table's heads, without the arrow of the one it is sorted by."""
    words: list[str] = page.eval_on_selector_all("#jobs th", "heads => heads.map((head) => head.innerText)")
    return [word.strip(" ↑↓") for word in words if word.strip()]


def shows(page: Any, *words: str) -> None:
    """Wait until the table has these heads beside the name."""
    script = "[...document.querySelectorAll('#jobs th')].map((head) => head.innerText).filter(Boolean).slice(1).join()"
    until(page, f"{script} === {','.join(words)!r}")


def test_columns_are_chosen_ordered_and_taken_back_by_hand(open_as: Callable[..., Any], portal: Portal) -> None:
    page = open_as()
    visit(page, "/jobs/?view=&column=state&column=owner")
    page.click("summary:has-text('Columns')")
    page.check("input[name=column][value='metric:val/accuracy']")
    shows(page, "State", "Owner", "val/accuracy")
    page.click("[aria-label='Owner: further left']")
    shows(page, "Owner", "State", "val/accuracy")
    assert page.evaluate("document.activeElement.ariaLabel") == "Owner: further left"
    assert page.url == f"{portal.url}/jobs/?view=&column=owner&column=state&column=metric%3Aval%2Faccuracy"
    export = page.get_attribute("#job-export a", "href")
    assert export.endswith("column=owner&column=state&column=metric%3Aval%2Faccuracy")
    page.reload()
    assert heads(page) == ["Job", "Owner", "State", "val/accuracy"]
    page.go_back()
    shows(page, "State", "Owner", "val/accuracy")
    page.go_back()
    shows(page, "State", "Owner")


def test_a_view_is_saved_as_the_list_has_become_and_opens_it(open_as: Callable[..., Any], portal: Portal) -> None:
    page = open_as()
    visit(page, "/jobs/?view=&column=state&column=energy_j")
    page.select_option("#state", "succeeded")
    until(page, "document.querySelectorAll('#jobs tbody tr').length === 1")
    page.click("summary:has-text('Save as a view')")
    page.fill("[aria-label='Name of the view']", "Done")
    page.click(".view-row button:has-text('Save')")
    page.wait_for_url("**state=succeeded**column=energy_j")
    assert page.inner_text("#view-bar [aria-current]") == "Done"
    page.select_option("#state", "")
    until(page, "document.querySelector('#view-bar').innerText.includes('changed since')")
    page.click("text=Manage views")
    page.click("[aria-label='Open first: Done']")
    visit(page, "/jobs/")
    assert page.url.endswith("&state=succeeded&column=state&column=energy_j")
    page.click("#view-bar >> text=All jobs")
    until(page, "document.querySelectorAll('#jobs tbody tr').length > 5")
    visit(page, "/jobs/views/")
    page.click("[aria-label='Delete Done']")
    page.click("dialog button:has-text('Yes')")
    page.wait_for_url("**/jobs/views/")
    until(page, "!document.querySelector('main table')?.innerText.includes('Done')")
