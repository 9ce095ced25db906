// Charts with a mark for each compared job, by echarts: parallel coordinates, scatter, bars of the best.

import { BarChart, ParallelChart, ScatterChart } from "echarts/charts";
import { AriaComponent, GridComponent, ParallelComponent, TooltipComponent } from "echarts/components";
import * as echarts from "echarts/core";
import { CanvasRenderer } from "echarts/renderers";
import { number } from "../format.js";
import { bestOf, hueOf, intervalsOf, isPlaced, names, ranked, scaleOf, write } from "./fields.js";
import { color, ink } from "./palette.js";
import { axis, base, clip, nameLabel, narrow } from "./parts.js";

echarts.use([
  BarChart,
  ParallelChart,
  ScatterChart,
  AriaComponent,
  GridComponent,
  ParallelComponent,
  TooltipComponent,
  CanvasRenderer,
]);

const FAINT = 0.08;
const SHOWN = 0.8;
const SYMBOLS = ["circle", "rect", "triangle", "diamond", "pin", "arrow", "roundRect"];

export const start = (node) => echarts.init(node, null, { renderer: "canvas" });

const tip = (chart, at, fields) =>
  [
    chart.jobs[at].name,
    chart.jobs[at].state,
    ...fields.map((field) => `${field.label}: ${write(field, field.values[at])}`),
  ].join("\n");

// On a phone the axes lie one below the other: there every one has the whole width.
export function parallelOption(chart) {
  const { axes, hue, jobs } = chart;
  const [shades, upright] = [ink(), !narrow()];
  const scales = axes.map(scaleOf);
  const shade = hue && hueOf(hue);
  const words = {
    color: shades.text,
    fontSize: 12,
    textBorderColor: shades.surface,
    textBorderWidth: 3,
    width: upright ? 120 : undefined,
    overflow: "break",
  };
  return {
    ...base(),
    tooltip: { ...base().tooltip, formatter: ({ dataIndex }) => tip(chart, dataIndex, axes) },
    parallel: {
      layout: upright ? "horizontal" : "vertical",
      ...(upright ? { left: 90, right: 90, top: 52, bottom: 20 } : { left: 24, right: 30, top: 34, bottom: 30 }),
    },
    parallelAxis: axes.map((field, dim) => ({
      dim,
      id: field.key,
      type: "value",
      min: scales[dim].low,
      max: scales[dim].high,
      scale: true,
      name: field.label + (scales[dim].log ? " (log)" : ""),
      nameLocation: upright ? "end" : "start",
      nameGap: 14,
      nameTextStyle: upright
        ? { ...words, align: "center" }
        : { ...words, align: "left", verticalAlign: "bottom", padding: [0, 0, 10, 0] },
      axisLine: { lineStyle: { color: shades.faint } },
      axisTick: {
        length: 3,
        customValues: scales[dim].ticks.map(({ place }) => place),
        lineStyle: { color: shades.faint },
      },
      axisLabel: {
        color: shades.text,
        // On a ground of its own: a tick or a line that touches a number reads as a minus.
        backgroundColor: shades.surface,
        margin: 3,
        padding: [0, 4, 0, 6],
        hideOverlap: true,
        textBorderColor: shades.surface,
        textBorderWidth: 3,
        customValues: scales[dim].ticks.map(({ place }) => place),
        formatter: (place) => clip(nearest(scales[dim].ticks, place)),
      },
      areaSelectStyle: { width: 22, color: color(0), borderColor: color(0), borderWidth: 1, opacity: 0.25 },
    })),
    series: [
      {
        type: "parallel",
        smooth: false,
        lineStyle: { width: 2, opacity: SHOWN },
        inactiveOpacity: FAINT,
        activeOpacity: SHOWN,
        emphasis: { lineStyle: { width: 5, opacity: 1 } },
        data: jobs.map((job, at) => ({
          name: job.name,
          value: axes.map((field, dim) => scales[dim].at(field.values[at])),
          lineStyle: {
            color: hue ? shade(hue.values[at]) : color(0),
            type: hue && hue.values[at] === null ? "dashed" : "solid",
          },
        })),
      },
    ],
  };
}

const nearest = (ticks, place) =>
  ticks.reduce((found, tick) => (Math.abs(tick.place - place) < Math.abs(found.place - place) ? tick : found)).text;

