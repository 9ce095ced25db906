// What compared jobs are drawn by: a field with a value for each job, the scale on which it lies, ranges, colours.
import { number } from "../format.js";
import { color, dark, ink } from "./palette.js";

const WIDE = 20; // ratio of the largest to the smallest value from which on a scale is logarithmic
const TICKS = 5;
const FEW = 7; // different values, up to which each is named on its axis
const NONE = "none";
const LANE = 0.14; // of an axis, for jobs without a value
// From worst to best; they differ in lightness as well, and are told apart with any colour vision.
const RAMPS = { light: ["#c4560a", "#8d7f8c", "#123f8c"], dark: ["#ff9a52", "#a9b4c4", "#5f9dff"] };

export const told = (field) => field.values.filter((value) => value !== null);

export const varies = (field) => new Set(told(field)).size > 1;

// Of a logarithmic scale zero and below have no place.
export function isWide(field) {
  const values = field.is_number ? told(field) : [];
  return values.length > 1 && Math.min(...values) > 0 && Math.max(...values) / Math.min(...values) > WIDE;
}

export function write(field, value) {
  if (value === null || value === undefined) return NONE;
  return field.is_number ? number(value, 4) : value;
}

function neatTicks(low, high) {
  const raw = (high - low) / TICKS || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((part) => part * power).find((part) => part >= raw * 0.999);
  const first = Math.ceil(low / step - 1e-9);
  const count = Math.floor(high / step + 1e-9) - first + 1;
  return Array.from({ length: count }, (_, at) => Number(((first + at) * step).toPrecision(12)));
}

function logTicks(low, high) {
  const powers = [];
  for (let power = Math.floor(low); power <= Math.ceil(high); power += 1) powers.push(power);
  const fine =
    high - low < 3 ? powers.flatMap((power) => [0, Math.log10(2), Math.log10(5)].map((part) => power + part)) : powers;
  return fine.filter((place) => place >= low - 1e-9 && place <= high + 1e-9);
}

// Where the values of a field lie along an axis: `at` gives the place of each, `back` the value of a place. Jobs that
// have none lie on a lane of their own below the rest, so that no line runs through a value that nobody told.
function numberScale(field) {
  const log = isWide(field);
  const to = log ? Math.log10 : (value) => value;
  const places = told(field).map(to);
  let [low, high] = [Math.min(...places), Math.max(...places)];
  if (low === high) [low, high] = [low - (Math.abs(low) * 0.1 || 1), high + (Math.abs(high) * 0.1 || 1)];
  const lane = field.values.includes(null) ? low - LANE * (high - low) : null;
  const few = [...new Set(places)];
  const marked = few.length <= FEW ? few.sort((a, b) => a - b) : (log ? logTicks : neatTicks)(low, high);
  const ticks = marked.map((place) => ({ place, text: number(log ? 10 ** place : place, 3) }));
  return {
    log,
    lane,
    high,
    low: lane ?? low,
    ticks: lane === null ? ticks : [{ place: lane, text: NONE }, ...ticks],
    at: (value) => (value === null ? lane : to(value)),
    back: (place) => (log ? 10 ** place : place),
    edges: [low, high],
  };
}

export function names(field) {
  const found = [...new Set(told(field))].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
  return field.values.includes(null) ? [null, ...found] : found;
}

function nameScale(field) {
  const all = names(field);
  return {
    log: false,
    low: -0.5,
    high: all.length - 0.5,
    ticks: all.map((name, place) => ({ place, text: name ?? NONE })),
    at: (value) => all.indexOf(value),
    names: all,
  };
}

export const scaleOf = (field) => (field.is_number ? numberScale(field) : nameScale(field));

// A range of a field: `{low, high, none}` of a number, where null is no bound; `{names}` of a category.
export function rangeOf(field, scale, intervals) {
  const spans = intervals.map((interval) => [...interval].sort((a, b) => a - b));
  if (!field.is_number)
    return { names: scale.names.filter((_, place) => spans.some(([from, to]) => place >= from && place <= to)) };
  const [[from, to]] = spans;
  const [low, high] = scale.edges;
  const bound = (place, isOpen) => (isOpen ? null : Number(scale.back(place).toPrecision(4)));
  return {
    low: bound(from, from <= low),
    high: bound(to, to >= high),
    none: scale.lane !== null && from <= scale.lane,
  };
}

export function intervalsOf(field, scale, range) {
  if (!range) return [];
  if (!field.is_number)
    return scale.names.flatMap((name, place) => (range.names.includes(name) ? [[place - 0.4, place + 0.4]] : []));
  const [low, high] = scale.edges;
  const bound = (value, edge) => (value === null || (scale.log && value <= 0) ? edge : scale.at(value));
  const from = range.none && scale.lane !== null ? scale.lane : bound(range.low, low);
  return [[from, bound(range.high, high)]];
}

export function passes(field, range, value) {
  if (!field.is_number) return range.names.includes(value);
  if (value === null) return range.none;
  return (range.low === null || value >= range.low) && (range.high === null || value <= range.high);
}

function mixed(one, other, share) {
  const part = (hex, at) => Number.parseInt(hex.slice(at, at + 2), 16);
  return `#${[1, 3, 5]
    .map((at) =>
      Math.round(part(one, at) + share * (part(other, at) - part(one, at)))
        .toString(16)
        .padStart(2, "0"),
    )
    .join("")}`;
}

export const ramp = () => RAMPS[dark() ? "dark" : "light"];

// Colour by a figure, its better end blue; what has none is grey.
export function hueOf(field) {
  if (!varies(field)) return (value) => (value === null ? ink().faint : color(0));
  const scale = scaleOf(field);
  const [low, high] = scale.edges;
  const stops = ramp();
  return (value) => {
    if (value === null) return ink().faint;
    const share = (scale.at(value) - low) / (high - low);
    const place = 2 * (field.better < 0 ? 1 - share : share);
    return place <= 1 ? mixed(stops[0], stops[1], place) : mixed(stops[1], stops[2], place - 1);
  };
}

export function bestOf(field) {
  const values = told(field);
  if (!field.better || field.apart || !varies(field)) return null;
  return field.better > 0 ? Math.max(...values) : Math.min(...values);
}

// Whether a job has a place on both axes.
export const isPlaced = ({ x, y, logX, logY }, at) =>
  [
    [x, logX],
    [y, logY],
  ].every(([field, log]) => field.values[at] !== null && !(log && field.is_number && field.values[at] <= 0));

// Indexes of the jobs that told the figure, the best first.
export function ranked({ hue, jobs }) {
  const way = hue.better < 0 ? 1 : -1;
  return jobs
    .map((_, at) => at)
    .filter((at) => hue.values[at] !== null)
    .sort((a, b) => way * (hue.values[a] - hue.values[b]));
}
