"""Pages whose requests are lost on their way for a while: what they need they get once the portal is in reach again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.e2e.browser import BROWSER_MARKS
from tests.e2e.portal import addresses, until, visit
from tests.e2e.seeded import browser, ids, open_as, portal

pytestmark = BROWSER_MARKS
__all__ = ["browser", "ids", "open_as", "portal"]
AGAIN = "#connection:has-text('The portal cannot be reached; trying again')"


def test_a_script_that_was_lost_on_its_way_is_asked_for_again(open_as: Callable[..., Any], ids: dict[str, str]) -> None:
    page = open_as()
    lost: list[str] = []

    def lose(route: Any) -> None:
        if route.request.url in lost:
            route.fallback()
        else:
            lost.append(route.request.url)
            route.abort("internetdisconnected")

    page.route("**/chunks/analysis-*.js", lose)
    visit(page, addresses(ids)["results"])
    page.wait_for_selector(".analysis canvas")
    assert len(lost) == 1 and page.locator("#connection").is_hidden()


def losing(page: Any, address: str, times: int) -> list[str]:
    """What the page has asked for at such an address, the first of which are lost on their way."""
    asked: list[str] = []

    def pass_or_lose(route: Any) -> None:
        asked.append(f"{route.request.method} {route.request.url}")
        if len(asked) <= times:
            route.abort("internetdisconnected")
        else:
            route.fallback()

    page.route(address, pass_or_lose)
    return asked


def test_what_could_not_be_read_is_asked_for_again_until_it_comes(
    open_as: Callable[..., Any], ids: dict[str, str]
) -> None:
    page = open_as()
    visit(page, "/jobs/")
    asked = losing(page, "**/jobs/?*state=*", times=2)
    page.select_option("#state", "failed")
    page.wait_for_selector("#connection:has-text('The portal cannot be reached; trying again')")
    page.wait_for_url("**state=failed*")
    page.wait_for_selector("#connection", state="hidden")
    assert len(asked) == 3 and len(set(asked)) == 1
    assert page.locator(f"#jobs a[href='/jobs/{ids['failed']}/']").count() == 1
    assert page.locator(f"#jobs a[href='/jobs/{ids['succeeded']}/']").count() == 0


def test_of_what_waits_to_be_asked_again_the_newest_alone_is_asked(open_as: Callable[..., Any]) -> None:
    page = open_as()
    visit(page, "/jobs/")
    asked = losing(page, "**/jobs/?*state=*", times=1)
    page.select_option("#state", "failed")
    page.wait_for_selector("#connection:has-text('trying again')")
    page.select_option("#state", "succeeded")
    page.wait_for_url("**state=succeeded*")
    page.wait_for_timeout(2500)  # longer than the first one would have waited
    assert [address.partition("state=")[2].partition("&")[0] for address in asked] == ["failed", "succeeded"]
    assert "state=succeeded" in page.url


def test_what_waits_gives_way_to_another_button_that_fills_the_same_place(
    open_as: Callable[..., Any], ids: dict[str, str]
) -> None:
    page = open_as()
    visit(page, addresses(ids)["checkpoints"])
    buttons = page.locator("button[hx-target='#onnx']")
    assert buttons.count() > 1
    first, second = (buttons.nth(place).get_attribute("hx-get") or "" for place in (0, 1))
    asked = losing(page, "**/onnx/**", times=1)
    buttons.nth(0).click()
    page.wait_for_selector("#connection:has-text('trying again')")
    buttons.nth(1).click()
    page.wait_for_selector("#connection", state="hidden")
    page.wait_for_timeout(2500)  # longer than the first one would have waited
    assert [sum(address.endswith(button) for address in asked[:2]) for button in (first, second)] == [1, 1]
    assert not any(address.endswith(first) for address in asked[1:])


def test_what_changes_something_is_sent_once(open_as: Callable[..., Any], ids: dict[str, str]) -> None:
    page = open_as()
    visit(page, addresses(ids)["cost"])
    form = page.locator("form[hx-post$='/probe/']")
    form.wait_for()
    asked = losing(page, "**/probe/", times=1)
    form.locator("button").click()
    page.wait_for_selector("#connection:has-text('The portal cannot be reached')")
    page.wait_for_timeout(2500)
    assert len(asked) == 1 and "trying again" not in page.inner_text("#connection")


def test_curves_that_could_not_be_read_are_read_again(open_as: Callable[..., Any], ids: dict[str, str]) -> None:
    page = open_as()
    asked = losing(page, "**/curves/", times=2)
    visit(page, f"/jobs/{ids['succeeded']}/live/")
    page.wait_for_selector(AGAIN)
    page.wait_for_selector("[data-charts] .u-over")
    page.wait_for_selector("#connection", state="hidden")
    assert len(asked) == 3 and page.locator("[data-charts] .alert").count() == 0


def test_a_spec_that_could_not_be_checked_is_checked_again(open_as: Callable[..., Any], ids: dict[str, str]) -> None:
    page = open_as()
    asked = losing(page, "**/check/", times=2)
    visit(page, f"/jobs/{ids['draft']}/spec/")
    page.wait_for_selector(AGAIN)
    until(page, "document.querySelector('[data-spec-state]').textContent === 'Valid'")
    page.wait_for_selector("#connection", state="hidden")
    assert len(asked) == 3 and page.locator("[data-problems] .alert").count() == 0
