// Asks for a part of the page again when something in its topics changed, at most once a second; polls slowly beside
// it. `data-select` names the part where the address gives the whole page.
import htmx from "htmx.org";
import { stream } from "./stream.js";

const LEAST_MS = 1000;
const POLL_MS = 10_000;
const MARK = "X-Refresh";
// Figures, several a second: what shows them follows them by itself.
const NOISE = new Set(["progress", "metric", "sample", "log"]);

// What somebody is typing into, or has ticked, is not drawn anew below their hands.
function isHeld(node) {
  const inside = node.contains(document.activeElement);
  return (
    (inside && document.activeElement.matches("select, textarea, input:not([type=checkbox])")) ||
    node.querySelector("tbody input:checked") !== null
  );
}

function focused(node) {
  const place = node.contains(document.activeElement) ? document.activeElement : null;
  if (place?.matches("a[href]")) return `a[href="${CSS.escape(place.getAttribute("href"))}"]`;
  return place?.matches("input[name][value]")
    ? `input[name="${CSS.escape(place.name)}"][value="${CSS.escape(place.value)}"]`
    : null;
}

// What can be folded out, by the job or part of the page it belongs to and its place there; its words may change, and
// rows of jobs their order.
function folds(node) {
  const counts = new Map();
  return [...node.querySelectorAll("details")].map((fold) => {
    const owner = fold.closest("tr[data-job], [aria-labelledby]");
    const part = owner?.dataset.job ?? owner?.getAttribute("aria-labelledby") ?? "";
    counts.set(part, (counts.get(part) ?? 0) + 1);
    return [`${part} ${counts.get(part)}`, fold];
  });
}

export function mount(node) {
  let isWaiting = false;
  let kept = null;
  let open = new Map();
  let asked = "";
  const refresh = () => {
    isWaiting = false;
    if (document.hidden || isHeld(node)) return;
    asked = window.location.search;
    htmx.ajax("GET", node.dataset.url + asked, {
      target: node,
      swap: "innerHTML",
      select: node.dataset.select,
      headers: { [MARK]: "1" },
    });
  };
  const soon = () => {
    if (isWaiting) return;
    isWaiting = true;
    setTimeout(refresh, LEAST_MS);
  };
  node.addEventListener("htmx:beforeSwap", (event) => {
    if (event.detail.target !== node || !event.detail.requestConfig.headers[MARK]) return;
    // Taken in hand, or filtered in another way, while the answer was on its way.
    if (isHeld(node) || asked !== window.location.search) event.detail.shouldSwap = false;
    kept = focused(node);
    open = new Map(folds(node).map(([key, fold]) => [key, fold.open]));
  });
  node.addEventListener("htmx:afterSwap", (event) => {
    if (event.detail.target === node && kept) node.querySelector(kept)?.focus({ preventScroll: true });
    if (event.detail.target === node) for (const [key, fold] of folds(node)) fold.open = open.get(key) ?? fold.open;
    kept = null;
  });
  stream(node.dataset.topics).on("*", ({ kind }) => {
    if (!NOISE.has(kind)) soon();
  });
  const poll = setInterval(() => (node.isConnected ? soon() : clearInterval(poll)), POLL_MS);
}
