// Runs before the first paint: dark, light or as the system says, without a flash. Paper is white: printed is the light
// one, charts included.
(() => {
  const root = document.documentElement;
  const wished = root.dataset.theme || "auto";
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  let isPrinted = false;
  const apply = () => {
    const theme = isPrinted ? "light" : root.dataset.theme || wished;
    const shown = theme === "auto" ? (system.matches ? "dark" : "light") : theme;
    if (shown === root.dataset.bsTheme) return; // charts that are drawn anew forget what they were zoomed to
    root.dataset.bsTheme = shown;
    window.dispatchEvent(new CustomEvent("dlh:theme"));
  };
  apply();
  system.addEventListener("change", apply);
  window.addEventListener("dlh:theme-wish", apply);
  for (const kind of ["beforeprint", "afterprint"])
    window.addEventListener(kind, () => {
      isPrinted = kind === "beforeprint";
      apply();
    });
})();
