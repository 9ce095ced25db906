"""Weights files in a real browser: uploaded as data are, and chosen in the form of a job."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.e2e.browser import BROWSER_MARKS
from tests.e2e.portal import addresses, until, visit
from tests.e2e.seeded import browser, ids, open_as, portal
from tests.factory_weights import safetensors

pytestmark = BROWSER_MARKS
__all__ = ["browser", "ids", "open_as", "portal"]


def is_listed(response: Any) -> bool:
    """The list of unfinished uploads."""
    return bool(response.request.method == "GET" and response.url.endswith("/api/v1/uploads"))


def upload(page: Any, file: Path, body: bytes) -> None:
    file.write_bytes(body)
    visit(page, "/datasets/upload/")
    page.select_option("[data-option-project]", "orchard")
    page.set_input_files("[data-file]", str(file))
    page.click("[data-start]")


def test_an_upload_of_weights_leads_to_their_list_and_a_job_starts_from_them(
    open_as: Callable[..., Any], ids: dict[str, str], tmp_path: Path
) -> None:
    page = open_as()
    upload(page, tmp_path / "mine.safetensors", safetensors(fill=7))
    page.wait_for_url("**/weights/")
    assert page.locator("td:text-is('mine')").count() == 1
    visit(page, addresses(ids)["spec"])
    page.click("summary:has(strong:text-is('Weights that were trained before'))")
    assert page.locator("#spec-model-weights-offered option[value=mine]").count() == 1
    page.fill("#spec-model-weights", "mine")
    until(page, "document.querySelector('[data-source]').value.includes('weights: mine')")
    until(page, "document.querySelector('[data-spec-state]').textContent === 'Valid'")
    page.click("button:has-text('See what it costs')")
    page.wait_for_url("**/jobs/*/cost/")
    assert "starts from mine" in page.inner_text(".crumbs")


def test_what_is_no_weights_file_is_told_on_the_page(open_as: Callable[..., Any], tmp_path: Path) -> None:
    page = open_as()
    upload(page, tmp_path / "model.pt", b"PK\x03\x04")
    page.wait_for_selector("[data-error]:has-text('is a pickle by its name')")
    page.click("[data-forget]")
    upload(page, tmp_path / "cut.safetensors", safetensors()[:-4])
    page.wait_for_selector("[data-error]:has-text('4 bytes are missing')")


def test_weights_that_were_refused_are_no_unfinished_upload(open_as: Callable[..., Any], tmp_path: Path) -> None:
    page = open_as()
    upload(page, tmp_path / "cut.safetensors", safetensors()[:-4])
    page.wait_for_selector("[data-error]:has-text('4 bytes are missing')")
    with page.expect_response(is_listed) as listed:
        visit(page, "/datasets/upload/")
    assert listed.value.json()["items"] == []
    page.locator("[data-mount][data-mounted]").first.wait_for()
    assert page.locator("[data-earlier]").is_hidden()
    assert page.evaluate("Object.keys(localStorage).filter((key) => key.startsWith('tus::')).length") == 0


BEGIN = """async () => {
  const response = await fetch("/api/v1/uploads", {
    method: "POST",
    headers: {
      "Tus-Resumable": "1.0.0",
      "Upload-Length": "9",
      "Upload-Metadata": `filename ${btoa("far.csv")},project ${btoa("orchard")}`,
      "X-CSRFToken": document.querySelector('meta[name="csrf-token"]').content,
    },
  });
  return response.status;
}"""


def test_an_upload_begun_elsewhere_is_forgotten_only_if_that_is_confirmed_and_the_portal_has_done_it(
    open_as: Callable[..., Any],
) -> None:
    page = open_as()
    visit(page, "/datasets/upload/")
    assert page.evaluate(BEGIN) == 201
    visit(page, "/datasets/upload/")
    row = page.locator("[data-earlier-list] li")
    row.wait_for()
    assert "far.csv in orchard" in row.inner_text() and "not begun in this browser" in row.inner_text()
    page.route(
        "**/api/v1/uploads/*", lambda route: route.fulfill(status=403, json={"error": {"message": "Not yours."}})
    )
    row.locator("button").click()
    assert "What has arrived of far.csv is deleted" in page.inner_text("#confirm-dialog")
    page.click("#confirm-dialog [value=yes]")
    page.wait_for_selector("[data-error]:has-text('Not yours.')")
    assert row.count() == 1
    page.unroute("**/api/v1/uploads/*")
    row.locator("button").click()
    page.click("#confirm-dialog [value=yes]")
    page.locator("[data-earlier]").wait_for(state="hidden")
    assert page.evaluate("fetch('/api/v1/uploads').then(async (it) => (await it.json()).items.length)") == 0
