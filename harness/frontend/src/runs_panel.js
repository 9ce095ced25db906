// Compared jobs by what they were given and what came of it: parallel coordinates, a scatter, bars of the best.

import { bestOf, passes, ramp, rangeOf, scaleOf, told, varies, write } from "./charts/fields.js";
import { drawn } from "./charts/legend.js";
import { onTheme } from "./charts/palette.js";
import { narrow } from "./charts/parts.js";
import {
  barsOption,
  isPlaced,
  paintRanges,
  parallelOption,
  ranked,
  scatterOption,
  showRanges,
} from "./charts/run_charts.js";
import { el } from "./dom.js";
import { number } from "./format.js";
import { pageData } from "./net.js";
import { RunCard } from "./run_card.js";
import { rangeFields } from "./run_ranges.js";
import { RunState } from "./run_state.js";
import { follow, keepWithin, withinNow } from "./runs.js";

const [ROW_PX, AXIS_PX, LEAST_PX] = [22, 92, 260];
const jobsOf = (count) => `${count} job${count === 1 ? "" : "s"}`;

// What has the focus keeps it, though it is made anew.
function refill(host, ...children) {
  const inputs = () => [...host.querySelectorAll("select, input")];
  const held = inputs().indexOf(document.activeElement);
  host.replaceChildren(...children);
  inputs()[held]?.focus({ preventScroll: true });
}

function choice(words, fields, chosen, change, extra = []) {
  const group = (title, list) =>
    list.length
      ? [
          el(
            "optgroup",
            { label: title },
            ...list.map((field) => el("option", { value: field.key, selected: field.key === chosen }, field.label)),
          ),
        ]
      : [];
  const select = el(
    "select",
    { class: "form-select form-select-sm", onchange: (event) => change(event.target.value) },
    ...extra,
    ...group(
      "Spec",
      fields.filter((field) => !field.is_figure),
    ),
    ...group(
      "Figures",
      fields.filter((field) => field.is_figure),
    ),
  );
  return el("label", {}, words, select);
}

function tick(words, checked, change) {
  return el(
    "label",
    {},
    el("input", {
      type: "checkbox",
      class: "form-check-input m-0",
      checked,
      onchange: (event) => change(event.target.checked),
    }),
    words,
  );
}

function hueBar(field) {
  if (!field || !varies(field)) return [];
  const values = told(field);
  const ends = [Math.min(...values), Math.max(...values)];
  if (field.better < 0) ends.reverse();
  const svg = drawn("svg", { class: "hue-bar", width: 90, height: 10, "aria-hidden": "true" });
  const gradient = drawn("linearGradient", { id: "hue-ramp" });
  for (const [at, shade] of ramp().entries()) {
    gradient.append(drawn("stop", { offset: at / 2, "stop-color": shade }));
  }
  svg.append(gradient, drawn("rect", { width: 90, height: 10, rx: 2, fill: "url(#hue-ramp)" }));
  return [
    el(
      "span",
      { class: "small" },
      `Colour: ${field.label}, ${number(ends[0])}`,
      svg,
      number(ends[1]),
      field.values.includes(null) ? "; grey, dashed: none" : "",
    ),
  ];
}

class RunsPanel {
  constructor(root, source) {
    const byId = new Map(source.jobs.map((job) => [job.id, job]));
    Object.assign(this, { root, jobs: [...byId.values()], state: new RunState(source) });
    const { fields } = this.state;
    this.figures = fields.filter((field) => field.is_figure);
    this.parallel = new RunCard("parallel", "Parallel coordinates", this.jobs, { wide: true });
    this.scatter = new RunCard("scatter", "Scatter", this.jobs);
    this.bars = new RunCard("best", "Best", this.jobs);
    const scrolled = el("div", { class: "scroll-y" });
    this.bars.node.replaceWith(scrolled);
    scrolled.append(this.bars.node);
    this.cards = this.figures.length ? [this.parallel, this.scatter, this.bars] : [this.parallel, this.scatter];
    this.rangesBox = el("div");
    this.ranges = el("details", { class: "mt-1", "data-ranges": "" }, el("summary", {}, "Ranges"), this.rangesBox);
    this.axes = el("details", { class: "mt-1" }, el("summary", {}, "Axes"), this.axisList(fields));
    this.parallel.node.after(this.axes, this.ranges);
    root.append(el("div", { class: "grid grid-2 mb-3" }, ...this.cards.map(({ card }) => card)));
    for (const card of this.cards) card.begin(() => this.resized());
    this.parallel.plot.on("rendered", () => paintRanges(this.parallel.plot));
    this.parallel.plot.on("axisareaselected", (event) => this.dragged(event));
  }

