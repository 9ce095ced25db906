// Tables that show their first rows.
import assert from "node:assert/strict";
import test from "node:test";
import { newest } from "../../harness/frontend/src/charts/curve_table.js";
import { cardsFirst, moreWords, shownFirst } from "../../harness/frontend/src/rows.js";

test("a long table shows its first rows, and one that is hardly longer all of them", () => {
  assert.deepEqual([0, 20, 30, 31, 200].map(shownFirst), [0, 20, 30, 20, 20]);
});

test("a phone, which has a card for each row of a wide table, shows a few, and all where they are hardly more", () => {
  assert.deepEqual([0, 4, 8, 9, 24].map(cardsFirst), [0, 4, 8, 4, 4]);
});

test("the button says how many more there are", () => {
  assert.equal(moreWords(1980), "Show 1,980 more rows");
});

test("of several lines the newest values of each are shown, and all of them where they are few", () => {
  const [one, other] = ["a", "b"].map((name) => Array.from({ length: 300 }, (_, step) => [name, step]));
  const shown = newest([one, other]);
  assert.deepEqual([shown.length, shown[0], shown[10]], [20, ["a", 290], ["b", 290]]);
  assert.equal(newest([one.slice(0, 9), other.slice(0, 21)]).length, 30);
});
