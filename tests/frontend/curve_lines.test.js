// The lines that a chart draws of its series: their colours, their places, breaks in them.
import assert from "node:assert/strict";
import test from "node:test";
import {
  columnsOf,
  huesOf,
  inHues,
  lineOf,
  linesDrawn,
  namesOfLines,
  widened,
} from "../../harness/frontend/src/charts/curve_lines.js";
import { page } from "./page.js";

page();

const pointsAt = (...pairs) => pairs.map(([step, value]) => ({ step, value }));
const banded = (...pairs) =>
  pointsAt(...pairs).map((point) => ({ ...point, low: point.value - 1, high: point.value + 1 }));
const along = { pointsOf: ({ points }) => points, place: ({ step }) => step, smoothing: 0, log: false };

test("a break reaches from the value before it to the one after", () => {
  assert.deepEqual(widened([1, undefined, null, undefined, 2]), [1, null, null, null, 2]);
  assert.deepEqual(widened([1, undefined, 2]), [1, undefined, 2]);
  assert.deepEqual(widened([undefined, 1, null]), [undefined, 1, null]);
});

test("series with a colour of their own come first, and others take what is free", () => {
  const series = [
    ["speed", {}],
    ["rank 2", { hue: 2 }],
    ["rank 0", { hue: 0 }],
  ];
  const ordered = inHues(series);
  assert.deepEqual([...ordered.keys()], ["rank 0", "rank 2", "speed"]);
  assert.deepEqual(huesOf([...ordered.values()]), [0, 2, 1]);
});

test("series of other steps share one axis, and zero is left out of a logarithmic one", () => {
  const entries = [{ points: pointsAt([0, 0], [2, 4]) }, { points: pointsAt([1, 3]) }];
  assert.deepEqual(columnsOf([], along), [[]]);
  const [x, one, other] = columnsOf(entries, along);
  assert.deepEqual([x, one, other[1]], [[0, 1, 2], [0, undefined, 4], 3]);
  assert.equal(columnsOf(entries, { ...along, log: true })[1][0], null);
});

test("each line of the plot is known by the name of its series", () => {
  const series = new Map([
    ["a", { label: "a", points: pointsAt([0, 1]) }],
    ["b", { label: "b", points: banded([0, 1]) }],
    ["c", { label: "c", points: pointsAt([0, 1]) }],
  ]);
  for (const smoothing of [0, 0.6]) {
    const [names, lines] = [namesOfLines(series, smoothing), linesDrawn(series, { smoothing, only: null, unit: "" })];
    assert.equal(names.length, lines.length);
    assert.equal(columnsOf([...series.values()], { ...along, smoothing }).length, lines.length + 1);
    for (const name of series.keys()) assert.equal(lines[lineOf(series, name, smoothing) - 1].label, name);
  }
  assert.equal(lineOf(series, null, 0), null);
});

test("only the lines of the wanted names are shown, each value with its unit", () => {
  const series = new Map(["a", "b"].map((label) => [label, { label, points: pointsAt([0, 1]) }]));
  const [one, other] = linesDrawn(series, { smoothing: 0, only: new Set(["b"]), unit: " s" });
  assert.deepEqual([one.show, other.show], [false, true]);
  assert.deepEqual([one.value(null, 2), one.value(null, null)], ["2 s", "–"]);
});
