// The header of a job, live: figures follow the stream, a change of state asks the server for the header again.
import { announce, el } from "./dom.js";
import { duration, number, percent } from "./format.js";
import { Drawn, keep, pressing } from "./kept.js";
import { giveNotice, offerNotice } from "./notice.js";
import { stream } from "./stream.js";
import { localise } from "./time.js";

const POLL_MS = 15_000;
const STATE_EVENTS = new Set([
  "started",
  "running",
  "exited",
  "error",
  "state",
  "job",
  "end",
  "updated",
  "waiting",
  "expected",
]);

function ready() {
  const results = [...document.querySelectorAll("[data-tab]")].find((tab) => tab.pathname.endsWith("/results/"));
  return el(
    "div",
    { class: "alert alert-success mt-3", role: "status" },
    el(
      "div",
      {},
      el("div", { class: "alert-title" }, "The run has finished."),
      el("a", { href: results.href }, "See the results"),
    ),
  );
}

// What was asked for has come about, or never will ("Pausing …"). Of a job that was just submitted it stays while ranks
// start: on a free pool nobody could read it else.
function dropFlash(state) {
  if (/Starting/.test(state)) return;
  for (const told of document.querySelectorAll("[data-flash=success]")) told.remove();
}

export function mount(root) {
  if (root.dataset.watch !== "1") return;
  const live = (name) => root.querySelector(`[data-live="${name}"]`);
  const write = (name, text) => {
    const node = live(name);
    if (node && node.textContent !== text) node.textContent = text;
  };

  // The tab of the browser tells how it goes while one works elsewhere.
  const title = document.title;
  const entitle = (words) => {
    document.title = words ? `${words} · ${title}` : title;
  };
  entitle(live("share")?.textContent);

  offerNotice(root, root.dataset.job);

  const isPressed = pressing(root);
  const drawn = new Drawn();
  let isReady = false;

  async function refresh() {
    if (root.querySelector("dialog[open]")) return;
    if (isPressed()) {
      refreshSoon();
      return;
    }
    const response = await fetch(root.dataset.header, { headers: { "HX-Request": "true" } });
    if (response.status === 401) window.location.reload(); // the session has ended: sign in, and come back here
    if (!response.ok) return;
    const text = await response.text();
    if (!drawn.isNew(text)) return;
    const before = root.querySelector("[data-live=state]")?.textContent;
    const putBack = keep(root);
    root.innerHTML = text;
    if (isReady) root.append(ready());
    localise(root);
    offerNotice(root, root.dataset.job);
    putBack();
    const after = root.querySelector("[data-live=state]")?.textContent;
    if (before !== after) {
      announce(`The job is ${after}`);
      dropFlash(after);
      entitle(after);
      giveNotice(root.dataset.job, root.querySelector("h1").textContent, after);
      isReady = /Succeeded/.test(after);
      if (isReady) root.append(ready());
    } else if (/Running/.test(after) && live("share")) {
      entitle(live("share").textContent); // a page that nobody looks at hears of no progress
    }
  }

  let isWaiting = false;
  const refreshSoon = () => {
    if (isWaiting) return;
    isWaiting = true;
    setTimeout(() => {
      isWaiting = false;
      refresh().catch(() => {});
    }, 400);
  };

  const stand = (data) => {
    const share = data.step / data.steps_total;
    write("share", percent(share));
    entitle(percent(share));
    write("epoch", number(data.epoch, 3));
    write("step", number(data.step));
    write("steps", number(data.steps_total));
    const stepping = live("stepping");
    if (stepping) stepping.hidden = false;
    const bar = live("bar");
    if (bar) bar.value = share;
  };

  const events = stream(`job:${root.dataset.job}`);
  events.on("progress", ({ data }) => {
    // A run that loads its data and its checkpoint does not know yet where it stands: what is shown still holds.
    if (data.steps_total) stand(data);
    write("rate", number(data.samples_per_s, 3));
    if (data.phase) write("phase", data.phase.replaceAll("_", " "));
  });
  events.on("*", (event) => {
    if (STATE_EVENTS.has(event.kind) || event.kind === "checkpoint" || event.kind === "note") refreshSoon();
  });
  setInterval(() => {
    const node = live("elapsed");
    if (node?.dataset.ticking) {
      node.dataset.elapsed = String(Number(node.dataset.elapsed) + 1);
      node.textContent = duration(Number(node.dataset.elapsed));
    }
    // Until the expected finish, which the header tells anew when it has moved: both always say the same.
    const left = live("left");
    if (left) {
      left.dataset.left = String(Math.max(0, Number(left.dataset.left) - 1));
      left.textContent = `about ${duration(Number(left.dataset.left))}`;
    }
  }, 1000);
  setInterval(refreshSoon, POLL_MS);
}
