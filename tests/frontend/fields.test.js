// What compared jobs are drawn by: scales, ranges, colours.
import assert from "node:assert/strict";
import test from "node:test";
import {
  bestOf,
  hueOf,
  intervalsOf,
  isWide,
  names,
  passes,
  rangeOf,
  scaleOf,
  varies,
  write,
} from "../../harness/frontend/src/charts/fields.js";
import { page } from "./page.js";

const figure = (values, better = 0) => ({ key: "figure", label: "figure", is_number: true, better, values });
const category = (values) => ({ key: "model", label: "model", is_number: false, values });

test("a field whose values lie far apart has a logarithmic scale", () => {
  assert.deepEqual([isWide(figure([1, 10])), isWide(figure([1, 100])), isWide(figure([0, 100]))], [false, true, false]);
});

test("of few different values each has its tick", () => {
  const { ticks, low, high } = scaleOf(figure([8, 2, 4, 2]));
  assert.deepEqual([ticks.map(({ text }) => text), low, high], [["2", "4", "8"], 2, 8]);
});

test("of many values the ticks are neat", () => {
  const { ticks } = scaleOf(figure(Array.from({ length: 50 }, (_, at) => 3 + at * 0.37)));
  assert.deepEqual(
    ticks.map(({ place }) => place),
    [5, 10, 15, 20],
  );
});

test("a place along a logarithmic scale leads back to its value", () => {
  const scale = scaleOf(figure([0.001, 0.1, 10]));
  assert.equal(scale.log, true);
  for (const value of [0.001, 0.1, 10]) assert.ok(Math.abs(scale.back(scale.at(value)) / value - 1) < 1e-12);
});

test("jobs without a value have a lane below all others", () => {
  const scale = scaleOf(figure([10, null, 20]));
  assert.ok(scale.at(null) < 10);
  assert.deepEqual([scale.ticks[0].text, scale.edges], ["none", [10, 20]]);
});

test("one value alone still has a scale with room", () => {
  for (const values of [[7, 7], [0]]) {
    const { low, high } = scaleOf(figure(values));
    assert.ok(low < values[0] && values[0] < high);
  }
});

test("names are in the order of their numbers, none first", () => {
  assert.deepEqual(names(category(["run 10", null, "run 9"])), [null, "run 9", "run 10"]);
});

test("a range is drawn where it was dragged", () => {
  const field = figure([10, 20, 30]);
  const scale = scaleOf(field);
  const range = rangeOf(field, scale, [[25, 15]]);
  assert.deepEqual(range, { low: 15, high: 25, none: false });
  assert.deepEqual(intervalsOf(field, scale, range), [[15, 25]]);
});

test("a range that reaches an end has no bound there", () => {
  const field = figure([10, null, 30]);
  const scale = scaleOf(field);
  assert.deepEqual(rangeOf(field, scale, [[scale.lane, 20]]), { low: null, high: 20, none: true });
  assert.deepEqual(rangeOf(field, scale, [[20, 31]]), { low: 20, high: null, none: false });
  assert.deepEqual(intervalsOf(field, scale, undefined), []);
});

test("a range of a category holds the names it covers", () => {
  const field = category(["a", "b", "c", "c"]);
  const scale = scaleOf(field);
  const range = rangeOf(field, scale, [[0.6, 2.3]]);
  assert.deepEqual(range, { names: ["b", "c"] });
  assert.deepEqual(
    intervalsOf(field, scale, range).map(([from, to]) => (from + to) / 2),
    [1, 2],
  );
});

test("a job passes a range by its value, and without one where none is let in", () => {
  const field = figure([1, 2, 3]);
  const range = { low: 2, high: null, none: false };
  assert.deepEqual(
    [1, 2, 99, null].map((value) => passes(field, range, value)),
    [false, true, true, false],
  );
  assert.equal(passes(field, { ...range, none: true }, null), true);
  assert.equal(passes(category(["a", "b"]), { names: ["b"] }, "a"), false);
});

test("the best is the least where less is better, and nothing where all are alike", () => {
  const losses = [0.5, null, 0.2];
  assert.deepEqual([bestOf(figure(losses, -1)), bestOf(figure(losses, 1)), bestOf(figure(losses))], [0.2, 0.5, null]);
  assert.deepEqual([bestOf(figure([1, 1], 1)), varies(figure([1, 1]))], [null, false]);
});

test("none is the best of jobs that are not judged alike", () => {
  assert.equal(bestOf({ ...figure([1, 2], 1), apart: true }), null);
});

test("the better end is blue, whichever way better is", () => {
  page();
  const [blue, orange] = ["#123f8c", "#c4560a"];
  assert.deepEqual([1, 9].map(hueOf(figure([1, 9], 1))), [orange, blue]);
  assert.deepEqual([1, 9].map(hueOf(figure([1, 9], -1))), [blue, orange]);
  assert.equal(hueOf(figure([1, 9], 1))(null), "#5b6675");
});

test("a value is written as its field is", () => {
  assert.deepEqual(
    [write(figure([1]), 0.123456), write(category(["a"]), "a"), write(category(["a"]), null)],
    ["0.1235", "a", "none"],
  );
});
