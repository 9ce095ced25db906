// The values of a line chart as a table, for who reads them better than lines.
import { el } from "../dom.js";
import { duration, localTime, number } from "../format.js";
import { moreRows, moreWords, shownFirst } from "../rows.js";

const BY_STEP = ["series", "step", "epoch", "time", "value"];
const BY_TIME = ["series", "time since start", "time", "value"]; // what machines do has no steps
const ROWS_SHOWN = 200;
const WRITTEN = { time: (value) => localTime(new Date(value * 1000)), "time since start": duration };

const written = (value, column) => WRITTEN[column]?.(value) ?? number(value, 6);

// There is no room for the time on a phone, where what stands before it tells as much.
const looks = (column) => (column === "series" ? "" : column === "time" ? "num wide-only" : "num");

function row([label, ...values], columns) {
  const cells = values.map((value, at) => el("td", { class: looks(columns[at + 1]) }, written(value, columns[at + 1])));
  return el("tr", {}, el("td", {}, label), ...cells);
}

function table(rows, columns) {
  const heads = columns.map((name) => el("th", { class: looks(name) }, name));
  return el(
    "table",
    { class: "table table-sm" },
    el("thead", {}, el("tr", {}, ...heads)),
    el("tbody", {}, ...rows.map((cells) => row(cells, columns))),
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

  // `title` is what the chart shows; `redraw` is called where other rows are wanted: once it is folded out, and when all are.
  constructor(title, redraw) {
    this.note = el("p", { class: "text-secondary small mb-1" });
    this.box = el("div", { class: "scroll-x", tabindex: "0", role: "region", "aria-label": `Data of ${title}` });
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

  // Of each line its rows, which hold what the columns name, times in seconds; the newest are at the end.
  draw(lines, { isByTime }) {
    const most = lines.flat().slice(-ROWS_SHOWN);
    const shown = this.#all ? most : newest(lines);
    const count = lines.flat().length;
    this.note.textContent =
      count > shown.length ? `The last ${shown.length} of the ${count} values drawn; the CSV has every one.` : "";
    this.box.replaceChildren(table(shown, isByTime ? BY_TIME : BY_STEP));
    this.more.hidden = shown.length >= most.length;
    this.more.textContent = moreWords(most.length - shown.length);
  }
}
