// Zooming into a line chart by keys.
import assert from "node:assert/strict";
import test from "node:test";
import { spanAfter, wholeSpan } from "../../harness/frontend/src/charts/curve_keys.js";

const WHOLE = { min: 0, max: 100 };

test("plus shows the middle half, minus the way back to all", () => {
  const half = spanAfter("+", null, WHOLE);
  assert.deepEqual(half, { min: 25, max: 75 });
  assert.deepEqual(spanAfter("=", half, WHOLE), { min: 37.5, max: 62.5 }); // the same key without Shift
  assert.deepEqual(spanAfter("-", { min: 0, max: 25 }, WHOLE), { min: 0, max: 50 });
  assert.equal(spanAfter("-", half, WHOLE), null);
});

test("arrows move what is seen, and no further than the lines go", () => {
  assert.deepEqual(spanAfter("ArrowRight", { min: 20, max: 40 }, WHOLE), { min: 25, max: 45 });
  assert.deepEqual(spanAfter("ArrowLeft", { min: 2, max: 22 }, WHOLE), { min: 0, max: 20 });
  assert.deepEqual(spanAfter("ArrowRight", { min: 80, max: 100 }, WHOLE), { min: 80, max: 100 });
});

test("zero and Escape show all again, and without a zoom the keys are left to the page", () => {
  for (const key of ["0", "Escape"]) {
    assert.equal(spanAfter(key, { min: 20, max: 40 }, WHOLE), null);
    assert.equal(spanAfter(key, null, WHOLE), undefined);
  }
  for (const key of ["-", "ArrowLeft", "ArrowRight", "Tab", "x"]) assert.equal(spanAfter(key, null, WHOLE), undefined);
});

test("a chart is not zoomed for ever, and one of a single point not at all", () => {
  let span = null;
  for (let pressed = 0; pressed < 60; pressed += 1) span = spanAfter("+", span, WHOLE);
  assert.ok(span.max - span.min >= 0.0099 && span.max > span.min);
  assert.equal(spanAfter("+", null, { min: 5, max: 5 }), undefined);
});

test("the whole goes from the first to the last point of all lines", () => {
  const line = (...steps) => ({ points: steps.map((step) => ({ step })) });
  assert.deepEqual(
    wholeSpan([line(3, 9), line(), line(1, 5)], (point) => point.step),
    { min: 1, max: 9 },
  );
  assert.equal(
    wholeSpan([line()], (point) => point.step),
    null,
  );
});
