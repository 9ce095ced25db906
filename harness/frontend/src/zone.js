// Tells the portal in which time zone this browser is, where it knows another one: e-mails give times in it.
import { csrfToken } from "./net.js";

const REFUSED = "dlh:zone-refused";

export async function tellZone(send = fetch) {
  const known = document.querySelector("[data-browser-zone]")?.dataset.browserZone;
  const zone = new Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (known === undefined || !zone || zone === known || sessionStorage.getItem(REFUSED) === zone) return;
  try {
    const answer = await send("/account/time-zone/browser/", {
      method: "POST",
      keepalive: true, // also where the person goes on at once
      headers: { "X-CSRFToken": csrfToken() },
      body: new URLSearchParams({ name: zone }),
    });
    // A name that the portal's zone data lack: they will lack it on the next page, too.
    if (answer.status === 422) sessionStorage.setItem(REFUSED, zone);
  } catch {
    // It is told on the next page.
  }
}
