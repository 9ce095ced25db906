// Runs before the first paint: dark, light or as the system says, without a flash.
(() => {
  const root = document.documentElement;
  const wished = root.dataset.theme || "auto";
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const apply = () => {
    const theme = root.dataset.theme || wished;
    root.dataset.bsTheme = theme === "auto" ? (system.matches ? "dark" : "light") : theme;
    window.dispatchEvent(new CustomEvent("dlh:theme"));
  };
  apply();
  system.addEventListener("change", apply);
  window.addEventListener("dlh:theme-wish", apply);
})();
