// Compared jobs by what they were given and what came of it: parallel coordinates, a scatter, bars of the best.

import { passes, rangeOf, ranked, scaleOf } from "./charts/fields.js";
import { onTheme } from "./charts/palette.js";
import { narrow } from "./charts/parts.js";
import { barsOption, paintRanges, parallelOption, scatterOption, showRanges } from "./charts/run_charts.js";
import { el } from "./dom.js";
import { pageData } from "./net.js";
import { RunCard } from "./run_card.js";
import { rangeFields } from "./run_ranges.js";
import { RunState } from "./run_state.js";
import { choice, hueBar, refill, tick } from "./run_tools.js";
import { barsWords, parallelWords, scatterWords } from "./run_words.js";
import { follow, keepWithin, withinNow } from "./runs.js";

const [ROW_PX, NARROW_ROW_PX, AXIS_PX, LEAST_PX] = [22, 34, 92, 260];

class RunsPanel {
  constructor(root, source) {
    const byId = new Map(source.jobs.map((job) => [job.id, job]));
    Object.assign(this, { root, jobs: [...byId.values()], state: new RunState(source) });
    const { fields } = this.state;
    this.figures = fields.filter((field) => field.is_figure);
    this.parallel = new RunCard("parallel", "Parallel coordinates", this.jobs, { wide: true });
    this.scatter = new RunCard("scatter", "Scatter", this.jobs);
    this.bars = new RunCard("best", "Best", this.jobs);
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
    this.parallel.show(parallelOption(chart), chart.axes, parallelWords(chart));
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
      scatterWords(chart),
    );
    if (!chart.hue) return;
    this.bars.tools.replaceChildren(el("span", { class: "text-secondary" }, chart.hue.label));
    this.bars.node.style.height = `${Math.max(LEAST_PX, 60 + (narrow() ? NARROW_ROW_PX : ROW_PX) * ranked(chart).length)}px`;
    this.bars.plot.resize();
    this.bars.show(barsOption(chart), [chart.hue], barsWords(chart));
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
    this.parallel.told.textContent = parallelWords(this.chart());
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
