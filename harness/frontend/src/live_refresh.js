// Asks for a fragment again when something in its topics changed, at most once a second; polls slowly beside it.
import htmx from "htmx.org";
import { stream } from "./stream.js";

const LEAST_MS = 1000;
const POLL_MS = 10_000;

export function mount(node) {
  let timer = null;
  const refresh = () => {
    timer = null;
    if (document.hidden || node.contains(document.activeElement) && document.activeElement.matches("select, input")) return;
    htmx.ajax("GET", node.dataset.url + window.location.search, { target: node, swap: "innerHTML" });
  };
  const soon = () => {
    timer ??= setTimeout(refresh, LEAST_MS);
  };
  stream(node.dataset.topics).on("*", soon);
  setInterval(soon, POLL_MS);
}
