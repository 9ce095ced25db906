"""Words of charts in a real browser: none lies on another."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.browser import BROWSER_MARKS
from tests.e2e.portal import Portal, addresses, until, visit
from tests.e2e.seeded import browser, ids, open_as, portal

pytestmark = BROWSER_MARKS
__all__ = ["browser", "ids", "open_as", "portal"]

TOLD = """
const own = CanvasRenderingContext2D.prototype;
const [write, clear] = [own.fillText, own.clearRect];
own.clearRect = function (x, y, width, height) {
  if (width >= this.canvas.clientWidth && height >= this.canvas.clientHeight) this.canvas.told = [];
  return clear.call(this, x, y, width, height);
};
own.fillText = function (text, x, y, ...rest) {
  const size = this.measureText(text);
  const xs = [x - size.actualBoundingBoxLeft, x + size.actualBoundingBoxRight];
  const ys = [y - size.actualBoundingBoxAscent, y + size.actualBoundingBoxDescent];
  const place = this.getTransform();
  const corners = xs.flatMap((across) => ys.map((down) => place.transformPoint({ x: across, y: down })));
  const ends = (name) => corners.map((corner) => corner[name]).sort((a, b) => a - b);
  (this.canvas.told ??= []).push({ text, x: ends("x"), y: ends("y") });
  return write.call(this, text, x, y, ...rest);
};
"""
"""Has each canvas keep what is written on it, and where."""

CLASHES = """() => {
  const common = (one, other) => Math.min(one.at(-1), other.at(-1)) - Math.max(one[0], other[0]);
  const clash = (one, other) => common(one.x, other.x) > 1 && common(one.y, other.y) > 1;
  const same = (one, other) => one.text === other.text && one.x[0] === other.x[0] && one.y[0] === other.y[0];
  return [...document.querySelectorAll("canvas")].flatMap(({ told = [] }) => told.flatMap((one, at) =>
    told.slice(at + 1).filter((other) => clash(one, other) && !same(one, other))
      .map((other) => `${one.text} | ${other.text}`)));
}"""
# Charts out of sight are drawn before a page is printed; again and again, since the scripts may not be there yet.
ALL_DRAWN = """window.dispatchEvent(new Event("beforeprint")) && document.querySelector("canvas") &&
  [...document.querySelectorAll('[data-mount=chart]')].every((node) => node.querySelector('canvas')?.told)"""


PLACES = ("results", "use", "accuracy", "modes", "compare", "live")


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("name", PLACES)
def test_no_word_of_a_chart_lies_on_another(
    open_as: Callable[..., Any], ids: dict[str, str], name: str, width: int
) -> None:
    page = open_as("admin", width=width)
    page.add_init_script(TOLD)
    visit(page, addresses(ids)[name])
    until(page, ALL_DRAWN)
    assert page.evaluate(CLASHES) == []


def test_names_of_many_ranges_of_dates_lie_apart_on_a_phone(
    open_as: Callable[..., Any], ids: dict[str, str], portal: Portal
) -> None:
    found = Path(portal.env["DLH_HOME"]).rglob("results.json")
    (path,) = (path for path in found if ids["succeeded"] in path.parts)
    names = [f"20{year}-03-01 to 20{year + 1}-03-01" for year in range(10, 22)]
    rows = [["ordered_at", name, 0.5 + at / 50, 0.4, 0.9, 40] for at, name in enumerate(names)]
    columns = ["feature", "values", "accuracy", "low", "high", "rows"]
    chart = {"id": "error_by_feature", "title": "Accuracy by group", "kind": "intervals", "columns": columns}
    path.write_text(json.dumps({"metrics": {}, "charts": [{**chart, "rows": rows, "overall": 0.7}]}))
    page = open_as("admin", width=390)
    page.add_init_script(TOLD)
    visit(page, addresses(ids)["results"])
    until(page, ALL_DRAWN)
    written = " ".join(page.evaluate("[...document.querySelector('canvas').told].map(({ text }) => text)"))
    assert "2010-03-01" in written and "2022-03-01" in written
    assert page.evaluate(CLASHES) == []
