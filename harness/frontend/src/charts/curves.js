// The one wrapper of line charts: job page, comparison and resources use it, so that controls never differ.
import uPlot from "uplot";
import { announce, el } from "../dom.js";
import { number } from "../format.js";
import { curveAxes, wordsAlong, X_LABELS } from "./curve_axes.js";
import { bands, linesOf } from "./curve_bands.js";
import { csvAddress, refine, saveCsv, withDetail } from "./curve_data.js";
import { wholeSpan, zoomByKeys } from "./curve_keys.js";
import { columnsOf, huesOf, inHues, lineOf, linesDrawn, namesOfLines } from "./curve_lines.js";
import { curveReach } from "./curve_reach.js";
import { CurveTable } from "./curve_table.js";
import { csvLink, resetButton } from "./curve_tools.js";
import { fewWords, manyWords } from "./curve_words.js";
import { ink, onTheme } from "./palette.js";
import { thin } from "./smooth.js";

const POINTS_SHOWN = 4000;
const DRAG_LEAST_PX = 4;
// Above, a legend is longer than the chart; the lines are named as they are pointed at.
const LEGEND_MOST = 8;
const NEAR_PX = 18;
// A key that is held zooms several times a second.
const KEY_PAUSE_MS = 300;
// Crosshairs are shared between charts, zooming is not.
const NOT_SHARED = new Set(["mousedown", "mouseup", "dblclick"]);

export class CurveChart {
  // series: Map name -> {label, points: [{step, epoch, time_s, value}] in order of step, start_s, source, key}
  // link: `{mark(name), open(name)}` where a line stands for something of its own: called with its name or null as it
  // is pointed at, and with its name as it is clicked.
  constructor(host, { title, toolsHost, unit = "", note = "", height = 240, id = "chart", zero = false, link = null }) {
    Object.assign(this, { title, unit, height, id, zero, link, marked: null, shown: null });
    this.series = new Map();
    this.settings = { x: "step", smoothing: 0, log: false };
    this.plot = null;
    this.zoom = null;
    this.asked = 0;
    this.ownAxis = false; // drawn along the time since the start, whatever the others are drawn along
    this.canvas = el("div", { class: "curve" });
    this.summary = el("p", { class: "text-secondary mb-1 small" }); // of a run it changes with each step: not announced
    this.table = new CurveTable(title, () => this.drawTable());
    this.pointed = el("p", { class: "small mb-1 run-tip", "aria-hidden": "true", hidden: !link });
    host.replaceChildren(
      this.canvas,
      this.pointed,
      this.summary,
      ...(note ? [el("p", { class: "text-secondary mb-1 small" }, note)] : []),
      this.table.node,
    );
    this.reset = resetButton(title, () => this.resetZoom());
    this.csv = csvLink(title, id, (event) => this.download(event));
    toolsHost.append(this.reset, this.csv);
    zoomByKeys(this.canvas, title, {
      zoomOf: () => this.zoom,
      wholeOf: () => wholeSpan([...this.series.values()], (point, entry) => this.place(point, entry)),
      go: (span) => this.zoomedByKey(span),
    });
    new ResizeObserver(() => this.resize()).observe(this.canvas);
    onTheme(() => this.rebuild());
  }

  entry(name, label, more = {}) {
    if (!this.series.has(name)) {
      this.series = inHues([...this.series, [name, { label, points: [], ...more }]]);
    }
    return this.series.get(name);
  }

  set(name, label, points, more) {
    Object.assign(this.entry(name, label, more), { points });
    this.soon();
  }

  add(name, label, point, more) {
    const { points } = this.entry(name, label, more);
    const last = points.at(-1);
    if (last && point.step <= last.step) {
      const at = points.findIndex((other) => other.step >= point.step);
      if (points[at].step === point.step) points[at] = point;
      else points.splice(at, 0, point);
    } else points.push(point);
    this.soon();
  }

  configure(settings) {
    if (settings.x && settings.x !== this.settings.x) this.forgetZoom();
    Object.assign(this.settings, settings);
    this.rebuild();
  }

  soon() {
    if (this.timer) return;
    this.timer = setTimeout(() => {
      this.timer = null;
      this.update();
    }, 120);
  }

  place(point, entry) {
    if (this.settings.x === "epoch") return point.epoch;
    if (this.settings.x === "wall") return point.time_s;
    return this.settings.x === "relative" ? point.time_s - (entry.start_s ?? entry.points[0].time_s) : point.step;
  }

  data() {
    return columnsOf([...this.series.values()], {
      ...this.settings,
      pointsOf: (entry) => thin(this.zoom ? withDetail(entry) : entry.points, POINTS_SHOWN),
      place: (point, entry) => this.place(point, entry),
    });
  }

  options() {
    const { x, smoothing } = this.settings;
    const shownX = wordsAlong(x);
    const entries = [...this.series.values()];
    return {
      width: Math.max(200, this.canvas.clientWidth),
      height: this.height,
      cursor: {
        sync: { key: `dlh-${x}`, filters: { pub: (type) => !NOT_SHARED.has(type) } },
        drag: { x: true, y: false, setScale: false },
        bind: { dblclick: () => () => this.resetZoom() },
        ...(this.link ? { focus: { prox: NEAR_PX } } : {}),
      },
      ...(this.link ? { focus: { alpha: 0.2 } } : {}),
      hooks: { setSelect: [(plot) => this.selected(plot)], ...(this.link ? this.linkHooks() : {}) },
      scales: {
        x: { time: x === "wall" },
        y: {
          distr: this.settings.log ? 3 : 1,
          range: this.settings.log || !this.zero ? undefined : (_plot, _low, high) => [0, (high || 1) * 1.08],
        },
      },
      axes: curveAxes(x, ink()),
      plugins: [curveReach(this.title)],
      bands: bands(entries, smoothing, huesOf(entries)),
      legend: { live: true, show: this.series.size <= LEGEND_MOST },
      series: [
        { label: X_LABELS[x], value: (_plot, raw) => (raw === null ? "–" : shownX(raw)) },
        ...linesDrawn(this.series, { smoothing, only: this.shown, unit: this.unit }),
      ],
    };
  }

