// Finding in a long list to choose from.
import assert from "node:assert/strict";
import test from "node:test";
import { found, meant, unsaid } from "../../harness/frontend/src/long_selects.js";

test("a choice is found by all of its words, in any order and case", () => {
  const texts = ["Vision of birds", "Birds", "Speech"];
  assert.deepEqual(found(texts, "BIRDS"), [0, 1]);
  assert.deepEqual(found(texts, " birds  vis"), [0]);
  assert.deepEqual(found(texts, "whales"), []);
  assert.deepEqual(found(texts, " "), [0, 1, 2]);
});

test("the words that stand before each name are not asked for, but where nothing else is typed", () => {
  for (const typed of ["for all of zoo", "all of zoo", "For  zoo", "zoo"])
    assert.equal(unsaid(typed, "For all of"), "zoo", typed);
  assert.equal(unsaid("all", "For all of"), "all");
  assert.equal(unsaid("all of zoo", ""), "all of zoo");
});

test("a choice that is called just what is typed is meant before those that hold it", () => {
  const texts = ["All of A000 team vision", "All of Vision"];
  assert.equal(meant(texts, "VISION ", "All of"), 1);
  assert.equal(meant(texts, "vis", "All of"), 0);
});
