// An offer: energy against finish time, each way with its intervals, the frontier, and what cannot be taken.
import { number } from "../format.js";
import { energyWords, fields, kindOf, LATE, NAMED, place, trades } from "./offer_points.js";
import { color, ink } from "./palette.js";
import { axis, base, narrow } from "./parts.js";

const WIDE = 20; // ratio of the largest to the smallest value from which on an axis is logarithmic
const FAR = 4; // times the latest finish: from there on the deadline is not drawn
const CORNERS = [
  [1, 1],
  [-1, 1],
  [1, -1],
  [-1, -1],
]; // to the right or left of a point, above or below it
const [LETTER, GAP] = [8, 14]; // pixels
const SYMBOLS = { recommended: "diamond", fastest: "triangle", cheapest: "rect", both: "diamond" };

function scaleOf(values) {
  const positive = values.filter((value) => value > 0);
  const [low, high] = [Math.min(...positive), Math.max(...positive)];
  return high / low > WIDE
    ? { type: "log", min: neat(low, Math.floor), max: neat(high, Math.ceil) }
    : { type: "value", min: 0 };
}

// The next 1, 2 or 5 times a power of ten, downwards or upwards.
function neat(value, round) {
  const power = 10 ** Math.floor(Math.log10(value));
  const steps = [1, 2, 5, 10].map((step) => step * power);
  return round === Math.floor ? steps.filter((step) => step <= value).at(-1) : steps.find((step) => step >= value);
}

// Where values lie along an axis of so many pixels; near enough to find room for words.
function placer(scale, values, pixels) {
  const high = scale.max ?? Math.max(...values);
  const share =
    scale.type === "log"
      ? (value) => Math.log(value / scale.min) / Math.log(high / scale.min)
      : (value) => value / high;
  return (value) => pixels * share(value);
}

// Whiskers of all points as one line that is interrupted between them.
function whiskers(points, name, shade) {
  const data = points.flatMap((point) => [
    [point.early, point.energy],
    [point.late, point.energy],
    [null, null],
    [point.late, point.least],
    [point.late, point.most],
    [null, null],
  ]);
  return {
    type: "line",
    name,
    data,
    symbol: "none",
    silent: true,
    connectNulls: false,
    lineStyle: { color: shade, width: 1.25, opacity: 0.55 },
    itemStyle: { color: shade },
    z: 1,
  };
}

function dots(points, name, shade, hollow) {
  const first = NAMED.find((mark) => name.includes(mark));
  return {
    type: "scatter",
    name,
    z: first ? 4 : 3,
    symbol: SYMBOLS[first] ?? "circle",
    symbolSize: first ? 15 : 9,
    data: points.map((point) => ({ value: place(point), point })),
    itemStyle: hollow ? { color: ink().surface, borderColor: shade, borderWidth: 1.5 } : { color: shade },
  };
}

// What stands out, each with a mark of its own in the legend; hollow where it is too late.
function named(points) {
  const shaded = (what) => (what.endsWith(LATE) ? [ink().faint, true] : [color(0), false]);
  return [...new Set(points.map((point) => point.what))].map((what) =>
    dots(
      points.filter((point) => point.what === what),
      what,
      ...shaded(what),
    ),
  );
}

// The same in words beside the points where there is room: between the lines of ranges that cross there, off other
// points.
function words(marked, points, xOf, yOf, width) {
  const { text, surface } = ink();
  const plate = {
    show: true,
    color: text,
    fontWeight: 600,
    backgroundColor: surface,
    padding: [1, 4],
    borderRadius: 3,
  };
  const placed = (point) => {
    const length = LETTER * point.what.length + GAP;
    const isFree = ([side, height]) => {
      const end = xOf(point.late) + side * length;
      const near = (other) => {
        const [across, up] = [
          side * (xOf(other.late) - xOf(point.late)),
          height * (yOf(other.energy) - yOf(point.energy)),
        ];
        return other !== point && across > 0 && across < length && up > -GAP / 2 && up < 2 * GAP;
      };
      return end > 0 && end < width && !points.some(near);
    };
    const [side, height] = CORNERS.find(isFree) ?? CORNERS[0];
    return {
      position: side > 0 ? "right" : "left",
      offset: [3 * side, -5 * height],
      verticalAlign: height > 0 ? "bottom" : "top",
    };
  };
  return {
    type: "scatter",
    silent: true,
    z: 2,
    symbolSize: 15,
    itemStyle: { color: "transparent" },
    labelLayout: { moveOverlap: "shiftY" },
    data: narrow()
      ? []
      : marked.map((point) => ({
          value: place(point),
          label: { ...plate, ...placed(point), formatter: point.what },
        })),
  };
}

