// Log lines that arrive while one looks; following pauses when the reader scrolls up, and goes on at the end.
import { el } from "./dom.js";
import { stream } from "./stream.js";

const LINES_KEPT = 5000;
// As in harness/jobs/logs.py, so that a line looks the same when it arrives and after a reload.
const ERROR = /(error|exception)\b|\b(traceback|fatal|critical|killed)\b/i;
const WARNING = /warn(ing)?\b/i;
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

export function mount(root) {
  const view = root.querySelector("[data-view]");
  const button = root.querySelector("[data-follow]");
  const params = new URLSearchParams(window.location.search);
  const shownToken = Number(root.dataset.token);
  let follow = root.dataset.watch === "1" && !params.get("line");
  const target = view.querySelector(".target");
  if (target) target.scrollIntoView({ block: "center" });
  else view.scrollTop = view.scrollHeight;

  function setFollow(wanted) {
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

  function add({ rank, token, line, text }) {
    const level = levelOf(text);
    // Without an attempt that is shown, those that come may be several: each counts its lines from 1.
    const id = `${shownToken ? "" : `a${token}-`}r${rank}-l${line}`;
    if (!wanted(rank, level, text) || document.getElementById(id)) return;
    view.querySelector("[data-none]")?.remove();
    view.append(
      el("div", { class: `log-line level-${level}`, id, "data-rank": rank, "data-line": line },
        el("a", { href: `?rank=${rank}&attempt=${token}&line=${line}`, "aria-label": `Link to line ${line} of rank ${rank}` }, String(line)),
        el("span", { class: "rank" }, `r${rank}`), el("span", { class: "text" }, marked(text, params.get("q")))),
    );
    while (view.childElementCount > LINES_KEPT) view.firstElementChild.remove();
  }

  button.addEventListener("click", () => setFollow(!follow));
  view.addEventListener("scroll", () => {
    const atEnd = view.scrollHeight - view.scrollTop - view.clientHeight < 24;
    if (follow !== atEnd && !button.hidden) setFollow(atEnd);
  });
  if (root.dataset.watch !== "1") return;
  setFollow(follow);
  stream(`job:${root.dataset.job}`).on("log", ({ token, rank, data }) => {
    if (shownToken && token !== shownToken) return;
    const writer = data.rank ?? rank;
    data.lines.forEach((text, index) => add({ rank: writer, token, line: data.line_start + index, text: clean(text) }));
    if (follow) view.scrollTop = view.scrollHeight;
  });
}
