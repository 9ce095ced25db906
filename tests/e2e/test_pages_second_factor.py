"""A person sets up a second factor by the page, and signs in with it and without their phone."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable
from typing import Any

from django_otp.oath import TOTP

from tests.e2e.browser import BROWSER_MARKS
from tests.e2e.portal import Portal, visit
from tests.e2e.seeded import browser, open_as, portal
from tests.factories import PASSWORD

pytestmark = BROWSER_MARKS
__all__ = ["browser", "open_as", "portal"]


def test_a_second_factor_is_set_up_asked_for_and_replaced_by_a_recovery_code(
    open_as: Callable[..., Any], portal: Portal
) -> None:
    page = open_as("viewer")
    visit(page, "/account/second-factor/")
    assert page.evaluate("document.querySelector('.qr svg').getBoundingClientRect().width") > 100
    app = TOTP(base64.b32decode(page.inner_text("#factor-key").replace(" ", "")))
    app.time = time.time()
    page.fill("#id_code", f"{app.token():06d}")
    page.fill("#id_password", PASSWORD)
    page.click("button:has-text('Switch on')")
    code = page.inner_text("#recovery-codes").split()[0]
    page.context.clear_cookies()
    visit(page, "/login?next=/jobs/")
    page.fill("#id_username", "viewer")
    page.fill("#id_password", PASSWORD)
    page.click("button:has-text('Sign in')")
    page.wait_for_url("**/login/code?next=*")
    page.fill("#id_code", f"{app.token():06d}")  # the one that was shown before
    page.click("button:has-text('Sign in')")
    assert "That code was not accepted" in page.inner_text("[role=alert]")
    page.fill("#id_code", code)
    page.click("button:has-text('Sign in')")
    page.wait_for_url(f"{portal.url}/jobs/")
    visit(page, "/account/second-factor/")
    assert "9 recovery codes are left" in page.inner_text("main")
