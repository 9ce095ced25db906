// Log lines that arrive while one looks; following pauses when the reader scrolls up, and goes on at the end. Earlier
// and later lines are brought in where the reader is.
import htmx from "htmx.org";
import { announce, el } from "./dom.js";
import { stream } from "./stream.js";

const LINES_KEPT = 5000;
// Of a reader who stopped to read: what was brought in is not taken away at once.
const LINES_KEPT_READING = 20000;
// As in harness/jobs/logs.py, so that a line looks the same when it arrives and after a reload.
const ERROR = /(error|exception)\b|\b(traceback|fatal|critical|killed)\b/i;
const WARNING = /warn(ing)?\b/i;
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it looks for
const ESCAPES = /\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|[\x00-\x08\x0b-\x1f\x7f]/g;

function clean(text) {
  return text.split("\r").filter(Boolean).at(-1)?.replace(ESCAPES, "") ?? "";
}

function levelOf(text) {
  if (ERROR.test(text)) return "error";
  return WARNING.test(text) ? "warning" : "info";
}

// What was searched for is marked, as in the lines that the server wrote.
function marked(text, query) {
  const at = query ? text.toLowerCase().indexOf(query.toLowerCase()) : -1;
  if (at < 0) return [text];
  const end = at + query.length;
  return [text.slice(0, at), el("mark", {}, text.slice(at, end)), ...marked(text.slice(end), query)];
}

// Each line has a link, and a thousand of them would stand in the way of Tab: the line that a link led to, else the
// first, is its one stop while it is in sight, and arrows lead from there to the other lines.
function oneTabStop(view) {
  const linkOf = (line) => line?.querySelector("a");
  const linked = (line, way) => {
    let next = line?.[way];
    while (next && !next.matches(".log-line")) next = next[way];
    return linkOf(next);
  };
  const stopAt = (link) => {
    for (const other of view.querySelectorAll('.log-line a:not([tabindex="-1"])')) other.tabIndex = -1;
    if (link) link.tabIndex = 0;
  };
  const firstInSight = () => {
    const { top, bottom } = view.getBoundingClientRect();
    const isInSight = (line) => {
      const place = line.getBoundingClientRect();
      return place.bottom > top && place.top < bottom;
    };
    const lines = [...view.querySelectorAll(".log-line")];
    return lines.find((line) => line.matches(".target") && isInSight(line)) ?? lines.find(isInSight);
  };
  view.addEventListener("focus", () => stopAt(linkOf(firstInSight())));
  view.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    const line = event.target.closest(".log-line");
    const way = { ArrowUp: "previousElementSibling", ArrowDown: "nextElementSibling" }[event.key];
    const link = line && way && linked(line, way);
    if (!link) return;
    event.preventDefault();
    stopAt(link);
    link.focus();
  });
  new MutationObserver(() => stopAt(view.querySelector(".log-line a[tabindex='0']"))).observe(view, {
    childList: true,
  });
  stopAt(linkOf(view.querySelector(".log-line.target") ?? firstInSight()));
}