  begin() {
    this.wasNarrow = narrow();
    this.applyRanges();
    this.draw();
    onTheme(() => this.draw());
    follow("within", (ids) => this.cleared(ids));
  }

  resized() {
    paintRanges(this.parallel.plot);
    if (this.wasNarrow === narrow()) return;
    this.wasNarrow = narrow();
    this.draw();
  }

  set(changes) {
    Object.assign(this.state, changes);
    this.state.write();
    this.draw();
  }

  axisList(fields) {
    const boxes = fields.map((field) => {
      const shown = this.state.axesShown.includes(field);
      return [
        field,
        el("input", {
          type: "checkbox",
          class: "form-check-input",
          checked: shown,
          onchange: () => this.chooseAxes(boxes),
        }),
      ];
    });
    return el(
      "ul",
      { class: "column-list" },
      ...boxes.map(([field, box]) =>
        el("li", {}, el("label", { class: "form-check" }, box, el("span", {}, field.label))),
      ),
    );
  }

  // A range of an axis that is no longer shown would hide jobs for no reason to be seen.
  chooseAxes(boxes) {
    const axes = boxes.filter(([, box]) => box.checked).map(([field]) => field.key);
    for (const key of this.state.ranges.keys()) if (!axes.includes(key)) this.state.ranges.delete(key);
    this.set({ axes });
    this.applyRanges();
  }

  chart() {
    const { state } = this;
    const [x, y] = [state.side("x"), state.side("y")];
    return {
      jobs: this.jobs,
      axes: state.axesShown,
      ranges: state.ranges,
      hue: state.hue,
      within: withinNow(),
      x: x.field,
      y: y.field,
      logX: x.log,
      logY: y.log,
    };
  }

  draw() {
    this.drawParallel();
    this.drawRanges();
    this.drawOthers();
  }

  drawParallel() {
    const chart = this.chart();
    this.parallel.node.style.height = narrow() ? `${LEAST_PX / 2 + AXIS_PX * chart.axes.length}px` : "";
    this.parallel.plot.resize();
    this.parallel.show(parallelOption(chart), chart.axes, this.parallelWords(chart));
    refill(
      this.parallel.tools,
      choice("Metric", this.figures, this.state.metric, (metric) => this.set({ metric })),
      ...hueBar(chart.hue),
      el(
        "span",
        { class: "text-secondary with-mouse" },
        "Drag along an axis to keep a range; click the axis to let all through. Click a line to open its job.",
      ),
    );
    this.drawing = true;
    showRanges(this.parallel.plot, chart);
    this.drawing = false;
    paintRanges(this.parallel.plot);
  }

  drawOthers() {
    const chart = this.chart();
    const { state } = this;
    refill(
      this.scatter.tools,
      choice("Across", state.fields, chart.x.key, (x) => this.set({ x, logX: null })),
      ...(chart.x.is_number ? [tick("Log", chart.logX, (logX) => this.set({ logX }))] : []),
      choice("Up", state.fields, chart.y.key, (y) => this.set({ y, logY: null })),
      ...(chart.y.is_number ? [tick("Log", chart.logY, (logY) => this.set({ logY }))] : []),
    );
    this.scatter.show(
      scatterOption(chart),
      [...new Set([chart.x, chart.y, chart.hue])].filter(Boolean),
      this.scatterWords(chart),
    );
    if (!chart.hue) return;
    this.bars.tools.replaceChildren(el("span", { class: "text-secondary" }, chart.hue.label));
    this.bars.node.style.height = `${Math.max(LEAST_PX, 60 + ROW_PX * ranked(chart).length)}px`;
    this.bars.plot.resize();
    this.bars.show(barsOption(chart), [chart.hue], this.barsWords(chart));
  }

