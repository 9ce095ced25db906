// The live tab: training and validation in one chart per quantity, speed per rank, processor, memory, GPU.

import { curveControls } from "./charts/controls.js";
import { points } from "./charts/curve_data.js";
import { emptyWords } from "./charts/curve_words.js";
import { CurveChart } from "./charts/curves.js";
import { alertBox, clear, el } from "./dom.js";
import { json, pageData } from "./net.js";
import { stream } from "./stream.js";

const ORDER = ["loss", "accuracy", "balanced_accuracy", "macro_f1", "roc_auc", "r2", "rmse", "mae", "log_loss"];
const MIB = 2 ** 20;

const PARTS = ["train", "val", "test"];

// A rank has the same colour in every chart, whoever spoke first; the node it runs on has another than any rank.
const HUE_OF_NODE = 7;

const NAMES = {
  r2: "R²",
  macro_f1: "macro F1",
  roc_auc: "ROC AUC",
  rmse: "RMSE",
  mae: "MAE",
  samples_per_s: "samples per second",
  staleness_most: "largest staleness",
};

const titled = (name) => NAMES[name] ?? name.replace(/_per_s$/, " per second").replaceAll("_", " ");

export function groupOf(key) {
  const [part, name] = key.includes("/")
    ? [key.slice(0, key.indexOf("/")), key.slice(key.indexOf("/") + 1)]
    : ["", key];
  if (/^rank\d+$/.test(part))
    return {
      group: name,
      title: `${titled(name)} by rank`,
      label: part.replace("rank", "rank "),
      zero: true,
      late: 1,
      hue: Number(part.slice(4)),
    };
  const label = { train: "training", val: "validation", test: "test" }[part] ?? part;
  const hue = PARTS.includes(part) ? PARTS.indexOf(part) : undefined;
  return {
    group: name,
    title: titled(name),
    label: label || titled(name),
    zero: false,
    late: name === "learning_rate" ? 2 : 0,
    hue,
  };
}

// What a chart of one quantity is called; what is told of no part of the data has no second name.
export function chartName({ title, label }) {
  return label === title ? title : `${title}, ${label}`;
}

// Where the chart of a key stands on a page: losses and scores first, parts of the data in the order they are used.
export function placeOf(key) {
  const { group, late } = groupOf(key);
  const [rank, part] = [ORDER.indexOf(group), PARTS.indexOf(key.split("/")[0])];
  return late * 100 + (rank < 0 ? 50 : rank) + (part < 0 ? PARTS.length : part) / 10;
}

// Keys as they are drawn: the same order, and with it the same colours, however they arrived.
export function inOrder(keys) {
  return [...keys].sort((a, b) => placeOf(a) - placeOf(b) || a.localeCompare(b, "en", { numeric: true }));
}

export class Panel {
  constructor(root, link = null) {
    this.link = link;
    this.host = root.querySelector("[data-charts]");
    this.charts = new Map();
    this.start_s = null;
    const bar = root.querySelector("[data-controls]");
    this.controls = bar ? curveControls(() => [...this.charts.values()].filter((chart) => !chart.ownAxis)) : null;
    bar?.append(this.controls.bar);
    if (bar) bar.hidden = true; // until there is something to control
    this.bar = bar;
  }

  chart(key, { title, place = 0, zero = false, unit = "", note = "", ownAxis = false }) {
    if (this.charts.has(key)) return this.charts.get(key);
    const body = el("div", { class: "card-body" });
    const toolsHost = el("div", { class: "end" });
    const card = el(
      "section",
      { class: "card", "aria-label": title, "data-order": place },
      el(
        "div",
        { class: "card-header" },
        el("h2", {}, title[0].toUpperCase() + title.slice(1)),
        unit ? el("span", { class: "text-secondary small" }, unit.trim()) : null,
        toolsHost,
      ),
      body,
    );
    if (this.charts.size === 0) clear(this.host);
    if (this.bar) this.bar.hidden = false;
    const after = [...this.host.children].find((other) => Number(other.dataset.order) > place);
    this.host.insertBefore(card, after ?? null);
    const chart = new CurveChart(body, {
      title,
      toolsHost,
      zero,
      unit,
      note,
      link: this.link,
      id: key.replaceAll("/", "-"),
    });
    chart.ownAxis = ownAxis;
    chart.settings = ownAxis
      ? { x: "relative", smoothing: 0, log: false }
      : { x: "step", smoothing: 0, log: false, ...this.controls?.settings };
    this.charts.set(key, chart);
    return chart;
  }

