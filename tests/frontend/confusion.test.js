// The matrix of classes, from either form in which the program tells it.
import assert from "node:assert/strict";
import test from "node:test";
import { confusionCells, confusionShown } from "../../harness/frontend/src/charts/confusion.js";

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

const many = {
  columns: ["true", "a", "b", "other classes"],
  rows: [
    ["a", 6, 0, 4],
    ["b", 1, 9, 0],
    ["other classes", 0, 3, 97],
  ],
};

test("shares are of all rows of a class, those that were taken for classes not shown among them", () => {
  const at = (mode, x, y) => confusionShown(many, mode).shown.find((cell) => cell[0] === x && cell[1] === y)[2];
  assert.equal(at("share", 0, 0), 60);
  assert.equal(at("column", 1, 1), 75);
  assert.equal(at("column", 2, 0), (100 * 4) / 101);
});

test("the classes not shown do not make all others pale", () => {
  assert.equal(confusionShown(many, "count").top, 9);
  assert.equal(confusionShown({ columns: ["true", "a"], rows: [["a", 7]] }, "count").top, 7);
});
