// The one wrapper of line charts: job page, comparison and resources use it, so that controls never differ.
import uPlot from "uplot";
import { announce, el } from "../dom.js";
import { number } from "../format.js";
import { curveAxes, wordsAlong, X_LABELS } from "./curve_axes.js";
import { bands, edgeLines, edges, linesOf } from "./curve_bands.js";
import { csvAddress, refine, saveCsv, withDetail } from "./curve_data.js";
import { fewWords, manyWords } from "./curve_words.js";
import { color, dash, faded, ink, onTheme } from "./palette.js";
import { smooth, thin } from "./smooth.js";

const POINTS_SHOWN = 4000;
const ROWS_SHOWN = 200;
const DRAG_LEAST_PX = 4;
// Behind whatever has a colour of its own.
const LATE = 99;
// Above, a legend is longer than the chart; the lines are named as they are pointed at.
const LEGEND_MOST = 8;
const NEAR_PX = 18;
// Crosshairs are shared between charts, zooming is not.
const NOT_SHARED = new Set(["mousedown", "mouseup", "dblclick"]);

// Points of other lines lie between those of this one, as `undefined`. A break (null) among them reaches from the value
// before to the value after, or the line would be drawn up to the last point of another.
function widened(values) {
  const wide = [...values];
  let start = 0;
  for (let at = 0; at <= wide.length; at += 1) {
    if (at < wide.length && (wide[at] === null || wide[at] === undefined)) continue;
    if (wide.slice(start, at).includes(null)) wide.fill(null, start, at);
    start = at + 1;
  }
  return wide;
}

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
    this.canvas = el("div", { class: "curve" });
    this.summary = el("p", { class: "text-secondary mb-1 small", role: "status" });
    this.dataBox = el(
      "details",
      { class: "data-table mt-1" },
      el("summary", {}, "Show data"),
      el("div", { class: "scroll-y", tabindex: "0" }),
    );
    this.dataBox.addEventListener("toggle", () => this.drawTable());
    this.pointed = el("p", { class: "small mb-1 run-tip", "aria-hidden": "true", hidden: !link });
    host.replaceChildren(
      this.canvas,
      this.pointed,
      this.summary,
      ...(note ? [el("p", { class: "text-secondary mb-1 small" }, note)] : []),
      this.dataBox,
    );
    this.reset = el(
      "button",
      {
        type: "button",
        class: "btn btn-sm",
        hidden: true,
        "aria-label": `Reset zoom of ${title}`,
        onclick: () => this.resetZoom(),
      },
      "Reset zoom",
    );
    this.csv = el(
      "a",
      {
        class: "btn btn-sm",
        href: "#",
        download: `${id}.csv`,
        "aria-label": `Download ${title} as CSV`,
        onclick: (event) => this.download(event),
      },
      "CSV",
    );
    toolsHost.append(this.reset, this.csv);
    new ResizeObserver(() => this.resize()).observe(this.canvas);
    onTheme(() => this.rebuild());
  }

  entry(name, label, more = {}) {
    if (!this.series.has(name)) {
      const all = [...this.series, [name, { label, points: [], ...more }]];
      this.series = new Map(all.sort(([, one], [, other]) => (one.hue ?? LATE) - (other.hue ?? LATE)));
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
    const tables = [];
    for (const entry of this.series.values()) {
      const shown = thin(this.zoom ? withDetail(entry) : entry.points, POINTS_SHOWN);
      const x = shown.map((point) => this.place(point, entry));
      const raw = shown.map((point) => this.fit(point.value));
      const { smoothing } = this.settings;
      const band = edges(entry, shown, (value) => this.fit(value)).map((edge) =>
        smoothing ? smooth(edge, smoothing) : edge,
      );
      tables.push([x, raw, ...(smoothing ? [smooth(raw, smoothing)] : []), ...band]);
    }
    if (!tables.length) return [[]];
    const [x, ...lines] = uPlot.join(tables);
    return [x, ...lines.map(widened)];
  }

  fit(value) {
    return value === null || (this.settings.log && value <= 0) ? null : value;
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
      bands: bands(entries, smoothing, this.hues(entries)),
      legend: { live: true, show: this.series.size <= LEGEND_MOST },
      series: [{ label: X_LABELS[x], value: (_plot, raw) => (raw === null ? "–" : shownX(raw)) }, ...this.lines()],
    };
  }

  linkHooks() {
    const names = () =>
      [...this.series].flatMap(([name, entry]) => Array(linesOf(entry, this.settings.smoothing)).fill(name));
    return {
      setCursor: [() => this.namePointed()],
      setSeries: [
        (_plot, at, { focus }) => {
          if (focus) this.link.mark(at ? names()[at - 1] : null);
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

  // Where its line is among those of the plot: of a raw and a smooth one the latter.
  lineOf(name) {
    let first = 1;
    for (const [other, entry] of this.series) {
      if (other === name) return this.settings.smoothing ? first + 1 : first;
      first += linesOf(entry, this.settings.smoothing);
    }
    return null;
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

  // A rank, a part or a job keeps its own colour, also where others have no such values.
  hues(entries) {
    const free = Array.from({ length: LATE }, (_, hue) => hue).filter(
      (hue) => !entries.some((entry) => entry.hue === hue),
    );
    return entries.map((entry) => entry.hue ?? free.shift() ?? 0);
  }

  lines() {
    const entries = [...this.series.values()];
    const hidden = new Set(
      [...this.series].filter(([name]) => this.shown && !this.shown.has(name)).map(([, entry]) => entry),
    );
    const hues = this.hues(entries);
    return entries.flatMap((entry, at) => {
      const [stroke, show] = [color(hues[at]), !hidden.has(entry)];
      const value = (_plot, raw) => (raw === null || raw === undefined ? "–" : `${number(raw)}${this.unit}`);
      const line = {
        label: entry.label,
        stroke,
        width: 2,
        dash: dash(hues[at]),
        show,
        spanGaps: false,
        points: { show: () => entry.points.length < 2 },
        value,
      };
      const drawn = this.settings.smoothing
        ? [{ ...line, label: `${entry.label} (raw)`, stroke: faded(stroke), width: 1, dash: [] }, line]
        : [line];
      return [...drawn, ...edgeLines(entry, show)];
    });
  }

  selected(plot) {
    const { left, width } = plot.select;
    if (width < DRAG_LEAST_PX) return;
    const span = { min: plot.posToVal(left, "x"), max: plot.posToVal(left + width, "x") };
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.zoomTo(span);
  }

  // Zooms at once with the points at hand, then asks the server for the finer ones of this part.
  async zoomTo(span) {
    this.zoom = span;
    this.reset.hidden = false;
    this.update();
    const mine = ++this.asked;
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
    if (this.dataBox.open) this.drawTable();
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
    if (!this.dataBox.open) return;
    const rows = [...this.series.values()].flatMap((entry) =>
      (this.zoom ? withDetail(entry) : entry.points)
        .filter((point) => !point.gap && this.inView(point, entry))
        .map((point) => [entry.label, point.step, point.epoch, point.time_s, point.value]),
    );
    const shown = rows.slice(-ROWS_SHOWN);
    const note =
      rows.length > shown.length
        ? `The last ${shown.length} of the ${rows.length} values drawn; the CSV has every one.`
        : "";
    const cells = shown.map((row) =>
      el(
        "tr",
        {},
        el("td", {}, row[0]),
        ...row
          .slice(1)
          .map((value, at) =>
            el("td", { class: "num" }, at === 2 ? new Date(value * 1000).toISOString() : number(value, 6)),
          ),
      ),
    );
    this.dataBox.lastElementChild.replaceChildren(
      el("p", { class: "text-secondary small mb-1" }, note),
      el(
        "table",
        { class: "table table-sm" },
        el(
          "thead",
          {},
          el(
            "tr",
            {},
            ...["series", "step", "epoch", "time", "value"].map((name, at) =>
              el("th", { class: at ? "num" : "" }, name),
            ),
          ),
        ),
        el("tbody", {}, ...cells),
      ),
    );
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
