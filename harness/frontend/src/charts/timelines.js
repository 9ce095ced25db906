// What the pool did over time. Columns: from (ISO time), then one line per further column, or for as many as `lines`
// says: the others are told beside them. Stacked where they add up; `bases`: what each line rests on.
import { number } from "../format.js";
import { color } from "./palette.js";
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
  const lines = chart.lines ?? chart.columns.length - 1;
  const names = chart.columns.slice(1, 1 + lines);
  const rows = held(chart.rows);
  const basis = (index) => (chart.bases?.[index] ? `, ${chart.bases[index]}` : "");
  const line = ({ seriesName, seriesIndex, value }) =>
    `${seriesName} ${number(value[1], 3)} ${chart.unit}${basis(seriesIndex)}`;
  const beside = (row) =>
    chart.columns
      .slice(1 + lines)
      .map((name, index) => [name, row[1 + lines + index]])
      .filter(([, value]) => value !== "")
      .map(([name, value]) => `${name} ${typeof value === "number" ? number(value, 3) : value}`);
  return {
    ...base(),
    legend: {},
    grid: { left: 28, right: 24, top: 16, bottom: 20, containLabel: true },
    tooltip: {
      ...base().tooltip,
      trigger: "axis",
      formatter: (points) =>
        [new Date(points[0].value[0]).toLocaleString(), ...points.map(line), ...beside(rows[points[0].dataIndex])].join(
          "\n",
        ),
    },
    xAxis: timeAxis(""),
    yAxis: axis(chart.unit, { type: "value", min: 0, max: chart.top, nameGap: 34 }),
    series: names.map((name, index) => ({
      type: "line",
      step: "end",
      name,
      data: rows.map((row) => [row[0], row[index + 1]]),
      symbol: "none",
      stack: chart.stacked ? "all" : undefined,
      areaStyle: chart.stacked ? { color: color(index), opacity: 0.35 } : undefined,
      lineStyle: { width: 2, color: color(index), type: LINE_TYPES[index % 3] },
      itemStyle: { color: color(index) },
    })),
  };
}

export const TIMELINES = { timeline };
