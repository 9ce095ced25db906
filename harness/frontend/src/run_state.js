// What the charts of compared jobs are set to: read from the address, written to it.

import { isWide, told, varies } from "./charts/fields.js";
import { debounce, urlParam, urlState } from "./dom.js";

const AXES_FIRST = 6;
const AXES_LEAST = 2;
const WRITE_MS = 250;

function param(name) {
  return new URL(window.location.href).searchParams.getAll(name);
}

// `["key", low, high, none]` of a number, `["key", [names]]` of a category.
function rangesRead(byKey) {
  const found = new Map();
  for (const text of param("within")) {
    try {
      const [key, first, high, none] = JSON.parse(text);
      const field = byKey.get(key);
      const bound = (value) => (typeof value === "number" ? value : null);
      if (field?.is_number) found.set(key, { low: bound(first), high: bound(high), none: none === true });
      else if (field && Array.isArray(first)) found.set(key, { names: first });
    } catch {
      /* an address that was written by hand: the other ranges hold */
    }
  }
  return found;
}

function rangeText([key, range]) {
  return JSON.stringify(range.names ? [key, range.names] : [key, range.low, range.high, range.none]);
}

export class RunState {
  constructor({ fields, jobs }) {
    this.fields = fields;
    this.byKey = new Map(fields.map((field) => [field.key, field]));
    const settings = fields.filter((field) => !field.is_figure);
    const figures = fields.filter((field) => field.is_figure);
    // What the jobs were judged by; of several metrics that of most jobs, or the newest value of one that more of them
    // have where it is no more than half.
    const [best, newest] = ["best:", "last:val/"].map((part) =>
      figures
        .filter((field) => field.key.startsWith(part) && field.better)
        .sort((a, b) => told(b).length - told(a).length),
    );
    const isShared = best.length < 2 || 2 * told(best[0]).length > best[0].values.length;
    const judged = !isShared && newest.length && told(newest[0]).length > told(best[0]).length ? newest : best;
    const metric = (judged[0] ?? figures.find((field) => field.better) ?? figures[0])?.key ?? "";
    // A field that belongs to one mode or family would leave out the jobs of the others.
    const shared = settings.filter((field) => 2 * told(field).length > field.values.length);
    const numbers = shared.filter((field) => field.is_number && varies(field));
    const other = figures.filter((field) => field.key !== metric && varies(field));
    this.usual = {
      metric,
      x: (numbers[0] ?? shared[0] ?? settings[0] ?? other.at(-1) ?? fields.at(-1)).key,
    };
    this.metric = this.byKey.get(urlParam("metric"))?.is_figure ? urlParam("metric") : metric;
    this.x = this.known("sx", this.usual.x);
    this.y = this.known("sy", "");
    [this.logX, this.logY] = ["sxlog", "sylog"].map((name) => ({ 0: false, 1: true })[urlParam(name)] ?? null);
    this.usualAxes = [...settings, ...(settings.length ? [] : other)].slice(0, AXES_FIRST).map((field) => field.key);
    const axes = param("axis").filter((key) => this.byKey.has(key));
    this.axes = axes.length ? axes : null;
    this.ranges = rangesRead(this.byKey);
    this.jobs = jobs;
    this.write = debounce(() => this.writeNow(), WRITE_MS);
  }

  known(name, usual) {
    return this.byKey.has(urlParam(name)) ? urlParam(name) : usual;
  }

  get hue() {
    return this.byKey.get(this.metric) ?? null;
  }

  get axesShown() {
    const wanted = this.axes ?? [...this.usualAxes, this.metric];
    const shown = this.fields.filter((field) => wanted.includes(field.key));
    return shown.length < AXES_LEAST ? [...new Set([...shown, ...this.fields])].slice(0, AXES_LEAST) : shown;
  }

  side(name) {
    const field = this.byKey.get(this[name] || this.metric || this.usual.x);
    return { field, log: this[name === "x" ? "logX" : "logY"] ?? isWide(field) };
  }

  writeNow() {
    const flag = (value) => (value === null ? null : Number(value));
    urlState({
      metric: this.metric === this.usual.metric ? null : this.metric,
      axis: this.axes ?? null,
      within: [...this.ranges].map(rangeText),
      sx: this.x === this.usual.x ? null : this.x,
      sy: this.y || null,
      sxlog: flag(this.logX),
      sylog: flag(this.logY),
    });
  }
}
