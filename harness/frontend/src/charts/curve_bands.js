// A band around a line of several runs: two edges that are no lines of their own, and the surface between them.
import { color, faded } from "./palette.js";

const EDGES = ["low", "high"];
export const hasBand = ({ points }) => points.length > 0 && "low" in points[0];

// How many lines of the plot stand for a series: its values, the smooth ones, and the edges.
export const linesOf = (entry, smoothing) => (smoothing ? 2 : 1) + (hasBand(entry) ? EDGES.length : 0);

// The values of the edges; none without a band.
export const edges = (entry, shown, fit) =>
  hasBand(entry) ? EDGES.map((name) => shown.map((point) => fit(point[name]))) : [];

export function edgeLines(entry, show) {
  const line = {
    label: `${entry.label} (band)`,
    class: "band-edge",
    stroke: "transparent",
    width: 0,
    points: { show: false },
    spanGaps: false,
    show,
  };
  return hasBand(entry) ? EDGES.map(() => line) : [];
}

// What uPlot fills: the edges of a series are the last of its lines; `hues` are the colours' places.
export function bands(entries, smoothing, hues) {
  let end = 0;
  return entries.flatMap((entry, at) => {
    end += linesOf(entry, smoothing);
    return hasBand(entry) ? [{ series: [end, end - 1], fill: faded(color(hues[at])) }] : [];
  });
}