  linkHooks() {
    return {
      setCursor: [() => this.namePointed()],
      setSeries: [
        (_plot, at, { focus }) => {
          if (focus) this.link.mark(at ? namesOfLines(this.series, this.settings.smoothing)[at - 1] : null);
        },
      ],
      ready: [
        (plot) =>
          plot.over.addEventListener("click", () => {
            if (this.marked !== null) this.link.open(this.marked);
          }),
      ],
    };
  }

  // The line of this name stands out; none does with null.
  mark(name) {
    this.marked = this.series.has(name) ? name : null;
    this.plot?.setSeries(this.lineOf(this.marked), { focus: true }, false);
    this.namePointed();
  }

  lineOf(name) {
    return lineOf(this.series, name, this.settings.smoothing);
  }

  namePointed() {
    const entry = this.series.get(this.marked);
    const value = entry && this.plot?.data[this.lineOf(this.marked)]?.[this.plot.cursor.idx];
    const words = typeof value === "number" ? `${entry.label}: ${number(value)}${this.unit}` : (entry?.label ?? "");
    if (this.pointed.textContent !== words) this.pointed.textContent = words;
  }

  // Only lines of these names are drawn; all with null.
  show(names) {
    this.shown = names;
    this.rebuild();
  }

  selected(plot) {
    const { left, width } = plot.select;
    if (width < DRAG_LEAST_PX) return;
    const span = { min: plot.posToVal(left, "x"), max: plot.posToVal(left + width, "x") };
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.zoomTo(span);
  }

  zoomedByKey(span) {
    const { x } = this.settings;
    const along = wordsAlong(x);
    const words = span ? `${X_LABELS[x]} ${along(span.min)} to ${along(span.max)}` : "all of it";
    announce(`${this.title}: ${words}`);
    if (span) this.zoomTo(span, KEY_PAUSE_MS);
    else this.resetZoom();
  }

  // Zooms at once with the points at hand, then asks the server for the finer ones of this part, once no other is
  // wanted for a while.
  async zoomTo(span, pauseMs = 0) {
    this.zoom = span;
    this.reset.hidden = false;
    this.update();
    const mine = ++this.asked;
    await new Promise((done) => setTimeout(done, pauseMs));
    if (mine !== this.asked) return;
    try {
      await refine([...this.series.values()], (point, entry) => this.place(point, entry), span);
    } catch {
      announce("Finer points could not be fetched; the chart shows the ones it has.");
    }
    if (mine === this.asked && this.zoom) this.update();
  }

  forgetZoom() {
    this.asked += 1;
    this.zoom = null;
    this.reset.hidden = true;
    for (const entry of this.series.values()) delete entry.detail;
  }

  resetZoom() {
    this.forgetZoom();
    this.rebuild();
    return null;
  }

  rebuild() {
    this.plot?.destroy();
    this.plot = null;
    this.update();
  }

  update() {
    if (this.canvas.clientWidth === 0) return;
    const count = [...this.series.values()].reduce((sum, entry) => sum + linesOf(entry, this.settings.smoothing), 1);
    if (this.plot?.series.length === count) this.plot.setData(this.data(), !this.zoom);
    else {
      this.plot?.destroy();
      this.plot = new uPlot(this.options(), this.data(), this.canvas);
    }
    if (this.zoom) this.plot.setScale("x", this.zoom);
    this.describe();
    this.drawTable();
  }

  resize() {
    const width = this.canvas.clientWidth;
    if (!width) return;
    if (!this.plot) this.update();
    else if (this.plot.width !== width) this.plot.setSize({ width, height: this.height });
  }

  describe() {
    const all = [...this.series.values()];
    const text = all.length > LEGEND_MOST ? manyWords(all, this.unit) : fewWords(all, this.unit);
    if (this.summary.textContent !== text) this.summary.textContent = text;
    this.csv.setAttribute("href", csvAddress(all) ?? "#");
  }

  drawTable() {
    if (!this.table.node.open) return;
    const lines = [...this.series.values()].map((entry) =>
      (this.zoom ? withDetail(entry) : entry.points)
        .filter((point) => !point.gap && this.inView(point, entry))
        .map((point) => [entry.label, ...this.along(point, entry), point.time_s, point.value]),
    );
    this.table.draw(lines, { isByTime: this.ownAxis });
  }

  along(point, entry) {
    return this.ownAxis ? [this.place(point, entry)] : [point.step, point.epoch];
  }

  inView(point, entry) {
    if (!this.zoom) return true;
    const x = this.place(point, entry);
    return x >= this.zoom.min && x <= this.zoom.max;
  }

  download(event) {
    if (event.currentTarget.getAttribute("href") !== "#") return;
    event.preventDefault();
    saveCsv([...this.series.values()], this.id).catch(() => announce("The CSV could not be fetched."));
  }
}
