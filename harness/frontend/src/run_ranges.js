// The ranges of the axes as fields: what dragging along an axis does, for the keyboard, and with exact bounds.

import { names } from "./charts/fields.js";
import { el } from "./dom.js";

function number(field, ranges, change) {
  const now = () => ranges.get(field.key) ?? { low: null, high: null };
  const input = (name, word) =>
    el("input", {
      type: "number",
      step: "any",
      class: "form-control form-control-sm",
      value: now()[name] ?? "",
      "aria-label": `${field.label} ${word}`,
      onchange: (event) => {
        const { low, high } = { ...now(), [name]: event.target.value === "" ? null : Number(event.target.value) };
        change(field.key, low === null && high === null ? null : { low, high, none: false });
      },
    });
  return el(
    "div",
    { class: "pair" },
    input("low", "from"),
    el("span", { class: "text-secondary small" }, "to"),
    input("high", "to"),
  );
}

function category(field, ranges, change) {
  const all = names(field);
  const isKept = (name) => ranges.get(field.key)?.names.includes(name) ?? true;
  const box = (name) =>
    el("input", {
      type: "checkbox",
      class: "form-check-input",
      checked: isKept(name),
      onchange: (event) => {
        const kept = all.filter((one) => (one === name ? event.target.checked : isKept(one)));
        change(field.key, kept.length === all.length ? null : { names: kept });
      },
    });
  return el(
    "div",
    {},
    ...all.map((name) =>
      el("label", { class: "form-check mb-0" }, box(name), el("span", { class: "form-check-label" }, name ?? "none")),
    ),
  );
}

// `change(key, range)` with null for no range; `ranges` by key are read anew each time.
export function rangeFields(fields, ranges, change) {
  const kind = (field) => (field.is_number ? number : category)(field, ranges, change);
  return el(
    "div",
    { class: "ranges" },
    ...fields.map((field) => el("fieldset", {}, el("legend", {}, field.label), kind(field))),
  );
}
