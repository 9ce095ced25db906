// The table of ranks on the live tab: rows, speed and idle share as the run tells them, corrections as they come.
import { el } from "./dom.js";
import { number, percent } from "./format.js";
import { read } from "./net.js";
import { stream } from "./stream.js";

const KEY = /^rank(\d+)\/(rows|samples_per_s|idle_share)$/;

export function mount(root) {
  const list = root.querySelector("[data-said]");
  const events = stream(`job:${root.dataset.job}`);
  events.on("metric", ({ data }) => {
    for (const [key, value] of Object.entries(data.values ?? {})) {
      const [, rank, name] = KEY.exec(key) ?? [];
      const cell = name && root.querySelector(`[data-rank="${rank}"] [data-value="${name}"]`);
      if (cell && value !== null) cell.textContent = name === "idle_share" ? percent(value) : number(value, 3);
    }
  });
  events.on("note", ({ data }) => {
    if (!data.split && !data.width) return;
    list.parentElement.hidden = false;
    list.append(el("li", {}, el("strong", {}, `From step ${data.step}. `), data.message));
  });
  events.on("gap", async () => {
    const answer = await read(window.location.href, { headers: { Accept: "text/html" } });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const told = page.querySelector("[data-mount=ranks] [data-said]");
    if (!told) return;
    list.replaceChildren(...told.children);
    list.parentElement.hidden = !list.childElementCount;
  });
}
