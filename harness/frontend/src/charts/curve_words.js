// A line chart in words: what each line came to; of many lines, between which ends they came out.
import { number } from "../format.js";

const lastOf = ({ points }) => points.findLast((point) => point.value !== null);
const breakOf = ({ points }) => points.find((point) => point.value === null && !point.gap);

// Of a job without a single curve.
export function emptyWords(ended) {
  return ended
    ? "There are no values: it ended before it told any."
    : "No values yet. The first ones appear with the first steps.";
}

export function fewWords(series, unit) {
  const parts = series.map((entry) => {
    const [last, diverged] = [lastOf(entry), breakOf(entry)];
    const name = /\d$/.test(entry.label) ? `${entry.label}:` : entry.label; // else "rank 0" and 3100 read as one number
    const words = last ? `${name} ${number(last.value)}${unit}` : `${name} –`;
    return diverged ? `${words}, not finite at step ${diverged.step}` : words;
  });
  return parts.length ? `Last: ${parts.join(" · ")}` : "No values yet.";
}

export function manyWords(series, unit) {
  const told = series
    .filter(lastOf)
    .map((entry) => [lastOf(entry).value, entry.label])
    .sort((a, b) => a[0] - b[0]);
  const end = ([value, label]) => `${number(value)}${unit} (${label})`;
  const ends = told.length ? `; last values from ${end(told[0])} to ${end(told.at(-1))}` : "";
  const count = series.filter(breakOf).length;
  const broken = count ? `; ${count} not finite somewhere` : "";
  return `${series.length} lines${ends}${broken}.`;
}
