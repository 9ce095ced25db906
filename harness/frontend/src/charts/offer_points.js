// Ways of an offer as points of its picture: each at its latest finish, by which deadline, "fastest" and the line go.
import { number } from "../format.js";

export const NAMED = ["recommended", "fastest", "cheapest"];
export const LATE = "too late";

export const fields = ([devices, early, likely, late, least, energy, most, what, why, best]) => ({
  devices,
  early,
  likely,
  late,
  least,
  energy,
  most,
  what,
  why,
  best,
});

export const place = (point) => [point.late, point.energy];

export function kindOf(point) {
  if (point.what.endsWith(LATE)) return "late";
  if (NAMED.some((name) => point.what.includes(name))) return "named";
  return point.what === "frontier" || point.what === "possible" ? "open" : "never";
}

// From place to place of the ways that the server says nothing beats, earliest first; one place alone makes no line.
export function trades(points) {
  const places = points.filter(({ best }) => best === "yes").map(place);
  if (new Set(places.map(String)).size < 2) return [];
  return places.sort(([a, low], [b, high]) => a - b || low - high);
}

const ENERGY_J = { J: 1, Wh: 3600, kWh: 3.6e6 };
const LEAST_PART = 1e-3;

// An energy in the unit of its picture, or where little would be left of it there in its own, as the table has it.
function energyIn(value, unit) {
  if (value === 0 || value >= LEAST_PART) return [number(value, 3), unit];
  const joules = value * ENERGY_J[unit];
  return joules < 1000 ? [number(joules, 3), "J"] : [number(joules / ENERGY_J.Wh, 3), "Wh"];
}

export function energyWords({ least, energy, most }, unit) {
  const [mid, own] = energyIn(energy, unit);
  const [low, high] = [least, most]
    .map((end) => energyIn(end, unit))
    .map(([end, of]) => (of === own ? end : `${end} ${of}`));
  return `${mid} ${own} (${low} to ${high})`;
}
