// What stands in the head of a line chart: the way back from a zoom, and its exact figures.
import { el } from "../dom.js";

export function resetButton(title, onclick) {
  return el(
    "button",
    { type: "button", class: "btn btn-sm", hidden: true, "aria-label": `Reset zoom of ${title}`, onclick },
    "Reset zoom",
  );
}

export function csvLink(title, id, onclick) {
  return el(
    "a",
    { class: "btn btn-sm", href: "#", download: `${id}.csv`, "aria-label": `Download ${title} as CSV`, onclick },
    "CSV",
  );
}
