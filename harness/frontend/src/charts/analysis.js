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
import { pageData } from "../net.js";
import { ACCURACY } from "./accuracy.js";
import { CONFUSION } from "./confusion.js";
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