// What nothing beats.
function frontier(points) {
  return {
    type: "line",
    name: "best trade-offs",
    data: trades(points),
    symbol: "none",
    silent: true,
    lineStyle: { color: color(2), type: "dashed", width: 1.5 },
    itemStyle: { color: color(2) },
    z: 2,
  };
}

// One that is far away is named only: to show it, all ways would be pressed into a corner.
function deadlineLine(chart, energies, isNear) {
  if (typeof chart.deadline !== "number") return [];
  const high = Math.max(...energies) * 1.4;
  const low = Math.min(...energies.filter((value) => value > 0)) / 1.4;
  const data = isNear
    ? [
        [chart.deadline, low],
        [chart.deadline, high],
      ]
    : [[null, null]];
  return [
    {
      type: "line",
      name: isNear ? "deadline" : "deadline, far to the right",
      data,
      symbol: "none",
      silent: true,
      lineStyle: { color: color(1), width: 2 },
      itemStyle: { color: color(1) },
    },
  ];
}

function tip(chart, { point }) {
  if (!point) return "";
  const lines = [
    point.devices,
    `done in ${number(point.late, 3)} ${chart.time_unit} at the latest, likely in ${number(point.likely, 3)}`,
    energyWords(point, chart.energy_unit),
  ];
  return [...lines, point.what, point.why].filter(Boolean).join("\n");
}

function offer(chart, _mode, node) {
  const points = chart.rows.map(fields).filter((point) => typeof point.late === "number");
  const energies = points.flatMap((point) => [point.least, point.most]);
  const ways = points.flatMap((point) => [point.early, point.late]);
  const isNear = typeof chart.deadline === "number" && chart.deadline < FAR * Math.max(...ways);
  const times = isNear ? [...ways, chart.deadline] : ways;
  const [marked, open, late, never] = ["named", "open", "late", "never"].map((kind) =>
    points.filter((point) => kindOf(point) === kind),
  );
  const outstanding = [...marked, ...late.filter(({ what }) => what !== LATE)];
  const faint = ink().faint;
  const [x, y, width] = [scaleOf(times), scaleOf(energies), node.clientWidth - 140];
  const series = [
    whiskers([...late, ...never], "range, not offered", faint),
    whiskers([...open, ...marked], "range (8 of 10)", color(0)),
    frontier(points),
    ...deadlineLine(chart, energies, isNear),
    dots(never, "not possible", faint, true),
    dots(
      late.filter(({ what }) => what === LATE),
      LATE,
      faint,
      true,
    ),
    dots(open, "possible", color(0), false),
    ...named(outstanding),
    words(outstanding, points, placer(x, times, width), placer(y, energies, node.clientHeight - 86), width),
  ].filter(({ data }) => data.length);
  return {
    ...base(),
    // What stands out comes first.
    legend: {
      data: series
        .map(({ name }) => name)
        .filter(Boolean)
        .reverse(),
    },
    grid: { left: 44, right: 28, top: 16, bottom: 34, containLabel: true },
    tooltip: { ...base().tooltip, formatter: ({ data }) => tip(chart, data ?? {}) },
    xAxis: axis(`done in at most, ${chart.time_unit}`, {
      ...x,
      axisLabel: { color: faint, hideOverlap: true, formatter: (value) => number(value, 3) },
    }),
    yAxis: axis(`energy, ${chart.energy_unit}`, {
      ...y,
      nameGap: 46,
      axisLabel: { color: faint, hideOverlap: true, formatter: (value) => number(value, 3) },
    }),
    series,
  };
}

export const OFFER = { offer };
