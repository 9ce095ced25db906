// What the axes of charts of one rate against another are called.
import assert from "node:assert/strict";
import test from "node:test";
import { QUALITY } from "../../harness/frontend/src/charts/quality.js";
import { page } from "./page.js";

page();
globalThis.getComputedStyle = () => ({ fontFamily: "" });

test("calibration sets how sure the model is of its answer against how often that is right", () => {
  const chart = {
    id: "calibration",
    title: "Calibration",
    columns: ["bin", "confidence", "accuracy", "rows"],
    rows: [["0.9-1.0", 0.95, 0.9, 20]],
  };
  const drawn = QUALITY.curve(chart);
  assert.deepEqual(drawn.series[0].data, [[0.95, 0.9, undefined]]);
  assert.equal(drawn.xAxis.name, "confidence in the predicted class");
  assert.equal(drawn.yAxis.name, "share that is right");
});
