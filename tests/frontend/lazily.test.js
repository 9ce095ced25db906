// Scripts that do not arrive at once.
import assert from "node:assert/strict";
import test from "node:test";
import { lazily } from "../../harness/frontend/src/lazily.js";
import { page } from "./page.js";

page();
const notice = { hidden: true, textContent: "" };
document.getElementById = () => notice;

const fails = (times) => {
  const load = async () => {
    load.tries += 1;
    load.seen.push(notice.hidden ? "" : notice.textContent);
    if (load.tries <= times) throw new TypeError("Failed to fetch dynamically imported module");
    return { mount: "it" };
  };
  return Object.assign(load, { tries: 0, seen: [] });
};

test("a script that does not arrive is asked for again, and the page says so meanwhile", async () => {
  const load = fails(2);
  assert.deepEqual(await lazily("chart", load, [1, 1, 1]), { mount: "it" });
  assert.equal(load.tries, 3);
  const again = "A part of this page could not be loaded: trying again…";
  assert.deepEqual(load.seen, ["", again, again]);
  assert.ok(notice.hidden);
});

test("one that never arrives is an error after the last try, and what to do stays on the page", async () => {
  await assert.rejects(lazily("chart", fails(9), [1, 1]), { name: "TypeError" });
  assert.ok(!notice.hidden);
  assert.equal(notice.textContent, "A part of this page could not be loaded: load the page again");
});
