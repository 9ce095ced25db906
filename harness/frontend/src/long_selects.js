// Lists to choose from that are too long to scroll through, such as a thousand projects: a field above finds in them.
import { el } from "./dom.js";

const LONG = 40;

// Indices of the texts that hold all the words, in any order and case.
export function found(texts, wanted) {
  const words = wanted.toLowerCase().split(/\s+/).filter(Boolean);
  return [...texts.keys()].filter((at) => words.every((word) => texts[at].toLowerCase().includes(word)));
}

function named(select) {
  return select.getAttribute("aria-label") ?? select.labels?.[0]?.textContent.trim().replace(/\s+/g, " ") ?? "";
}

// What is chosen stays in the list, and so does the choice of none.
function findIn(select) {
  const all = [...select.options];
  const texts = all.map((option) => option.textContent);
  let fits = all;
  const field = el("input", {
    type: "search",
    class: "form-control form-control-sm select-find",
    placeholder: `Find in ${all.length.toLocaleString("en-US")}`,
    autocomplete: "off",
    "aria-label": `Find in the list ${named(select)}`,
  });
  const narrow = () => {
    const chosen = select.selectedOptions[0];
    fits = found(texts, field.value).map((at) => all[at]);
    const kept = new Set(fits);
    select.replaceChildren(...all.filter((option) => kept.has(option) || option === chosen || option.value === ""));
  };
  // The form around it follows its fields: this one is none of them.
  field.addEventListener("change", (event) => event.stopPropagation());
  field.addEventListener("input", (event) => {
    event.stopPropagation();
    narrow();
  });
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    const first = field.value && fits.find((option) => option.value !== "");
    if (!first) return;
    select.value = first.value;
    select.focus();
    select.dispatchEvent(new Event("change", { bubbles: true }));
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
