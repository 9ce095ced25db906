// The values of a line chart as a table, for who reads them better than lines.
import { el } from "../dom.js";
import { localTime, number } from "../format.js";
import { moreRows, moreWords, shownFirst } from "../rows.js";

const COLUMNS = ["series", "step", "epoch", "time", "value"];
const ROWS_SHOWN = 200;

const written = (value, column) => (column === "time" ? localTime(new Date(value * 1000)) : number(value, 6));

// There is no room for the time on a phone, where the step tells as much.
const looks = (column) => (column === "series" ? "" : column === "time" ? "num wide-only" : "num");

function row([label, ...values]) {
  const cells = values.map((value, at) => el("td", { class: looks(COLUMNS[at + 1]) }, written(value, COLUMNS[at + 1])));
  return el("tr", {}, el("td", {}, label), ...cells);
}

function table(rows) {
  const heads = COLUMNS.map((name) => el("th", { class: looks(name) }, name));
  return el(
    "table",
    { class: "table table-sm" },
    el("thead", {}, el("tr", {}, ...heads)),
    el("tbody", {}, ...rows.map(row)),
  );
}

// Some of each line: of two that are drawn both are told.
export function newest(lines) {
  const count = lines.flat().length;
  const each = shownFirst(count) < count ? Math.max(1, Math.floor(shownFirst(count) / lines.length)) : count;
  return lines.flatMap((rows) => rows.slice(-each)).slice(-ROWS_SHOWN);
}

export class CurveTable {
  #all = false;

  // `redraw` is called where other rows are wanted: once it is folded out, and when all are.
  constructor(redraw) {
    this.note = el("p", { class: "text-secondary small mb-1" });
    this.box = el("div", { class: "scroll-x", tabindex: "0", role: "region", "aria-label": "Data of the chart" });
    this.more = moreRows(0, () => {
      this.#all = true;
      redraw();
      this.box.focus({ preventScroll: true });
    });
    this.node = el(
      "details",
      { class: "data-table mt-1", ontoggle: redraw },
      el("summary", {}, "Show data"),
      this.note,
      this.box,
      this.more,
    );
  }

  // Of each line its rows, which hold what COLUMNS name, time in seconds; the newest are at the end.
  draw(lines) {
    const most = lines.flat().slice(-ROWS_SHOWN);
    const shown = this.#all ? most : newest(lines);
    const count = lines.flat().length;
    this.note.textContent =
      count > shown.length ? `The last ${shown.length} of the ${count} values drawn; the CSV has every one.` : "";
    this.box.replaceChildren(table(shown));
    this.more.hidden = shown.length >= most.length;
    this.more.textContent = moreWords(most.length - shown.length);
  }
}
