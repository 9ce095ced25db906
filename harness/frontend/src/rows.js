// A long table shows its first rows and, by a button below it, all of them: nothing scrolls within the page.
import { el } from "./dom.js";
import { number } from "./format.js";

const FIRST = 20;
const SPARE = 10; // so few more need no button

// How many of so many rows are shown at first.
export function shownFirst(count) {
  return count > FIRST + SPARE ? FIRST : count;
}

export function moreWords(count) {
  return `Show ${number(count)} more rows`;
}

export function moreRows(count, onclick) {
  return el("button", { type: "button", class: "btn btn-sm mt-2", onclick }, moreWords(count));
}

export function mount(box) {
  const rows = [...box.querySelectorAll("tbody tr")];
  const later = rows.slice(shownFirst(rows.length));
  if (!later.length) return;
  for (const row of later) row.hidden = true;
  const button = moreRows(later.length, () => {
    for (const row of later) row.hidden = false;
    button.remove();
    box.focus({ preventScroll: true });
  });
  box.after(button);
}
