// Zooming into a line chart by keys, as a mouse does by dragging.
export const KEYS_HINT = "With the chart in focus, + and − zoom, ← and → move, 0 shows all.";
const NEARER = 0.5;
const ASIDE = 0.25;
// Nobody means to look at less than this part of a chart.
const LEAST_PART = 1e-4;

// The span that a key leads to from `span` (null: the whole); null where all is shown, undefined for keys of others.
export function spanAfter(key, span, whole) {
  const { min, max } = span ?? whole;
  const width = max - min;
  const all = whole.max - whole.min;
  if (key === "0" || key === "Escape") return span ? null : undefined;
  if (!(all > 0)) return undefined;
  if (key === "+" || key === "=") return within((min + max) / 2, Math.max(width * NEARER, all * LEAST_PART), whole);
  if (!span) return undefined;
  if (key === "-" || key === "_") return within((min + max) / 2, width / NEARER, whole);
  if (key === "ArrowLeft") return within((min + max) / 2 - width * ASIDE, width, whole);
  if (key === "ArrowRight") return within((min + max) / 2 + width * ASIDE, width, whole);
  return undefined;
}

// A span around the middle that stays in the whole; null where it covers all of it.
function within(middle, width, whole) {
  if (width >= whole.max - whole.min) return null;
  const min = Math.min(Math.max(middle - width / 2, whole.min), whole.max - width);
  return { min, max: min + width };
}

// Makes the host of a chart work by keys; `zoomOf` and `wholeOf` tell spans, `go` takes the next one, null for all, `more` are further words. A
// screen reader that reads by keys of its own passes these on only when it is told to.
export function zoomByKeys(host, title, { zoomOf, wholeOf, go, more = "" }) {
  host.tabIndex = 0;
  host.setAttribute("role", "group");
  host.setAttribute("aria-label", `${title}: chart. ${KEYS_HINT}${more}`);
  host.addEventListener("keydown", (event) => {
    if (event.target !== host || event.ctrlKey || event.metaKey || event.altKey) return;
    const whole = wholeOf();
    const next = whole ? spanAfter(event.key, zoomOf(), whole) : undefined;
    if (next === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    go(next);
  });
}

// From the first to the last point of all lines; null where none has any.
export function wholeSpan(series, place) {
  const places = series.flatMap((entry) =>
    [entry.points[0], entry.points.at(-1)].filter(Boolean).map((point) => place(point, entry)),
  );
  return places.length ? { min: Math.min(...places), max: Math.max(...places) } : null;
}
