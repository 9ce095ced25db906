// How the axes of a line chart are written, whichever it is drawn along.
import { clock, duration, localTime, number } from "../format.js";

const CLOCK_STEPS_S = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400];
export const X_LABELS = { step: "step", epoch: "epoch", relative: "time since start", wall: "time" };

// A rate of 0.00125 takes more room than an accuracy: all charts begin at the same place unless one needs more.
function roomFor(_plot, words) {
  const longest = Math.max(0, ...(words ?? []).map((word) => word.length));
  return Math.max(62, 22 + 7 * longest);
}

// One place along the axis in words.
export function wordsAlong(x) {
  return { relative: duration, wall: (value) => localTime(new Date(value * 1000)) }[x] ?? number;
}

export function curveAxes(x, shades) {
  const axis = {
    stroke: shades.faint,
    grid: { stroke: shades.grid, width: 1 },
    ticks: { stroke: shades.grid, width: 1 },
  };
  const along = {
    relative: { space: 70, incrs: CLOCK_STEPS_S, values: (_plot, ticks) => ticks.map((tick) => clock(tick)) },
    wall: { space: 80 },
  }[x] ?? { space: 50, values: (_plot, ticks) => ticks.map((tick) => number(tick)) };
  return [
    {
      ...axis,
      size: x === "wall" ? 48 : 34,
      label: X_LABELS[x],
      labelSize: 18,
      labelGap: 0,
      labelFont: "12px sans-serif",
      ...along,
    },
    { ...axis, size: roomFor, values: (_plot, ticks) => ticks.map((tick) => (tick === null ? "" : number(tick))) },
  ];
}
