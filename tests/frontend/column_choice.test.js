// Columns to leave out: which of them the list shows.
import assert from "node:assert/strict";
import test from "node:test";
import { listed } from "../../harness/frontend/src/column_choice.js";

const many = Array.from({ length: 3000 }, (_, place) => `column ${place}`);

test("a short table is listed whole, in its order", () => {
  assert.deepEqual(listed(["b", "a"], ["a"]), { shown: ["b", "a"], hidden: 0 });
});

test("of a long table the first columns are listed, and what is ticked further down", () => {
  const { shown, hidden } = listed(many, ["column 2999", "column 3"]);
  assert.deepEqual([shown.length, shown.at(-1), hidden], [25, "column 2999", 2975]);
  assert.deepEqual(listed(many, [], { most: 5000 }), { shown: many, hidden: 0 });
});

test("a search finds a column anywhere in the table, whatever its case", () => {
  assert.deepEqual(listed(many, [], { query: " COLUMN 2998" }), { shown: ["column 2998"], hidden: 0 });
  const { shown, hidden } = listed(many, ["column 5"], { query: "column 29" });
  assert.deepEqual([shown.length, shown.includes("column 5"), hidden], [24, false, 111 - 24]);
});

test("a name that the table lacks stays listed, so that it can be taken out", () => {
  assert.deepEqual(listed(["a"], ["typo"]).shown, ["a", "typo"]);
});
