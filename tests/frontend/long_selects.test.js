// Finding in a long list to choose from.
import assert from "node:assert/strict";
import test from "node:test";
import { found } from "../../harness/frontend/src/long_selects.js";

test("a choice is found by all of its words, in any order and case", () => {
  const texts = ["Vision of birds", "Birds", "Speech"];
  assert.deepEqual(found(texts, "BIRDS"), [0, 1]);
  assert.deepEqual(found(texts, " birds  vis"), [0]);
  assert.deepEqual(found(texts, "whales"), []);
  assert.deepEqual(found(texts, " "), [0, 1, 2]);
});
