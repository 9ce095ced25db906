// A long table shows its first rows and, by a button below it, all of them: nothing scrolls within the page.
import { el } from "./dom.js";
import { number } from "./format.js";

const FIRST = 20;
const SPARE = 10; // so few more need no button
const CARDS = 4; // a phone has a card for each row of a wide table
const PHONE = "(max-width: 640px)"; // as in phone.css

// How many of so many rows are shown at first.
export function shownFirst(count) {
  return count > FIRST + SPARE ? FIRST : count;
}

// The same where each row is a card.
export function cardsFirst(count) {
  return count > 2 * CARDS ? CARDS : count;
}

export function moreWords(count) {
  return `Show ${number(count)} more rows`;
}

export function moreRows(count, onclick) {
  return el("button", { type: "button", class: "btn btn-sm mt-2", onclick }, moreWords(count));
}

export function mount(box) {
  const rows = [...box.querySelectorAll("tbody tr")];
  const cards = box.querySelector(".stack-table") !== null && window.matchMedia(PHONE).matches;
  const later = rows.slice(cards ? cardsFirst(rows.length) : shownFirst(rows.length));
  if (!later.length) return;
  for (const row of later) row.hidden = true;
  const button = moreRows(later.length, () => {
    for (const row of later) row.hidden = false;
    button.remove();
    box.focus({ preventScroll: true });
  });
  box.after(button);
}
