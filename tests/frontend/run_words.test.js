// Charts of compared jobs in words, and the order of the bars.
import assert from "node:assert/strict";
import test from "node:test";
import { isPlaced, ranked } from "../../harness/frontend/src/charts/fields.js";
import { barsWords, parallelWords, scatterWords } from "../../harness/frontend/src/run_words.js";

const jobs = ["first", "second", "third"].map((name) => ({ id: name, name }));
const field = (label, values, better = 0) => ({ key: label, label, is_number: true, better, values });
const loss = field("Best validation loss", [0.4, 0.2, null], -1);
const epochs = field("Epochs", [10, 20, 30]);

test("parallel coordinates tell the best, what is within the ranges and which axes lack values", () => {
  assert.equal(
    parallelWords({ jobs, axes: [epochs, loss], hue: loss, within: new Set(["second"]) }),
    "3 jobs on 2 axes; 1 within the ranges; best validation loss: 0.2 by second; " +
      "on 1 of the axes some jobs have no value: their lines pass through “none”.",
  );
  const alone = field("Epochs", [10]);
  assert.equal(parallelWords({ jobs: jobs.slice(0, 1), axes: [alone], hue: null, within: null }), "1 job on 1 axes.");
});

test("a scatter tells its ends and what it leaves out", () => {
  const chart = { jobs, x: epochs, y: loss, logX: false, logY: false };
  assert.equal(
    scatterWords(chart),
    "Epochs 10 to 20; Best validation loss 0.2 to 0.4. 2 jobs drawn, 1 left out: no value here. " +
      "Marks by model, colours as above.",
  );
});

test("a scatter of like values tells the value once", () => {
  const same = field("Epochs", [10, 10, 10]);
  assert.ok(
    scatterWords({ jobs, x: same, y: epochs, logX: false, logY: false }).startsWith("Epochs 10; Epochs 10 to 30."),
  );
});

test("zero has no place on a logarithmic axis", () => {
  const chart = { x: field("Rate", [0, 0.1]), y: epochs, logX: true, logY: false };
  assert.deepEqual(
    [isPlaced(chart, 0), isPlaced(chart, 1), isPlaced({ ...chart, logX: false }, 0)],
    [false, true, true],
  );
});

test("bars begin with the best, whichever way is better", () => {
  assert.deepEqual(ranked({ jobs, hue: loss }), [1, 0]);
  assert.deepEqual(ranked({ jobs, hue: epochs }), [2, 1, 0]);
  assert.equal(
    barsWords({ jobs, hue: loss }),
    "Less is better. First: second, 0.2. 1 job told no Best validation loss.",
  );
  assert.equal(barsWords({ jobs, hue: epochs }), "Largest first. First: third, 30.");
  assert.match(barsWords({ jobs, hue: { ...loss, apart: true } }), /^These are not judged alike/);
});
