// The queue, live; admins drag a waiting job before another one, and are shown who would wait longer before it moves (the
// forms of the rows do both by keyboard).
import { el } from "./dom.js";
import { mount as live } from "./live_refresh.js";

// Sends the row's own form that only looks, so that the page answers as it does to an arrow.
function look(moved, target) {
  const own = moved.querySelector("input[name=look]").form;
  const hidden = [...own.querySelectorAll("input[type=hidden]")].map((field) => field.cloneNode());
  const before = el("input", { type: "hidden", name: "before", value: target.dataset.job });
  const form = el("form", { method: "post", action: own.action, hidden: true }, hidden, before);
  document.body.append(form);
  form.submit();
}

export function mount(root) {
  live(root);
  const row = (event) => event.target.closest?.("tr[data-job]");
  let held = null;

  const mark = (target) => {
    for (const marked of root.querySelectorAll(".drop-before")) marked.classList.remove("drop-before");
    target?.classList.add("drop-before");
  };
  root.addEventListener("dragstart", (event) => {
    held = event.target.closest?.("tr[data-job][draggable]"); // a link in another row can be dragged, too
    if (!held) return;
    event.dataTransfer.effectAllowed = "move";
    event.dataTransfer.setData("text/plain", held.dataset.job);
  });
  root.addEventListener("dragover", (event) => {
    const target = row(event);
    if (!held || !target) return;
    event.preventDefault();
    mark(target === held ? null : target);
  });
  root.addEventListener("dragend", () => {
    held = null;
    mark(null);
  });
  root.addEventListener("drop", (event) => {
    const target = row(event);
    if (!held || !target || target === held) return;
    event.preventDefault();
    look(held, target);
    held = null;
    mark(null);
  });
}
