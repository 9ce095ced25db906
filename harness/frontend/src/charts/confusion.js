// Chart of the results: which classes are taken for which.
import { number } from "../format.js";
import { dark, ink } from "./palette.js";
import { axis, base, clip, columnAt, narrow } from "./parts.js";

// Rows are (true, predicted, count) or one row per true class with a column per predicted class.
export function confusionCells(chart) {
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

// As `worker/runtime/outcome/charts.py` calls what it has no row and column of its own for. They may be most rows: then
// all else would be pale.
const OTHERS = "other classes";

// Cells as counts or shares, and the largest that the scale of colours reaches to.
export function confusionShown(chart, mode) {
  const { names, cells } = confusionCells(chart);
  const share = SHARES[mode];
  const totals = new Map();
  for (const cell of cells) totals.set(cell[share?.side], (totals.get(cell[share?.side]) ?? 0) + cell[2]);
  const shown = cells.map(([x, y, count]) => [
    x,
    y,
    share ? (100 * count) / (totals.get([x, y][share.side]) || 1) : count,
  ]);
  const named = shown.filter(([x, y]) => names[x] !== OTHERS && names[y] !== OTHERS);
  return { names, shown, top: Math.max(1, ...named.map((cell) => cell[2])) };
}

// A heatmap of echarts lies on three canvases, of which a browser prints the uppermost alone.
function cell(api, classes, top, share) {
  const [[x, y], [width, height], value] = [api.coord([api.value(0), api.value(1)]), api.size([1, 1]), api.value(2)];
  return {
    type: "rect",
    shape: { x: x - width / 2, y: y - height / 2, width, height },
    style: { fill: api.visual("color"), stroke: ink().surface, lineWidth: 1 },
    textConfig: { position: "inside" },
    textContent: {
      type: "text",
      ignore: classes > 20,
      style: {
        text: share ? value.toFixed(0) : number(value),
        fill: value > top * 0.55 ? "#fff" : ink().text,
        fontSize: classes > 12 ? 9 : 12,
      },
    },
  };
}

function confusion(chart, mode) {
  const { names, shown, top } = confusionShown(chart, mode);
  const share = SHARES[mode];
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
        type: "custom",
        data: shown,
        encode: { x: 0, y: 1 },
        progressive: 0, // else large ones lie on several canvases as well
        renderItem: (_, api) => cell(api, names.length, top, share),
      },
    ],
  };
}

export const CONFUSION = { confusion };
