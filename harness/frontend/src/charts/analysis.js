// Analysis charts of the results tab, by echarts; texts are drawn on canvas, so names given by people stay text.

import { BarChart, HeatmapChart, LineChart, ScatterChart } from "echarts/charts";
import {
  AriaComponent,
  DataZoomInsideComponent,
  GridComponent,
  LegendComponent,
  MarkAreaComponent,
  MarkLineComponent,
  TooltipComponent,
  VisualMapComponent,
} from "echarts/components";
import * as echarts from "echarts/core";
import { CanvasRenderer } from "echarts/renderers";
import { number, short } from "../format.js";
import { pageData } from "../net.js";
import { ACCURACY } from "./accuracy.js";
import { INTERVALS } from "./intervals.js";
import { Legend } from "./legend.js";
import { OFFER } from "./offer.js";
import { color, dark, ink, onTheme } from "./palette.js";
import { axis, base, clip, columnAt, lines, narrow } from "./parts.js";
import { RATES } from "./rates.js";
import { hasThreshold, mountThreshold, pointAt } from "./threshold.js";
import { TIMELINES } from "./timelines.js";

echarts.use([
  BarChart,
  HeatmapChart,
  LineChart,
  ScatterChart,
  AriaComponent,
  DataZoomInsideComponent,
  GridComponent,
  LegendComponent,
  MarkAreaComponent,
  MarkLineComponent,
  TooltipComponent,
  VisualMapComponent,
  CanvasRenderer,
]);

const LINE_TYPES = ["solid", "dashed", "dotted"];

// Rows are (true, predicted, count) or one row per true class with a column per predicted class.
function confusionCells(chart) {
  const [row, col, count] = [columnAt(chart, "true"), columnAt(chart, "predicted"), columnAt(chart, "count")];
  if (row >= 0 && col >= 0 && count >= 0) {
    const names = [...new Set(chart.rows.flatMap((entry) => [String(entry[row]), String(entry[col])]))];
    return {
      names,
      cells: chart.rows.map((entry) => [
        names.indexOf(String(entry[col])),
        names.indexOf(String(entry[row])),
        entry[count],
      ]),
    };
  }
  const names = chart.columns.slice(1).map(String);
  return { names, cells: chart.rows.flatMap((entry, y) => entry.slice(1).map((value, x) => [x, y, value])) };
}

// Every class is named while there is room for it, each in its own column.
function classLabel(names) {
  const all = names.length <= 12;
  return {
    color: ink().faint,
    hideOverlap: !all,
    interval: all ? 0 : "auto",
    width: all ? Math.max(20, (narrow() ? 180 : 460) / names.length - 4) : undefined,
    overflow: "truncate",
    formatter: all ? undefined : clip,
  };
}

// What a cell is a share of: the rows of its true class, or those that were predicted to be of its class.
const SHARES = {
  share: { side: 1, words: " % of the true class" },
  column: { side: 0, words: " % of those predicted so" },
};

function confusion(chart, mode) {
  const { names, cells } = confusionCells(chart);
  const share = SHARES[mode];
  const totals = new Map();
  for (const cell of cells) totals.set(cell[share?.side], (totals.get(cell[share?.side]) ?? 0) + cell[2]);
  const shown = cells.map(([x, y, count]) => [
    x,
    y,
    share ? (100 * count) / (totals.get([x, y][share.side]) || 1) : count,
  ]);
  const top = Math.max(1, ...shown.map((cell) => cell[2]));
  const low = dark() ? "#182433" : "#f3f6fb";
  const high = dark() ? "#2f6fd6" : "#1f5fbf";
  return {
    ...base(),
    grid: { left: 8, right: 12, top: 28, bottom: 36, containLabel: true },
    tooltip: {
      ...base().tooltip,
      formatter: ({ value }) =>
        `true ${names[value[1]]}\npredicted ${names[value[0]]}\n${number(value[2], 3)}${share?.words ?? " rows"}`,
    },
    xAxis: axis("predicted", { type: "category", data: names, nameGap: 30, axisLabel: classLabel(names) }),
    yAxis: axis("true", {
      type: "category",
      data: names,
      inverse: true,
      nameLocation: "start",
      nameGap: 8,
      axisLabel: { color: ink().faint, formatter: clip },
    }),
    visualMap: { show: false, min: 0, max: top, inRange: { color: [low, high] } },
    series: [
      {
        type: "heatmap",
        data: shown.map((cell) => ({ value: cell, label: { color: cell[2] > top * 0.55 ? "#fff" : ink().text } })),
        label: {
          show: names.length <= 20,
          fontSize: names.length > 12 ? 9 : 12,
          formatter: ({ value }) => (share ? value[2].toFixed(0) : number(value[2])),
        },
        itemStyle: { borderColor: ink().surface, borderWidth: 1 },
      },
    ],
  };
}

