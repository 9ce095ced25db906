// Figures and CSV; tests/frontend/test_scripts.py holds the server to the same texts, tests/worker/test_words.py to those
// of sizes and durations.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import { csvField, csvText } from "../../harness/frontend/src/csv.js";
import { bytes, clock, duration, number, percent, share, short } from "../../harness/frontend/src/format.js";

const CASES = JSON.parse(readFileSync(new URL("written.json", import.meta.url)));
const WRITERS = { number, short, percent, share, csv: csvField };

for (const [kind, writer] of Object.entries(WRITERS)) {
  test(`${kind} is written as the server writes it`, () => {
    assert.deepEqual(
      CASES[kind].map(([value]) => [value, writer(value)]),
      CASES[kind],
    );
  });
}

test("what is no finite number breaks no text", () => {
  assert.deepEqual([number(NaN), number(Infinity), number("width")], ["–", "not finite", "width"]);
  for (const writer of [bytes, duration, percent, share]) {
    for (const value of [undefined, NaN, Infinity]) assert.equal(writer(value), "–");
  }
});

test("a figure takes as many digits as it is asked for", () => {
  assert.deepEqual([number(0.123456, 2), number(999.7, 3)], ["0.12", "1,000"]);
});

test("the clock of an axis has hours only where there are any", () => {
  assert.deepEqual([clock(0), clock(65), clock(3599.6), clock(7389)], ["0:00", "1:05", "1:00:00", "2:03:09"]);
});

test("rows of CSV end with a line break each", () => {
  assert.equal(
    csvText([
      ["name", "loss"],
      ["a,b", 0.25],
    ]),
    'name,loss\n"a,b",0.25\n',
  );
});
