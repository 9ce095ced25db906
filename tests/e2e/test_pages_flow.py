"""The whole way of a person through the pages, with a real job on a real node."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.datasets.samples import sample_file
from tests.e2e.browser import BROWSER_MARKS, chromium, open_page, sign_in
from tests.e2e.portal import until, visit
from tests.e2e.stack import END_TIMEOUT_S, RunningStack, items, wait_for

pytestmark = BROWSER_MARKS
NEW_PASSWORD = "quite another passphrase 5"
STATE = "document.querySelector('[data-live=state]').innerText"
CHECKED = "document.querySelector('[data-spec-state]').textContent === 'Valid'"
DROP = """(() => {
  const transfer = new DataTransfer();
  for (const name of %s) transfer.items.add(new File([%s], name));
  const options = { dataTransfer: transfer, bubbles: true, cancelable: true };
  document.querySelector("[data-drop]").dispatchEvent(new DragEvent("drop", options));
  return /%s/.test(document.querySelector("[data-mount=upload]").innerText);
})()"""
"""Drops files of these names and this text; true once the page has said what it says to that."""


@pytest.fixture
def page(stack: RunningStack) -> Iterator[Any]:
    """A page of the running stack; fails on any request elsewhere and on any script error."""
    strange: list[str] = []
    with chromium() as browser:
        yield open_page(browser, stack.url, strange)
    assert not strange, strange


def test_a_person_goes_from_a_file_to_a_prediction(stack: RunningStack, page: Any, tmp_path: Path) -> None:
    sign_in(page, stack.url, stack.user, stack.password)
    _change_password(page, stack)
    _upload(page, sample_file("wine", tmp_path))
    page.click("a:has-text('Train a model')")
    job_url = _make_draft(page)
    page.wait_for_selector("text=All options", timeout=240_000)
    visit(page, f"{job_url}/program/")
    page.click("button:has-text('Check that it runs')")
    until(page, "/The program runs/.test(document.querySelector('#check').innerText)", limit_s=240)
    page.click("#job-header button:has-text('Submit')")
    visit(page, f"{job_url}/live/")
    page.wait_for_selector("section[aria-label=loss] .uplot", timeout=240_000)
    until(page, "/Last: training \\d/.test(document.querySelector('section[aria-label=loss]').innerText)")
    until(page, f"/Succeeded/.test({STATE})", limit_s=240)
    visit(page, f"{job_url}/results/")
    page.wait_for_selector("[data-chart-mode=share]")
    page.wait_for_selector(".analysis canvas")
    page.click("[data-chart-mode=share]")
    assert page.get_attribute("[data-chart-mode=share]", "aria-pressed") == "true"
    assert float(page.inner_text("table tr:has-text('accuracy') td:last-child")) > 0.7
    page.click("a:has-text('Predict')")
    page.click("button:has-text('Predict this row')")
    until(page, "document.querySelector('.answer') !== null", limit_s=240)
    assert page.locator(".bar-list li").count() == 3


def test_a_type_that_was_guessed_wrong_is_set_right(stack: RunningStack, page: Any, tmp_path: Path) -> None:
    table = tmp_path / "shops.csv"
    rows = [f"{row % 3},{row / 7:.2f},{('yes', 'no')[row % 2]}" for row in range(90)]
    table.write_text("\n".join(["shop,sales,open", *rows]) + "\n")
    dataset = stack.upload(table, "shops")
    wanted = "text" if _type_of(stack, dataset, "shop") == "category" else "category"
    sign_in(page, stack.url, stack.user, stack.password)
    visit(page, f"/datasets/{dataset}/")
    page.select_option("select[name='type:shop']", wanted)
    page.click("button:has-text('Save and read again')")
    wait_for(lambda: _type_of(stack, dataset, "shop") == wanted, timeout_s=240, what="the data is read again")
    until(page, "document.body.innerText.includes('set by hand')")  # the page loads the new reading by itself
    assert page.input_value("select[name='type:shop']") == wanted
    assert "set by hand" in page.inner_text("tr:has(select[name='type:shop'])")


def _type_of(stack: RunningStack, dataset: str, column: str) -> str:
    """The column's type as the newest reading has it; empty while it is being read."""
    if stack.get(f"/datasets/{dataset}")["state"] != "ready":
        return ""
    columns = stack.get(f"/datasets/{dataset}/profile")["columns"]
    return str(next(item["type"] for item in columns if item["name"] == column))


def test_a_run_goes_on_from_the_checkpoint_that_a_person_chooses(stack: RunningStack, page: Any, digits: str) -> None:
    spec = {"training": {"epochs": 3000, "seed": 1, "patience": 0}, "checkpoints": {"every_epochs": 1, "keep": 3}}
    job = stack.job_submit(digits, {"name": "goes back", **spec})

    def points() -> list[dict[str, Any]]:
        return sorted(items(stack.get(f"/jobs/{job}/checkpoints")), key=lambda point: point["step"])

    wait_for(lambda: len(points()) >= 3, timeout_s=480, what="three checkpoints")
    stack.post(f"/jobs/{job}/pause")
    stack.job_wait(job, "paused")
    chosen = points()[-2]["name"]
    sign_in(page, stack.url, stack.user, stack.password)
    visit(page, f"/jobs/{job}/checkpoints/")
    page.click(f"tr:has-text('{chosen}') button:has-text('Resume from')")
    page.wait_for_selector("#confirm-dialog[open]")
    page.click("#confirm-dialog button[value=yes]")
    wait_for(lambda: stack.job(job)["resume_from"] == chosen, timeout_s=90, what="the wish arrives")
    told = f"Continuing from checkpoint {chosen}"
    wait_for(lambda: told in stack.job_log(job), timeout_s=240, what="the run goes on from there")
    stack.post(f"/jobs/{job}/cancel")
    stack.job_wait(job, "cancelled", timeout_s=END_TIMEOUT_S)


def _change_password(page: Any, stack: RunningStack) -> None:
    visit(page, "/account/password/")
    page.fill("[name=old_password]", stack.password)
    page.fill("[name=new_password1]", NEW_PASSWORD)
    page.fill("[name=new_password2]", NEW_PASSWORD)
    page.click("button:has-text('Change password')")
    page.wait_for_url("**/account/")
    stack.password = NEW_PASSWORD


def _upload(page: Any, path: Path) -> None:
    """By drag and drop; two files at once are refused in words."""
    visit(page, "/datasets/upload/")
    text = json.dumps(path.read_text())
    for names, answer in (([path.name, "more.csv"], "Several files were dropped"), ([path.name], "Ready to send")):
        until(page, DROP % (json.dumps(names), text, answer))
    page.fill("[data-option-name]", "by hand")
    page.click("[data-start]")
    until(page, "/datasets\\/[a-z0-9]{12}\\//.test(window.location.href)", limit_s=240)
    page.wait_for_selector("a:has-text('Train a model')", timeout=240_000)


def _make_draft(page: Any) -> str:
    """The draft's address, after its epochs were chosen in the form."""
    page.wait_for_selector(".model-card")
    until(page, CHECKED)
    page.click("summary:has-text('Training')")
    page.fill("#spec-training-epochs", "40")
    until(page, "document.querySelector('[data-source]').value.includes('epochs: 40')")
    until(page, CHECKED)
    page.click("[data-go]")
    page.wait_for_url("**/cost/")
    return str(page.url).removesuffix("/cost/")