const CURVES = {
  roc: { x: ["fpr"], y: ["tpr"], xName: "false positive rate", yName: "true positive rate", diagonal: true },
  pr: { x: ["recall"], y: ["precision"], xName: "recall", yName: "precision" },
  speedup: { x: ["ranks"], y: ["speed-up"], xName: "ranks", yName: "speed-up", free: true },
  calibration: {
    x: ["mean_predicted", "predicted", "confidence"],
    y: ["fraction_true", "observed", "accuracy"],
    xName: "predicted probability",
    yName: "share that came true",
    diagonal: true,
  },
};

// There is no rank and a half.
const COUNTED = new Set(["ranks", "micro-batches"]);

function curve(chart, threshold) {
  const plan = CURVES[chart.id] ?? { x: [], y: [], xName: "", yName: "" };
  const group = columnAt(chart, "class", "series", "part");
  const rest = chart.columns.map((_, index) => index).filter((index) => index !== group);
  const found = [columnAt(chart, ...plan.x), columnAt(chart, ...plan.y)];
  const x = found[0] >= 0 ? found[0] : rest[0];
  const y = found[1] >= 0 ? found[1] : rest[1];
  const cut = columnAt(chart, "threshold");
  const groups = new Map();
  for (const row of chart.rows) {
    const name = group >= 0 ? String(row[group]) : chart.title;
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push([row[x], row[y], row[cut]]);
  }
  const series = [...groups].map(([name, data], index) => ({
    type: "line",
    name,
    data,
    showSymbol: data.length < 25,
    symbolSize: 5,
    connectNulls: false,
    lineStyle: { width: 2, color: color(index), type: LINE_TYPES[Math.floor(index / 3) % 3] },
    itemStyle: { color: color(index) },
  }));
  if (plan.diagonal)
    series.push({
      type: "line",
      name: "chance or ideal",
      data: [
        [0, 0],
        [1, 1],
      ],
      symbol: "none",
      lineStyle: { color: ink().faint, type: "dotted", width: 1 },
      itemStyle: { color: ink().faint },
      silent: true,
    });
  const chosen = typeof threshold === "number" ? pointAt(chart, threshold) : null;
  if (chosen)
    series.push({
      type: "scatter",
      name: "the threshold",
      data: [[chosen[x], chosen[y], chosen[cut]]],
      symbolSize: 13,
      z: 5,
      itemStyle: { color: color(1), borderColor: ink().surface, borderWidth: 2 },
    });
  const unit = plan.xName && !plan.free ? { min: 0, max: 1 } : { scale: true };
  return {
    ...base(),
    legend: {},
    grid: { left: 28, right: 20, top: 16, bottom: 32, containLabel: true },
    tooltip: {
      ...base().tooltip,
      trigger: "item",
      formatter: ({ seriesName, value }) =>
        lines(
          seriesName,
          `${plan.xName || chart.columns[x]} ${number(value[0], 3)}`,
          `${plan.yName || chart.columns[y]} ${number(value[1], 3)}`,
          cut >= 0 && value.length > 2 && `from probability ${number(value[2], 3)} on`,
        ),
    },
    xAxis: axis(plan.xName || chart.columns[x], {
      type: "value",
      ...unit,
      minInterval: COUNTED.has(chart.columns[x]) ? 1 : undefined,
    }),
    yAxis: axis(plan.yName || chart.columns[y], { type: "value", nameGap: 40, ...unit }),
    series,
  };
}

function histogram(chart) {
  const [low, high] = [columnAt(chart, "left", "from", "low", "start"), columnAt(chart, "right", "to", "high", "end")];
  const count = columnAt(chart, "count", "rows");
  const label = (row) => (low >= 0 && high >= 0 ? `${number(row[low], 3)} to ${number(row[high], 3)}` : String(row[0]));
  return {
    ...base(),
    grid: { left: 36, right: 16, top: 16, bottom: 32, containLabel: true },
    tooltip: { ...base().tooltip, formatter: ({ name, value }) => `${name}\n${number(value)} rows` },
    xAxis: axis(chart.title.toLowerCase(), {
      type: "category",
      data: chart.rows.map(label),
      axisLabel: { color: ink().faint, hideOverlap: true, alignMinLabel: "left", alignMaxLabel: "right" },
    }),
    yAxis: axis("rows", { type: "value", nameGap: 44 }),
    series: [
      {
        type: "bar",
        data: chart.rows.map((row) => row[count >= 0 ? count : row.length - 1]),
        barCategoryGap: "4%",
        itemStyle: { color: color(0) },
      },
    ],
  };
}

