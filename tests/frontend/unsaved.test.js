// A form of selects that saves when it is told to.
import assert from "node:assert/strict";
import test from "node:test";
import { mount } from "../../harness/frontend/src/unsaved.js";

function form({ dataset = {}, selected = "number" } = {}) {
  const options = ["number", "category"].map((value) => ({
    value,
    selected: value === selected,
    defaultSelected: value === "number",
  }));
  const note = { textContent: "" };
  const listeners = {};
  globalThis.window = { addEventListener: (name, does) => Object.assign(listeners, { [name]: does }) };
  mount({
    dataset,
    querySelector: () => note,
    querySelectorAll: () => [{ options }],
    addEventListener: (name, does) => Object.assign(listeners, { [name]: does }),
  });
  const isAsked = () => {
    let asked = false;
    listeners.beforeunload({ preventDefault: () => (asked = true) });
    return asked;
  };
  return { note, listeners, options, isAsked };
}

test("what was changed is marked and not left without a word, until it is sent", () => {
  assert.deepEqual([form().note.textContent, form().isAsked()], ["", false]);
  const { note, listeners, isAsked } = form({ selected: "category" });
  assert.deepEqual([note.textContent, isAsked()], ["Not saved yet.", true]);
  listeners.submit();
  assert.ok(!isAsked());
});

test("a choice that is made and taken back is told when it is made", () => {
  const { note, listeners, options, isAsked } = form();
  const choose = (value) => {
    for (const one of options) one.selected = one.value === value;
    listeners.change();
    return [note.textContent, isAsked()];
  };
  assert.deepEqual(choose("category"), ["Not saved yet.", true]);
  assert.deepEqual(choose("number"), ["", false]);
});

test("what was refused is not saved, though the page shows it as it was sent", () => {
  const { note, isAsked } = form({ dataset: { refused: "" } });
  assert.deepEqual([note.textContent, isAsked()], ["Not saved yet.", true]);
});
