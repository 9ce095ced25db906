import assert from "node:assert/strict";
import test from "node:test";
import { smooth, thin } from "../../harness/frontend/src/charts/smooth.js";

test("without a weight values stay as they are", () => {
  const values = [3, 1, 2];
  assert.equal(smooth(values, 0), values);
});

test("the average starts at the first value and not at zero", () => {
  assert.deepEqual(
    smooth([5, 5, 5], 0.9).map((value) => Number(value.toFixed(9))),
    [5, 5, 5],
  );
});

test("each value counts by the weight to the power of its age", () => {
  const [, second] = smooth([1, 4], 0.5);
  assert.ok(Math.abs(second - (0.25 * 1 + 0.5 * 4) / 0.75) < 1e-12);
});

test("gaps stay gaps and do not enter the average", () => {
  const smoothed = smooth([2, null, 4], 0.5);
  assert.equal(smoothed[1], null);
  assert.equal(smoothed[2], smooth([2, 4], 0.5)[1]);
});

const pointsOf = (values) => values.map((value, step) => ({ step, value }));

test("few points are not thinned", () => {
  const points = pointsOf([1, 2, 3]);
  assert.equal(thin(points, 3), points);
});

test("a spike and a dip survive thinning, in their order", () => {
  const values = Array.from({ length: 1000 }, (_, step) => step / 1000);
  [values[501], values[502]] = [99, -99];
  const kept = thin(pointsOf(values), 100);
  assert.ok(kept.length <= 100);
  assert.deepEqual(
    kept.map(({ step }) => step),
    kept.map(({ step }) => step).sort((a, b) => a - b),
  );
  for (const value of [99, -99]) assert.ok(kept.some((point) => point.value === value));
});

test("a part that was not measured leaves one gap", () => {
  const kept = thin(pointsOf([1, 2, ...Array(8).fill(null), 3, 4]), 6);
  assert.ok(kept.some(({ value }) => value === null));
  assert.deepEqual([kept[0].value, kept.at(-1).value], [1, 4]);
});
