// Rows that are ticked to do something with: all at once, and how many they are.

function boxesOf(all) {
  return [...document.querySelectorAll(`input[name="${all.dataset.selectAll}"]`)];
}

function count(all) {
  const boxes = boxesOf(all);
  const chosen = boxes.filter((box) => box.checked).length;
  all.checked = chosen > 0 && chosen === boxes.length;
  all.indeterminate = chosen > 0 && chosen < boxes.length;
  const note = all.form?.querySelector("[data-chosen-count]");
  if (note) note.textContent = chosen ? `${chosen} chosen` : "";
}

export function setUpChoosing() {
  document.addEventListener("change", ({ target }) => {
    if (target.matches?.("[data-select-all]")) {
      for (const box of boxesOf(target)) box.checked = target.checked;
      count(target);
      return;
    }
    const all = target.name && document.querySelector(`[data-select-all="${CSS.escape(target.name)}"]`);
    if (all) count(all);
  });
}
