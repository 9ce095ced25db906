// Samples per second of each rank over the run, on the results tab: the same chart as on the live tab.

import { points } from "./charts/curve_data.js";
import { inOrder, Panel } from "./curves_panel.js";
import { alertBox, clear } from "./dom.js";
import { json, pageData } from "./net.js";

const RATE = /^rank\d+\/samples_per_s$/;

export async function mount(root) {
  const source = pageData(root.dataset.source);
  const panel = new Panel(root);
  try {
    const body = await json(source.curves);
    for (const key of inOrder(Object.keys(body.curves)).filter((name) => RATE.test(name))) {
      panel.addMetric(source, key, points(body.curves[key]), body.start_s);
    }
  } catch (error) {
    clear(panel.host, alertBox(error));
  }
}
