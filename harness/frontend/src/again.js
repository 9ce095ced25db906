// What a page could not read because the portal was out of reach is asked for again, until it comes or something newer
// is asked for in its place. What changes anything is not: whoever sent it decides.
import htmx from "htmx.org";
import { waitMs } from "./waits.js";

const waiting = new Map();

// Parts that ask every few seconds do so anyway: those that say "every", and what follows a stream (live_refresh.js),
// which asks in the name of the whole page.
const asksAnyway = (node) => node === document.body || (node.getAttribute("hx-trigger") ?? "").includes("every ");

// Buttons of many rows may fill one place, and a new node takes the old one's; what has no name is filled by one alone.
const placeOf = ({ elt, target }) => target?.id || elt;

// Whether it is asked for again.
export function askAgain(config) {
  const { verb, path, elt } = config;
  if (verb !== "get" || asksAnyway(elt)) return false;
  const place = placeOf(config);
  const tries = waiting.get(place)?.tries ?? 0;
  const ask = () => {
    // That it failed again comes as an event, too.
    if (elt.isConnected) htmx.ajax("GET", path, { source: elt }).catch(() => {});
    else waiting.delete(place);
  };
  waiting.set(place, { tries: tries + 1, timer: setTimeout(ask, waitMs(tries)) });
  return true;
}

// A newer request for the same place takes that of the one that waits, unless it comes by itself: nobody wished for it.
export function begun(config) {
  if (!asksAnyway(config.elt)) clearTimeout(waiting.get(placeOf(config))?.timer);
}

export function answered(config) {
  if (!asksAnyway(config.elt)) waiting.delete(placeOf(config));
}
