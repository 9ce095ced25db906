// The table of compared jobs and that of their specs: they mark the job that is pointed at, and leave out what lies
// outside the ranges.

import { drawn } from "./charts/legend.js";
import { color, dash, onTheme } from "./charts/palette.js";
import { el, urlState } from "./dom.js";
import { follow, keepWithin, mark } from "./runs.js";

const [WIDTH, HEIGHT] = [22, 8];

function drawSwatches() {
  for (const node of document.querySelectorAll("[data-swatch]")) {
    const at = Number(node.dataset.swatch);
    const line = drawn("line", {
      x1: 0,
      x2: WIDTH,
      y1: HEIGHT / 2,
      y2: HEIGHT / 2,
      stroke: color(at),
      "stroke-width": 2.5,
      "stroke-dasharray": dash(at).join(" ") || "none",
    });
    const svg = drawn("svg", { width: WIDTH, height: HEIGHT });
    svg.append(line);
    node.replaceChildren(svg);
  }
}

function tellWithin(node, count, ids) {
  const clear = el(
    "button",
    {
      type: "button",
      class: "btn btn-sm",
      onclick: () => {
        keepWithin(null);
      },
    },
    "Clear the ranges",
  );
  node.replaceChildren(
    ...(ids ? [el("span", { class: "small" }, `${ids.size} of ${count} within the ranges`), clear] : []),
  );
}

export function setUpRunTable() {
  const table = document.querySelector("[data-runs]");
  const rows = [...table.querySelectorAll("[data-run]")];
  drawSwatches();
  onTheme(drawSwatches);
  for (const row of rows) {
    for (const kind of ["pointerenter", "focusin"]) row.addEventListener(kind, () => mark(row.dataset.run));
    for (const kind of ["pointerleave", "focusout"]) row.addEventListener(kind, () => mark(null));
  }
  follow("marked", (id) => {
    for (const row of rows) row.classList.toggle("marked", row.dataset.run === id);
  });
  const frame = table.parentElement;
  follow("within", (ids) => {
    // It keeps its height: a chart below must not move away from under the hand that drags a range.
    frame.style.minHeight = ids ? frame.style.minHeight || `${frame.offsetHeight}px` : "";
    for (const row of rows) row.hidden = ids !== null && !ids.has(row.dataset.run);
    tellWithin(document.querySelector("[data-within]"), rows.length, ids);
  });
  // What the charts are set to goes along.
  table.addEventListener("click", ({ target }) => {
    const link = target.closest("[data-without]");
    if (!link) return;
    const rest = [...new URLSearchParams(window.location.search)].filter(
      ([name, value]) => name !== "job" || value !== link.dataset.without,
    );
    link.href = `?${new URLSearchParams(rest)}`;
  });
  const all = document.querySelector("[data-all-fields]");
  all.addEventListener("change", () => {
    for (const row of document.querySelectorAll("[data-specs] [data-alike]")) row.hidden = !all.checked;
    urlState({ fields: all.checked ? "all" : null });
  });
}
