// Tables that show their first rows.
import assert from "node:assert/strict";
import test from "node:test";
import { moreWords, shownFirst } from "../../harness/frontend/src/rows.js";

test("a long table shows its first rows, and one that is hardly longer all of them", () => {
  assert.deepEqual([0, 20, 30, 31, 200].map(shownFirst), [0, 20, 30, 20, 20]);
});

test("the button says how many more there are", () => {
  assert.equal(moreWords(1980), "Show 1,980 more rows");
});
