// The table of an offer: lines that stand out first, all on demand; the deadline in the reader's own time.
import { localInput } from "./time.js";

export function mount(node) {
  for (const field of node.querySelectorAll("input[data-local]")) field.value = localInput(field.dataset.local);
  const minor = [...node.querySelectorAll("tr[data-minor]")];
  const button = node.querySelector("[data-show-minor]");
  if (!button) return;
  button.hidden = !minor.length;
  button.addEventListener("click", () => {
    for (const row of minor) row.hidden = false;
    button.hidden = true;
    minor[0]?.querySelector("input")?.focus();
  });
}
