// What stands above the charts of compared jobs: choices, ticks, what the colours mean.

import { ramp, told, varies } from "./charts/fields.js";
import { drawn } from "./charts/legend.js";
import { el } from "./dom.js";
import { number } from "./format.js";

// What has the focus keeps it, though it is made anew.
export function refill(host, ...children) {
  const inputs = () => [...host.querySelectorAll("select, input")];
  const held = inputs().indexOf(document.activeElement);
  host.replaceChildren(...children);
  inputs()[held]?.focus({ preventScroll: true });
}

export function choice(words, fields, chosen, change) {
  const group = (title, list) =>
    list.length
      ? [
          el(
            "optgroup",
            { label: title },
            ...list.map((field) => el("option", { value: field.key, selected: field.key === chosen }, field.label)),
          ),
        ]
      : [];
  const select = el(
    "select",
    { class: "form-select form-select-sm", onchange: (event) => change(event.target.value) },
    ...group(
      "Spec",
      fields.filter((field) => !field.is_figure),
    ),
    ...group(
      "Figures",
      fields.filter((field) => field.is_figure),
    ),
  );
  return el("label", {}, words, select);
}

export function tick(words, checked, change) {
  return el(
    "label",
    {},
    el("input", {
      type: "checkbox",
      class: "form-check-input m-0",
      checked,
      onchange: (event) => change(event.target.checked),
    }),
    words,
  );
}

// What the colours of the lines mean; nothing where they all have one.
export function hueBar(field) {
  if (!field || !varies(field)) return [];
  const values = told(field);
  const ends = [Math.min(...values), Math.max(...values)];
  if (field.better < 0) ends.reverse();
  const svg = drawn("svg", { class: "hue-bar", width: 90, height: 10, "aria-hidden": "true" });
  const gradient = drawn("linearGradient", { id: "hue-ramp" });
  for (const [at, shade] of ramp().entries()) {
    gradient.append(drawn("stop", { offset: at / 2, "stop-color": shade }));
  }
  svg.append(gradient, drawn("rect", { width: 90, height: 10, rx: 2, fill: "url(#hue-ramp)" }));
  return [
    el(
      "span",
      { class: "small" },
      `Colour: ${field.label}, ${number(ends[0])}`,
      svg,
      number(ends[1]),
      field.values.includes(null) ? "; grey, dashed: none" : "",
    ),
  ];
}
