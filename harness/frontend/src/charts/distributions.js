// Charts of the results: how often values occur, predicted against true ones, a bar for each name.
import { number, short } from "../format.js";
import { color, ink } from "./palette.js";
import { axis, base, columnAt, nameLabel } from "./parts.js";

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
  const names = chart.rows.map((row) => String(row[0]));
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
      data: names,
      inverse: true,
      nameGap: 0,
      axisLabel: nameLabel(names),
    }),
    tooltip: {
      ...base().tooltip,
      formatter: ({ name, value, dataIndex }) => `${name}\n${number(value)}${beside(chart.rows[dataIndex])}`,
    },
    series: [{ type: "bar", data: chart.rows.map((row) => row[1]), barMaxWidth: 18, itemStyle: { color: color(0) } }],
  };
}

export const DISTRIBUTIONS = { histogram, scatter, bars };
