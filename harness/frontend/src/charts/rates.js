// A range test: loss and accuracy against the learning rate, with fits, the interval, what each rule would take, and
// the validation losses of short trainings.
import { number } from "../format.js";
import { color, faded, ink } from "./palette.js";
import { axis, base } from "./parts.js";

const RAISED = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };

// 0.02, or 2.3·10⁻⁴ where that would be many zeros.
function rate(value) {
  if (value >= 0.001 && value < 1000) return number(value, 3);
  const [digits, power] = Number(value).toExponential(1).split("e");
  const raised = [...String(Number(power))].map((letter) => RAISED[letter]).join("");
  return digits === "1.0" ? `10${raised}` : `${digits}·10${raised}`;
}

const points = (chart, column) =>
  chart.rows.filter((row) => typeof row[column] === "number").map((row) => [row[0], row[column]]);

function line(name, data, shade, dashes, yAxisIndex, extra = {}) {
  return {
    type: "line",
    name,
    data,
    yAxisIndex,
    symbol: "none",
    lineStyle: { color: shade, width: dashes ? 1.75 : 2, type: dashes || "solid" },
    itemStyle: { color: shade },
    ...extra,
  };
}

// Rules that take the same rate share a line; the first is what we suggest.
function together(marks) {
  const lines = [];
  const mainName = marks[0]?.[0];
  for (const [name, value] of [...marks].sort((a, b) => a[1] - b[1])) {
    const last = lines.at(-1);
    const main = name === mainName;
    if (last && !main && !last.main && value < last.value * 1.03) last.name += `, ${name.toLowerCase()}`;
    else lines.push({ name: name.startsWith("Centre") ? "centre" : name.toLowerCase(), value, main });
  }
  return lines;
}

// The interval as a band, and a numbered line for every rule; numbers take turns in height, the legend names them.
function marks(chart, rules) {
  const shades = ink();
  const lines = rules.map(({ name, value, main }, place) => {
    const shade = main ? color(2) : shades.faint;
    const label = {
      show: true,
      formatter: String(place + 1),
      position: "end",
      distance: 3 + 13 * (place % 2),
      color: main ? color(2) : shades.text,
      fontSize: 11,
      fontWeight: main ? 700 : 400,
    };
    return {
      xAxis: value,
      name,
      label,
      lineStyle: { color: shade, width: main ? 2 : 1, type: main ? "solid" : "dotted" },
    };
  });
  const band = typeof chart.low === "number" ? [[{ xAxis: chart.low }, { xAxis: chart.high }]] : [];
  return {
    // Without a precision positions are rounded to hundredths.
    markLine: { silent: true, symbol: "none", precision: 12, data: lines, animation: false },
    markArea: { silent: true, data: band, itemStyle: { color: faded(color(2)) }, animation: false },
  };
}

// A dot for every short training; a line joins those of the same length.
function trials(chart) {
  const done = chart.trials ?? [];
  return [...new Set(done.map((row) => row[0]))].map((round, place) => {
    const data = done.filter((row) => row[0] === round && typeof row[2] === "number").map((row) => [row[1], row[2]]);
    const name = `validation loss, trials of ${number(100 * done.find((row) => row[0] === round)[3], 2)} %`;
    return { ...line(name, data, color(4 + place), "dotted", 0), symbol: place ? "diamond" : "circle", symbolSize: 9 };
  });
}

function bounds(values, top) {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const room = (high - low || Math.abs(high) || 1) * 0.06;
  return { min: low - room, max: Math.min(high + room, top) };
}

function rates(chart) {
  const faint = ink().faint;
  const [loss, fit, score, law] = [1, 2, 3, 4].map((column) => points(chart, column));
  const scored = Boolean(score.length && chart.score);
  const losses = loss.map((point) => point[1]);
  const tried = trials(chart);
  const xs = [...chart.rows.map((row) => row[0]), ...tried.flatMap((series) => series.data.map((point) => point[0]))];
  const heights = [...losses, ...tried.flatMap((series) => series.data.map((point) => point[1]))];
  const first = losses[0] ?? 1;
  const fall = Math.max(first - Math.min(...losses), 1e-9);
  const rules = together(chart.marks ?? []);
  const series = [
    { ...line("training loss", loss, color(0), "", 0), ...marks(chart, rules) },
    line("polynomial fit", fit, color(0), "dashed", 0),
  ];
  if (scored) series.push(line(chart.score, score, color(1), "", 1));
  if (law.length)
    series.push(
      line(
        "logarithmic fit",
        law,
        chart.law_of === "score" ? color(1) : color(3),
        "dashed",
        chart.law_of === "score" ? 1 : 0,
      ),
    );
  series.push(...tried);
  const value = {
    color: faint,
    hideOverlap: true,
    showMinLabel: false,
    showMaxLabel: false,
    formatter: (item) => number(item, 3),
  };
  return {
    ...base(),
    legend: {
      keys: rules.map(({ name, value, main }, place) => ({ key: place + 1, text: `${name} ${rate(value)}`, main })),
    },
    grid: { left: 38, right: scored ? 34 : 18, top: 36, bottom: 34, containLabel: true },
    tooltip: {
      ...base().tooltip,
      trigger: "axis",
      axisPointer: { type: "line" },
      formatter: (items) =>
        [
          `learning rate ${rate(items[0].value[0])}`,
          ...items.map((item) => `${item.seriesName} ${number(item.value[1], 4)}`),
        ].join("\n"),
    },
    xAxis: axis("learning rate", {
      type: "log",
      min: Math.min(...xs),
      max: Math.max(...xs),
      axisLabel: { color: faint, hideOverlap: true, formatter: rate },
      splitLine: { show: false },
    }),
    yAxis: [
      axis(tried.length ? "loss" : "training loss", {
        type: "value",
        nameGap: 44,
        ...bounds(heights, first + 1.5 * fall),
        axisLabel: value,
      }),
      ...(scored
        ? [
            axis(chart.score, {
              type: "value",
              nameGap: 40,
              ...bounds(
                score.map((point) => point[1]),
                1.05,
              ),
              splitLine: { show: false },
              axisLabel: value,
            }),
          ]
        : []),
    ],
    series,
  };
}

export const RATES = { rates };
