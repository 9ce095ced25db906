// What the pool did over time. Columns: from (ISO time), then one line per further column; stacked where they add up.
import { number } from "../format.js";
import { color, ink } from "./palette.js";
import { axis, base, timeAxis } from "./parts.js";

const LINE_TYPES = ["solid", "dashed", "dotted"];

// A row holds from its time to the next one's: the last one to where a further one would be.
function held(rows) {
  if (rows.length < 2) return rows;
  const [before, last] = rows.slice(-2);
  const end = new Date(2 * Date.parse(last[0]) - Date.parse(before[0])).toISOString();
  return [...rows, [end, ...last.slice(1)]];
}

function timeline(chart) {
  const names = chart.columns.slice(1);
  const rows = held(chart.rows);
  return {
    ...base(),
    legend: {},
    grid: { left: 28, right: 24, top: 16, bottom: 20, containLabel: true },
    tooltip: {
      ...base().tooltip, trigger: "axis",
      formatter: (points) => [new Date(points[0].value[0]).toLocaleString(), ...points.map(({ seriesName, value }) => `${seriesName} ${number(value[1], 3)} ${chart.unit}`)].join("\n"),
    },
    xAxis: timeAxis(""),
    yAxis: axis(chart.unit, { type: "value", min: 0, max: chart.top, nameGap: 34 }),
    series: names.map((name, index) => ({
      type: "line", step: "end", name, data: rows.map((row) => [row[0], row[index + 1]]), symbol: "none", stack: chart.stacked ? "all" : undefined,
      areaStyle: chart.stacked ? { color: color(index), opacity: 0.35 } : undefined,
      lineStyle: { width: 2, color: color(index), type: LINE_TYPES[index % 3] }, itemStyle: { color: color(index) },
    })),
  };
}

export const TIMELINES = { timeline };
