// The threshold of a two-class model.
import assert from "node:assert/strict";
import test from "node:test";
import { hasThreshold, pointAt, told } from "../../harness/frontend/src/charts/threshold.js";

const ROC = {
  kind: "curve",
  columns: ["class", "fpr", "tpr", "threshold"],
  rows: [
    ["yes", 0, 0.4, 0.9],
    ["yes", 0.1, 0.4, 0.6],
    ["yes", 0.1, 0.8, 0.6],
    ["yes", 1, 1, 0.2],
  ],
};

test("only a curve of one class has a threshold", () => {
  assert.equal(hasThreshold(ROC), true);
  assert.equal(hasThreshold({ ...ROC, rows: [...ROC.rows, ["no", 0, 0, 0.5]] }), false);
  assert.equal(hasThreshold({ ...ROC, columns: ["class", "fpr", "tpr", "cut"] }), false);
});

test("the lowest cut that is as high as the threshold is taken", () => {
  assert.equal(pointAt(ROC, 0.7)[3], 0.9);
  assert.equal(pointAt(ROC, 0.2)[3], 0.2);
  assert.equal(pointAt(ROC, 0.95), null);
});

test("of two points with one cut the one that finds more is taken", () => {
  assert.equal(pointAt(ROC, 0.5)[2], 0.8);
});

test("nearly all rows are not called all of them", () => {
  const chart = { columns: ["class", "recall", "precision", "threshold"], rows: [["yes", 0.99996, 0.9999, 0.6]] };
  assert.equal(told(chart, 0.5), "finds 99.996 % of “yes”; of the rows called so, 99.99 % are right");
});
