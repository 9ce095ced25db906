// What a line chart of the server's curves asks for beyond drawing: finer points of a part, exact CSV.
import { csvField, csvSave } from "../csv.js";
import { request } from "../net.js";

// Series of one chart by the job they belong to; those without a job (use of the machine) are left out.
function bySource(series) {
  const groups = new Map();
  for (const entry of series) {
    if (!entry.source) continue;
    if (!groups.has(entry.source)) groups.set(entry.source, []);
    groups.get(entry.source).push(entry);
  }
  return groups;
}

function keysQuery(entries) {
  return new URLSearchParams(entries.map((entry) => ["keys", entry.key]));
}

// The steps that a span of the horizontal axis covers, with one point more on each side so that lines reach the edge.
function stepsOf(points, place, { min, max }) {
  let start = null;
  let stop = null;
  for (const point of points) {
    if (place(point) <= min) start = point.step;
    if (place(point) >= max) {
      stop = point.step;
      break;
    }
  }
  return { start, stop };
}

// Puts `detail` (finer points) on each series for the span; series of several keys of one job share a request.
export async function refine(series, place, span) {
  await Promise.all(
    [...bySource(series)].map(async ([source, entries]) => {
      const spans = entries.map((entry) => stepsOf(entry.points, (point) => place(point, entry), span));
      const starts = spans.map(({ start }) => start).filter((step) => step !== null);
      const stops = spans.map(({ stop }) => stop).filter((step) => step !== null);
      const query = keysQuery(entries);
      if (starts.length === spans.length) query.set("start", Math.min(...starts));
      if (stops.length === spans.length) query.set("stop", Math.max(...stops));
      const body = await (await request(`${source.curves}?${query}`)).json();
      for (const entry of entries) entry.detail = points(body.curves[entry.key]);
    }),
  );
}

// The points of a series with its finer part in place; what came later than that part stays.
export function withDetail({ points: all, detail }) {
  if (!detail?.length) return all;
  const [first, last] = [detail[0].step, detail.at(-1).step];
  return [...all.filter((point) => point.step < first), ...detail, ...all.filter((point) => point.step > last)];
}

const OF_POINT = ["step", "epoch", "time_s", "value", "low", "high"];

// A curve of several runs has the ends of a band at each point.
export function points(curve) {
  const names = OF_POINT.filter((name) => name in curve);
  return curve.step.map((_, index) => Object.fromEntries(names.map((name) => [name, curve[name][index]])));
}

// Address of every exact point of the series; null if they are of several jobs or of none.
export function csvAddress(series) {
  const groups = [...bySource(series)];
  return groups.length === 1 && groups[0][1].length === series.length
    ? `${groups[0][0].csv}?${keysQuery(groups[0][1])}`
    : null;
}

// One file of the exact points of several jobs, each line with its job; what has no job is written as it is drawn.
async function wholeText(series) {
  const groups = [...bySource(series)];
  if (!groups.length) {
    const rows = series.flatMap((entry) =>
      entry.points.filter((point) => !point.gap).map((point) => [entry.label, point.time_s, point.value]),
    );
    return ["series,time_s,value", ...rows.map((row) => row.map(csvField).join(","))].join("\n");
  }
  const parts = await Promise.all(
    groups.map(async ([source, entries]) => {
      const [head, ...lines] = (await (await request(`${source.csv}?${keysQuery(entries)}`)).text())
        .trimEnd()
        .split("\n");
      return { head, lines: lines.map((line) => `${source.id},${csvField(source.name)},${line}`) };
    }),
  );
  return [`job,name,${parts[0].head}`, ...parts.flatMap((part) => part.lines)].join("\n");
}

export async function saveCsv(series, name) {
  csvSave(`${await wholeText(series)}\n`, name);
}
