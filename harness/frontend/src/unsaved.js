// A form of selects that saves when it is told to: what was changed is marked, and is not left behind without a word.
export function mount(form) {
  const note = form.querySelector("[data-unsaved]");
  const selects = [...form.querySelectorAll("select")];
  let sent = false;
  const refused = "refused" in form.dataset; // what it shows is what was sent
  const changed = () =>
    refused || selects.some((one) => [...one.options].some((each) => each.selected !== each.defaultSelected));
  const tell = () => {
    note.textContent = changed() ? "Not saved yet." : "";
  };

  form.addEventListener("change", tell);
  form.addEventListener("submit", () => {
    sent = true;
  });
  window.addEventListener("beforeunload", (event) => {
    if (!sent && changed()) event.preventDefault();
  });
  tell(); // a browser that goes back puts in what was chosen before
}
