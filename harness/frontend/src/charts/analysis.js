// Charts by echarts, each kind from its own file; texts are drawn on canvas, so names given by people stay text.

import { BarChart, CustomChart, LineChart, ScatterChart } from "echarts/charts";
import {
  AriaComponent,
  DataZoomInsideComponent,
  GridComponent,
  LegendComponent,
  MarkAreaComponent,
  MarkLineComponent,
  TooltipComponent,
  VisualMapComponent,
} from "echarts/components";
import * as echarts from "echarts/core";
import { CanvasRenderer } from "echarts/renderers";
import { announce, el } from "../dom.js";
import { number } from "../format.js";
import { pageData } from "../net.js";
import { ACCURACY } from "./accuracy.js";
import { CONFUSION } from "./confusion.js";
import { KEYS_HINT, zoomByKeys } from "./curve_keys.js";
import { DISTRIBUTIONS } from "./distributions.js";
import { FORECAST } from "./forecast.js";
import { INTERVALS } from "./intervals.js";
import { Legend } from "./legend.js";
import { OFFER } from "./offer.js";
import { onTheme } from "./palette.js";
import { QUALITY } from "./quality.js";
import { RATES } from "./rates.js";
import { hasThreshold, mountThreshold } from "./threshold.js";
import { TIMELINES } from "./timelines.js";

echarts.use([
  BarChart,
  CustomChart,
  LineChart,
  ScatterChart,
  AriaComponent,
  DataZoomInsideComponent,
  GridComponent,
  LegendComponent,
  MarkAreaComponent,
  MarkLineComponent,
  TooltipComponent,
  VisualMapComponent,
  CanvasRenderer,
]);

const MAKERS = {
  ...ACCURACY,
  ...CONFUSION,
  ...DISTRIBUTIONS,
  ...FORECAST,
  ...INTERVALS,
  ...OFFER,
  ...QUALITY,
  ...RATES,
  ...TIMELINES,
};

const ALL = { min: 0, max: 100 };

// The part of a chart that is seen, in percent; null where that is all of it.
function zoomOf(plot) {
  const [{ start, end }] = plot.getOption().dataZoom;
  return start <= ALL.min && end >= ALL.max ? null : { min: start, max: end };
}

// By keys what a mouse does with Ctrl and its wheel, and by dragging.
function zooms(node, { title }, plot) {
  zoomByKeys(node, title, {
    zoomOf: () => zoomOf(plot),
    wholeOf: () => ALL,
    more: " The table below has its figures.",
    go: (span) => {
      const { min, max } = span ?? ALL;
      plot.dispatchAction({ type: "dataZoom", start: min, end: max });
      const { startValue, endValue } = plot.getOption().dataZoom[0];
      const { name } = plot.getOption().xAxis[0];
      announce(`${title}: ${span ? `${name} ${number(startValue, 3)} to ${number(endValue, 3)}` : "all of it"}`);
    },
  });
  const hint = `Ctrl and the mouse wheel zoom, dragging moves. ${KEYS_HINT}`;
  node.after(el("p", { class: "text-secondary small mb-0 with-mouse" }, hint));
}

export function mount(node) {
  const chart = pageData(node.dataset.source);
  if (!chart || !MAKERS[chart.kind]) return;
  let mode = "count";
  const plot = echarts.init(node, null, { renderer: "canvas" });
  const legend = new Legend(node, plot);
  const draw = () => {
    plot.setOption(legend.show(MAKERS[chart.kind](chart, mode, node)), true);
    plot.getZr().flush(); // not with the next frame, which comes too late for what is being printed
  };
  if (hasThreshold(chart)) {
    mountThreshold(node, chart, (threshold) => {
      mode = threshold;
      draw();
    });
  } else draw();
  onTheme(draw);
  if (plot.getOption().dataZoom?.length) zooms(node, chart, plot);
  const follow = () => {
    plot.resize();
    if (chart.kind === "offer") draw(); // its words stand where there is room
  };
  new ResizeObserver(follow).observe(node);
  for (const button of document.querySelectorAll(`[data-chart-mode][data-for="${node.id}"]`)) {
    button.addEventListener("click", () => {
      mode = button.dataset.chartMode;
      for (const other of document.querySelectorAll(`[data-chart-mode][data-for="${node.id}"]`))
        other.setAttribute("aria-pressed", String(other === button));
      draw();
    });
  }
}