export function mount(root) {
  const view = root.querySelector("[data-view]");
  const button = root.querySelector("[data-follow]");
  const params = new URLSearchParams(window.location.search);
  const shownToken = Number(root.dataset.token);
  const isPart = ["line", "before", "after"].some((name) => params.has(name));
  // Lines are missing below: those that arrive would stand where they do not belong.
  const hasGap = () => Boolean(view.querySelector("[data-later]"));
  let follow = root.dataset.watch === "1" && !isPart;
  const target = view.querySelector(".target");
  if (target) target.scrollIntoView({ block: "center" });
  else if (!params.has("after")) view.scrollTop = view.scrollHeight;

  function setFollow(wanted) {
    if (wanted && hasGap()) {
      const url = new URL(window.location.href);
      for (const name of ["line", "before", "after"]) url.searchParams.delete(name);
      window.location.assign(url);
      return;
    }
    follow = wanted;
    button.setAttribute("aria-pressed", String(wanted));
    button.textContent = wanted ? "Following" : "Follow";
    if (wanted) view.scrollTop = view.scrollHeight;
  }

  function wanted(rank, level, text) {
    if (params.get("rank") && Number(params.get("rank")) !== rank) return false;
    if (params.get("level") === "error" && level !== "error") return false;
    if (params.get("level") === "warning" && level === "info") return false;
    return !params.get("q") || text.toLowerCase().includes(params.get("q").toLowerCase());
  }

  async function bring(link) {
    const isEarlier = link.hasAttribute("data-earlier");
    const shown = new Map([...view.querySelectorAll(".log-line")].map((line) => [line.id, line]));
    const [top, height] = [view.scrollTop, view.scrollHeight];
    link.setAttribute("aria-busy", "true");
    await htmx.ajax("GET", `${root.dataset.lines}${link.search}`, { target: link, swap: "outerHTML" });
    if (link.isConnected) return link.removeAttribute("aria-busy");
    // Lines of several ranks arrive mixed and are read one rank after the other: some may be here already.
    for (const line of view.querySelectorAll(".log-line")) {
      if (shown.has(line.id) && shown.get(line.id) !== line) line.remove();
    }
    view.scrollTop = isEarlier ? top + view.scrollHeight - height : top;
    view.focus({ preventScroll: true });
    announce(`${view.querySelectorAll(".log-line").length - shown.size} ${isEarlier ? "earlier" : "later"} lines`);
  }

  // Where the lines before or after one are read, by the filters of the page.
  function searchFrom(side, line) {
    const url = new URL(line.querySelector("a").href);
    for (const name of ["q", "level", "rank"]) {
      url.searchParams.delete(name);
      if (params.get(name)) url.searchParams.set(name, params.get(name));
    }
    url.searchParams.delete("line");
    url.searchParams.set(side, `${line.dataset.rank}:${line.dataset.line}`);
    return url.search;
  }

  // Old lines make room; they can be brought in again.
  function trim() {
    const over = view.childElementCount - (follow ? LINES_KEPT : LINES_KEPT_READING);
    if (over <= 0) return;
    const height = view.scrollHeight;
    view.querySelector("[data-earlier]")?.remove();
    for (const line of [...view.querySelectorAll(".log-line")].slice(0, over)) line.remove();
    const search = searchFrom("before", view.querySelector(".log-line"));
    view.prepend(el("a", { class: "btn btn-sm log-more", href: search, "data-earlier": true }, "Earlier lines"));
    view.scrollTop -= height - view.scrollHeight;
  }

  function add({ rank, token, line, text }) {
    const level = levelOf(text);
    // Without an attempt that is shown, those that come may be several: each counts its lines from 1.
    const id = `${shownToken ? "" : `a${token}-`}r${rank}-l${line}`;
    if (hasGap() || !wanted(rank, level, text) || document.getElementById(id)) return;
    view.querySelector("[data-none]")?.remove();
    const first = view.querySelector(".log-line");
    if (first && Number(first.dataset.rank) !== rank) view.classList.remove("one-rank");
    view.append(
      el(
        "div",
        { class: `log-line level-${level}`, id, "data-rank": rank, "data-line": line },
        el(
          "a",
          { href: `?rank=${rank}&attempt=${token}&line=${line}`, "aria-label": `Link to line ${line} of rank ${rank}` },
          String(line),
        ),
        el("span", { class: "rank" }, `r${rank}`),
        el("span", { class: "text" }, marked(text, params.get("q"))),
      ),
    );
  }

  oneTabStop(view);
  button.addEventListener("click", () => setFollow(!follow));
  view.addEventListener("click", (event) => {
    const link = event.target.closest("[data-earlier], [data-later]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    if (!link.hasAttribute("aria-busy")) bring(link);
  });
  view.addEventListener("scroll", () => {
    const atEnd = !hasGap() && view.scrollHeight - view.scrollTop - view.clientHeight < 24;
    if (follow !== atEnd && !button.hidden) setFollow(atEnd);
  });
  if (root.dataset.watch !== "1") return;
  setFollow(follow);
  const events = stream(`job:${root.dataset.job}`);
  events.on("gap", () => {
    const last = [...view.querySelectorAll(".log-line")].at(-1);
    if (hasGap()) return;
    if (!last) return window.location.reload();
    const search = searchFrom("after", last);
    view.append(el("a", { class: "btn btn-sm log-more", href: search, "data-later": true }, "Later lines"));
    if (follow) setFollow(true);
  });
  events.on("log", ({ token, rank, data }) => {
    if (shownToken && token !== shownToken) return;
    const writer = data.rank ?? rank;
    for (const [index, text] of data.lines.entries()) {
      add({ rank: writer, token, line: data.line_start + index, text: clean(text) });
    }
    trim();
    if (follow) view.scrollTop = view.scrollHeight;
  });
}
