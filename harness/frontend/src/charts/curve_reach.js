// What a line chart lacks for who does not see it or has no mouse: its picture named, and a legend that keys work.

// Each name hides or shows its line, as a click does; the first is that of the axis. `title` is what the chart shows.
export function curveReach(title) {
  const ready = (plot) => {
    plot.ctx.canvas.setAttribute("role", "img");
    plot.ctx.canvas.setAttribute("aria-label", `${title}. Its last values stand below, the others under Show data.`);
    const rows = [...plot.root.querySelectorAll(".u-legend .u-series")].slice(1);
    // A click with Ctrl or Cmd leaves that line alone, or shows all again: every row may have changed.
    const tell = () => {
      for (const row of rows)
        row.querySelector(".u-label").setAttribute("aria-pressed", String(!row.classList.contains("u-off")));
    };
    for (const row of rows) {
      const [head, name] = [row.querySelector("th"), row.querySelector(".u-label")];
      name.setAttribute("role", "button");
      name.setAttribute("tabindex", "0");
      name.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        name.click();
      });
      head.addEventListener("click", tell);
    }
    tell();
  };
  return { hooks: { ready } };
}
