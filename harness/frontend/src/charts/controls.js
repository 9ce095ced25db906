// Controls shared by all curves of a page: horizontal axis, smoothing, log scale; kept in the address.
import { el, urlParam, urlState } from "../dom.js";
import { KEYS_HINT } from "./curve_keys.js";

const AXIS_WORDS = { step: "step", epoch: "epoch", relative: "time since start", wall: "time of day" };

export function curveControls(charts, { axes = ["step", "epoch", "relative", "wall"] } = {}) {
  const settings = {
    x: axes.includes(urlParam("x")) ? urlParam("x") : axes[0],
    smoothing: Math.min(0.99, Math.max(0, Number(urlParam("smooth", "0")) || 0)),
    log: urlParam("log") === "1",
  };
  const apply = () => {
    urlState({
      x: settings.x === axes[0] ? null : settings.x,
      smooth: settings.smoothing || null,
      log: settings.log ? "1" : null,
    });
    for (const chart of charts()) chart.configure(settings);
  };
  const shown = el("output", {}, settings.smoothing.toFixed(2));
  const range = el("input", {
    type: "range",
    min: "0",
    max: "0.99",
    step: "0.01",
    value: settings.smoothing,
    oninput: (event) => {
      settings.smoothing = Number(event.target.value);
      shown.textContent = settings.smoothing.toFixed(2);
      apply();
    },
  });
  const select = el(
    "select",
    {
      class: "form-select form-select-sm",
      onchange: (event) => {
        settings.x = event.target.value;
        apply();
      },
    },
    ...axes.map((axis) => el("option", { value: axis, selected: axis === settings.x }, AXIS_WORDS[axis])),
  );
  const log = el("input", {
    type: "checkbox",
    class: "form-check-input m-0",
    checked: settings.log,
    onchange: (event) => {
      settings.log = event.target.checked;
      apply();
    },
  });
  const bar = el(
    "div",
    { class: "chart-tools", role: "group", "aria-label": "Chart controls" },
    el("label", {}, "Along", select),
    el("label", {}, "Smoothing", range, shown),
    el("label", {}, log, "Log scale"),
    el(
      "span",
      { class: "text-secondary with-mouse" },
      `Drag over a chart to zoom; zooming fetches finer points. Double-click to see all. ${KEYS_HINT}`,
    ),
  );
  return { bar, settings, apply };
}
