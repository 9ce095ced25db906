// From which probability on a row counts as of the class: one slider in each chart of a two-class model, all of them
// one threshold, kept in the address.
import { el, urlParam, urlState } from "../dom.js";
import { number, share } from "../format.js";
import { columnAt } from "./parts.js";

const STEP = 0.01;
const USUAL = 0.5;
const charts = new Set();

// Of several classes each has a curve of its own: there is no one threshold.
export function hasThreshold(chart) {
  const group = columnAt(chart, "class");
  return (
    chart.kind === "curve" &&
    group >= 0 &&
    columnAt(chart, "threshold") >= 0 &&
    new Set(chart.rows.map((row) => row[group])).size === 1
  );
}

// The point of the curve at which rows from this probability on are taken: that of the lowest cut that is as high.
// Where two have the same, the one that counts the rows of just this probability finds more, or takes more wrongly.
export function pointAt(chart, threshold) {
  const [cut, recall] = [columnAt(chart, "threshold"), columnAt(chart, "tpr", "recall")];
  const [fpr, precision] = [columnAt(chart, "fpr"), columnAt(chart, "precision")];
  const wrong = (row) => (fpr >= 0 ? row[fpr] : -row[precision]);
  const isAfter = (row, other) =>
    row[recall] > other[recall] || (row[recall] === other[recall] && wrong(row) > wrong(other));
  let found = null;
  for (const row of chart.rows) {
    if (row[cut] < threshold) continue;
    if (!found || row[cut] < found[cut] || (row[cut] === found[cut] && isAfter(row, found))) found = row;
  }
  return found;
}

export function told(chart, threshold) {
  const point = pointAt(chart, threshold);
  const at = (name) => (point ? point[columnAt(chart, name)] : 0);
  const name = `“${chart.rows[0][columnAt(chart, "class")]}”`;
  if (columnAt(chart, "tpr") >= 0)
    return `finds ${share(at("tpr"))} of ${name}, and takes ${share(at("fpr"))} of the others for it`;
  if (!point || (at("recall") === 0 && at("precision") === 1)) return `calls no row ${name}`;
  return `finds ${share(at("recall"))} of ${name}; of the rows called so, ${share(at("precision"))} are right`;
}

// Puts the slider above the chart; `draw(threshold)` is called at once and whenever any of them moves.
export function mountThreshold(node, chart, draw) {
  const given = Number(urlParam("threshold", String(USUAL)));
  const input = el("input", {
    type: "range",
    class: "form-range",
    min: 0,
    max: 1,
    step: STEP,
    value: given >= 0 && given <= 1 ? given : USUAL,
  });
  const words = el("span", {});
  node.before(el("div", { class: "chart-tools mb-2" }, el("label", {}, "Threshold", input), words));
  const show = (threshold) => {
    input.value = threshold;
    const sentence = told(chart, threshold);
    input.setAttribute("aria-valuetext", `${number(threshold, 2)}: ${sentence}`);
    words.textContent = `From ${number(threshold, 2)} on it ${sentence}.`;
    draw(threshold);
  };
  charts.add(show);
  input.addEventListener("input", () => {
    urlState({ threshold: Number(input.value) === USUAL ? null : input.value });
    for (const one of charts) one(Number(input.value));
  });
  show(Number(input.value));
}
