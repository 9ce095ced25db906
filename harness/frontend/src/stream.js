// One server-sent stream per page, shared by all parts of it; says when it is reconnecting, and leaves no gap:
// the browser sends Last-Event-ID itself, and a stream that was closed for good is opened again from the last id.
// A browser has six connections to a portal without HTTP/2, for all its tabs together: a page that nobody looks at gives
// its own back, else no seventh could be opened. Looked at again, it hears what it missed.
import { request } from "./net.js";
import { reach } from "./reach.js";

const RETRY_MS = [500, 1000, 2000, 4000, 8000];
const HIDDEN_MS = 3000;
const UNHEARD = "The portal hears nothing of runs and nodes: its broker does not answer. Runs go on.";
const KINDS = [
  "started",
  "running",
  "progress",
  "metric",
  "checkpoint",
  "sample",
  "log",
  "note",
  "exited",
  "state",
  "job",
  "node",
  "dataset",
  "end",
  "message",
];

export class Stream {
  constructor(topics) {
    this.topics = topics;
    this.handlers = new Map();
    this.lastId = "";
    this.tries = 0;
    this.seen = new Set();
    this.open();
    document.addEventListener("visibilitychange", () => (document.hidden ? this.turnAway() : this.goOn()));
    window.addEventListener("pagehide", () => this.rest());
    // Back in the browser can bring the page as it was left.
    window.addEventListener("pageshow", ({ persisted }) => {
      if (!persisted) return;
      if (!this.lastId) this.tellGap(); // it was left before the portal said where the stream begins
      this.goOn();
    });
  }

  open() {
    this.isResting = false;
    const query = new URLSearchParams({ topics: this.topics });
    if (this.lastId) query.set("last_event_id", this.lastId);
    this.source = new EventSource(`/live?${query}`);
    this.source.addEventListener("open", () => {
      this.tries = 0;
      this.tell("connection", { connected: true });
      reach("live", true);
      reach("broker", true); // if it is not, the portal says so, at once where it knows by now
    });
    this.source.addEventListener("error", () => this.lost());
    this.source.addEventListener("broker", ({ data }) => reach("broker", !JSON.parse(data).away, UNHEARD));
    this.source.addEventListener("position", (event) => this.begin(event));
    for (const kind of KINDS) this.source.addEventListener(kind, (event) => this.receive(kind, event));
  }

  begin({ lastEventId, data }) {
    this.lastId = lastEventId;
    if (JSON.parse(data).gap) this.tellGap();
    if (document.hidden) this.rest();
  }

  // Some of what was said is gone: the parts of the page ask for it all again.
  tellGap() {
    for (const kind of ["gap", "*"]) this.tell(kind, { kind: "gap" });
  }

  // Not at once: who only looks something up in another tab finds the page as it was.
  turnAway() {
    clearTimeout(this.leaving);
    this.leaving = setTimeout(() => {
      // Before the portal said where the stream begins, there is nothing to go on from.
      if (document.hidden && this.lastId) this.rest();
    }, HIDDEN_MS);
  }

  rest() {
    clearTimeout(this.opening);
    this.isResting = true;
    this.source.close();
    reach("live", true);
    reach("broker", true);
  }

  goOn() {
    if (this.isResting) this.open();
  }

  lost() {
    reach("live", false);
    this.tell("connection", { connected: false });
    if (this.source.readyState !== EventSource.CLOSED) return;
    this.explain();
    const wait = RETRY_MS[Math.min(this.tries, RETRY_MS.length - 1)];
    this.tries += 1;
    this.opening = setTimeout(() => this.open(), wait);
  }

  // A browser does not tell why it was refused a stream: asked once more, the portal does. The words go with the
  // next try.
  async explain() {
    const asked = new AbortController();
    try {
      await request(`/live?${new URLSearchParams({ topics: this.topics })}`, { signal: asked.signal });
    } catch (error) {
      if (error.code === "too_many") reach("live", false, `${error.message} ${error.hint}`);
    } finally {
      asked.abort();
    }
  }

  receive(kind, event) {
    if (event.lastEventId) this.lastId = event.lastEventId;
    let body;
    try {
      body = JSON.parse(event.data);
    } catch {
      return;
    }
    if (body.job_id && body.seq !== undefined) {
      const key = `${body.job_id}:${body.token}:${body.rank}:${body.seq}`;
      if (this.seen.has(key)) return;
      this.seen.add(key);
      if (this.seen.size > 20_000) this.seen = new Set([...this.seen].slice(10_000));
    }
    this.tell(body.kind ?? kind, body);
    this.tell("*", body);
  }

  on(kind, handler) {
    if (!this.handlers.has(kind)) this.handlers.set(kind, []);
    this.handlers.get(kind).push(handler);
  }

  tell(kind, body) {
    for (const handler of this.handlers.get(kind) ?? []) handler(body);
  }
}

const streams = new Map();

export function stream(topics) {
  if (!streams.has(topics)) streams.set(topics, new Stream(topics));
  return streams.get(topics);
}
