// The browser's time zone, told where the portal knows another one.
import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { tellZone } from "../../harness/frontend/src/zone.js";

process.env.TZ = "Europe/Berlin";
const kept = new Map();
globalThis.sessionStorage = {
  getItem: (name) => kept.get(name) ?? null,
  setItem: (name, value) => kept.set(name, value),
};
beforeEach(() => kept.clear());

// What a page that knows this zone sends; without one nobody is signed in.
async function sent(known, status = 204) {
  const found = { "[data-browser-zone]": known === undefined ? null : { dataset: { browserZone: known } } };
  globalThis.document = { querySelector: (selector) => found[selector] ?? { content: "token" } };
  const calls = [];
  await tellZone(async (address, options) => {
    calls.push([address, options.method, String(options.body), options.headers["X-CSRFToken"]]);
    if (status === 0) throw new TypeError("Failed to fetch");
    return { status };
  });
  return calls;
}

test("another zone is told, with the token against forged requests", async () => {
  const told = [["/account/time-zone/browser/", "POST", "name=Europe%2FBerlin", "token"]];
  assert.deepEqual(await sent(""), told);
  assert.deepEqual(await sent("America/New_York"), told);
});

test("the same zone is not told, nor anything by a page without a person", async () => {
  assert.deepEqual(await sent("Europe/Berlin"), []);
  globalThis.document = { querySelector: () => null };
  await tellZone(() => assert.fail("asked"));
});

test("one that was refused is not told again, one that was lost is", async () => {
  assert.equal((await sent("", 0)).length, 1);
  assert.equal((await sent("", 422)).length, 1);
  assert.equal((await sent("")).length, 0);
});
