// CSV that is safe to open in a spreadsheet; as harness/csv.py writes it.
import { el } from "./dom.js";

// The last four are wide forms of the first, which some spreadsheets take for them.
const FORMULA_START = /^[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]/;
const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;

// A text that a spreadsheet would run as a formula gets a quote in front; numbers stay exact.
function harmless(text) {
  return FORMULA_START.test(text) && !NUMBER.test(text) ? `'${text}` : text;
}

export function csvField(value) {
  if (typeof value !== "string") return String(value ?? "");
  const text = harmless(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export const csvText = (rows) => `${rows.map((row) => row.map(csvField).join(",")).join("\n")}\n`;

export function csvSave(text, name) {
  const link = el("a", { href: URL.createObjectURL(new Blob([text], { type: "text/csv" })), download: `${name}.csv` });
  link.click();
  URL.revokeObjectURL(link.href);
}
