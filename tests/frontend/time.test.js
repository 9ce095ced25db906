import assert from "node:assert/strict";
import test from "node:test";
import { localTime, nearTime, untilTime, zonedTime } from "../../harness/frontend/src/format.js";
import { ago, localInput, localise, localWords } from "../../harness/frontend/src/time.js";

process.env.TZ = "Europe/Berlin";
const NOW = new Date("2026-03-10T12:00:00Z");
const after = (seconds) => new Date(NOW.getTime() + 1000 * seconds);

test("a moment close by is told by its distance", () => {
  const told = [0, -3, -40, 90, -3 * 3600, 2 * 86_400].map((seconds) => ago(after(seconds), NOW));
  assert.deepEqual(told, ["now", "now", "40 s ago", "in 2 min", "3 h ago", "in 2 d"]);
});

test("a distance that rounds up to the next unit is told in it", () => {
  assert.deepEqual([ago(after(59.6), NOW), ago(after(-3590), NOW)], ["in 1 min", "1 h ago"]);
});

test("a moment further away is told by its date", () => {
  assert.equal(ago(after(20 * 86_400), NOW), nearTime(after(20 * 86_400), NOW));
});

test("the days around today have names, in the reader's zone", () => {
  const evening = new Date("2026-03-10T22:30:00Z"); // 23:30 in Berlin
  assert.match(nearTime(evening, NOW), /^today /);
  assert.match(nearTime(new Date("2026-03-10T23:30:00Z"), NOW), /^tomorrow /);
  assert.match(nearTime(new Date("2026-03-08T23:30:00Z"), NOW), /^yesterday /);
});

test("the end of a span has no day where it is that of the beginning, in the reader's zone", () => {
  const began = new Date("2026-03-10T21:30:00Z"); // 22:30 in Berlin
  assert.doesNotMatch(untilTime(new Date("2026-03-10T22:30:00Z"), began, NOW), /today/);
  assert.match(untilTime(new Date("2026-03-10T23:30:00Z"), began, NOW), /^tomorrow /);
});

test("the year is told where it is another one", () => {
  assert.match(nearTime(new Date("2025-12-01T12:00:00Z"), NOW), /2025/);
  assert.doesNotMatch(nearTime(new Date("2026-12-01T12:00:00Z"), NOW), /2026/);
});

test("a field for a moment holds the reader's own time, to the minute", () => {
  assert.equal(localInput("2026-03-10T12:34:56Z"), "2026-03-10T13:34");
  assert.equal(localInput("2026-07-01T22:05:00Z"), "2026-07-02T00:05");
  assert.equal(localInput("no moment"), "");
});

test("a moment within a sentence is told in the reader's zone, and what is none stays", () => {
  const told = localWords("Free by 2026-03-10 12:34 UTC, not 2026-99-10 12:34 UTC.");
  assert.equal(told, `Free by ${localTime(new Date("2026-03-10T12:34:00Z"))}, not 2026-99-10 12:34 UTC.`);
  assert.match(told, /\b(13|1):34/);
  assert.equal(localWords("By 2026-03-10 12:34:50 UTC."), `By ${localTime(new Date("2026-03-10T12:34:50Z"))}.`);
});

test("what shows on hover is in the reader's zone, and a single moment names it", () => {
  const moment = { dateTime: "2026-03-10T12:34:56Z", dataset: {}, textContent: "", title: "" };
  const sentence = { title: "It ends by 2026-03-10 12:34 UTC." };
  localise({ querySelectorAll: (wanted) => (wanted.startsWith("time") ? [moment] : [sentence]) });
  assert.equal(moment.title, zonedTime(new Date(moment.dateTime)));
  assert.match(moment.title, /GMT\+1|CET|MEZ/);
  assert.doesNotMatch(sentence.title, /UTC/);
});
