// A card with one chart of the compared jobs: picture, summary in words, the same figures as a table and as CSV. What
// is pointed at here is marked everywhere; arrow keys walk through the jobs, a click or Enter goes to one.

import { write } from "./charts/fields.js";
import { placeIn, start } from "./charts/run_charts.js";
import { csvSave, csvText } from "./csv.js";
import { announce, el } from "./dom.js";
import { follow, mark } from "./runs.js";

const HOW = "Arrow keys step through the jobs, Enter opens one. The table below has the figures.";
const STEPS = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };

export class RunCard {
  constructor(id, title, jobs, { wide = false } = {}) {
    Object.assign(this, { id, title, jobs, marked: null, fields: [] });
    this.tools = el("div", { class: "chart-tools mb-2" });
    this.node = el("div", {
      class: "run-chart",
      id: `runs-${id}`,
      role: "img",
      tabindex: "0",
      "aria-label": `${title}. ${HOW}`,
    });
    this.told = el("p", { class: "text-secondary small mb-1", role: "status" });
    this.pointed = el("p", { class: "small mb-1 run-tip", "aria-hidden": "true" });
    this.table = el("div", {
      class: "scroll-x",
      tabindex: "0",
      role: "region",
      "aria-label": `Data of ${title}`,
    });
    this.data = el(
      "details",
      { class: "data-table mt-1", ontoggle: () => this.drawTable() },
      el("summary", {}, "Show data"),
      this.table,
    );
    const csv = el(
      "button",
      {
        type: "button",
        class: "btn btn-sm",
        "aria-label": `Download ${title} as CSV`,
        onclick: () => csvSave(csvText(this.rows((value) => value)), `compare-${id}`),
      },
      "CSV",
    );
    this.card = el(
      "section",
      { class: wide ? "card span-2" : "card", "aria-label": title },
      el("div", { class: "card-header" }, el("h2", {}, title), el("div", { class: "end" }, csv)),
      el("div", { class: "card-body" }, this.tools, this.node, this.pointed, this.told, this.data),
    );
  }

  // Once it is in the page: a chart needs to know its width.
  begin(redraw) {
    this.plot = start(this.node);
    const at = ({ data, dataIndex }) => data?.at ?? dataIndex;
    this.plot.on("mouseover", (event) => mark(this.jobs[at(event)]?.id ?? null));
    this.plot.on("globalout", () => mark(null));
    this.plot.on("mouseout", () => mark(null));
    this.plot.on("click", (event) => this.open(at(event)));
    this.node.addEventListener("keydown", (event) => this.key(event));
    this.node.addEventListener("blur", () => mark(null));
    follow("marked", (id) => this.point(id));
    new ResizeObserver(() => {
      this.plot.resize();
      redraw();
    }).observe(this.node);
  }

  show(option, fields, words) {
    this.fields = fields;
    this.plot.setOption(option, true);
    if (this.told.textContent !== words) this.told.textContent = words;
    this.drawTable();
  }

  open(at) {
    const job = this.jobs[at];
    if (job) window.location.assign(job.page);
  }

  key(event) {
    const now = this.jobs.findIndex((job) => job.id === this.marked);
    if (event.key === "Enter") this.open(now);
    else if (event.key === "Escape") mark(null);
    else if (STEPS[event.key]) {
      const all = this.jobs.length;
      const next = this.jobs[now < 0 ? 0 : (now + STEPS[event.key] + all) % all];
      mark(next.id);
      announce(this.pointed.textContent);
    } else return;
    event.preventDefault();
  }

  point(id) {
    const at = this.jobs.findIndex((job) => job.id === id);
    this.marked = at < 0 ? null : id;
    this.plot.dispatchAction({ type: "downplay", seriesIndex: 0 });
    const place = at < 0 ? -1 : placeIn(this.plot, at);
    if (place >= 0) this.plot.dispatchAction({ type: "highlight", seriesIndex: 0, dataIndex: place });
    this.pointed.textContent =
      at < 0
        ? ""
        : [this.jobs[at].name, ...this.fields.map((field) => `${field.label} ${write(field, field.values[at])}`)].join(
            " · ",
          );
  }

  rows(written) {
    const body = this.jobs.map((job, at) => [
      job.id,
      job.name,
      job.state,
      ...this.fields.map((field) => written(field.values[at], field)),
    ]);
    return [["id", "name", "state", ...this.fields.map((field) => field.label)], ...body];
  }

  drawTable() {
    if (!this.data.open) return;
    const [head, ...rows] = this.rows((value, field) => write(field, value));
    const looks = (at) => (at > 1 && this.fields[at - 2].is_number ? "num" : "");
    const cell = (value, at) => el("td", { class: looks(at), "data-label": head[at + 1] }, value);
    this.table.replaceChildren(
      el(
        "table",
        { class: "table table-sm stack-table" },
        el("thead", {}, el("tr", {}, ...head.slice(1).map((name, at) => el("th", { class: looks(at) }, name)))),
        el(
          "tbody",
          {},
          ...rows.map((row, at) =>
            el(
              "tr",
              {},
              ...row
                .slice(1)
                .map((value, place) =>
                  place ? cell(value, place) : cell(el("a", { href: this.jobs[at].page }, value), place),
                ),
            ),
          ),
        ),
      ),
    );
  }
}