  metric(source, key) {
    const plan = groupOf(key);
    return {
      plan,
      chart: this.chart(plan.group, {
        ...plan,
        place: Math.floor(placeOf(key)),
        note: source.notes?.[plan.group] ?? "",
      }),
    };
  }

  addMetric(source, key, list, start_s) {
    const { plan, chart } = this.metric(source, key);
    this.start_s ??= start_s;
    chart.set(key, plan.label, list, { source, key, start_s: this.start_s, hue: plan.hue });
  }

  addPoint(source, key, point) {
    const { plan, chart } = this.metric(source, key);
    this.start_s ??= point.time_s;
    chart.add(key, plan.label, point, { source, key, start_s: this.start_s, hue: plan.hue });
  }

  addSample({ time_s, token = null, ranks = [], host = {}, gpus = [] }) {
    this.start_s ??= time_s;
    const at = (value, place_s = time_s) => ({ step: place_s, epoch: null, time_s: place_s, value: value ?? null });
    const add = (group, plan, name, label, hue, value) => {
      const chart = this.chart(group, { place: 300, ownAxis: true, zero: true, ...plan });
      const entry = chart.entry(name, label, { start_s: this.start_s, token, hue });
      // Between two attempts nothing was measured: the line is broken there.
      if (entry.token !== token) chart.add(name, label, { ...at(null, time_s - 0.001), gap: true });
      entry.token = token;
      chart.add(name, label, at(value));
    };
    for (const rank of ranks) {
      add(
        "cpu",
        { title: "processor", unit: " %" },
        `rank${rank.rank}`,
        `rank ${rank.rank}`,
        rank.rank,
        rank.cpu_percent,
      );
      add(
        "memory",
        { title: "memory of the process", unit: " MiB" },
        `rank${rank.rank}`,
        `rank ${rank.rank}`,
        rank.rank,
        rank.rss_bytes / MIB,
      );
    }
    if (host.cpu_percent !== undefined)
      add("cpu", { title: "processor", unit: " %" }, "host", "whole node", HUE_OF_NODE, host.cpu_percent);
    for (const gpu of gpus) {
      add(
        "gpu",
        { title: "GPU use", unit: " %" },
        `gpu${gpu.index}`,
        `GPU ${gpu.index}`,
        gpu.index,
        gpu.utilization_percent,
      );
      add(
        "gpu-memory",
        { title: "GPU memory", unit: " MiB" },
        `gpu${gpu.index}`,
        `GPU ${gpu.index}`,
        gpu.index,
        gpu.memory_bytes / MIB,
      );
    }
  }
}

export async function mount(root) {
  const source = pageData(root.dataset.source);
  const panel = new Panel(root);
  const ended = ["succeeded", "failed", "cancelled"].includes(source.state);
  const early = [];
  let loaded = false;
  let loads = 0;
  const take = (event) => {
    if (event.kind === "metric") {
      for (const [key, value] of Object.entries(event.data.values ?? {}))
        panel.addPoint(source, key, { step: event.data.step, epoch: event.data.epoch, time_s: event.time_s, value });
    } else if (event.kind === "sample") panel.addSample({ time_s: event.time_s, token: event.token, ...event.data });
  };
  async function load() {
    loads += 1;
    const own = loads;
    loaded = false;
    try {
      const body = await json(source.curves, undefined, () => own === loads);
      if (own !== loads) return; // asked for again meanwhile: what is newer counts
      for (const key of inOrder(Object.keys(body.curves)))
        panel.addMetric(source, key, points(body.curves[key]), body.start_s);
      for (const sample of body.samples) panel.addSample(sample);
      if (panel.charts.size === 0) clear(panel.host, el("p", { class: "text-secondary" }, emptyWords(ended)));
    } catch (error) {
      if (own !== loads) return;
      if (panel.charts.size) panel.host.prepend(alertBox(error));
      else clear(panel.host, alertBox(error));
    }
    loaded = true;
    early.splice(0).forEach(take);
  }
  if (!ended) {
    const events = stream(`job:${source.job}`);
    events.on("*", (event) => (loaded ? take(event) : early.push(event)));
    events.on("gap", load);
  }
  await load();
}
