// What every page has: theme choice, menus that close, confirmations, shortcuts.
import { setUpChoosing } from "./choosing.js";
import { setUpCopy } from "./copying.js";
import { csvField } from "./csv.js";

function setUpTheme() {
  const root = document.documentElement;
  const mark = () => {
    for (const button of document.querySelectorAll("[data-theme-choice]")) {
      button.setAttribute("aria-pressed", String(button.dataset.themeChoice === (root.dataset.theme || "auto")));
    }
  };
  for (const button of document.querySelectorAll("[data-theme-choice]")) {
    button.addEventListener("click", () => {
      root.dataset.theme = button.dataset.themeChoice;
      // biome-ignore lint/suspicious/noDocumentCookie: browsers give a CookieStore to pages over https alone
      document.cookie = `theme=${button.dataset.themeChoice}; path=/; max-age=31536000; samesite=lax`;
      window.dispatchEvent(new CustomEvent("dlh:theme-wish"));
      mark();
    });
  }
  mark();
}

function setUpMenus() {
  document.addEventListener("click", (event) => {
    for (const menu of document.querySelectorAll("details.menu[open]")) {
      if (!menu.contains(event.target)) menu.open = false;
    }
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    for (const menu of document.querySelectorAll("details.menu[open]")) {
      menu.open = false;
      menu.querySelector("summary").focus();
    }
  });
}

function setUpConfirm() {
  const dialog = document.getElementById("confirm-dialog");
  let waiting = null;
  document.addEventListener(
    "submit",
    (event) => {
      const form = event.target;
      const text = event.submitter?.dataset.confirm ?? form.dataset.confirm;
      if (!text || form.dataset.confirmed === "yes" || !dialog) return;
      event.preventDefault();
      event.stopImmediatePropagation();
      dialog.querySelector("[data-confirm-text]").textContent = text;
      const asked = (event.submitter?.textContent ?? "").trim().replace(/\s+/g, " ");
      dialog.querySelector("[value=yes]").textContent = asked
        ? `Yes, ${asked[0].toLowerCase()}${asked.slice(1)}`
        : "Yes, do it";
      waiting = { form, submitter: event.submitter };
      dialog.showModal();
    },
    true,
  );
  dialog?.addEventListener("close", () => {
    if (dialog.returnValue === "yes" && waiting) {
      // A live part of the page may have been drawn anew meanwhile: a form outside of the page sends nothing.
      if (!waiting.form.isConnected) {
        waiting.form.hidden = true;
        document.body.append(waiting.form);
      }
      waiting.form.dataset.confirmed = "yes";
      waiting.form.requestSubmit(waiting.submitter);
      delete waiting.form.dataset.confirmed;
    }
    waiting = null;
    dialog.returnValue = "";
  });
}

function typing(event) {
  const target = event.composedPath()[0];
  return target instanceof Element && (target.closest("input, textarea, select") || target.isContentEditable);
}

const NO_KEYS = "dlh-no-keys";
const PLACES = { h: "home", j: "jobs", q: "queue", d: "datasets", p: "pool", n: "new" };

// Who speaks to their machine has what they say taken for keys: the choice stays with the browser.
function keysWanted() {
  const box = document.querySelector("[data-keys-wanted]");
  if (!box) return () => true;
  box.checked = localStorage.getItem(NO_KEYS) === null;
  box.addEventListener("change", () => {
    if (box.checked) localStorage.removeItem(NO_KEYS);
    else localStorage.setItem(NO_KEYS, "1");
  });
  return () => box.checked;
}

function setUpShortcuts() {
  let prefix = "";
  const wanted = keysWanted();
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || typing(event)) return;
    if (!wanted() || document.querySelector("dialog[open]")) return;
    if (prefix === "g" && PLACES[event.key]) {
      document.querySelector(`[data-place="${PLACES[event.key]}"]`)?.click();
      prefix = "";
      return;
    }
    prefix = event.key === "g" ? "g" : "";
    if (event.key === "?") document.getElementById("shortcuts-dialog")?.showModal();
    if (event.key === "/") {
      const search = document.querySelector("[data-search]");
      if (search) {
        event.preventDefault();
        search.focus();
      }
    }
    if (/^[1-9]$/.test(event.key)) {
      document.querySelectorAll("[data-tab]")[Number(event.key) - 1]?.click();
    }
  });
}

// A form that was sent is not sent twice: its button waits for the answer.
function setUpSending() {
  document.addEventListener("submit", (event) => {
    const { target: form, submitter: button } = event;
    if (event.defaultPrevented || !button || form.getAttribute("method") !== "post" || form.hasAttribute("hx-post"))
      return;
    // After the form was read: a disabled button would not say its name.
    setTimeout(() => {
      button.disabled = true;
      button.setAttribute("aria-busy", "true");
    });
  });
  // Back shows the page as it was left.
  window.addEventListener("pageshow", () => {
    for (const button of document.querySelectorAll("button[aria-busy]")) {
      button.disabled = false;
      button.removeAttribute("aria-busy");
    }
  });
}

function setUpDialogs() {
  // One that comes open holds a form that was refused.
  for (const dialog of document.querySelectorAll("dialog[open]")) {
    dialog.close();
    dialog.showModal();
  }
  document.addEventListener("change", (event) => {
    if (event.target.matches?.("[data-submit-on-change]")) event.target.form.requestSubmit();
  });
  document.addEventListener("click", (event) => {
    event.target.closest?.("[data-close-dialog]")?.closest("dialog").close();
    const opener = event.target.closest?.("[data-open-dialog]");
    if (opener) document.getElementById(opener.dataset.openDialog).showModal();
  });
}

// A table on the page as a file; `data-value` holds what the cell shows shortened.
function setUpTableCsv() {
  const field = (cell) => csvField(cell.dataset.value ?? cell.textContent.trim().replace(/[ \n]+/g, " "));
  document.addEventListener("click", (event) => {
    const button = event.target.closest?.("[data-table-csv]");
    const table = button && document.getElementById(button.dataset.tableCsv);
    if (!table) return;
    const lines = [...table.rows].map((row) => [...row.cells].map(field).join(","));
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([`${lines.join("\n")}\n`], { type: "text/csv" }));
    link.download = button.dataset.file;
    link.click();
    URL.revokeObjectURL(link.href);
  });
}

// On a phone the rows of pages and of tabs scroll: the one that is open must be in sight.
function setUpTabs() {
  for (const current of document.querySelectorAll(".tabs [aria-current], .topbar-nav [aria-current]")) {
    const row = current.parentElement;
    const middle = current.offsetLeft - row.offsetLeft - (row.clientWidth - current.clientWidth) / 2;
    row.scrollLeft = Math.max(0, middle);
  }
}

// A link to what is folded away folds it out.
function setUpFolds() {
  const foldOut = () => {
    const target = document.getElementById(window.location.hash.slice(1));
    const folded = "details:not([open])";
    if (!target?.closest(folded)) return;
    for (let fold = target.closest(folded); fold; fold = target.closest(folded)) fold.open = true;
    target.scrollIntoView();
  };
  window.addEventListener("hashchange", foldOut);
  foldOut();
}

export function setUpShell() {
  setUpTheme();
  setUpMenus();
  setUpConfirm();
  setUpShortcuts();
  setUpSending();
  setUpDialogs();
  setUpChoosing();
  setUpCopy();
  setUpTableCsv();
  setUpTabs();
  setUpFolds();
}
