// Values with their intervals, one line each, beside the value of all: how good a model is by group of rows, what its
// inputs count.
import { number } from "../format.js";
import { color, faded, ink } from "./palette.js";
import { axis, base, columnAt, narrow } from "./parts.js";

const NAME_LENGTH = 44;

function nameOf(row, count) {
  const name = row.slice(0, count).join(": ");
  return name.length > NAME_LENGTH ? `${name.slice(0, NAME_LENGTH - 1)}…` : name;
}

// Columns: one or two names, the value, `low` and `high`, more. Rows keep their order, the first on top.
function intervals(chart) {
  const [low, high, count] = [columnAt(chart, "low"), columnAt(chart, "high"), columnAt(chart, "rows")];
  const value = low - 1;
  const rows = chart.rows.filter((row) => [value, low, high].every((at) => typeof row[at] === "number"));
  const whole = typeof chart.overall === "number" ? chart.overall : null;
  // No input can help by being shuffled: below zero is chance as well.
  const byChance = (row) => whole !== null && row[low] <= whole && (whole === 0 || whole <= row[high]);
  const points = (chosen) =>
    rows.map((row, at) => ({ value: [row[value], at], row })).filter(({ row }) => byChance(row) === chosen);
  const dots = { type: "scatter", symbolSize: 9, z: 3 };
  const line = { type: "line", symbol: "none", silent: true };
  const across = {
    ...line,
    name: whole === 0 ? "no difference" : "over all rows",
    data: [
      [whole, 0],
      [whole, rows.length - 1],
    ],
    lineStyle: { color: ink().text, type: "dotted", width: 1.5 },
    itemStyle: { color: ink().text },
  };
  const words = ({ data: { row } }) => {
    const told = [
      row.slice(0, value).join(": "),
      `${chart.columns[value].replaceAll("_", " ")} ${number(row[value], 3)}`,
      `${number(row[low], 3)} to ${number(row[high], 3)}`,
    ];
    return [...told, ...(count >= 0 ? [`${number(row[count])} rows`] : [])].join("\n");
  };
  return {
    ...base(),
    legend: {},
    grid: { left: 12, right: 24, top: 8, bottom: 32, containLabel: true },
    tooltip: { ...base().tooltip, formatter: words },
    xAxis: axis(chart.columns[value].replaceAll("_", " "), { type: "value", scale: true }),
    yAxis: axis("", {
      type: "category",
      data: rows.map((row) => nameOf(row, value)),
      inverse: true,
      nameGap: 0,
      axisTick: { show: false },
      axisLabel: {
        color: ink().faint,
        interval: 0,
        fontSize: 11,
        width: narrow() ? 130 : 220,
        overflow: "break",
        lineHeight: 12,
      },
    }),
    series: [
      // One line with a gap after each interval.
      {
        ...line,
        data: rows.flatMap((row, at) => [
          [row[low], at],
          [row[high], at],
          ["-", "-"],
        ]),
        lineStyle: { color: faded(color(0)), width: 7, cap: "round" },
      },
      { ...dots, name: "clear", data: points(false), itemStyle: { color: color(0) } },
      {
        ...dots,
        name: "may be chance",
        data: points(true),
        itemStyle: { color: ink().surface, borderColor: color(0), borderWidth: 2 },
      },
      ...(whole === null ? [] : [across]),
    ],
  };
}

export const INTERVALS = { intervals };
