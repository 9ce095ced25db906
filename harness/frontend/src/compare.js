// The same charts as on a job's page, with one line per job and quantity.
import { alertBox, clear, el } from "./dom.js";
import { json, pageData } from "./net.js";
import { points } from "./charts/curve_data.js";
import { groupOf, inOrder, Panel, placeOf } from "./curves_panel.js";
import { setUpRunTable } from "./run_table.js";
import { follow, mark } from "./runs.js";

const POINTS_OF_ALL = 20_000; // of one quantity

const isShown = (key) => !key.startsWith("rank");

function draw(panel, jobs, bodies) {
  const keys = new Set(bodies.flatMap((body) => Object.keys(body?.curves ?? {})).filter(isShown));
  for (const key of inOrder(keys)) {
    const plan = groupOf(key);
    const sampled = bodies.some((body) => body?.curves[key]?.reduced);
    const note = sampled ? "Of long curves the least and greatest values of each part are drawn; zooming fetches finer ones, the CSV has all." : "";
    jobs.forEach((job, index) => {
      const curve = bodies[index]?.curves[key];
      if (curve) panel.chart(key, { ...plan, place: placeOf(key), title: `${plan.title}, ${plan.label}`, note }).set(job.id, job.name, points(curve), { source: job, key, start_s: bodies[index].start_s, hue: index });
    });
  }
  if (!keys.size) clear(panel.host, el("p", { class: "text-secondary" }, "None of these jobs has told a curve yet."));
}

export async function mount(root) {
  setUpRunTable();
  const { jobs } = pageData(root.dataset.source);
  const pages = new Map(jobs.map((job) => [job.id, job.page]));
  const panel = new Panel(root, { mark, open: (id) => window.location.assign(pages.get(id)) });
  const count = Math.ceil(POINTS_OF_ALL / jobs.length);
  const answers = await Promise.allSettled(jobs.map((job) => json(`${job.curves}?points=${count}`)));
  draw(panel, jobs, answers.map(({ value }) => value));
  const failed = answers.find(({ status }) => status === "rejected");
  if (failed) root.prepend(alertBox(failed.reason));
  follow("marked", (id) => panel.charts.forEach((chart) => chart.mark(id)));
  follow("within", (ids) => panel.charts.forEach((chart) => chart.show(ids)));
}
