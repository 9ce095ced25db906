// Lists to choose from that are too long to scroll through, such as a thousand projects: a field above finds in them.
// Of thousands a page has the first only (`data-find-at`): what is typed is looked up among the others, too.
import { announce, el } from "./dom.js";
import { request } from "./net.js";

const LONG = 40;
const PAUSE_MS = 250;
const ANSWER_MOST_MS = 10_000;
const LOOKING = "Looking for the project…";
const NONE_FOUND = "No project found.";
const UNKNOWN = "The other projects could not be looked up.";

// Indices of the texts that hold all the words, in any order and case.
export function found(texts, wanted) {
  const words = wanted.toLowerCase().split(/\s+/).filter(Boolean);
  return [...texts.keys()].filter((at) => words.every((word) => texts[at].toLowerCase().includes(word)));
}

// What is typed without the words that stand before each name, unless there is nothing else.
export function unsaid(wanted, words) {
  const said = new Set(words.toLowerCase().split(" "));
  const all = wanted.split(/\s+/).filter(Boolean);
  const rest = all.filter((word) => !said.has(word.toLowerCase()));
  return (rest.length ? rest : all).join(" ");
}

// Which of the texts is meant by what is typed: the one that is just that, else the first.
export function meant(texts, wanted, words) {
  const bare = (text) => unsaid(text, words).toLowerCase();
  return Math.max(
    0,
    texts.findIndex((text) => bare(text) === bare(wanted)),
  );
}

function named(select) {
  return select.getAttribute("aria-label") ?? select.labels?.[0]?.textContent.trim().replace(/\s+/g, " ") ?? "";
}

// What is chosen stays in the list, and so does the choice of none.
function findIn(select) {
  const { findAt, findWords = "" } = select.dataset;
  const all = [...select.options];
  let fits = all;
  let sent = { wanted: null, values: new Set() };
  const field = el("input", {
    type: "search",
    class: "form-control form-control-sm select-find",
    placeholder: `Find in ${Number(select.dataset.findIn ?? all.length).toLocaleString("en-US")}`,
    autocomplete: "off",
    "aria-label": `Find in the list ${named(select)}`,
  });
  const note = el("span", { class: "select-note text-secondary small" });
  const tell = (text) => {
    note.textContent = text;
    if (text) announce(text);
  };
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
    const kept = new Set(found(texts, field.value).map((at) => all[at]));
    // The portal knows more of letters, and finds by the short name, too.
    fits = all.filter((option) => kept.has(option) || (sent.wanted === field.value && sent.values.has(option.value)));
    for (const option of fits) kept.add(option);
    select.replaceChildren(...all.filter((option) => kept.has(option) || option === chosen || option.value === ""));
    if (chosen) chosen.selected = true; // a list that is filled anew chooses one of its own
  };
  let [looking, arriving] = [new AbortController(), null];
  const lookUp = async (wanted, mine) => {
    await new Promise((done) => setTimeout(done, PAUSE_MS));
    if (mine !== looking) return; // more was typed, or something chosen
    const timer = setTimeout(() => mine.abort(), ANSWER_MOST_MS);
    try {
      const where = `${findAt}&q=${encodeURIComponent(unsaid(wanted, findWords))}`;
      const answer = await request(where, { signal: mine.signal });
      const { projects } = await answer.json();
      if (mine !== looking) return;
      const known = new Set(all.map((option) => option.value));
      const others = projects.filter(([value]) => !known.has(value));
      all.push(...others.map(([value, text]) => new Option(`${findWords} ${text}`.trim(), value)));
      sent = { wanted, values: new Set(projects.map(([value]) => value)) };
      narrow();
      tell(fits.some((option) => option.value) ? "" : NONE_FOUND);
    } catch {
      if (mine === looking) tell(UNKNOWN); // what is here stays
    } finally {
      clearTimeout(timer);
      if (mine === looking) arriving = null;
    }
  };
  // What was looked up before is not waited for any more.
  const follow = () => {
    looking.abort();
    looking = new AbortController();
    narrow();
    tell("");
    select.setCustomValidity("");
    arriving = findAt && field.value.trim() ? lookUp(field.value, looking) : null;
  };
  // Until its answer is there the form around it is not sent with what was chosen before.
  const wait = async () => {
    tell(LOOKING);
    select.setCustomValidity(LOOKING);
    const mine = looking;
    await arriving;
    if (mine === looking) select.setCustomValidity("");
  };
  // The form around it follows its fields: this one is none of them.
  field.addEventListener("change", (event) => event.stopPropagation());
  field.addEventListener("input", (event) => {
    event.stopPropagation();
    follow();
  });
  field.addEventListener("keydown", async (event) => {
    if (event.key !== "Enter" || event.isComposing) return;
    event.preventDefault();
    const wanted = field.value;
    const choices = () => fits.filter((option) => option.value !== "");
    if (arriving && !choices().length) await wait();
    if (!wanted || field.value !== wanted || select.disabled || !choices().length) return;
    const texts = choices().map((option) => option.text);
    select.value = choices()[meant(texts, wanted, findWords)].value;
    field.value = "";
    follow();
    if (document.activeElement === field) select.focus();
    for (const kind of ["input", "change"]) select.dispatchEvent(new Event(kind, { bubbles: true }));
  });
  select.form?.addEventListener("reset", () => {
    field.value = "";
    follow();
  });
  select.before(field, note);
}

const seen = new WeakSet();

export function findInLongSelects(root) {
  for (const select of root.querySelectorAll("select:not([multiple])")) {
    if (seen.has(select) || select.options.length <= LONG || select.querySelector("optgroup")) continue;
    seen.add(select);
    findIn(select);
  }
}
