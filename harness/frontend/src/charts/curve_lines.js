// What uPlot draws of the series of a line chart: one or more lines of each, and the columns of all their values.
import uPlot from "uplot";
import { number } from "../format.js";
import { edgeLines, edges, linesOf } from "./curve_bands.js";
import { color, dash, faded } from "./palette.js";
import { smooth } from "./smooth.js";

// Behind whatever has a colour of its own.
const LATE = 99;

// Series in the order of their colours, as a Map.
export const inHues = (series) =>
  new Map([...series].sort(([, one], [, other]) => (one.hue ?? LATE) - (other.hue ?? LATE)));

// A rank, a part or a job keeps its own colour, also where others have no such values.
export function huesOf(entries) {
  const free = Array.from({ length: LATE }, (_, hue) => hue).filter(
    (hue) => !entries.some((entry) => entry.hue === hue),
  );
  return entries.map((entry) => entry.hue ?? free.shift() ?? 0);
}

// Points of other lines lie between those of this one, as `undefined`. A break (null) among them reaches from the value
// before to the value after, or the line would be drawn up to the last point of another.
export function widened(values) {
  const wide = [...values];
  let start = 0;
  for (let at = 0; at <= wide.length; at += 1) {
    if (at < wide.length && (wide[at] === null || wide[at] === undefined)) continue;
    if (wide.slice(start, at).includes(null)) wide.fill(null, start, at);
    start = at + 1;
  }
  return wide;
}

// The places of all series along the axis, then the values of each of their lines.
export function columnsOf(entries, { pointsOf, place, smoothing, log }) {
  const fit = (value) => (value === null || (log && value <= 0) ? null : value);
  const tables = entries.map((entry) => {
    const shown = pointsOf(entry);
    const x = shown.map((point) => place(point, entry));
    const raw = shown.map((point) => fit(point.value));
    const band = edges(entry, shown, fit).map((edge) => (smoothing ? smooth(edge, smoothing) : edge));
    return [x, raw, ...(smoothing ? [smooth(raw, smoothing)] : []), ...band];
  });
  if (!tables.length) return [[]];
  const [x, ...lines] = uPlot.join(tables);
  return [x, ...lines.map(widened)];
}

// Which series each line of the plot is of.
export const namesOfLines = (series, smoothing) =>
  [...series].flatMap(([name, entry]) => Array(linesOf(entry, smoothing)).fill(name));

// Where the line of a series is among those of the plot, the first of which is the axis: of a raw and a smooth one the
// latter. None without a name.
export function lineOf(series, name, smoothing) {
  const at = namesOfLines(series, smoothing).indexOf(name);
  return at < 0 ? null : at + 1 + Number(Boolean(smoothing));
}

// The lines as uPlot is told of them; shown are those of the names in `only`, or all with null.
export function linesDrawn(series, { smoothing, only, unit }) {
  const hues = huesOf([...series.values()]);
  return [...series].flatMap(([name, entry], at) => {
    const [stroke, show] = [color(hues[at]), !only || only.has(name)];
    const line = {
      label: entry.label,
      stroke,
      width: 2,
      dash: dash(hues[at]),
      show,
      spanGaps: false,
      points: { show: () => entry.points.length < 2 },
      value: (_plot, raw) => (raw === null || raw === undefined ? "–" : `${number(raw)}${unit}`),
    };
    const drawn = smoothing
      ? [{ ...line, label: `${entry.label} (raw)`, stroke: faded(stroke), width: 1, dash: [] }, line]
      : [line];
    return [...drawn, ...edgeLines(entry, show)];
  });
}
