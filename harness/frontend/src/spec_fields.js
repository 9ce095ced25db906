// The fields of the form of a spec: how a value is shown, read back, and what is wrong with it.
import { number } from "./format.js";
import { localInput } from "./time.js";

export function get(spec, path) {
  return path.split(".").reduce((value, name) => (value && typeof value === "object" ? value[name] : undefined), spec);
}

export function put(spec, path, value) {
  const names = path.split(".");
  let place = spec;
  for (const name of names.slice(0, -1)) {
    if (typeof place[name] !== "object" || place[name] === null) place[name] = {};
    place = place[name];
  }
  if (value === undefined) delete place[names.at(-1)];
  else place[names.at(-1)] = value;
}

export function shown(value) {
  if (Array.isArray(value)) return value.join(", ");
  if (value && typeof value === "object")
    return Object.entries(value)
      .map(([key, part]) => `${key} ${shown(part)}`)
      .join(", ");
  return typeof value === "number" ? number(value) : String(value);
}

const NUMBER = /^[+-]?(\d+[.,]?\d*|[.,]\d+)(e[+-]?\d+)?$/i;

// What is typed as a number, with a point or a decimal comma; NaN for anything else. Browsers differ in what they make of
// a comma in a field of type number, and some drop it.
export function numberIn(text) {
  return NUMBER.test(text) ? Number(text.replace(",", ".")) : Number.NaN;
}

// A value of the spec as its field shows it, and back.
export function textOf(field, value) {
  if (value === undefined || value === null || value === "auto") return "";
  if (field.dataset.kind === "moment") return localInput(value);
  // Ticked, not typed: a name may have a comma in it.
  if (field.dataset.kind === "columns") return value.length ? JSON.stringify(value) : "";
  return Array.isArray(value) ? value.join(", ") : String(value);
}

export function valueIn(field, text) {
  const { kind, spec: path } = field.dataset;
  if (text === "")
    return path.startsWith("data.split.") ? undefined : path === "name" ? "" : path === "data.exclude" ? [] : "auto";
  if (kind === "number") return numberIn(text);
  if (kind === "moment") return new Date(text).toISOString();
  if (kind === "columns") return JSON.parse(text);
  return kind === "list"
    ? text
        .split(",")
        .map((part) => part.trim())
        .filter(Boolean)
    : text;
}

// What is wrong with a moment or a number, told before anything is sent. Empty: nothing to complain about.
function fault(field) {
  const text = field.value.trim();
  if (field.dataset.kind === "moment") {
    if (field.validity.badInput) return "Enter a complete date and time.";
    return text && new Date(text) <= new Date() ? "This time has passed: choose a later one, or leave it empty." : "";
  }
  if (field.dataset.kind !== "number" || text === "") return "";
  const { ge, gt, le, lt, whole } = field.dataset;
  const value = numberIn(text);
  if (Number.isNaN(value)) return `Enter a number, such as ${whole ? "50" : "0.5"}.`;
  // 1.000 may be meant as a thousand
  if (whole && !/^[+-]?\d+$/.test(text)) return "Enter a whole number, in digits alone.";
  if (ge !== undefined && value < Number(ge)) return `At least ${number(Number(ge))}.`;
  if (gt !== undefined && value <= Number(gt)) return `More than ${number(Number(gt))}.`;
  if (le !== undefined && value > Number(le)) return `At most ${number(Number(le))}.`;
  if (lt !== undefined && value >= Number(lt)) return `Less than ${number(Number(lt))}.`;
  return "";
}

export function faults(fields) {
  const found = fields
    .map((field) => ({ field: field.dataset.spec, message: fault(field) }))
    .filter((problem) => problem.message);
  const parts = fields.filter(
    (field) =>
      field.dataset.spec.startsWith("data.split.") && field.dataset.kind === "number" && field.value.trim() !== "",
  );
  if (parts.length === 2 && parts.reduce((sum, field) => sum + numberIn(field.value.trim()), 0) >= 1) {
    found.push({ field: parts[1].dataset.spec, message: "Validation and test together leave no rows to train on." });
  }
  return found;
}

// Offers of a select the choices that fit the task, all while it is not known. What is chosen stays to be seen, so that
// it can be told that it does not fit.
export function offerFor(select, task) {
  for (const group of select.querySelectorAll("optgroup[data-tasks]")) {
    const fits = !task || group.dataset.tasks.split(" ").includes(task);
    const isChosen = [...group.children].some((option) => option.value === select.value);
    group.hidden = group.disabled = !fits && !isChosen;
  }
}
