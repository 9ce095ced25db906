// The legend of an analysis chart as text of the page: it wraps at any width, can be read aloud, and each name hides or
// shows what it stands for. `keys` name what is drawn with a number.
import { el } from "../dom.js";
import { ink } from "./palette.js";

const [WIDTH, HEIGHT] = [22, 12];
const NARROW = "5 0 12 12"; // of a mark without a line
const DASHES = { dashed: "5 3", dotted: "2 3" };
const SHAPES = {
  circle: ["circle", { cx: 11, cy: 6, r: 4.5 }],
  rect: ["rect", { x: 7, y: 2, width: 8, height: 8 }],
  roundRect: ["rect", { x: 7, y: 2, width: 8, height: 8, rx: 2.5 }],
  triangle: ["path", { d: "M11 1 L16 11 L6 11 Z" }],
  diamond: ["path", { d: "M11 0.5 L16.5 6 L11 11.5 L5.5 6 Z" }],
  pin: ["path", { d: "M11 11.5 L7.5 5 A3.6 3.6 0 1 1 14.5 5 Z" }],
  arrow: ["path", { d: "M11 1 L15.5 11 L11 8.5 L6.5 11 Z" }],
};

export function drawn(name, attributes) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  return node;
}

function swatch({ type, symbol, showSymbol = true, lineStyle = {}, itemStyle = {} }) {
  const size = type === "line" ? { width: WIDTH } : { width: HEIGHT, viewBox: NARROW };
  const node = drawn("svg", { ...size, height: HEIGHT, "aria-hidden": "true" });
  if (type === "line") {
    const [width, dashes] = [lineStyle.width ?? 2, DASHES[lineStyle.type] ?? "none"];
    node.append(
      drawn("line", {
        x1: 0,
        x2: WIDTH,
        y1: HEIGHT / 2,
        y2: HEIGHT / 2,
        stroke: lineStyle.color,
        "stroke-width": width,
        "stroke-dasharray": dashes,
      }),
    );
  }
  const shape = type === "bar" ? "rect" : (symbol ?? (showSymbol ? "circle" : "none"));
  if (SHAPES[shape]) {
    const outline = itemStyle.borderColor ? { stroke: itemStyle.borderColor, "stroke-width": 1.5 } : {};
    node.append(drawn(SHAPES[shape][0], { ...SHAPES[shape][1], fill: itemStyle.color ?? ink().faint, ...outline }));
  }
  return node;
}

// Names in the order of the legend's own data, else of the series; two series of one name are one entry.
function entries({ legend, series }) {
  const byName = new Map();
  for (const one of series) if (one.name && !byName.has(one.name)) byName.set(one.name, one);
  const names = legend?.data ?? [...byName.keys()];
  return names.filter((name) => byName.has(name)).map((name) => [name, byName.get(name)]);
}

export class Legend {
  constructor(node, plot) {
    this.plot = plot;
    this.hidden = new Set();
    this.list = el("ul", { class: "chart-legend" });
    node.before(this.list);
  }

  // What is hidden stays hidden when the chart is drawn anew; one name alone tells nothing that the title does not.
  show(option) {
    if (!option.legend) return option;
    const found = entries(option);
    const keys = option.legend.keys ?? [];
    this.list.hidden = found.length + keys.length < 2;
    this.list.replaceChildren(
      ...found.map(([name, series]) => el("li", {}, this.button(name, series))),
      ...keys.map(({ key, text, main }) =>
        el("li", { class: main ? "key main" : "key" }, el("span", {}, String(key)), text),
      ),
    );
    const selected = Object.fromEntries([...this.hidden].map((name) => [name, false]));
    return { ...option, legend: { show: false, selected } };
  }

  button(name, series) {
    const toggle = (event) => {
      const hides = !this.hidden.has(name);
      if (hides) this.hidden.add(name);
      else this.hidden.delete(name);
      event.currentTarget.setAttribute("aria-pressed", String(!hides));
      this.plot.dispatchAction({ type: "legendToggleSelect", name });
    };
    return el(
      "button",
      { type: "button", "aria-pressed": String(!this.hidden.has(name)), title: "Hide or show", onclick: toggle },
      swatch(series),
      name,
    );
  }
}
