// Charts of one rate against another: ROC, precision and recall, calibration; also speed-up by ranks.
import { number } from "../format.js";
import { color, ink } from "./palette.js";
import { axis, base, columnAt, lines } from "./parts.js";
import { pointAt } from "./threshold.js";

const LINE_TYPES = ["solid", "dashed", "dotted"];

const CURVES = {
  roc: { x: ["fpr"], y: ["tpr"], xName: "false positive rate", yName: "true positive rate", diagonal: true },
  pr: { x: ["recall"], y: ["precision"], xName: "recall", yName: "precision" },
  speedup: { x: ["ranks"], y: ["speed-up"], xName: "ranks", yName: "speed-up", free: true },
  calibration: {
    x: ["confidence"],
    y: ["accuracy"],
    xName: "confidence in the predicted class",
    yName: "share that is right",
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
    grid: { left: 34, right: 20, top: 16, bottom: 32, containLabel: true },
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

export const QUALITY = { curve };
