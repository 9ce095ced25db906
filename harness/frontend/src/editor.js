// The code editor: one small factory for programs and specs.
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { markdown } from "@codemirror/lang-markdown";
import { python } from "@codemirror/lang-python";
import { yaml } from "@codemirror/lang-yaml";
import { bracketMatching, indentOnInput, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { lintGutter, setDiagnostics } from "@codemirror/lint";
import { highlightSelectionMatches, searchKeymap } from "@codemirror/search";
import { EditorState } from "@codemirror/state";
import {
  drawSelection,
  EditorView,
  highlightActiveLine,
  highlightActiveLineGutter,
  keymap,
  lineNumbers,
} from "@codemirror/view";
import { classHighlighter } from "@lezer/highlight";
import { el } from "./dom.js";

const LANGUAGES = { python, yaml, markdown };
const WAY_OUT = "Tab indents. To leave the editor by keys: Escape, then Tab.";

export class Editor {
  constructor(host, { text, readOnly = false, onChange = () => {}, onSave = () => {} }) {
    const keys = el("p", { class: "form-hint mt-1 mb-0", id: `${host.dataset.language}-editor-keys` }, WAY_OUT);
    if (!readOnly) host.after(keys);
    const extensions = [
      lineNumbers(),
      history(),
      drawSelection(),
      indentOnInput(),
      bracketMatching(),
      highlightActiveLine(),
      highlightActiveLineGutter(),
      highlightSelectionMatches(),
      lintGutter(),
      indentUnit.of(host.dataset.language === "yaml" ? "  " : "    "),
      syntaxHighlighting(classHighlighter),
      LANGUAGES[host.dataset.language]?.() ?? [],
      EditorView.contentAttributes.of({
        "aria-label": host.dataset.label ?? "Editor",
        tabindex: "0",
        ...(readOnly ? {} : { "aria-describedby": keys.id }),
      }),
      keymap.of([
        {
          key: "Mod-s",
          run: () => {
            onSave();
            return true;
          },
        },
        ...defaultKeymap,
        ...historyKeymap,
        ...searchKeymap,
        ...(readOnly ? [] : [indentWithTab]),
      ]),
      EditorView.updateListener.of((update) => {
        if (update.docChanged && !this.silent) onChange();
      }),
      EditorState.readOnly.of(readOnly),
      EditorView.editable.of(true),
    ];
    this.silent = false;
    this.view = new EditorView({ state: EditorState.create({ doc: text, extensions }), parent: host });
  }

  get text() {
    return this.view.state.doc.toString();
  }

  // Replaces the whole text without telling `onChange`, and keeps the cursor near where it was.
  replace(text) {
    if (text === this.text) return;
    this.silent = true;
    const at = Math.min(this.view.state.selection.main.head, text.length);
    this.view.dispatch({
      changes: { from: 0, to: this.view.state.doc.length, insert: text },
      selection: { anchor: at },
    });
    this.silent = false;
  }

  // problems: [{line, message}], lines from 1; those without a line go to the first.
  mark(problems) {
    const document_ = this.view.state.doc;
    const diagnostics = problems.map(({ line, message }) => {
      const place = document_.line(Math.min(Math.max(1, line ?? 1), document_.lines));
      return { from: place.from, to: place.to, severity: "error", message };
    });
    this.view.dispatch(setDiagnostics(this.view.state, diagnostics));
  }

  get focused() {
    return this.view.hasFocus;
  }
}
