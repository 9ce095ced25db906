// What all analysis charts share: colours of the theme, axes, short names, finding a column by its name.
import { ink } from "./palette.js";

const NAME_LENGTH = 26;
const NAME_LENGTH_NARROW = 13;
export const narrow = () => window.innerWidth < 640;

export function base() {
  const shades = ink();
  return {
    animation: false,
    textStyle: { color: shades.text, fontFamily: getComputedStyle(document.body).fontFamily },
    grid: { left: 16, right: 20, top: 16, bottom: 28, containLabel: true },
    tooltip: {
      renderMode: "richText",
      backgroundColor: shades.surface,
      borderColor: shades.grid,
      textStyle: { color: shades.text, fontSize: 12 },
      confine: true,
    },
    aria: { enabled: true, label: { enabled: false } }, // the page names it
  };
}

export function axis(name, extra = {}) {
  const shades = ink();
  return {
    name,
    nameLocation: "middle",
    nameGap: 28,
    nameMoveOverlap: true,
    nameTextStyle: { color: shades.faint },
    axisLabel: { color: shades.faint, hideOverlap: true },
    axisLine: { lineStyle: { color: shades.grid } },
    splitLine: { lineStyle: { color: shades.grid } },
    ...extra,
  };
}

// Days with their month, hours with their minutes; a day at midnight as a day.
export function timeAxis(name) {
  const formatter = {
    year: "{yyyy}",
    month: "{MMM} {yyyy}",
    day: "{d} {MMM}",
    hour: "{HH}:{mm}",
    minute: "{HH}:{mm}",
    second: "{HH}:{mm}:{ss}",
  };
  return axis(name, { type: "time", axisLabel: { color: ink().faint, hideOverlap: true, formatter } });
}

const shortened = (name, length) => (name.length > length ? `${name.slice(0, length - 1)}…` : name);

export const clip = (name) => shortened(name, narrow() ? NAME_LENGTH_NARROW : NAME_LENGTH);

// Names beside bars: whole up to a length, in several lines where there is little room.
export function nameLabel(names) {
  const wraps = narrow() && names.some((name) => name.length > NAME_LENGTH_NARROW);
  return {
    color: ink().faint,
    formatter: (name) => shortened(name, NAME_LENGTH),
    ...(wraps ? { width: 110, overflow: "break", lineHeight: 13 } : {}), // such a width is kept free for short ones, too
  };
}

// Words below each other; what is empty gets no line.
export const lines = (...parts) => parts.filter(Boolean).join("\n");

export function columnAt(chart, ...names) {
  for (const name of names) {
    const index = chart.columns.indexOf(name);
    if (index >= 0) return index;
  }
  return -1;
}
