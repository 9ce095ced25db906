// Colours that stay apart for people with colour blindness (after Okabe and Ito), each with its own dash.
const LIGHT = ["#1f5fbf", "#c4560a", "#0d7d5a", "#a03b86", "#8a6a00", "#2a8fb8", "#6b4fc4", "#5b6675"];
const DARK = ["#6ea8ff", "#ff9a52", "#4fd1a1", "#ec8ad3", "#e5c453", "#7fd3f2", "#b39dff", "#a3afbf"];
const DASHES = [[], [7, 4], [2, 3], [9, 3, 2, 3], [4, 2], [12, 4], [1, 4], [6, 2, 1, 2]];

export function dark() {
  return document.documentElement.dataset.bsTheme === "dark";
}

export function color(index) {
  const colors = dark() ? DARK : LIGHT;
  return colors[index % colors.length];
}

export function dash(index) {
  // A second line of a colour has another dash than the first.
  return DASHES[(index + Math.floor(index / LIGHT.length)) % DASHES.length];
}

export function ink() {
  return dark()
    ? { text: "#dbe3ee", faint: "#a3afbf", grid: "#2b3647", surface: "#182433" } // as in theme.css
    : { text: "#1f2937", faint: "#5b6675", grid: "#e6eaf0", surface: "#ffffff" };
}

export function faded(hex) {
  return `${hex}${dark() ? "4d" : "40"}`;
}

export function onTheme(handler) {
  window.addEventListener("dlh:theme", handler);
}
