"""How the pages lie, in a real browser: what a person sees and no template shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.pages.templatetags.dlh import folded
from tests.e2e.browser import BROWSER_MARKS
from tests.e2e.portal import addresses, boxes, until, visit
from tests.e2e.seeded import browser, ids, open_as, portal

pytestmark = BROWSER_MARKS
__all__ = ["browser", "ids", "open_as", "portal"]


def test_bars_of_one_list_begin_and_end_at_the_same_place(open_as: Callable[..., Any], ids: dict[str, str]) -> None:
    page = open_as()
    visit(page, addresses(ids)["pictures"])
    bars = page.locator("section[aria-labelledby=ct] .bar-list progress")
    ends = [bar.bounding_box() for bar in bars.all()]
    assert len(ends) == 10
    assert len({(round(box["x"], 1), round(box["width"], 1)) for box in ends}) == 1


def test_a_card_ends_below_its_last_word_whatever_stands_beside_it(open_as: Callable[..., Any]) -> None:
    page = open_as("admin")
    visit(page, "/pool/")
    for title in ("nn", "ed"):
        section = f"section[aria-labelledby={title}]"
        card, button = boxes(page, section, f"{section} form button")
        assert card["y"] + card["height"] - button["y"] - button["height"] < 40


def test_a_box_to_tick_stands_beside_its_words(open_as: Callable[..., Any]) -> None:
    page = open_as("admin", width=390)
    visit(page, "/pool/")
    box, words = boxes(page, "#id_span_nodes", "label:has(#id_span_nodes) .form-check-label")
    assert words["x"] > box["x"] + box["width"] and words["y"] < box["y"] + box["height"]


def test_the_yaml_that_was_folded_out_stays_in_sight_beside_a_long_form(
    open_as: Callable[..., Any], ids: dict[str, str]
) -> None:
    page = open_as()
    visit(page, addresses(ids)["spec"])
    page.wait_for_selector(".model-card")
    page.click("#yaml > summary")
    page.click("summary:has-text('Training')")
    page.locator("#spec-training-backup").scroll_into_view_if_needed()
    editor = page.locator("[data-editor]").bounding_box()
    assert 0 < editor["y"] < 450


@pytest.mark.parametrize("width", [1440, 390])
def test_a_folded_text_among_many_columns_is_as_wide_as_a_line(
    open_as: Callable[..., Any], ids: dict[str, str], width: int
) -> None:
    page = open_as(width=width)
    visit(page, addresses(ids)["table"])
    page.locator("#rows").scroll_into_view_if_needed()
    page.wait_for_selector("#rows tbody tr")
    cell = page.locator("#rows tbody td").nth(1)
    cell.evaluate("(cell, fold) => { cell.innerHTML = fold; }", folded("some words " * 30, 40))
    box = page.locator("#rows .fold").bounding_box()
    assert box["width"] >= 240 and box["height"] < 60


def test_a_row_on_a_phone_begins_with_what_it_is_about(open_as: Callable[..., Any], ids: dict[str, str]) -> None:
    page = open_as(width=390)
    visit(page, "/jobs/")
    box, name = boxes(page, "#jobs tbody tr input", "#jobs tbody tr td[data-label=Job] a")
    assert box["x"] + box["width"] < name["x"] < 80 and abs(box["y"] - name["y"]) < 12
    visit(page, addresses(ids)["cost"])
    until(page, "document.querySelectorAll('.offer-table tbody tr').length > 1")
    choice = page.locator(".offer-table input[name=line]").first.bounding_box()
    assert choice["x"] < 60


BROKEN_WORDS = """() => {
  const found = [];
  for (const cell of document.querySelectorAll("main .stack-table td[data-label]")) {
    const range = document.createRange();
    const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
      for (const { 0: word, index } of texts.currentNode.data.matchAll(/\\b\\w{2,20}\\b/g)) {
        range.setStart(texts.currentNode, index);
        range.setEnd(texts.currentNode, index + word.length);
        if (new Set([...range.getClientRects()].map((rect) => rect.top)).size > 1) found.push(word);
      }
    }
  }
  return found;
}"""


def test_no_word_of_usual_length_is_broken_in_a_table(open_as: Callable[..., Any], ids: dict[str, str]) -> None:
    page = open_as()
    for name in ("events", "spec of a run", "jobs", "queue", "storage", "cost of a run", "checkpoints", "modes"):
        visit(page, addresses(ids)[name])
        page.wait_for_load_state("load")
        assert page.evaluate(BROKEN_WORDS) == [], name


def test_the_bar_of_a_phone_holds_every_page(open_as: Callable[..., Any]) -> None:
    page = open_as(width=390)
    visit(page, "/")
    nav = page.locator(".topbar-nav")
    assert nav.evaluate("bar => bar.scrollWidth <= bar.clientWidth")


def test_steps_are_named_on_a_phone_whether_one_is_current_or_not(
    open_as: Callable[..., Any], ids: dict[str, str]
) -> None:
    page = open_as(width=390)
    visit(page, f"/jobs/{ids['draft']}/live/")
    assert page.inner_text(".steps-line").split("\n")[0] == "Choose data"
    visit(page, addresses(ids)["program"])
    assert page.inner_text(".steps-line [aria-current]") == "The program, if you like"


def test_curves_have_no_controls_before_there_are_any(open_as: Callable[..., Any], ids: dict[str, str]) -> None:
    page = open_as()
    visit(page, addresses(ids)["waiting"])
    page.wait_for_selector("text=No values yet.")
    assert not page.locator("[data-controls]").is_visible()
    visit(page, addresses(ids)["live"])
    page.wait_for_selector(".uplot")
    assert page.locator("[data-controls]").is_visible()


@pytest.mark.parametrize("width", [1440, 390])
def test_a_long_name_of_a_gpu_is_told_whole_in_its_tile(open_as: Callable[..., Any], width: int) -> None:
    page = open_as("admin", width=width)
    visit(page, "/pool/")
    tile = page.locator(".device").first
    tile.evaluate(
        """(tile, name) => {
          const model = document.createElement("span");
          model.className = "model text-secondary";
          model.textContent = name;
          tile.append(model);
        }""",
        "NVIDIA GraceHopperSuperchip_480GB_MIG_1g.10gb",
    )
    assert tile.evaluate("(tile) => tile.scrollWidth <= tile.clientWidth")
    assert tile.locator(".model").evaluate(
        "(model) => model.scrollWidth <= model.clientWidth && getComputedStyle(model).overflow === 'visible'"
    )


@pytest.mark.parametrize("state", ["succeeded", "running", "draft"])
def test_the_figures_of_a_chart_lie_within_the_width_of_a_phone(
    open_as: Callable[..., Any], ids: dict[str, str], state: str
) -> None:
    page = open_as(width=390)
    tab, tables = {"succeeded": ("results", 11), "running": ("live", 6), "draft": ("cost", 1)}[state]
    visit(page, f"/jobs/{ids[state]}/{tab}/")
    unfolded = "document.querySelectorAll('details.data-table').forEach(fold => { fold.open = true })"
    boxes_of = "[...document.querySelectorAll('.card-body .scroll-x')].filter(box => box.querySelector('td'))"
    until(page, f"({unfolded}, {boxes_of}.length >= {tables})")
    assert page.evaluate(f"{boxes_of}.filter(box => box.scrollWidth > box.clientWidth).map(box => box.ariaLabel)") == []


def test_the_words_of_buttons_lie_within_them_on_a_phone(open_as: Callable[..., Any], ids: dict[str, str]) -> None:
    page = open_as(width=390)
    visit(page, addresses(ids)["cost"])
    until(page, "document.querySelectorAll('.offer-table tbody tr').length > 1")
    # as where the finish that was asked for is too early
    page.evaluate(
        "(one => { const two = one.cloneNode(); two.textContent = 'Ask for the earliest finish'; one.after(two); })"
        "(document.querySelector('.filters > .btn'))"
    )
    assert page.evaluate(
        "[...document.querySelectorAll('.btn')].filter(one => one.scrollWidth > one.clientWidth)"
        ".map(one => one.innerText)"
    ) == []  # fmt: skip


def test_facts_of_a_table_lie_in_one_row_on_a_desk(open_as: Callable[..., Any], ids: dict[str, str]) -> None:
    page = open_as()
    visit(page, addresses(ids)["table"])
    tops = page.evaluate("[...document.querySelectorAll('.facts-many > div')].map(one => one.offsetTop)")
    assert len(tops) == 7 and len(set(tops)) == 1


def test_a_waiting_job_takes_few_lines_on_a_phone(open_as: Callable[..., Any]) -> None:
    page = open_as("admin", width=390)
    visit(page, "/queue/")
    row = ".queue-table tbody tr:first-child"
    place, job, move, priority = boxes(
        page, f"{row} [data-label=Place]", f"{row} [data-label=Job]", f"{row} form button", f"{row} .priority"
    )
    assert place["y"] == job["y"] and place["x"] + place["width"] < job["x"]
    assert move["x"] + move["width"] < priority["x"] and move["y"] < priority["y"] + priority["height"]
    assert priority["y"] < move["y"] + move["height"], "what an admin may do lies side by side"


@pytest.mark.parametrize(
    ("address", "name"), [("predict", "section[aria-labelledby=pt] td a"), ("jobs", "#view-bar .tag:nth-child(2)")]
)
def test_a_long_name_in_one_word_makes_no_page_wider_than_a_phone(
    open_as: Callable[..., Any], ids: dict[str, str], address: str, name: str
) -> None:
    page = open_as(width=390)
    visit(page, addresses(ids)[address])
    page.locator(name).first.evaluate("node => { node.textContent = 'm'.repeat(120); }")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_page_that_is_enlarged_to_twice_its_size_is_no_wider_than_the_screen(
    open_as: Callable[..., Any], ids: dict[str, str]
) -> None:
    page, wide = open_as("admin", width=720), {}
    for name in ("queue", "cost", "reservations", "weights files", "datasets"):
        visit(page, addresses(ids)[name])
        wide[name] = page.evaluate("document.documentElement.scrollWidth")
    assert {name: width for name, width in wide.items() if width > 720} == {}


def test_a_legend_breaks_a_name_without_a_space(open_as: Callable[..., Any], ids: dict[str, str]) -> None:
    page = open_as("admin", width=390)
    visit(page, addresses(ids)["compare"])
    page.wait_for_selector(".u-legend .u-label")
    page.evaluate(
        "for (const name of document.querySelectorAll('.u-legend .u-label')) name.textContent = 'W'.repeat(80)"
    )
    assert page.evaluate("document.documentElement.scrollWidth") == 390
