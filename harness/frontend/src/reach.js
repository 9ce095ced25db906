// One notice for all parts of a page that talk to the portal: shown while any of them cannot reach it.
const lost = new Map();

export function reach(part, works, words = "Reconnecting…") {
  if (works) lost.delete(part);
  else lost.set(part, words);
  const notice = document.getElementById("connection");
  if (!notice) return;
  notice.hidden = lost.size === 0;
  if (lost.size) notice.textContent = [...lost.values()][0];
}
