// Asks for a part of the page again when something in its topics changed, at most once a second; polls slowly beside
// it. `data-select` names the part where the address gives the whole page.
import htmx from "htmx.org";
import { Drawn, keep, pressing } from "./kept.js";
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

export function mount(node) {
  let isWaiting = false;
  let asked = "";
  let putBack = null;
  const isPressed = pressing(node);
  const drawn = new Drawn();
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
    const isHindered = isHeld(node) || isPressed() || asked !== window.location.search;
    if (isHindered || !drawn.isNew(event.detail.serverResponse)) event.detail.shouldSwap = false;
    else putBack = keep(node);
  });
  node.addEventListener("htmx:afterSwap", (event) => {
    if (event.detail.target !== node) return;
    if (!event.detail.requestConfig.headers[MARK]) drawn.forget(); // filtered by hand
    putBack?.();
    putBack = null;
  });
  stream(node.dataset.topics).on("*", ({ kind }) => {
    if (!NOISE.has(kind)) soon();
  });
  const poll = setInterval(() => (node.isConnected ? soon() : clearInterval(poll)), POLL_MS);
}
