// The matrix of classes, from either form in which the program tells it.
import assert from "node:assert/strict";
import test from "node:test";
import { confusionCells } from "../../harness/frontend/src/charts/confusion.js";

const sorted = (cells) => [...cells].sort((a, b) => a[1] - b[1] || a[0] - b[0]);

test("pairs and a square table of the same counts give the same cells", () => {
  const pairs = {
    columns: ["true", "predicted", "count"],
    rows: [
      ["no", "yes", 3],
      ["yes", "yes", 5],
      ["no", "no", 7],
    ],
  };
  const square = {
    columns: ["true", "no", "yes"],
    rows: [
      ["no", 7, 3],
      ["yes", 0, 5],
    ],
  };
  assert.deepEqual(confusionCells(square).names, ["no", "yes"]);
  assert.deepEqual(confusionCells(pairs).names, ["no", "yes"]);
  const told = sorted(confusionCells(square).cells).filter(([, , count]) => count);
  assert.deepEqual(sorted(confusionCells(pairs).cells), told);
});
