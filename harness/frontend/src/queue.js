// The queue, live; admins drag a waiting job before another one (the arrows do the same by keyboard).
import { alertBox, announce, clear, el } from "./dom.js";
import { mount as live } from "./live_refresh.js";
import { json } from "./net.js";

// Who waits longer for a move, as the page tells it after an arrow.
function heldBack(rows) {
  const told = rows.length === 1 ? "One job waits longer for it" : `${rows.length} jobs wait longer for it`;
  const jobs = rows
    .slice(0, 5)
    .flatMap((row, at) => [
      at ? ", " : "",
      el("a", { href: `/jobs/${row.job_id}/` }, row.name),
      row.breaks_promise ? " (the promised finish cannot be kept)" : "",
    ]);
  const box = alertBox({ message: told }, "warning");
  box.querySelector(".text-secondary").append(...jobs, rows.length > 5 ? " and others" : "");
  return box;
}

export function mount(root) {
  live(root);
  const row = (event) => event.target.closest?.("tr[data-job]");
  const refusal = el("div");
  root.before(refusal);
  let held = null;

  const mark = (target) => {
    for (const marked of root.querySelectorAll(".drop-before")) marked.classList.remove("drop-before");
    target?.classList.add("drop-before");
  };
  root.addEventListener("dragstart", (event) => {
    held = row(event);
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
  root.addEventListener("drop", async (event) => {
    const target = row(event);
    if (!held || !target || target === held) return;
    event.preventDefault();
    const moved = held;
    held = null;
    mark(null);
    clear(refusal);
    try {
      const answer = await json(`/api/v1/queue/${moved.dataset.job}/move`, {
        method: "POST",
        body: { before: target.dataset.job },
      });
      target.before(moved);
      announce("The job was moved");
      const held_back = answer.delayed.filter((row) => !row.gains);
      if (held_back.length) clear(refusal, heldBack(held_back));
    } catch (error) {
      clear(refusal, alertBox(error));
    }
  });
}
