// Buttons that copy a text of the page.
import { announce, el } from "./dom.js";

const SAID_MS = 2000;

async function put(text) {
  if (navigator.clipboard) {
    await navigator.clipboard.writeText(text);
    return true;
  }
  // Browsers give a clipboard to pages over https alone; a portal in an office often has none.
  const field = el("textarea", { class: "visually-hidden" }, text);
  document.body.append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  return done;
}

export function setUpCopy() {
  document.addEventListener("click", async (event) => {
    const button = event.target.closest?.("[data-copy]");
    if (!button || button.dataset.says) return;
    const source = document.getElementById(button.dataset.copy);
    const done = await put(source.value ?? source.textContent).catch(() => false);
    const before = button.textContent;
    button.dataset.says = "1";
    button.textContent = done ? "Copied" : "Select it, press Ctrl-C";
    announce(button.textContent);
    setTimeout(() => {
      button.textContent = before;
      delete button.dataset.says;
    }, SAID_MS);
  });
}
