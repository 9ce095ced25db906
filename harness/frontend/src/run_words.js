// The charts of compared jobs in words: what lies between which ends, what is best, what is left out.

import { bestOf, isPlaced, ranked, write } from "./charts/fields.js";
import { number } from "./format.js";

const WAYS = { 1: "More is better", "-1": "Less is better", 0: "Largest first" };

const jobsOf = (count) => `${count} job${count === 1 ? "" : "s"}`;

export function parallelWords({ jobs, axes, hue, within }) {
  const best = hue && bestOf(hue);
  const parts = [`${jobsOf(jobs.length)} on ${axes.length} axes`];
  if (within) parts.push(`${within.size} within the ranges`);
  if (best !== null && best !== undefined)
    parts.push(`best ${hue.label.replace(/^Best /, "")}: ${number(best)} by ${jobs[hue.values.indexOf(best)].name}`);
  const without = axes.filter((field) => field.values.includes(null)).length;
  if (without) parts.push(`on ${without} of the axes some jobs have no value: their lines pass through “none”`);
  return `${parts.join("; ")}.`;
}

export function scatterWords(chart) {
  const { jobs, x, y } = chart;
  const placed = jobs.map((_, at) => at).filter((at) => isPlaced(chart, at));
  const span = (field) => {
    const values = placed.map((at) => field.values[at]);
    if (!field.is_number || !values.length) return field.label;
    const ends = [Math.min(...values), Math.max(...values)].map((value) => write(field, value));
    return `${field.label} ${[...new Set(ends)].join(" to ")}`;
  };
  const count = jobs.length - placed.length;
  const out = count ? `, ${count} left out: no value here` : "";
  return `${span(x)}; ${span(y)}. ${jobsOf(placed.length)} drawn${out}. Marks by model, colours as above.`;
}

export function barsWords(chart) {
  const { jobs, hue } = chart;
  const order = ranked(chart);
  const [first, count] = [order[0], jobs.length - order.length];
  const out = count ? ` ${jobsOf(count)} told no ${hue.label}.` : "";
  if (hue.apart) return `These are not judged alike: their order is that of the figure alone.${out}`;
  return `${WAYS[hue.better]}. First: ${jobs[first].name}, ${write(hue, hue.values[first])}.${out}`;
}
