// A notice of the computer when a run ends, for people who have turned to something else. Browsers give none on plain
// HTTP from another machine: the button is not shown there.
const ENDS = /Succeeded|Failed|Cancelled|Paused/;
const key = (job) => `notice:${job}`;
const possible = () => window.isSecureContext && "Notification" in window && Notification.permission !== "denied";

function isWished(job) {
  return possible() && Notification.permission === "granted" && localStorage.getItem(key(job)) === "1";
}

function mark(button, job) {
  const wished = isWished(job);
  button.hidden = !possible();
  button.setAttribute("aria-pressed", String(wished));
  button.textContent = wished ? "You will be notified" : "Notify me when it ends";
}

// The button of the header; asked for again whenever the header is drawn anew.
export function offerNotice(root, job) {
  const button = root.querySelector("[data-notice]");
  if (!button) return;
  mark(button, job);
  button.addEventListener("click", async () => {
    if (isWished(job)) localStorage.removeItem(key(job));
    else if ((await Notification.requestPermission()) === "granted") localStorage.setItem(key(job), "1");
    mark(button, job);
  });
}

export function giveNotice(job, name, state) {
  if (!ENDS.test(state) || !isWished(job)) return;
  localStorage.removeItem(key(job));
  const notice = new Notification(`${name}: ${state.trim().toLowerCase()}`, { tag: job });
  notice.addEventListener("click", () => window.focus());
}
