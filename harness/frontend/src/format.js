// One place for how figures are written; mirrors worker/words.py and harness/pages/figures.py.

const NONE = "–";
const DIGITS_MOST = 8;

// Zero has no sign.
function whole(value) {
  return (value + 0).toLocaleString("en-US");
}

// With two digits of the power at least: 1.50e-07.
function exponential(value) {
  return value.toExponential(2).replace(/e([+-])(\d)$/, (_, sign, digit) => `e${sign}0${digit}`);
}

export function number(value, digits = 4) {
  if (value === null || value === undefined || Number.isNaN(value)) return NONE;
  if (typeof value !== "number") return String(value);
  if (!Number.isFinite(value)) return "not finite";
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e15) return whole(value);
  if (size >= 1e9 || size < 1e-4) return exponential(value);
  const rounded = Number(value.toPrecision(digits));
  // As many more as it takes to write what is below one as that.
  if (size < 1 && Math.abs(rounded) >= 1 && digits < DIGITS_MOST) return number(value, digits + 1);
  if (size >= 10 ** digits || Number.isInteger(rounded)) return whole(Math.round(value));
  return String(rounded);
}

// A large count as 12.3 M.
export function short(value) {
  const [size, unit] = [
    [1e12, "T"],
    [1e9, "G"],
    [1e6, "M"],
    [1e3, "k"],
  ].find(([least]) => Math.abs(value) >= 0.9995 * least) ?? [1, ""];
  return unit ? `${Number((value / size).toPrecision(3))} ${unit}` : number(value);
}

// To one decimal below 100, whole above.
function tenths(value) {
  const rounded = Math.round(value * 10) / 10;
  return Math.abs(rounded) < 100 ? rounded : Math.round(value);
}

export function bytes(value) {
  if (!Number.isFinite(value)) return NONE;
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let size = Math.round(value);
  let unit = 0;
  while (tenths(size) >= 1024 && unit < units.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${tenths(size)} ${units[unit]}`;
}

export function duration(seconds) {
  if (!Number.isFinite(seconds)) return NONE;
  const left = Math.max(0, seconds);
  if (left < 9.95) return `${tenths(left)} s`;
  const total = Math.round(left);
  if (total < 60) return `${total} s`;
  if (total < 3600) return parts(total, 60, "min", "s");
  const minutes = Math.round(left / 60);
  if (minutes < 48 * 60) return parts(minutes, 60, "h", "min");
  const hours = Math.round(left / 3600);
  return hours % 24 ? `${Math.floor(hours / 24)} d ${hours % 24} h` : `${hours / 24} d`;
}

function parts(count, size, large, small) {
  const rest = count % size;
  const whole = `${Math.floor(count / size)} ${large}`;
  return rest ? `${whole} ${String(rest).padStart(2, "0")} ${small}` : whole;
}

// Seconds as 1:05 or 2:03:09, short enough for an axis.
export function clock(seconds) {
  const total = Math.round(seconds);
  const [hours, minutes, rest] = [Math.floor(total / 3600), Math.floor(total / 60) % 60, total % 60];
  const pad = (part) => String(part).padStart(2, "0");
  return hours ? `${hours}:${pad(minutes)}:${pad(rest)}` : `${minutes}:${pad(rest)}`;
}

export function percent(value) {
  return Number.isFinite(value) ? `${(Math.round(value * 1000) / 10 + 0).toFixed(1)} %` : NONE;
}

// For sentences: what is nearly all is not written as all, nor a few as none.
export function share(value) {
  if (!Number.isFinite(value)) return NONE;
  const texts = [1, 2, 3, 4, 5, 6].map((decimals) => (100 * value).toFixed(decimals));
  return `${texts.find((text) => ![0, 100].includes(Number(text))) ?? texts[0]} %`;
}

export function localTime(date) {
  return date.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
}

// On hover, where nobody is to guess the zone.
export function zonedTime(date) {
  return date.toLocaleString(undefined, { dateStyle: "full", timeStyle: "long" });
}

const DAY_MS = 86_400_000;
const day = (date) => new Date(date.getFullYear(), date.getMonth(), date.getDate());

const clockTime = (date) => date.toLocaleTimeString(undefined, { timeStyle: "short" });

// The end of a span: without the day where that is the day of its beginning.
export function untilTime(date, since, now = new Date()) {
  return day(date).getTime() === day(since).getTime() ? clockTime(date) : nearTime(date, now);
}

// As one says it: without the day where it is today, without seconds and this year's number.
export function nearTime(date, now = new Date()) {
  const clock = clockTime(date);
  const days = Math.round((day(date) - day(now)) / DAY_MS);
  const named = { "-1": "yesterday", 0: "today", 1: "tomorrow" }[days];
  if (named) return `${named} ${clock}`;
  const year = date.getFullYear() === now.getFullYear() ? undefined : "numeric";
  return `${date.toLocaleDateString(undefined, { day: "numeric", month: "short", year })}, ${clock}`;
}
