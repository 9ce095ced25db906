// Scripts that a page loads when it needs them. A browser gives up what is on its way when the network changes.
import { reach } from "./reach.js";

const PAUSES_MS = [500, 2000, 5000, 15_000];

const waited = (pauseMs) => new Promise((done) => setTimeout(done, pauseMs));

// What `load` brings, tried again after each pause; the notice of the page says so while it is missing.
export async function lazily(part, load, pausesMs = PAUSES_MS) {
  for (const pauseMs of pausesMs) {
    try {
      return loaded(part, await load());
    } catch {
      reach(part, false, "A part of this page could not be loaded: trying again…");
      await waited(pauseMs);
    }
  }
  try {
    return loaded(part, await load());
  } catch (error) {
    reach(part, false, "A part of this page could not be loaded: load the page again");
    throw error;
  }
}

function loaded(part, found) {
  reach(part, true);
  return found;
}