function side(field, log, extra) {
  const shades = ink();
  const title = field.label + (log ? " (log)" : "");
  if (!field.is_number)
    return axis(title, {
      type: "category",
      data: names(field).filter((name) => name !== null),
      ...extra,
      axisLabel: { color: shades.faint, formatter: clip, hideOverlap: true },
    });
  return axis(title, {
    type: log ? "log" : "value",
    scale: true,
    ...extra,
    axisLabel: { color: shades.faint, hideOverlap: true, formatter: (value) => number(value, 3) },
  });
}

// Jobs of a family share a mark, where they are of several.
export function scatterOption(chart) {
  const { x, y, logX, logY, hue, jobs, within } = chart;
  const shade = hue && hueOf(hue);
  const kinds = [...new Set(jobs.map((job) => job.family))];
  const data = jobs.flatMap((job, at) =>
    isPlaced(chart, at)
      ? [
          {
            value: [x.values[at], y.values[at]],
            at,
            symbol: SYMBOLS[kinds.indexOf(job.family) % SYMBOLS.length],
            itemStyle: {
              color: hue ? shade(hue.values[at]) : color(0),
              opacity: within && !within.has(job.id) ? FAINT : 0.85,
              borderColor: ink().surface,
              borderWidth: 1,
            },
          },
        ]
      : [],
  );
  return {
    ...base(),
    grid: { left: 44, right: 24, top: 16, bottom: 34, containLabel: true },
    tooltip: {
      ...base().tooltip,
      formatter: ({ data: point }) => tip(chart, point.at, [...new Set([x, y, hue])].filter(Boolean)),
    },
    xAxis: side(x, logX && x.is_number),
    yAxis: side(y, logY && y.is_number, { nameGap: y.is_number ? 48 : 84 }),
    series: [
      {
        type: "scatter",
        data,
        symbolSize: 12,
        emphasis: { scale: 1.7, itemStyle: { borderColor: ink().text, borderWidth: 2, opacity: 1 } },
      },
    ],
  };
}

export function barsOption(chart) {
  const { hue, jobs, within } = chart;
  const order = ranked(chart);
  const best = bestOf(hue);
  const shades = ink();
  const label = nameLabel(jobs.map((job) => job.name));
  return {
    ...base(),
    grid: { left: 8, right: 64, top: 4, bottom: 34, containLabel: true },
    tooltip: { ...base().tooltip, formatter: ({ data: bar }) => tip(chart, bar.at, [hue]) },
    xAxis: axis(hue.label, {
      type: "value",
      axisLabel: { color: shades.faint, hideOverlap: true, formatter: (value) => number(value, 3) },
    }),
    yAxis: axis("", {
      type: "category",
      inverse: true,
      data: order.map((at) => String(at)),
      axisLabel: { ...label, interval: 0, formatter: (at) => label.formatter(jobs[at].name) },
    }),
    series: [
      {
        type: "bar",
        barMaxWidth: 16,
        emphasis: { itemStyle: { borderColor: shades.text, borderWidth: 2, opacity: 1 } },
        label: {
          show: true,
          position: "right",
          color: shades.text,
          formatter: ({ value }) => number(value, 4) + (value === best ? " best" : ""),
        },
        data: order.map((at) => ({
          value: hue.values[at],
          at,
          itemStyle: { color: color(0), opacity: within && !within.has(jobs[at].id) ? 2 * FAINT : 1 },
        })),
      },
    ],
  };
}

// Where a job stands in the data of a chart; -1 where it is left out.
export const placeIn = (plot, at) =>
  (plot.getOption()?.series[0].data ?? []).findIndex((item, place) => (item.at ?? place) === at);

// The ranges as the bars that one drags along the axes.
export function showRanges(plot, { axes, ranges }) {
  for (const field of axes)
    plot.dispatchAction({
      type: "axisAreaSelect",
      parallelAxisId: field.key,
      intervals: intervalsOf(field, scaleOf(field), ranges.get(field.key)),
    });
}

// Bars that are given, other than those that are dragged, the library draws in grey and over the words.
export function paintRanges(plot) {
  plot.getZr().storage.traverse((node) => {
    const bar = node.__brushOption && node.childOfName?.("main");
    if (bar && bar.style.fill !== color(0))
      bar.setStyle({ fill: color(0), stroke: color(0), lineWidth: 1, opacity: 0.25 });
  });
}