  parallelWords({ axes, hue, within }) {
    const best = hue && bestOf(hue);
    const parts = [`${jobsOf(this.jobs.length)} on ${axes.length} axes`];
    if (within) parts.push(`${within.size} within the ranges`);
    if (best !== null && best !== undefined)
      parts.push(
        `best ${hue.label.replace(/^Best /, "")}: ${number(best)} by ${this.jobs[hue.values.indexOf(best)].name}`,
      );
    const without = axes.filter((field) => field.values.includes(null)).length;
    if (without) parts.push(`on ${without} of the axes some jobs have no value: their lines pass through “none”`);
    return `${parts.join("; ")}.`;
  }

  scatterWords(chart) {
    const placed = this.jobs.map((_, at) => at).filter((at) => isPlaced(chart, at));
    const span = (field) => {
      const values = placed.map((at) => field.values[at]);
      return field.is_number && values.length
        ? `${field.label} ${write(field, Math.min(...values))} to ${write(field, Math.max(...values))}`
        : field.label;
    };
    const count = this.jobs.length - placed.length;
    const out = count ? `, ${count} left out: no value here` : "";
    const shown = `${jobsOf(placed.length)} drawn${out}`;
    return `${span(chart.x)}; ${span(chart.y)}. ${shown}. Marks by model, colours as above.`;
  }

  barsWords(chart) {
    const order = ranked(chart);
    const [first, count] = [order[0], this.jobs.length - order.length];
    const out = count ? ` ${jobsOf(count)} told no ${chart.hue.label}.` : "";
    const way = { 1: "More is better", "-1": "Less is better", 0: "Largest first" }[chart.hue.better];
    return `${way}. First: ${this.jobs[first].name}, ${write(chart.hue, chart.hue.values[first])}.${out}`;
  }

  drawRanges() {
    refill(
      this.rangesBox,
      rangeFields(this.state.axesShown, this.state.ranges, (key, range) => this.change(key, range)),
    );
  }

  change(key, range) {
    if (range) this.state.ranges.set(key, range);
    else this.state.ranges.delete(key);
    this.applyRanges();
    this.drawParallel(); // not the fields: one of them is just being left for the next
    this.drawOthers();
  }

  dragged({ parallelAxisId, intervals }) {
    if (this.drawing) return;
    const field = this.state.byKey.get(parallelAxisId);
    if (intervals.length) this.state.ranges.set(field.key, rangeOf(field, scaleOf(field), intervals));
    else this.state.ranges.delete(field.key);
    this.applyRanges();
    this.drawRanges();
    this.parallel.told.textContent = this.parallelWords(this.chart());
    this.drawOthers();
  }

  applyRanges() {
    const { byKey, ranges } = this.state;
    const inside = (at) =>
      [...ranges].every(([key, range]) => passes(byKey.get(key), range, byKey.get(key).values[at]));
    this.own = true;
    keepWithin(ranges.size ? new Set(this.jobs.filter((_, at) => inside(at)).map((job) => job.id)) : null);
    this.own = false;
    this.state.write();
  }

  // Somebody else took the ranges away: the button beside the table.
  cleared(ids) {
    if (this.own || ids !== null || !this.state.ranges.size) return;
    this.state.ranges.clear();
    this.state.write();
    this.draw();
  }
}

export function mount(root) {
  const source = pageData(root.dataset.source);
  if (source.fields.length < 2) return; // they differ in nothing, and none has run
  new RunsPanel(root, source).begin();
}
