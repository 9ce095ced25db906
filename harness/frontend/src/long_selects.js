// Lists to choose from that are too long to scroll through, such as a thousand projects: a field above finds in them.
// Of thousands a page has the first only (`data-find-at`): what is typed is looked up among the others, too.
import { el } from "./dom.js";
import { request } from "./net.js";

const LONG = 40;
const PAUSE_MS = 250;

// Indices of the texts that hold all the words, in any order and case.
export function found(texts, wanted) {
  const words = wanted.toLowerCase().split(/\s+/).filter(Boolean);
  return [...texts.keys()].filter((at) => words.every((word) => texts[at].toLowerCase().includes(word)));
}

// What is typed without the words that stand before each name.
function unsaid(wanted, words) {
  return wanted.toLowerCase().startsWith(`${words.toLowerCase()} `) ? wanted.slice(words.length) : wanted;
}

function named(select) {
  return select.getAttribute("aria-label") ?? select.labels?.[0]?.textContent.trim().replace(/\s+/g, " ") ?? "";
}

// What is chosen stays in the list, and so does the choice of none.
function findIn(select) {
  const all = [...select.options];
  let fits = all;
  const field = el("input", {
    type: "search",
    class: "form-control form-control-sm select-find",
    placeholder: `Find in ${Number(select.dataset.findIn ?? all.length).toLocaleString("en-US")}`,
    autocomplete: "off",
    "aria-label": `Find in the list ${named(select)}`,
  });
  // What came to the list since is kept too; of one that was only out of sight the first stands for both.
  const takeIn = () => {
    const known = new Set(all.map((option) => option.value));
    all.push(...[...select.options].filter((option) => !known.has(option.value)));
    const chosen = select.selectedOptions[0];
    return all.includes(chosen) ? chosen : all.find((option) => option.value === chosen?.value);
  };
  const narrow = () => {
    const chosen = takeIn();
    const texts = all.map((option) => option.textContent);
    fits = found(texts, field.value).map((at) => all[at]);
    const kept = new Set(fits);
    select.replaceChildren(...all.filter((option) => kept.has(option) || option === chosen || option.value === ""));
    if (chosen) chosen.selected = true; // a list that is filled anew chooses one of its own
  };
  const { findAt, findWords = "" } = select.dataset;
  let [asked, arriving] = [0, null];
  const lookUp = async (wanted) => {
    const mine = ++asked;
    await new Promise((done) => setTimeout(done, PAUSE_MS));
    if (mine !== asked) return arriving; // more was typed: that is being looked up
    const answer = await request(`${findAt}&q=${encodeURIComponent(unsaid(wanted, findWords).trim())}`);
    const { projects } = await answer.json();
    const known = new Set(all.map((option) => option.value));
    const others = projects.filter(([value]) => !known.has(value));
    all.push(...others.map(([value, text]) => new Option(`${findWords} ${text}`.trim(), value)));
    narrow();
  };
  // The form around it follows its fields: this one is none of them.
  field.addEventListener("change", (event) => event.stopPropagation());
  field.addEventListener("input", (event) => {
    event.stopPropagation();
    narrow();
    arriving = findAt && field.value.trim() ? lookUp(field.value).catch(() => {}) : null; // what is here stays
  });
  field.addEventListener("keydown", async (event) => {
    if (event.key !== "Enter" || event.isComposing) return;
    event.preventDefault();
    if (arriving) await arriving;
    const first = field.value && fits.find((option) => option.value !== "");
    if (!first || select.disabled) return;
    select.value = first.value;
    field.value = "";
    narrow();
    select.focus();
    for (const kind of ["input", "change"]) select.dispatchEvent(new Event(kind, { bubbles: true }));
  });
  select.form?.addEventListener("reset", () => {
    field.value = "";
    narrow();
  });
  select.before(field);
}

const seen = new WeakSet();

export function findInLongSelects(root) {
  for (const select of root.querySelectorAll("select:not([multiple])")) {
    if (seen.has(select) || select.options.length <= LONG || select.querySelector("optgroup")) continue;
    seen.add(select);
    findIn(select);
  }
}
