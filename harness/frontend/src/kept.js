// What a person has in hand outlives that a part of the page is drawn anew: the focus, and what is folded out.

const words = (node) => node.getAttribute("aria-label") ?? node.textContent.trim();

// Selects what has the focus in the part as it is drawn next; buttons of one form go by their words, too.
function focused(part) {
  const node = part.contains(document.activeElement) ? document.activeElement : null;
  if (node?.matches("a[href]")) return [`a[href="${CSS.escape(node.getAttribute("href"))}"]`, () => true];
  if (node?.matches("input[name][value]"))
    return [`input[name="${CSS.escape(node.name)}"][value="${CSS.escape(node.value)}"]`, () => true];
  if (node?.matches("[role=region][aria-label]"))
    return [`[role=region][aria-label="${CSS.escape(node.getAttribute("aria-label"))}"]`, () => true];
  if (!node?.matches("button")) return null;
  const [action, said] = [node.closest("form")?.getAttribute("action"), words(node)];
  return [action ? `form[action="${CSS.escape(action)}"] button` : "button", (other) => words(other) === said];
}

// What can be folded out, by the job or part of the page it belongs to and its place there; its words may change, and
// rows of jobs their order.
function folds(part) {
  const counts = new Map();
  return [...part.querySelectorAll("details")].map((fold) => {
    const owner = fold.closest("tr[data-job], [aria-labelledby]");
    const name = owner?.dataset.job ?? owner?.getAttribute("aria-labelledby") ?? "";
    counts.set(name, (counts.get(name) ?? 0) + 1);
    return [`${name} ${counts.get(name)}`, fold];
  });
}

// Called before the part is drawn anew; what it gives is called after that.
export function keep(part) {
  const place = focused(part);
  const open = new Map(folds(part).map(([name, fold]) => [name, fold.open]));
  const held = folds(part).find(([, fold]) => fold.querySelector("summary") === document.activeElement)?.[0];
  return () => {
    for (const [name, fold] of folds(part)) {
      fold.open = open.get(name) ?? fold.open;
      if (name === held) fold.querySelector("summary").focus({ preventScroll: true });
    }
    if (place) [...part.querySelectorAll(place[0])].find(place[1])?.focus({ preventScroll: true });
  };
}

// Whether something in the part is being pressed: exchanged between that and the release, it would not be clicked.
export function pressing(part) {
  let pressed = false;
  part.addEventListener("pointerdown", ({ button }) => {
    pressed = button === 0; // of another the release may go to the menu that it opens
  });
  for (const kind of ["pointerup", "pointercancel"])
    window.addEventListener(kind, () => {
      pressed = false;
    });
  return () => pressed;
}

const TOKENS = /(name="csrfmiddlewaretoken" value=")[^"]*/g;

// Tells whether an answer is another than the one that is drawn: what is the same is not drawn anew, and text that is
// selected there stays so. Each answer has tokens of its own. `forget`: something else was drawn.
export class Drawn {
  #last = null;

  isNew(text) {
    const said = text.replace(TOKENS, "$1");
    const isNew = said !== this.#last;
    this.#last = said;
    return isNew;
  }

  forget() {
    this.#last = null;
  }
}
