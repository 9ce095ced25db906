// The values of a line chart as a table, for who reads them better than lines.
import { el } from "../dom.js";
import { number } from "../format.js";

const COLUMNS = ["series", "step", "epoch", "time", "value"];
const ROWS_SHOWN = 200;

const written = (value, column) => (column === "time" ? new Date(value * 1000).toISOString() : number(value, 6));

function row([label, ...values]) {
  const cells = values.map((value, at) => el("td", { class: "num" }, written(value, COLUMNS[at + 1])));
  return el("tr", {}, el("td", {}, label), ...cells);
}

// `rows` hold what COLUMNS name, time in seconds; a note says when they are too many for a page.
export function curveTable(rows) {
  const shown = rows.slice(-ROWS_SHOWN);
  const note =
    rows.length > shown.length
      ? `The last ${shown.length} of the ${rows.length} values drawn; the CSV has every one.`
      : "";
  const heads = COLUMNS.map((name, at) => el("th", { class: at ? "num" : "" }, name));
  return [
    el("p", { class: "text-secondary small mb-1" }, note),
    el(
      "table",
      { class: "table table-sm" },
      el("thead", {}, el("tr", {}, ...heads)),
      el("tbody", {}, ...shown.map(row)),
    ),
  ];
}
