// The picture of a forecast: its moments are those of the data, whatever the zone of the reader.
import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { FORECAST } from "../../harness/frontend/src/charts/forecast.js";
import { page } from "./page.js";

process.env.TZ = "America/New_York";
const HOUR_MS = 3_600_000;
const columns = ["series", "time", "true", "forecast", "low", "high"];
beforeEach(() => {
  page();
  globalThis.document.body = {};
  globalThis.getComputedStyle = () => ({ fontFamily: "sans-serif" });
});

function drawn(...rows) {
  return FORECAST.back_test({ columns, rows: rows.map((row) => ["", ...row]) });
}

test("a forecast stands one step after the last value, with or without a time of day in its text", () => {
  const option = drawn(["1990-12-31 00:00:00", 13, null, null, null], ["1991-01-01", null, 14, 10, 18]);
  const [last, first] = option.series.slice(2).map((line) => line.data[0][0]);
  assert.equal(first - last, 24 * HOUR_MS);
});

test("moments are drawn and told as the data has them", () => {
  const option = drawn(["1991-01-01", null, 14, 10, 18], ["1991-01-01 06:30:00", null, 15, 10, 18]);
  const told = option.series[3].data.map((value) => option.tooltip.formatter([{ seriesName: "forecast", value }]));
  assert.deepEqual(told, ["1991-01-01\nforecast 14", "1991-01-01 06:30:00\nforecast 15"]);
  assert.equal(option.useUTC, true);
});

test("an hour that the zone of the reader leaves out in spring is drawn in its place", () => {
  const hours = ["01", "02", "03"].map((hour) => [`2021-03-14 ${hour}:00:00`, 1, null, null, null]);
  const places = drawn(...hours).series[2].data.map(([at]) => at);
  assert.deepEqual([places[1] - places[0], places[2] - places[1]], [HOUR_MS, HOUR_MS]);
});
