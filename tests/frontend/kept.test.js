// Whether a part of the page is drawn anew.
import assert from "node:assert/strict";
import test from "node:test";
import { Drawn, pressing } from "../../harness/frontend/src/kept.js";

const form = (token, words) => `<form><input type="hidden" name="csrfmiddlewaretoken" value="${token}">${words}</form>`;

test("an answer that differs in its tokens alone is not drawn anew", () => {
  const drawn = new Drawn();
  assert.ok(drawn.isNew(form("a", "Pause")));
  assert.ok(!drawn.isNew(form("b", "Pause")));
  assert.ok(drawn.isNew(form("b", "Resume")));
});

test("after something else was drawn the same answer is drawn again", () => {
  const drawn = new Drawn();
  drawn.isNew("all jobs");
  drawn.forget();
  assert.ok(drawn.isNew("all jobs"));
});

test("only the main button is waited for: another one may be let go over the menu that it opens", () => {
  globalThis.window = new EventTarget();
  const part = new EventTarget();
  const isPressed = pressing(part);
  const down = (button) => part.dispatchEvent(Object.assign(new Event("pointerdown"), { button }));
  down(2);
  assert.ok(!isPressed());
  down(0);
  assert.ok(isPressed());
  window.dispatchEvent(new Event("pointerup"));
  assert.ok(!isPressed());
});
