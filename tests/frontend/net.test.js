// Requests and the errors that a person reads.
import assert from "node:assert/strict";
import test from "node:test";
import { json, read, request } from "../../harness/frontend/src/net.js";
import { page } from "./page.js";

page();

const answers = (context, answer) => context.mock.method(globalThis, "fetch", answer);

test("a body is sent as JSON, with the token against forged requests", async (context) => {
  document.querySelector = () => ({ content: "token" });
  const fetched = answers(context, async () => ({ ok: true, json: async () => ({ id: 7 }) }));
  assert.deepEqual(await json("/api/v1/jobs", { method: "POST", body: { name: "a" } }), { id: 7 });
  const [url, options] = fetched.mock.calls[0].arguments;
  assert.deepEqual([url, options.body, options.credentials], ["/api/v1/jobs", '{"name":"a"}', "same-origin"]);
  assert.equal(options.headers["X-CSRFToken"], "token");
});

test("a refusal carries the words of the server", async (context) => {
  const error = { message: "There is no such job.", hint: "It may have been removed.", code: "missing", field: "job" };
  answers(context, async () => ({ ok: false, status: 404, json: async () => ({ error }) }));
  await assert.rejects(request("/api/v1/jobs/1"), { name: "Error", status: 404, ...error });
});

test("an answer that is no JSON is told by its number", async (context) => {
  answers(context, async () => ({ ok: false, status: 502, json: async () => JSON.parse("<html>") }));
  await assert.rejects(request("/"), { message: "The server answered 502.", status: 502 });
});

test("a portal that cannot be reached is said, a request that was given up is not", async (context) => {
  answers(context, async () => {
    throw new TypeError("failed");
  });
  await assert.rejects(request("/"), { message: "The portal cannot be reached." });
  answers(context, async () => {
    throw new DOMException("stopped", "AbortError");
  });
  await assert.rejects(request("/"), { name: "AbortError" });
});

test("what a page needs is asked for again until the portal is back, and the page says so meanwhile", async (context) => {
  const notice = { hidden: true, textContent: "" };
  document.getElementById = () => notice;
  const away = [
    new TypeError("failed"),
    { ok: false, status: 503, json: async () => ({ error: { message: "Full." } }) },
  ];
  const said = [];
  answers(context, async () => {
    said.push(notice.hidden ? "" : notice.textContent);
    const next = away.shift() ?? { ok: true, json: async () => "it" };
    if (next instanceof Error) throw next;
    return next;
  });
  const answer = await read("/curves", {}, undefined, () => 1);
  assert.equal(await answer.json(), "it");
  assert.deepEqual(said, ["", "The portal cannot be reached; trying again", "Full; trying again"]);
  assert.ok(notice.hidden);
});

test("nothing is asked for again that was refused, or that nobody waits for any more", async (context) => {
  const notice = { hidden: true, textContent: "" };
  document.getElementById = () => notice;
  const refused = answers(context, async () => ({ ok: false, status: 404, json: async () => ({}) }));
  await assert.rejects(
    read("/curves", {}, undefined, () => 1),
    { status: 404 },
  );
  assert.equal(refused.mock.callCount(), 1);
  const away = answers(context, async () => {
    throw new TypeError("failed");
  });
  let isWanted = true;
  const wait = () => {
    isWanted = false;
    return 1;
  };
  await assert.rejects(
    read("/curves", {}, () => isWanted, wait),
    { message: "The portal cannot be reached." },
  );
  assert.equal(away.mock.callCount(), 1);
  assert.ok(notice.hidden);
});
