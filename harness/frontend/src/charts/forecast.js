// A series and what was foretold of it, with the range of each forecast as a band. Columns: series, time, true, forecast,
// low, high. Of several series the one that is chosen is drawn, else the first. Moments are those of the data, in no
// zone: they are drawn as they are written, wherever the reader is.
import { number } from "../format.js";
import { color, faded } from "./palette.js";
import { axis, base, columnAt, timeAxis } from "./parts.js";

const NAMED = new Set(["true", "forecast"]);
const moment = (text) => Date.parse(`${String(text).replace(" ", "T")}${String(text).includes(":") ? "Z" : ""}`);
const written = (at) => new Date(at).toISOString().slice(0, 19).replace("T", " ").replace(" 00:00:00", "");

function backTest(chart, mode) {
  const names = new Set(chart.rows.map((row) => String(row[0])));
  const chosen = names.has(mode) ? mode : String(chart.rows[0]?.[0] ?? "");
  const rows = chart.rows.filter((row) => String(row[0]) === chosen);
  const places = ["true", "forecast", "low", "high"].map((name) => columnAt(chart, name));
  const [actual, said, low, high] = places.map((at) =>
    rows.filter((row) => typeof row[at] === "number").map((row) => [moment(row[1]), row[at]]),
  );
  const band = (data, more) => ({
    type: "line",
    data,
    symbol: "none",
    silent: true,
    stack: "range",
    stackStrategy: "all",
    lineStyle: { opacity: 0 },
    ...more,
  });
  const line = (name, data, shade, type) => ({
    type: "line",
    name,
    data,
    symbol: data.length < 60 ? "circle" : "none",
    symbolSize: 4,
    lineStyle: { color: shade, width: 1.5, type },
    itemStyle: { color: shade },
  });
  const tooltip = (points) =>
    [
      written(points[0].value[0]),
      ...points
        .filter(({ seriesName }) => NAMED.has(seriesName))
        .map((point) => `${point.seriesName} ${number(point.value[1], 4)}`),
    ].join("\n");
  return {
    ...base(),
    useUTC: true,
    legend: { data: ["true", "forecast"] },
    grid: { left: 28, right: 24, top: 16, bottom: 20, containLabel: true },
    tooltip: { ...base().tooltip, trigger: "axis", formatter: tooltip },
    xAxis: timeAxis(""),
    yAxis: axis("", { type: "value", scale: true }),
    series: [
      band(low, {}),
      band(
        high.map(([at, value], index) => [at, value - low[index][1]]),
        { areaStyle: { color: faded(color(1)) } },
      ),
      line("true", actual, color(0), "solid"),
      line("forecast", said, color(1), "dashed"),
    ],
  };
}

export const FORECAST = { back_test: backTest };
