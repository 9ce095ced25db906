// Edit one file of a draft's program: save (Ctrl-S), show the diff again, mark where a refusal points.
import { el } from "./dom.js";
import { Editor } from "./editor.js";
import { csrfToken } from "./net.js";
import { saveAnswer, UNREACHED } from "./save_answer.js";

async function shown(id, address) {
  const answer = await fetch(address, { headers: { "HX-Request": "true" } });
  if (answer.ok) document.getElementById(id).innerHTML = await answer.text();
}

export function mount(root) {
  const state = root.querySelector("[data-save-state]");
  const button = root.querySelector("[data-save-button]");
  const editable = root.dataset.editable === "1";
  let saved = root.querySelector("[data-source]").value;
  let expected = root.dataset.sha256; // of the file at the portal: another tab may write it meanwhile

  async function save() {
    if (!editable || editor.text === saved) return;
    const text = editor.text;
    state.textContent = "Saving…";
    const body = new FormData();
    body.set("name", root.dataset.name);
    body.set("text", text);
    body.set("sha256", expected);
    let answer;
    try {
      const response = await fetch(root.dataset.save, {
        method: "POST",
        body,
        headers: { "X-CSRFToken": csrfToken(), Accept: "application/json" },
      });
      answer = await saveAnswer(response);
    } catch {
      answer = UNREACHED;
    }
    if (answer.error) {
      state.textContent = `Not saved: ${answer.error.message} ${answer.error.hint ?? ""}`;
      if (answer.error.code === "changed") expected = answer.error.details.sha256;
      editor.mark([{ line: answer.error.details?.line, message: answer.error.message }]);
      return;
    }
    saved = text;
    expected = answer.file_sha256;
    state.textContent = answer.fault ? `Saved. ${answer.fault.message}` : "Saved.";
    button.disabled = editor.text === saved;
    const link = root.querySelector(".tree [aria-current]");
    link.querySelector(".mark")?.remove();
    if (answer.file_edited) link.append(el("span", { class: "mark" }, "edited"));
    root.querySelector("[data-put-back]").hidden = !answer.file_edited;
    editor.mark(answer.fault ? [answer.fault] : []);
    await shown("diff", root.dataset.diff);
    const checked = document.querySelector("#check [data-checked]")?.dataset.checked;
    if (checked) await shown("check", checked); // of another state of the program now
  }

  const editor = new Editor(root.querySelector("[data-editor]"), {
    text: saved,
    readOnly: !editable,
    onSave: save,
    onChange: () => {
      button.disabled = editor.text === saved;
      state.textContent = editor.text === saved ? "" : "Not saved yet.";
    },
  });
  button?.addEventListener("click", save);
  window.addEventListener("beforeunload", (event) => {
    if (editable && editor.text !== saved) event.preventDefault();
  });
}
