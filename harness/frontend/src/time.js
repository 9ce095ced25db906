// <time datetime> is written by the server in UTC; here it becomes the reader's own time, on hover with its zone.
import { localTime, nearTime, untilTime, zonedTime } from "./format.js";

// The same units as everywhere else: 40 s ago, in 21 min, 3 h ago, 2 d ago; further away the date.
export function ago(date, now = new Date()) {
  let value = (date - now) / 1000;
  for (const [unit, size] of [
    ["s", 60],
    ["min", 60],
    ["h", 24],
    ["d", 7],
  ]) {
    const whole = Math.round(Math.abs(value));
    if (whole < size) {
      if (whole === 0 || (unit === "s" && whole < 5)) return "now";
      return value < 0 ? `${whole} ${unit} ago` : `in ${whole} ${unit}`;
    }
    value /= size;
  }
  return nearTime(date, now);
}

const pad = (value) => String(value).padStart(2, "0");

// A moment as a datetime-local field holds it: in the reader's zone, to the minute.
export function localInput(iso) {
  const date = new Date(iso);
  if (Number.isNaN(date.getTime())) return "";
  const day = `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())}`;
  return `${day}T${pad(date.getHours())}:${pad(date.getMinutes())}`;
}

const STYLES = { ago, near: nearTime };

const IN_WORDS = /\b(\d{4}-\d\d-\d\d) (\d\d:\d\d(?::\d\d)?) UTC\b/g;

// A sentence of the server with its moments in the reader's zone: for places that hold no <time>.
export function localWords(text) {
  return text.replace(IN_WORDS, (words, day, clock) => {
    const date = new Date(`${day}T${clock}Z`);
    return Number.isNaN(date.getTime()) ? words : localTime(date);
  });
}

export function localise(root = document) {
  for (const node of root.querySelectorAll("time[datetime]")) {
    const date = new Date(node.dateTime);
    if (Number.isNaN(date.getTime())) continue;
    const since = node.parentElement?.dataset?.since;
    const text = since ? untilTime(date, new Date(since)) : (STYLES[node.dataset.style] ?? localTime)(date);
    if (node.textContent !== text) node.textContent = text;
    node.title = zonedTime(date);
  }
  // Only where the page says so: elsewhere a title may be somebody's data.
  for (const node of root.querySelectorAll("[data-moments]")) {
    const text = localWords(node.title);
    if (node.title !== text) node.title = text;
  }
}

// What is typed into a datetime-local field is in the reader's zone: the server gets it in UTC beside it.
function sendUtc() {
  document.addEventListener(
    "submit",
    (event) => {
      for (const field of event.target.querySelectorAll("input[type=datetime-local]")) {
        const date = new Date(field.value);
        const name = `${field.name}_utc`;
        const beside = event.target.querySelector(`input[name="${name}"]`) ?? document.createElement("input");
        Object.assign(beside, { type: "hidden", name, value: Number.isNaN(date.getTime()) ? "" : date.toISOString() });
        event.target.append(beside);
      }
    },
    true,
  );
}

export function startClock() {
  sendUtc();
  localise();
  setInterval(() => localise(), 15_000);
}
