// What a page could not read because the portal was out of reach is asked for again, until it comes or something newer is
// asked for in its place. What changes anything is not: whoever sent it decides.
import htmx from "htmx.org";

const WAITS_MS = [1000, 2000, 4000, 8000, 15_000];
const waiting = new Map();

export const waitMs = (tries) => WAITS_MS[Math.min(tries, WAITS_MS.length - 1)];

// Parts that ask every few seconds do so anyway: those that say "every", and what follows a stream (live_refresh.js),
// which asks in the name of the whole page.
const asksAnyway = (node) => node === document.body || (node.getAttribute("hx-trigger") ?? "").includes("every ");

// Whether it is asked for again.
export function askAgain({ verb, path, elt, target }) {
  if (verb !== "get" || asksAnyway(elt)) return false;
  const tries = waiting.get(elt)?.tries ?? 0;
  const ask = () => {
    // That it failed again comes as an event, too.
    if (elt.isConnected) htmx.ajax("GET", path, { source: elt, target }).catch(() => {});
    else waiting.delete(elt);
  };
  waiting.set(elt, { tries: tries + 1, timer: setTimeout(ask, waitMs(tries)) });
  return true;
}

// A newer request of the same part takes the place of the one that waits.
export function begun({ elt }) {
  clearTimeout(waiting.get(elt)?.timer);
}

export function answered({ elt }) {
  waiting.delete(elt);
}
