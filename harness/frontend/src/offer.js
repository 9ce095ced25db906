// The table of an offer: lines that stand out first, all on demand; the deadline in the reader's own time.
const pad = (value) => String(value).padStart(2, "0");

function localInput(iso) {
  const date = new Date(iso);
  if (Number.isNaN(date.getTime())) return "";
  return `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())}T${pad(date.getHours())}:${pad(date.getMinutes())}`;
}

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
