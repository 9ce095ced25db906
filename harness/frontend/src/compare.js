// The same charts as on a job's page, with one line per job and quantity.
import { alertBox, clear } from "./dom.js";
import { json, pageData } from "./net.js";
import { points } from "./charts/curve_data.js";
import { groupOf, inOrder, Panel, placeOf } from "./curves_panel.js";

export async function mount(root) {
  const panel = new Panel(root);
  const jobs = pageData(root.dataset.source);
  try {
    const bodies = await Promise.all(jobs.map((job) => json(job.curves)));
    const keys = new Set(bodies.flatMap((body) => Object.keys(body.curves)).filter((key) => !key.startsWith("rank")));
    for (const key of inOrder(keys)) {
      const plan = groupOf(key);
      jobs.forEach((job, index) => {
        const curve = bodies[index].curves[key];
        if (curve) panel.chart(key, { ...plan, place: placeOf(key), title: `${plan.title}, ${plan.label}` }).set(job.id, job.name, points(curve), { source: job, key, start_s: bodies[index].start_s, hue: index });
      });
    }
  } catch (error) {
    clear(panel.host, alertBox(error));
  }
}
