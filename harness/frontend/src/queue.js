// The queue, live; admins drag a waiting job before another one (the arrows do the same by keyboard).
import { alertBox, announce, clear, el } from "./dom.js";
import { mount as live } from "./live_refresh.js";
import { request } from "./net.js";

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
      await request(`/api/v1/queue/${moved.dataset.job}/move`, {
        method: "POST",
        body: { before: target.dataset.job },
      });
      target.before(moved);
      announce("The job was moved");
    } catch (error) {
      clear(refusal, alertBox(error));
    }
  });
}