function scatter(chart) {
  const x = Math.max(0, columnAt(chart, "true", "x"));
  const found = columnAt(chart, "predicted", "y");
  const y = found >= 0 ? found : 1;
  const values = chart.rows.flatMap((row) => [row[x], row[y]]).filter((value) => typeof value === "number");
  const ends = [Math.min(...values), Math.max(...values)];
  return {
    ...base(),
    grid: { left: 44, right: 20, top: 16, bottom: 32, containLabel: true },
    tooltip: {
      ...base().tooltip,
      formatter: ({ value }) => `${chart.columns[x]} ${number(value[0])}\n${chart.columns[y]} ${number(value[1])}`,
    },
    xAxis: axis(chart.columns[x], { type: "value", scale: true }),
    yAxis: axis(chart.columns[y], { type: "value", scale: true, nameGap: 48 }),
    dataZoom: [{ type: "inside", zoomOnMouseWheel: "ctrl" }],
    series: [
      {
        type: "scatter",
        data: chart.rows.map((row) => [row[x], row[y]]),
        symbolSize: 5,
        itemStyle: { color: color(0), opacity: 0.55 },
      },
      {
        type: "line",
        data: [
          [ends[0], ends[0]],
          [ends[1], ends[1]],
        ],
        symbol: "none",
        silent: true,
        lineStyle: { color: ink().faint, type: "dashed", width: 1 },
      },
    ],
  };
}

// Columns: name, its bar; what further columns hold is told of the bar.
function bars(chart) {
  const beside = (row) =>
    chart.columns
      .slice(2)
      .map(
        (name, index) => `\n${name} ${typeof row[index + 2] === "number" ? number(row[index + 2], 3) : row[index + 2]}`,
      )
      .join("");
  return {
    ...base(),
    grid: { left: 16, right: 24, top: 8, bottom: 32, containLabel: true },
    xAxis: axis(chart.columns[1] ?? "", {
      type: chart.scale === "log" ? "log" : "value",
      axisLabel: { color: ink().faint, hideOverlap: true, formatter: short },
    }),
    yAxis: axis("", {
      type: "category",
      data: chart.rows.map((row) => String(row[0])),
      inverse: true,
      nameGap: 0,
      axisLabel: { color: ink().faint, formatter: clip },
    }),
    tooltip: {
      ...base().tooltip,
      formatter: ({ name, value, dataIndex }) => `${name}\n${number(value)}${beside(chart.rows[dataIndex])}`,
    },
    series: [{ type: "bar", data: chart.rows.map((row) => row[1]), barMaxWidth: 18, itemStyle: { color: color(0) } }],
  };
}

const MAKERS = {
  confusion,
  curve,
  histogram,
  scatter,
  bars,
  ...ACCURACY,
  ...INTERVALS,
  ...OFFER,
  ...RATES,
  ...TIMELINES,
};

export function mount(node) {
  const chart = pageData(node.dataset.source);
  if (!chart || !MAKERS[chart.kind]) return;
  let mode = "count";
  const plot = echarts.init(node, null, { renderer: "canvas" });
  const legend = new Legend(node, plot);
  const draw = () => {
    plot.setOption(legend.show(MAKERS[chart.kind](chart, mode, node)), true);
    plot.getZr().flush(); // not with the next frame, which comes too late for what is being printed
  };
  if (hasThreshold(chart)) {
    mountThreshold(node, chart, (threshold) => {
      mode = threshold;
      draw();
    });
  } else draw();
  onTheme(draw);
  const follow = () => {
    plot.resize();
    if (chart.kind === "offer") draw(); // its words stand where there is room
  };
  new ResizeObserver(follow).observe(node);
  for (const button of document.querySelectorAll(`[data-chart-mode][data-for="${node.id}"]`)) {
    button.addEventListener("click", () => {
      mode = button.dataset.chartMode;
      for (const other of document.querySelectorAll(`[data-chart-mode][data-for="${node.id}"]`))
        other.setAttribute("aria-pressed", String(other === button));
      draw();
    });
  }
}
