// Charts of the estimator: measured against fitted, residuals, errors side by side, error over time.
import { number } from "../format.js";
import { color, ink } from "./palette.js";
import { axis, base, columnAt, lines, timeAxis } from "./parts.js";

const SYMBOLS = ["circle", "rect", "triangle", "diamond", "roundRect", "pin", "arrow"];

// Rows by the first column, each group with its own colour and mark: never colour alone.
function groups(chart, point) {
  const found = new Map();
  for (const row of chart.rows) {
    const name = String(row[0]);
    if (!found.has(name)) found.set(name, []);
    found.get(name).push(point(row));
  }
  return [...found].map(([name, data], index) => ({
    type: "scatter",
    name,
    data,
    symbol: SYMBOLS[index % SYMBOLS.length],
    symbolSize: 7,
    itemStyle: { color: color(index), opacity: 0.7 },
  }));
}

function line(name, data, dashes = "dashed", shade = ink().faint) {
  return {
    type: "line",
    name,
    data,
    symbol: "none",
    silent: true,
    lineStyle: { color: shade, type: dashes, width: 1.5 },
    itemStyle: { color: shade },
  };
}

function logTick(value) {
  return number(value, 2);
}

// The ends of the axis are no round numbers: they are named only where no two powers of ten lie between them.
function logLabel([low, high]) {
  const few = Math.floor(Math.log10(high)) - Math.ceil(Math.log10(low)) < 1;
  return { color: ink().faint, hideOverlap: true, formatter: logTick, showMinLabel: few, showMaxLabel: few };
}

// Columns: group, x, y, label. Both axes logarithmic and alike, with the line on which forecast and fact agree.
function agreement(chart) {
  const rows = chart.rows.filter((row) => row[1] > 0 && row[2] > 0);
  const values = rows.flatMap((row) => [row[1], row[2]]);
  const ends = [Math.min(...values) / 1.3, Math.max(...values) * 1.3];
  const logAxis = (name, gap) =>
    axis(name, { type: "log", min: ends[0], max: ends[1], nameGap: gap, axisLabel: logLabel(ends) });
  return {
    ...base(),
    legend: {},
    grid: { left: 44, right: 24, top: 16, bottom: 32, containLabel: true },
    tooltip: {
      ...base().tooltip,
      formatter: ({ seriesName, value: [x, y, name] }) =>
        lines(seriesName, `${chart.columns[1]} ${number(x, 3)}`, `${chart.columns[2]} ${number(y, 3)}`, name),
    },
    xAxis: logAxis(chart.columns[1], 28),
    yAxis: logAxis(chart.columns[2], 48),
    series: [
      ...groups({ rows }, (row) => [row[1], row[2], row[3]]),
      line("exact", [
        [ends[0], ends[0]],
        [ends[1], ends[1]],
      ]),
    ],
  };
}

// Columns: group, x, error in percent, label. A band shows what the measurements themselves scatter.
function residuals(chart) {
  const rows = chart.rows.filter((row) => row[1] > 0 && typeof row[2] === "number");
  const xs = rows.map((row) => row[1]);
  const ends = [Math.min(...xs) / 1.2, Math.max(...xs) * 1.2];
  const across = (name, level, dashes) =>
    line(
      name,
      [
        [ends[0], level],
        [ends[1], level],
      ],
      dashes,
    );
  const floor = chart.floor
    ? [across("noise floor", chart.floor, "dotted"), across("noise floor", -chart.floor, "dotted")]
    : [];
  return {
    ...base(),
    legend: {},
    grid: { left: 44, right: 24, top: 16, bottom: 32, containLabel: true },
    tooltip: {
      ...base().tooltip,
      formatter: ({ seriesName, value: [x, y, name] }) =>
        lines(seriesName, `${chart.columns[1]} ${number(x, 3)}`, `${chart.columns[2]} ${number(y, 3)}`, name),
    },
    xAxis: axis(chart.columns[1], { type: "log", min: ends[0], max: ends[1], axisLabel: logLabel(ends) }),
    yAxis: axis(chart.columns[2], { type: "value", nameGap: 48 }),
    series: [...groups({ rows }, (row) => [row[1], row[2], row[3]]), across("exact", 0, "dashed"), ...floor],
  };
}

// Columns: name, then one bar per further column.
function grouped(chart) {
  const names = chart.columns.slice(1, 1 + (chart.bars ?? chart.columns.length));
  return {
    ...base(),
    legend: {},
    grid: { left: 16, right: 28, top: 16, bottom: 32, containLabel: true },
    tooltip: {
      ...base().tooltip,
      formatter: ({ seriesName, name, value }) => `${name}\n${seriesName} ${number(value, 3)}`,
    },
    xAxis: axis(chart.unit ?? "", {
      type: chart.scale === "log" ? "log" : "value",
      axisLabel: { color: ink().faint, hideOverlap: true, formatter: logTick },
    }),
    yAxis: axis("", {
      type: "category",
      data: chart.rows.map((row) => String(row[0])),
      inverse: true,
      nameGap: 0,
      axisLabel: { color: ink().faint, width: 110, overflow: "break", lineHeight: 13 },
    }),
    series: names.map((name, index) => ({
      type: "bar",
      name,
      data: chart.rows.map((row) => row[index + 1]),
      barMaxWidth: 14,
      itemStyle: { color: color(index), decal: { symbol: "none" } },
    })),
  };
}

// Columns: finished (ISO time), error in percent, running mean, what; drawn over time.
function overTime(chart) {
  const at = columnAt(chart, "finished");
  const error = columnAt(chart, "error %");
  const mean = columnAt(chart, "mean of the last jobs %");
  const what = columnAt(chart, "what");
  const point = (column) =>
    chart.rows
      .filter((row) => typeof row[column] === "number")
      .map((row) => [row[at], row[column], what >= 0 ? row[what] : ""]);
  return {
    ...base(),
    legend: {},
    grid: { left: 44, right: 24, top: 16, bottom: 32, containLabel: true },
    tooltip: {
      ...base().tooltip,
      formatter: ({ seriesName, value: [at, error, name] }) =>
        lines(seriesName, new Date(at).toLocaleString(), `${number(error, 3)} %`, name),
    },
    xAxis: timeAxis("finished"),
    yAxis: axis("error, %", { type: "value", nameGap: 44, min: 0 }),
    series: [
      {
        type: "scatter",
        name: "one job",
        data: point(error),
        symbolSize: 7,
        itemStyle: { color: color(0), opacity: 0.6 },
      },
      {
        type: "line",
        name: "mean of the last jobs",
        data: point(mean),
        symbol: "none",
        lineStyle: { color: color(1), width: 2 },
        itemStyle: { color: color(1) },
      },
    ],
  };
}

export const ACCURACY = { agreement, residuals, grouped, over_time: overTime };
