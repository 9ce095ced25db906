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

// Enter in a field presses the button beside it; a form's first button would be another one.
function enter(event) {
  const wanted = event.key === "Enter" && event.target.dataset?.enter;
  if (!wanted) return;
  event.preventDefault();
  event.target.form.requestSubmit(event.target.form.querySelector(`button[value="${wanted}"]`));
}

export function setUpChoosing() {
  document.addEventListener("keydown", enter);
  document.addEventListener("change", ({ target }) => {
    if (target.matches?.("[data-select-all]")) {
      for (const box of boxesOf(target)) box.checked = target.checked;
      count(target);
      return;
    }
    const all = target.name && document.querySelector(`[data-select-all="${CSS.escape(target.name)}"]`);
    if (all) count(all);
  });
  for (const all of document.querySelectorAll("[data-select-all]")) count(all); // some come ticked, of what was refused
}
