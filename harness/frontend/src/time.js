// <time datetime> is written by the server in UTC; here it becomes the reader's own time, ISO on hover.
import { localTime } from "./format.js";

const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto", style: "short" });

export function ago(date, now = new Date()) {
  const seconds = (date - now) / 1000;
  const steps = [
    ["second", 60],
    ["minute", 60],
    ["hour", 24],
    ["day", 7],
  ];
  let value = seconds;
  for (const [unit, size] of steps) {
    if (Math.abs(value) < size) return relative.format(Math.round(value), unit);
    value /= size;
  }
  return localTime(date);
}

export function localise(root = document) {
  for (const node of root.querySelectorAll("time[datetime]")) {
    const date = new Date(node.dateTime);
    if (Number.isNaN(date.getTime())) continue;
    const text = node.dataset.style === "ago" ? ago(date) : localTime(date);
    if (node.textContent !== text) node.textContent = text;
    node.title = date.toISOString();
  }
}

// What is typed into a datetime-local field is in the reader's zone: the server gets it in UTC beside it.
function sendUtc() {
  document.addEventListener("submit", (event) => {
    for (const field of event.target.querySelectorAll("input[type=datetime-local]")) {
      const date = new Date(field.value);
      const name = `${field.name}_utc`;
      const beside = event.target.querySelector(`input[name="${name}"]`) ?? document.createElement("input");
      Object.assign(beside, { type: "hidden", name, value: Number.isNaN(date.getTime()) ? "" : date.toISOString() });
      event.target.append(beside);
    }
  }, true);
}

export function startClock() {
  sendUtc();
  localise();
  setInterval(() => localise(), 15_000);
}
