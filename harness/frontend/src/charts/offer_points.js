// Ways of an offer as points of its picture: each at its latest finish, by which deadline, "fastest" and the line go.
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

// From place to place of the ways that the server says nothing beats, earliest first.
export function trades(points) {
  return points
    .filter(({ best }) => best === "yes")
    .map(place)
    .sort(([a, low], [b, high]) => a - b || low - high);
}
