// The spec as form and YAML at once. The server checks and translates; whichever side was typed in wins.
import htmx from "htmx.org";
import { ColumnChoice } from "./column_choice.js";
import { alertBox, clear, debounce, el } from "./dom.js";
import { Editor } from "./editor.js";
import { ApiError, json, read } from "./net.js";
import { faults, get, offerFor, put, shown, textOf, valueIn } from "./spec_fields.js";
import { ago } from "./time.js";

const WAIT_MS = 350;
const LINE = /line (\d+)/;
const TEXT_OPEN = "dlh:spec-text";

function sentence(text) {
  return text ? `${text[0].toUpperCase()}${text.slice(1)}${text.endsWith(".") ? "" : "."}` : "";
}

function optionText(select, value) {
  return [...select.options].find((option) => option.value === String(value))?.textContent ?? shown(value);
}

export function mount(form) {
  const source = form.querySelector("[data-source]");
  const fields = [...form.querySelectorAll("[data-spec]")];
  const choices = [...form.querySelectorAll("[data-column-choice]")].map((root) => new ColumnChoice(root));
  const status = form.querySelector("[data-spec-state]");
  const ways = [...form.querySelectorAll("[data-go]")];
  const note = form.querySelector("[data-go-note]");
  const noteText = note.textContent;
  const asText = form.querySelector("[data-spec-text]");
  const modelsHost = form.querySelector("[data-models-host]");
  const ownModel = form.elements.own_model;
  const isOwn = () => form.dataset.own === "1" || Boolean(ownModel?.value.trim());
  // Fields that were changed since, and that no answer knows yet: an earlier one must not put them back.
  const typed = new Set();
  let spec = {};
  let asked = 0;
  let modelsFor = "";
  let typedIn = "yaml";

  const editor = new Editor(form.querySelector("[data-editor]"), {
    text: source.value,
    onChange: () => checkSoon("yaml"),
  });

  function fromForm() {
    const wish = structuredClone(spec);
    for (const field of fields) {
      const text = field.value.trim();
      const path = field.dataset.spec;
      // What nobody touched stays as it was written, a moment with its seconds.
      if (text !== textOf(field, get(spec, path))) put(wish, path, valueIn(field, text));
    }
    if (wish.data?.split && typeof wish.data.split === "object" && Object.keys(wish.data.split).length === 0)
      wish.data.split = "auto";
    return wish;
  }

  function toForm() {
    for (const field of fields) {
      if (field === document.activeElement || typed.has(field)) continue;
      const text = textOf(field, get(spec, field.dataset.spec));
      // A model of device that left the pool, or joined it since.
      if (field.tagName === "SELECT" && ![...field.options].some((option) => option.value === text))
        field.add(new Option(text, text));
      if (field.value !== text) field.value = text;
    }
    for (const choice of choices) choice.show();
    const family = spec.model?.family ?? "auto";
    for (const radio of form.querySelectorAll("[data-family]"))
      radio.checked = family === "auto" ? radio.dataset.rank === "1" && !isOwn() : radio.dataset.family === family;
  }

  // The task that is chosen, else the one that the data were taken for; neither, and all is offered.
  function offerWhatFits(guesses) {
    const wish = get(spec, "task") ?? "auto";
    const task = wish === "auto" ? guesses.find((guess) => guess.field === "task")?.value : wish;
    for (const field of fields) if (field.tagName === "SELECT") offerFor(field, task);
  }

  function showGuesses(guesses) {
    const byField = new Map(guesses.map((guess) => [guess.field, guess]));
    const target = byField.get("data.target")?.value ?? get(spec, "data.target");
    for (const choice of choices) choice.show(target);
    for (const field of fields) {
      const path = field.dataset.spec;
      const guess =
        byField.get(path) ?? (path.startsWith("data.split.") ? nested(byField.get("data.split"), path) : null);
      const hint = document.getElementById(`${field.id}-hint`);
      const told = field.value === "" ? guess?.reason : field.dataset.kind === "moment" && ago(new Date(field.value));
      hint.textContent = told ? sentence(told) : hint.dataset.hint;
      if (field.tagName === "SELECT")
        field.options[0].textContent = guess ? `auto (${optionText(field, guess.value)})` : "auto";
      else if (path !== "name") field.placeholder = guess ? `auto (${shown(guess.value)})` : "auto";
    }
    form.querySelector("[data-guess-count]").textContent = `${guesses.length} field${guesses.length === 1 ? "" : "s"}`;
    clear(
      form.querySelector("[data-guesses]"),
      ...guesses.map((guess) =>
        el(
          "tr",
          {},
          el("td", { "data-label": "Field" }, el("code", {}, guess.field)),
          el("td", { "data-label": "Value" }, guessText(guess)),
          el("td", { "data-label": "Reason", class: "sentence text-secondary" }, guess.reason),
        ),
      ),
    );
  }

  // As its field of the form calls it; a mode comes with a sentence there.
  function guessText({ field: path, value }) {
    const field = fields.find((one) => one.dataset.spec === path);
    return field?.tagName === "SELECT" && path !== "mode" ? optionText(field, value) : shown(value);
  }

  function nested(guess, path) {
    const value = guess?.value?.[path.split(".").at(-1)];
    return value === undefined ? null : { value, reason: guess.reason };
  }

  function showProblems(problems) {
    for (const place of form.querySelectorAll("[data-problem]")) {
      const own = problems.find((problem) => problem.field === place.dataset.problem);
      place.textContent = own ? own.message : "";
      if (own) place.closest("details").open = true;
      place.parentElement.querySelector("[data-spec]")?.setAttribute("aria-invalid", String(Boolean(own)));
    }
    clear(
      form.querySelector("[data-problems]"),
      ...problems.map((problem) => alertBox({ message: problem.field || "The spec", hint: problem.message })),
    );
    if (problems.some(isOfText)) asText.open = true;
    editor.mark(
      problems
        .map((problem) => ({
          line: Number(LINE.exec(problem.message)?.[1]) || lineOf(problem.field),
          message: problem.message,
        }))
        .filter(({ line }) => line),
    );
    for (const go of ways) go.disabled = problems.length > 0;
    note.textContent = problems.length
      ? `First correct ${problems.map(({ field }) => nameOf(field)).join(", ")}.`
      : noteText;
    status.textContent = problems.length ? `${problems.length} problem${problems.length === 1 ? "" : "s"}` : "Valid";
  }

  // Whether it is to be seen in the text alone.
  function isOfText({ field, message }) {
    return field ? !form.querySelector(`[data-problem="${CSS.escape(field)}"]`) : LINE.test(message);
  }

  // As the form calls it, else as the YAML does.
  function nameOf(path) {
    const field = fields.find((one) => one.dataset.spec === path);
    const label = field?.labels?.[0] ?? field?.closest("fieldset")?.querySelector("legend");
    return label ? `“${label.textContent}”` : path || "the spec";
  }

  function lineOf(field) {
    const last = (field ?? "").split(".").at(-1);
    const at = editor.text.split("\n").findIndex((line) => last && line.trimStart().startsWith(`${last}:`));
    return at + 1; // 0: not in the text, so nothing in it is marked
  }

  // Which side was typed in and not looked at yet, and the look that is under way.
  let unchecked = "";
  let looking = null;

  function check(side) {
    unchecked = "";
    const look = checkNow(side).finally(() => {
      if (looking === look) looking = null;
    });
    looking = look;
    return look;
  }

  async function checkNow(side) {
    const mine = ++asked;
    typedIn = side;
    const local = side === "form" ? faults(fields) : [];
    if (local.length) {
      showProblems(local);
      return;
    }
    status.textContent = "Checking…";
    const body = side === "yaml" ? { yaml: editor.text } : { spec: fromForm() };
    if (side === "yaml") typed.clear(); // the text was typed in last
    const sent = [...typed].map((field) => [field, field.value]);
    let answer;
    try {
      const asking = { method: "POST", body: { ...body, own_model: isOwn() } };
      answer = await json(form.dataset.check, asking, () => mine === asked);
    } catch (error) {
      const known = error instanceof ApiError;
      const message = known ? `${error.message} ${error.hint}` : `It could not be checked: ${error.message}`;
      if (mine === asked) showProblems([{ field: known ? (error.field ?? "") : "", message }]);
      return;
    }
    if (mine !== asked) return;
    for (const [field, text] of sent) if (field.value === text) typed.delete(field);
    if (answer.spec) {
      spec = answer.spec;
      if (side === "form") editor.replace(answer.yaml);
      else toForm();
    } else if (side === "form") spec = body.spec;
    source.value = editor.text;
    showProblems(answer.problems);
    offerWhatFits(answer.resolved?.guesses ?? []);
    if (answer.resolved) {
      showGuesses(answer.resolved.guesses);
      models(answer.spec);
    }
  }

  async function models(wish) {
    const { name: _name, model: _model, checkpoints: _checkpoints, ...rest } = wish;
    const key = JSON.stringify(rest);
    if (key === modelsFor) return toForm();
    modelsFor = key;
    try {
      const asking = { ...wish, model: { family: "auto", size: "auto", params: {} } };
      const options = { method: "POST", body: { spec: asking }, headers: { "HX-Request": "true" } };
      const response = await read(form.dataset.models, options, () => modelsFor === key);
      if (modelsFor !== key) return;
      modelsHost.innerHTML = await response.text();
      htmx.process(modelsHost);
      modelsHost.dispatchEvent(new CustomEvent("htmx:load", { bubbles: true, detail: { elt: modelsHost } }));
      toForm();
    } catch (error) {
      if (modelsFor !== key) return;
      modelsFor = "";
      clear(modelsHost, alertBox(error));
    }
  }

  // Who works with the text finds it open next time.
  if (localStorage.getItem(TEXT_OPEN)) asText.open = true;
  asText.querySelector("summary").addEventListener("click", () => {
    if (asText.open) localStorage.removeItem(TEXT_OPEN);
    else localStorage.setItem(TEXT_OPEN, "1");
  });

  const soon = debounce(() => unchecked && check(unchecked), WAIT_MS);
  function checkSoon(side = typedIn) {
    typedIn = side;
    unchecked = side;
    source.value = editor.text;
    soon();
  }

  for (const field of fields)
    field.addEventListener("input", () => {
      typed.add(field);
      checkSoon("form");
    });
  modelsHost.addEventListener("change", (event) => {
    if (!event.target.dataset.family) return;
    spec = { ...spec, model: { family: event.target.dataset.family, size: "auto", params: {} } };
    check("form");
  });
  form.querySelector("[data-own-file]")?.addEventListener("change", async (event) => {
    const file = event.target.files[0];
    if (!file) return;
    ownModel.value = await file.text();
    checkSoon();
  });
  // What is left on auto is chosen for the model that it is for.
  ownModel?.addEventListener("input", () => checkSoon());
  const [first, firstModel] = [editor.text, ownModel?.value];
  let sent = false;
  form.addEventListener("submit", async (event) => {
    if (unchecked || looking) {
      event.preventDefault(); // what was typed last is not in the YAML yet
      while (unchecked || looking) await (unchecked ? check(unchecked) : looking);
      if (!ways[0].disabled) form.requestSubmit(event.submitter);
      return;
    }
    source.value = editor.text;
    sent = true;
  });
  window.addEventListener("beforeunload", (event) => {
    if (!sent && (editor.text !== first || ownModel?.value !== firstModel)) event.preventDefault();
  });
  check("yaml");
}
