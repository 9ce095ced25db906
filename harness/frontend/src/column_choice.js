// Columns of a table to leave out, or known ahead, ticked in a list. Of a table of thousands the first ones are shown, and what is searched.
import { clear, el } from "./dom.js";
import { number } from "./format.js";

const SHOWN = 24;
const MORE = 200;

// The names to show: `most` of those that have the words in them, and without words those that were ever ticked.
export function listed(names, ticked, { query = "", most = SHOWN } = {}) {
  const words = query.trim().toLowerCase();
  const [known, kept] = [new Set(names), new Set(ticked)];
  const every = [...names, ...ticked.filter((name) => !known.has(name))];
  const found = every.filter((name) => name.toLowerCase().includes(words));
  const shown = found.filter((name, place) => place < most || (!words && kept.has(name)));
  return { shown, hidden: found.length - shown.length };
}

export class ColumnChoice {
  #notes;
  #field;
  #search;
  #list;
  #more;
  #count;
  #boxes = new Map();
  #drawn = "";
  #seen = new Set();
  #target = "";
  #most = SHOWN;

  constructor(root) {
    this.#notes = new Map(JSON.parse(root.querySelector("script").textContent));
    this.#field = root.querySelector("[data-spec]");
    this.#search = root.querySelector("[data-column-search]");
    this.#list = root.querySelector("[data-column-list]");
    this.#more = root.querySelector("[data-column-more]");
    this.#count = root.querySelector("[data-column-count]");
    this.#search.hidden = this.#notes.size <= SHOWN;
    this.#search.addEventListener("input", () => this.#draw(SHOWN));
    this.#search.addEventListener("keydown", (event) => {
      if (event.key === "Enter") event.preventDefault(); // it would send the form
    });
    this.#more.addEventListener("click", () => {
      const first = this.#boxes.size;
      this.#draw(this.#most + MORE);
      [...this.#boxes.values()][first]?.focus();
    });
    this.show();
  }

  get #ticked() {
    return this.#field.value ? JSON.parse(this.#field.value) : [];
  }

  // What the field holds by now. The target can be none of them.
  show(target = this.#target) {
    this.#target = target;
    this.#draw();
  }

  #draw(most = this.#most) {
    this.#most = most;
    const ticked = this.#ticked;
    for (const name of ticked) this.#seen.add(name);
    const search = { query: this.#search.value, most };
    const { shown, hidden } = listed([...this.#notes.keys()], [...this.#seen], search);
    const drawn = JSON.stringify([shown, this.#target]);
    if (drawn !== this.#drawn) this.#fill(shown);
    this.#drawn = drawn;
    this.#more.hidden = !hidden;
    this.#more.textContent = `Show ${number(Math.min(MORE, hidden))} more`;
    this.#mark(ticked);
  }

  #fill(names) {
    this.#boxes = new Map(names.map((name) => [name, this.#box(name)]));
    clear(this.#list, ...names.map((name) => this.#item(name)));
    if (!names.length) this.#list.append(el("li", { class: "text-secondary" }, "No column is called so."));
  }

  #box(name) {
    return el("input", { class: "form-check-input", type: "checkbox", onchange: () => this.#tick(name) });
  }

  #item(name) {
    const note = name === this.#target ? "target" : (this.#notes.get(name) ?? "no such column");
    const words = el("span", { class: "form-check-label" }, name, " ", el("small", { class: "text-secondary" }, note));
    return el("li", {}, el("label", { class: "form-check" }, this.#boxes.get(name), words));
  }

  #mark(ticked) {
    const kept = new Set(ticked);
    for (const [name, box] of this.#boxes) {
      box.checked = kept.has(name);
      box.disabled = name === this.#target && !box.checked;
    }
    this.#count.textContent = ticked.length ? `${number(ticked.length)} ${this.#field.dataset.counted}` : "";
  }

  #tick(name) {
    const others = this.#ticked.filter((other) => other !== name);
    const ticked = this.#boxes.get(name).checked ? [...others, name] : others;
    this.#field.value = ticked.length ? JSON.stringify(ticked) : "";
    this.show();
    this.#field.dispatchEvent(new Event("input", { bubbles: true }));
  }
}
