// What the charts of compared jobs are set to, in the address and back.
import assert from "node:assert/strict";
import test from "node:test";
import { RunState } from "../../harness/frontend/src/run_state.js";
import { page } from "./page.js";

const FIELDS = [
  { key: "width", label: "width", is_number: true, is_figure: false, better: 0, values: [32, 64, 128] },
  { key: "model", label: "model", is_number: false, is_figure: false, better: 0, values: ["a", "b", null] },
  { key: "best:accuracy", label: "accuracy", is_number: true, is_figure: true, better: 1, values: [0.7, 0.9, 0.8] },
  { key: "best:r2", label: "R²", is_number: true, is_figure: true, better: 1, values: [0.5, null, null] },
  { key: "time_s", label: "time", is_number: true, is_figure: true, better: -1, values: [1, 10, 900] },
];

function stateAt(query = "", fields = FIELDS) {
  const location = page({ address: `https://harness.example.org/compare?jobs=1&jobs=2${query}` });
  return { location, state: new RunState({ fields, jobs: [] }) };
}

test("without a word in the address, jobs are coloured by what most were judged by", () => {
  const { state } = stateAt();
  assert.deepEqual([state.hue.key, state.x, state.side("y").field.key], ["best:accuracy", "width", "best:accuracy"]);
  assert.deepEqual(
    state.axesShown.map(({ key }) => key),
    ["width", "model", "best:accuracy"],
  );
});

test("a field that few of the jobs have is not what the scatter begins with", () => {
  const setting = (key, is_number, ...values) => ({ key, label: key, is_number, is_figure: false, better: 0, values });
  const stages = setting("stages", true, null, 2, null);
  const mode = setting("mode", false, "sync", "pipeline", "async");
  assert.equal(stateAt("", [stages, mode, FIELDS[2]]).state.x, "mode");
  assert.equal(stateAt("", [stages, mode, setting("epochs", true, 3, 6, null), FIELDS[2]]).state.x, "epochs");
  assert.equal(stateAt("", [stages, FIELDS[2]]).state.x, "stages");
});

test("jobs that were each judged by another metric are coloured by one that all have", () => {
  const one = (key, better, ...values) => ({ key, label: key, is_number: true, is_figure: true, better, values });
  const best = [one("best:mae", -1, null, 0.9), one("best:r2", 1, 0.5, null)];
  const newest = [one("last:train/loss", 0, 1, 2), one("last:val/r2", 1, 0.4, 0.3)];
  assert.equal(stateAt("", [FIELDS[0], ...best, ...newest]).state.metric, "last:val/r2");
});

test("a scale is logarithmic where its values lie far apart, unless the address says otherwise", () => {
  assert.equal(stateAt("&sx=time_s").state.side("x").log, true);
  assert.equal(stateAt("&sx=time_s&sxlog=0").state.side("x").log, false);
  assert.equal(stateAt("&sxlog=1").state.side("x").log, true);
});

test("what is usual is not written into the address, and the rest of it stays", () => {
  const { location, state } = stateAt("&metric=best:r2");
  state.metric = state.usual.metric;
  state.writeNow();
  assert.equal(location.search, "?jobs=1&jobs=2");
});

test("what was set is read again as it was written", () => {
  const { location, state } = stateAt();
  state.metric = "time_s";
  state.axes = ["width", "time_s"];
  state.logY = false;
  state.ranges.set("width", { low: null, high: 64, none: false });
  state.ranges.set("model", { names: ["a", null] });
  state.writeNow();
  const again = stateAt(location.search.replace("?jobs=1&jobs=2", "")).state;
  assert.deepEqual([again.metric, again.axes, again.logY], ["time_s", ["width", "time_s"], false]);
  assert.deepEqual([...again.ranges], [...state.ranges]);
});

test("an address that was written by hand breaks nothing", () => {
  const within = ["[", '["unknown",1,2]', '["model",3]', '["width","x",50]'].map(encodeURIComponent);
  const { state } = stateAt(
    `&metric=width&sx=nothing&axis=nothing&${within.map((text) => `within=${text}`).join("&")}`,
  );
  assert.deepEqual([state.metric, state.x, state.axes], ["best:accuracy", "width", null]);
  assert.deepEqual([...state.ranges], [["width", { low: null, high: 50, none: false }]]);
});

test("there are two axes at least", () => {
  assert.deepEqual(
    stateAt("&axis=model").state.axesShown.map(({ key }) => key),
    ["model", "width"],
  );
});
