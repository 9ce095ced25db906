// What a line chart lacks for who does not see it or has no mouse: its picture named, and a legend that keys work.

// Each name hides or shows its line, as a click does; the first is that of the axis. `title` is what the chart shows.
export function curveReach(title) {
  const ready = (plot) => {
    plot.ctx.canvas.setAttribute("role", "img");
    plot.ctx.canvas.setAttribute("aria-label", `${title}. Its last values stand below, the others under Show data.`);
    for (const row of [...plot.root.querySelectorAll(".u-legend .u-series")].slice(1)) {
      const [head, name] = [row.querySelector("th"), row.querySelector(".u-label")];
      const tell = () => name.setAttribute("aria-pressed", String(!row.classList.contains("u-off")));
      name.setAttribute("role", "button");
      name.setAttribute("tabindex", "0");
      name.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        name.click();
      });
      head.addEventListener("click", tell);
      tell();
    }
  };
  return { hooks: { ready } };
}
