// What the editor says of an answer to a save that is a page instead of JSON.
import assert from "node:assert/strict";
import test from "node:test";
import { saveAnswer } from "../../harness/frontend/src/save_answer.js";

const page = (status) => new Response("<html></html>", { status });

test("what the portal says of a save is said", async () => {
  const error = { message: "It changed meanwhile.", code: "changed" };
  assert.deepEqual(await saveAnswer(Response.json({ error }, { status: 409 })), { error });
});

test("a page that refuses the form of a tab asks to load it again", async () => {
  const { error } = await saveAnswer(page(403));
  assert.equal(error.message, "The portal did not take it from this tab.");
  assert.match(error.hint, /signed in anew/);
});

for (const status of [500, 502, 503, 504]) {
  test(`a page of a proxy or a fault, ${status}, asks to save again and not to load the page anew`, async () => {
    const { error } = await saveAnswer(page(status));
    assert.deepEqual(error, {
      message: `The server answered ${status}.`,
      hint: "Your text is still here; save again.",
    });
  });
}
