// CSV that is safe to open in a spreadsheet; as harness/csv.py writes it.

// A text that a spreadsheet would run as a formula gets a quote in front; numbers stay exact.
function harmless(text) {
  return /^[=+\-@\t\r]/.test(text) && Number.isNaN(Number(text)) ? `'${text}` : text;
}

export function csvField(value) {
  if (typeof value !== "string") return String(value ?? "");
  const text = harmless(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
