// The same charts as on a job's page, with one line per job and quantity.

import { points } from "./charts/curve_data.js";
import { chartName, groupOf, inOrder, Panel, placeOf } from "./curves_panel.js";
import { alertBox, clear, el } from "./dom.js";
import { json, pageData } from "./net.js";
import { setUpRunTable } from "./run_table.js";
import { follow, mark } from "./runs.js";

const POINTS_OF_ALL = 20_000; // of one quantity

const SAMPLED =
  "Long curves show the lowest and highest values of each part; zooming fetches finer points, the CSV has all.";

const isShown = (key) => !key.startsWith("rank");

function draw(panel, lines, bodies) {
  const keys = new Set(bodies.flatMap((body) => Object.keys(body?.curves ?? {})).filter(isShown));
  for (const key of inOrder(keys)) {
    const plan = groupOf(key);
    const sampled = bodies.some((body) => body?.curves[key]?.reduced);
    const note = sampled ? SAMPLED : "";
    lines.forEach((line, index) => {
      const curve = bodies[index]?.curves[key];
      if (curve)
        panel
          .chart(key, { ...plan, place: placeOf(key), title: chartName(plan), note })
          .set(line.id, line.name, points(curve), { source: line, key, start_s: bodies[index].start_s, hue: line.hue });
    });
  }
  if (!keys.size)
    clear(panel.host, el("p", { class: "text-secondary" }, "None of these jobs has reported a curve yet."));
}

// A link to the same page keeps what the charts are set to, which the address has got since it was made.
function keepAddress(root) {
  root.addEventListener("click", ({ target }) => {
    const link = target.closest("[data-keeps]");
    if (!link) return;
    const now = new URLSearchParams(window.location.search);
    now.delete("seeds");
    for (const value of new URL(link.href).searchParams.getAll("seeds")) now.append("seeds", value);
    link.href = `?${now}`;
  });
}

export async function mount(root) {
  setUpRunTable();
  keepAddress(root);
  const { lines } = pageData(root.dataset.source);
  const lineOf = new Map(lines.flatMap((line) => line.jobs.map((id) => [id, line])));
  const pages = new Map(lines.map((line) => [line.id, line.page]));
  const panel = new Panel(root, { mark, open: (id) => window.location.assign(pages.get(id)) });
  const count = Math.ceil(POINTS_OF_ALL / lines.length);
  const answers = await Promise.allSettled(lines.map((line) => json(`${line.curves}?points=${count}`)));
  draw(
    panel,
    lines,
    answers.map(({ value }) => value),
  );
  const failed = answers.find(({ status }) => status === "rejected");
  if (failed) root.prepend(alertBox(failed.reason));
  follow("marked", (id) => {
    for (const chart of panel.charts.values()) chart.mark(lineOf.get(id)?.id ?? id);
  });
  follow("within", (ids) => {
    for (const chart of panel.charts.values()) chart.show(ids && new Set([...ids].map((id) => lineOf.get(id)?.id)));
  });
}
