// Entry of every page: htmx, theme, times, keyboard, and lazy mounting of the parts a page asks for.
import htmx from "htmx.org";
import { answered, askAgain, begun } from "./again.js";
import { lazily } from "./lazily.js";
import { findInLongSelects } from "./long_selects.js";
import { reach } from "./reach.js";
import { setUpShell } from "./shell.js";
import { localise, startClock } from "./time.js";
import { tellZone } from "./zone.js";

htmx.config.allowEval = false;
htmx.config.includeIndicatorStyles = false;
htmx.config.selfRequestsOnly = true;
htmx.config.historyCacheSize = 0;

const PARTS = {
  upload: () => import("./upload.js"),
  spec: () => import("./spec.js"),
  program: () => import("./program.js"),
  job: () => import("./job.js"),
  curves: () => import("./curves_panel.js"),
  ranks: () => import("./ranks.js"),
  throughput: () => import("./throughput.js"),
  logs: () => import("./logs.js"),
  chart: () => import("./charts/analysis.js"),
  compare: () => import("./compare.js"),
  runs: () => import("./runs_panel.js"),
  live: () => import("./live_refresh.js"),
  offer: () => import("./offer.js"),
  queue: () => import("./queue.js"),
  columns: () => import("./columns.js"),
  rows: () => import("./rows.js"),
  unsaved: () => import("./unsaved.js"),
};

const seen = new WeakSet();
const loaded = new Map();
const watcher = new IntersectionObserver(
  (entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      watcher.unobserve(entry.target);
      start(entry.target);
    }
  },
  { rootMargin: "200px" },
);

async function start(node) {
  const part = node.dataset.mount;
  if (!PARTS[part]) return;
  loaded.set(part, await lazily(part, PARTS[part]));
  show(node);
}

function show(node) {
  if ("mounted" in node.dataset) return;
  node.dataset.mounted = "";
  loaded.get(node.dataset.mount).mount(node);
}

// Paper has no charts that come into view: all are drawn before it is printed, at once if one of them is there already.
window.addEventListener("beforeprint", () => {
  for (const node of document.querySelectorAll('[data-mount="chart"]:not([data-mounted])')) {
    if (node.closest("details:not([open])")) continue; // it is not printed, and has no room to be drawn in
    watcher.unobserve(node);
    if (loaded.has("chart")) show(node);
    else start(node);
  }
});

function mountAll(root) {
  const nodes = [...root.querySelectorAll("[data-mount]")];
  if (root.matches?.("[data-mount]")) nodes.push(root);
  for (const node of nodes) {
    if (seen.has(node)) continue;
    seen.add(node);
    if (node.dataset.mount === "chart") watcher.observe(node);
    else start(node);
  }
}

document.body.addEventListener("htmx:configRequest", (event) => {
  event.detail.headers["X-CSRFToken"] = document.querySelector('meta[name="csrf-token"]').content;
});
document.body.addEventListener("htmx:load", (event) => {
  localise(event.detail.elt);
  findInLongSelects(event.detail.elt);
  mountAll(event.detail.elt);
});
document.body.addEventListener("htmx:beforeSwap", (event) => {
  // A refused request answers with a readable fragment: show it instead of dropping it (harness/pages/web.py, SHOWN).
  if ([400, 403, 404, 409, 413, 422].includes(event.detail.xhr.status)) event.detail.shouldSwap = true;
});
// What could not be asked for is said, not dropped; the next answer takes the notice away.
document.body.addEventListener("htmx:beforeRequest", (event) => begun(event.detail.requestConfig));
document.body.addEventListener("htmx:sendError", (event) => {
  const again = askAgain(event.detail.requestConfig);
  reach("page", false, again ? "The portal cannot be reached; trying again" : "The portal cannot be reached");
});
document.body.addEventListener("htmx:afterOnLoad", (event) => {
  answered(event.detail.requestConfig);
  const works = event.detail.xhr.status < 500;
  reach("page", works, "Something went wrong on our side: try again");
});

startClock();
setUpShell();
findInLongSelects(document);
mountAll(document);
tellZone();
