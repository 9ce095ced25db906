// Columns of a list in the order a person gives them: the buttons beside a column move it past its neighbour.

export function mount(node) {
  node.addEventListener("click", ({ target }) => {
    const button = target.closest("[data-move]");
    if (!button) return;
    const item = button.closest("li");
    const neighbour = button.dataset.move === "1" ? item.nextElementSibling : item.previousElementSibling;
    if (!neighbour) return;
    if (button.dataset.move === "1") neighbour.after(item);
    else neighbour.before(item);
    button.focus();
    item.querySelector("input").dispatchEvent(new Event("change", { bubbles: true }));
  });
}
