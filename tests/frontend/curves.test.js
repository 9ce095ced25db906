// Line charts: points and their finer parts, exact CSV, the order of charts, their words.
import assert from "node:assert/strict";
import test from "node:test";
import { hasBand, linesOf } from "../../harness/frontend/src/charts/curve_bands.js";
import { csvAddress, points, refine, withDetail } from "../../harness/frontend/src/charts/curve_data.js";
import { emptyWords, fewWords, manyWords } from "../../harness/frontend/src/charts/curve_words.js";
import { chartName, groupOf, inOrder } from "../../harness/frontend/src/curves_panel.js";

const source = (id) => ({ id, name: `job ${id}`, csv: `/jobs/${id}/curves.csv`, curves: `/jobs/${id}/curves` });
const stepsOf = (list) => list.map(({ step }) => step);
const pointsAt = (...steps) => steps.map((step) => ({ step, epoch: 0, time_s: step, value: step / 10 }));

test("columns become points, with a band where the curve is of several runs", () => {
  const columns = { step: [1, 2], epoch: [0, 0], time_s: [5, 6], value: [0.5, null] };
  assert.deepEqual(points(columns)[1], { step: 2, epoch: 0, time_s: 6, value: null });
  const [banded] = points({ ...columns, low: [0.4, null], high: [0.6, null] });
  assert.deepEqual([banded.low, banded.high], [0.4, 0.6]);
  assert.deepEqual([hasBand({ points: points(columns) }), hasBand({ points: [banded] })], [false, true]);
  assert.deepEqual([linesOf({ points: points(columns) }, 0), linesOf({ points: [banded] }, 0.6)], [1, 4]);
});

test("a finer part takes the place of what it covers, and what came later stays", () => {
  const entry = { points: pointsAt(0, 10, 20, 30, 40), detail: pointsAt(10, 15, 20) };
  assert.deepEqual(stepsOf(withDetail(entry)), [0, 10, 15, 20, 30, 40]);
  assert.equal(withDetail({ points: entry.points }), entry.points);
});

test("curves of one job share a request, which reaches one point beyond the span on each side", async (context) => {
  const asked = [];
  context.mock.method(globalThis, "fetch", async (url) => {
    asked.push(url);
    const curve = { step: [20], epoch: [0], time_s: [20], value: [1] };
    return { ok: true, json: async () => ({ curves: { "train/loss": curve, "val/loss": curve } }) };
  });
  const job = source("a");
  const series = ["train/loss", "val/loss"].map((key) => ({ key, source: job, points: pointsAt(0, 10, 20, 30, 40) }));
  await refine(series, (point) => point.step, { min: 15, max: 25 });
  assert.equal(asked.length, 1);
  const query = new URL(asked[0], "https://harness.example.org").searchParams;
  assert.deepEqual(
    [query.getAll("keys"), query.get("start"), query.get("stop")],
    [["train/loss", "val/loss"], "10", "30"],
  );
  assert.deepEqual(stepsOf(series[1].detail), [20]);
});

test("exact points have one address where they are of one job alone", () => {
  const [one, other] = [source("a"), source("b")];
  const loss = { key: "train/loss", source: one };
  assert.equal(
    csvAddress([loss, { key: "val/loss", source: one }]),
    "/jobs/a/curves.csv?keys=train%2Floss&keys=val%2Floss",
  );
  assert.equal(csvAddress([loss, { key: "train/loss", source: other }]), null);
  assert.equal(csvAddress([loss, { key: "host" }]), null);
});

test("charts are in the same order however their keys arrived", () => {
  const wanted = [
    "train/loss",
    "val/loss",
    "val/accuracy",
    "train/other",
    "rank2/rows_per_s",
    "rank10/rows_per_s",
    "learning_rate",
  ];
  assert.deepEqual(inOrder([...wanted].reverse()), wanted);
  assert.deepEqual(inOrder(wanted), wanted);
});

test("a key names its chart, its line and the colour of its rank", () => {
  assert.equal(groupOf("rank0/samples_per_s").title, "samples per second by rank");
  assert.equal(groupOf("rank0/staleness_most").title, "largest staleness by rank");
  const rank = groupOf("rank3/rows_per_s");
  assert.deepEqual([rank.title, rank.label, rank.hue], ["rows per second by rank", "rank 3", 3]);
  const validation = groupOf("val/macro_f1");
  assert.deepEqual([validation.title, validation.label, validation.hue], ["macro F1", "validation", 1]);
  assert.equal(groupOf("test/roc_auc").title, "ROC AUC");
  assert.deepEqual([groupOf("learning_rate").label, groupOf("learning_rate").hue], ["learning rate", undefined]);
  const own = [groupOf("rows_per_s"), groupOf("val/rows_per_s")];
  assert.deepEqual(
    own.map(({ title, label }) => [title, label]),
    [
      ["rows per second", "rows per second"],
      ["rows per second", "validation"],
    ],
  );
});

const series = (label, ...values) => ({ label, points: values.map((value, step) => ({ step, value })) });

test("few lines are told one by one, with where they stopped being finite", () => {
  assert.equal(fewWords([], ""), "No values yet.");
  assert.equal(
    fewWords([series("training", 1, 0.5), series("rank 0", 3100), series("test", 1, null)], " s"),
    "Last: training 0.5 s · rank 0: 3,100 s · test 1 s, not finite at step 1",
  );
});

test("a job that ended promises no first values any more", () => {
  assert.match(emptyWords(false), /appear with the first steps/);
  assert.match(emptyWords(true), /ended before it told any/);
});

test("a line that was interrupted is not called not finite", () => {
  const line = {
    label: "training",
    points: [
      { step: 0, value: 2 },
      { step: 1, value: null, gap: true },
    ],
  };
  assert.equal(fewWords([line], ""), "Last: training 2");
});

test("of many lines the least and the greatest end are told", () => {
  const told = manyWords([series("b", 0.2), series("a", 0.9), series("c", null)], " %");
  assert.equal(told, "3 lines; last values from 0.2 % (b) to 0.9 % (a); 1 not finite somewhere.");
});

test("a chart of one quantity is named by its part of the data, and never twice", () => {
  const names = ["val/loss", "learning_rate", "samples_per_s"].map((key) => chartName(groupOf(key)));
  assert.deepEqual(names, ["loss, validation", "learning rate", "samples per second"]);
});
