// Small helpers that only ever set text, never HTML: names given by people stay text.

export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key === "class") node.className = value;
    else if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value === true ? "" : value);
  }
  for (const child of children.flat()) {
    if (child !== null && child !== undefined) node.append(child);
  }
  return node;
}

export function clear(node, ...children) {
  node.replaceChildren(...children);
}

export function setText(root, selector, text) {
  for (const node of root.querySelectorAll(selector)) {
    if (node.textContent !== text) node.textContent = text;
  }
}

export function announce(text) {
  const region = document.getElementById("announcer");
  if (region) region.textContent = text;
}

export function alertBox(error, level = "danger") {
  return el(
    "div",
    { class: `alert alert-${level} mb-2`, role: "alert" },
    el(
      "div",
      {},
      el("div", { class: "alert-title" }, error.message ?? String(error)),
      el("div", { class: "text-secondary" }, error.hint ?? ""),
    ),
  );
}

export function debounce(fn, wait_ms) {
  let timer;
  return (...args) => {
    clearTimeout(timer);
    timer = setTimeout(() => fn(...args), wait_ms);
  };
}

// The query string is the state of a page: Back and shared links work. A list is written value by value.
export function urlState(changes) {
  const url = new URL(window.location.href);
  for (const [key, value] of Object.entries(changes)) {
    url.searchParams.delete(key);
    for (const one of [value].flat())
      if (one !== null && one !== "" && one !== undefined) url.searchParams.append(key, one);
  }
  window.history.replaceState(window.history.state, "", url);
}

export function urlParam(name, fallback = "") {
  return new URL(window.location.href).searchParams.get(name) ?? fallback;
}
