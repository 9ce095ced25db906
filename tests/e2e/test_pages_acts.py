"""What a person takes away from the pages, brings back from the trash, or gives to the form of a new job."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.e2e.browser import BROWSER_MARKS
from tests.e2e.portal import until, visit
from tests.e2e.seeded import browser, ids, open_as, portal

pytestmark = BROWSER_MARKS
__all__ = ["browser", "ids", "open_as", "portal"]


def download(page: Any, link: str, target: Path) -> Path:
    """Click a link and keep the file it gives."""
    with page.expect_download() as waiting:
        page.click(link)
    waiting.value.save_as(target)
    return target


def test_weights_and_program_are_downloaded_from_the_results(
    open_as: Callable[..., Any], ids: dict[str, str], tmp_path: Path
) -> None:
    page = open_as("viewer")
    visit(page, f"/jobs/{ids['succeeded']}/results/")
    assert download(page, "a:has-text('Weights')", tmp_path / "w").read_bytes() == b"weights"
    with zipfile.ZipFile(download(page, "a[download]:has-text('Program')", tmp_path / "p.zip")) as program:
        names = {Path(name).name for name in program.namelist()}
        train = next(name for name in program.namelist() if name.endswith("/train.py"))
        assert b"run.finish(dataset)" in program.read(train)
    assert {"model.py", "data.py", "train.py", "predict.py", "spec.yaml", "README.md"} <= names


def test_a_deleted_job_and_dataset_come_back_from_the_trash(open_as: Callable[..., Any], ids: dict[str, str]) -> None:
    page = open_as("owner")
    for address, name in ((f"/jobs/{ids['cancelled']}/live/", "job"), (f"/datasets/{ids['ragged.csv']}/", "dataset")):
        visit(page, address)
        page.click("main button:has-text('Delete')")
        page.wait_for_selector("#confirm-dialog[open]")
        page.click("#confirm-dialog button[value=yes]")
        # a job's page stays and says where it is; a dataset's gives way to the list
        until(page, f"!location.pathname.includes('{address}') || /is in the trash/.test(document.body.innerText)")
        visit(page, "/jobs/" if name == "job" else "/datasets/")
        assert not page.locator(f"main a[href*='{ids['cancelled' if name == 'job' else 'ragged.csv']}']").count()
    visit(page, "/trash/")
    page.check(f"input[name=job][value='{ids['cancelled']}']")
    page.click("button:has-text('Restore selected')")
    until(page, "!document.querySelector('input[name=job]')")
    visit(page, "/trash/")
    page.click("button:text-is('Restore')")
    visit(page, "/jobs/?state=cancelled")
    assert page.locator(f"main a[href*='{ids['cancelled']}']").count()
    visit(page, "/trash/")
    assert "The trash is empty" in page.inner_text("main")
    visit(page, "/datasets/")
    assert page.locator(f"main a[href*='{ids['ragged.csv']}']").count()


def test_the_open_page_is_in_sight_in_the_row_of_pages_on_a_phone(open_as: Callable[..., Any]) -> None:
    page = open_as(width=360)
    visit(page, "/projects/")
    place = page.locator(".topbar-nav [aria-current]").bounding_box()
    assert place["x"] >= 0 and place["x"] + place["width"] <= 360


def test_the_form_of_a_new_job_chooses_for_the_own_model_that_is_typed_and_keeps_it_when_it_is_refused(
    open_as: Callable[..., Any], ids: dict[str, str]
) -> None:
    page = open_as("owner")
    visit(page, f"/jobs/new/{ids['wine.csv']}/")
    until(page, "document.querySelector('[data-family][data-rank=\"1\"]')?.checked")
    page.click("summary:has-text('Use my own model')")
    text = "def build(spec):\n    return (\n"
    page.fill("#own-model", text)
    until(page, "document.querySelector('[data-guesses]').textContent.includes('Your own model.py.')")
    assert page.locator("[data-family]:checked").count() == 0
    page.fill("#own-model", "")
    until(page, "!document.querySelector('[data-guesses]').textContent.includes('Your own model.py.')")
    page.fill("#own-model", text)
    page.click("[data-go]")
    page.wait_for_selector(".alert-danger:has-text('model.py, line 2')")
    assert page.input_value("#own-model") == text
    assert "model.py, line 2" in page.inner_text("#own-model-error")
    until(page, "document.querySelector('[data-guesses]').textContent.includes('Your own model.py.')")
