// Resumable upload (tus 1.0) in 8 MB pieces: survives reloads and lost connections, shows rate and time left.
import * as tus from "tus-js-client";
import { alertBox, announce, clear, el } from "./dom.js";
import { bytes, duration, nearTime, percent } from "./format.js";
import { csrfToken, request } from "./net.js";
import { unfinished } from "./unfinished.js";

const CHUNK_BYTES = 8 * 1024 * 1024;
const RATE_WINDOW_S = 8;
const NO_SPACE = 507;
const TOO_SLOW = 408;
// Of a piece that is held by a request that was cut, or was counted already: both are over in a moment.
const HELD = [409, 423];
const REFUSED = 422;
const GONE = 404;
const FAULT = 500;
const LOOPBACK = new Set(["localhost", "127.0.0.1", "[::1]"]);

// A portal on this very computer is reached without a network.
function isOffline() {
  return !navigator.onLine && !LOOPBACK.has(window.location.hostname);
}

function readable(error) {
  const response = error.originalResponse;
  if (response) {
    try {
      const body = JSON.parse(response.getBody()).error;
      if (body) return body;
    } catch {
      // Not the API's own answer: say what is known.
    }
    return {
      message: `The portal refused the upload (${response.getStatus()}).`,
      hint: "Try again; it continues where it stopped.",
    };
  }
  return { message: "The connection was lost.", hint: "Press Upload again; it continues where it stopped." };
}

function dropProblem(transfer) {
  if (transfer.files.length > 1) {
    return {
      message: "Several files were dropped, but a dataset is one file.",
      hint: "Join tables into one file; pack pictures into one zip, with a folder per class.",
    };
  }
  const entry = transfer.items[0]?.webkitGetAsEntry?.();
  return entry?.isDirectory
    ? {
        message: `${entry.name} is a folder.`,
        hint: "Pack it as .zip or .tar.gz, with a folder per class, and drop that.",
      }
    : null;
}

// The whole page takes a file: one that misses the field would else be opened by the browser, in place of the page.
function takeDrops(field, take) {
  const carriesFile = (event) => event.dataTransfer?.types.includes("Files");
  for (const kind of ["dragenter", "dragover"]) {
    window.addEventListener(kind, (event) => {
      if (!carriesFile(event)) return;
      event.preventDefault();
      field.classList.add("over");
    });
  }
  window.addEventListener("dragleave", (event) => {
    if (!event.relatedTarget) field.classList.remove("over");
  });
  window.addEventListener("drop", (event) => {
    field.classList.remove("over");
    if (!carriesFile(event)) return;
    event.preventDefault();
    take(event.dataTransfer);
  });
}

class Rate {
  constructor() {
    this.points = [];
  }

  add(sent) {
    const now = performance.now() / 1000;
    this.points.push([now, sent]);
    while (this.points.length > 2 && now - this.points[0][0] > RATE_WINDOW_S) this.points.shift();
  }

  perSecond() {
    const [first, last] = [this.points[0], this.points.at(-1)];
    return this.points.length < 2 || last[0] === first[0] ? null : (last[1] - first[1]) / (last[0] - first[0]);
  }
}

export function mount(root) {
  const part = (name) => root.querySelector(`[data-${name}]`);
  const status = part("status");
  let file = null;
  let upload = null;
  let made = null;

  function metadata() {
    const options = {};
    for (const field of root.querySelectorAll("[data-option]")) {
      if (field.value) options[field.dataset.option] = field.value;
    }
    return {
      filename: file.name,
      project: part("option-project").value,
      name: part("option-name").value.trim(),
      options: JSON.stringify(options),
    };
  }

  function choose(chosen) {
    if (!chosen) return;
    file = chosen;
    upload = null;
    part("name").textContent = file.name;
    part("size").textContent = bytes(file.size);
    const isHeld = part("drop").contains(document.activeElement);
    part("chosen").hidden = false;
    part("drop").hidden = true;
    part("samples").hidden = true;
    part("progress").value = 0;
    status.textContent = "Ready to send.";
    clear(part("error"));
    running(false);
    if (isHeld) part("start").focus();
  }

  // Who works by keys goes on at the button that takes the place of theirs.
  function running(active) {
    const isHeld = [part("start"), part("pause")].includes(document.activeElement);
    part("start").hidden = active;
    part("pause").hidden = !active;
    part("forget").hidden = active;
    if (isHeld) part(active ? "pause" : "start").focus();
  }

  // Where an upload goes is said as it begins: one for another project is not continued.
  function isHere(told) {
    return told?.project === part("option-project").value;
  }

  function fail(error) {
    if (!error.originalResponse && isOffline()) {
      awaitConnection();
      return;
    }
    if (upload?.url && error.originalResponse?.getStatus() === REFUSED) dropRefused(upload.url);
    // One that was refused at once is asked for anew, with the name, project and options as they are then.
    if (!upload?.url) upload = null;
    running(false);
    clear(part("error"), alertBox(readable(error)));
    status.textContent = "Stopped.";
  }

  // Nobody may be there to press a button: what stops while the computer is offline goes on when it is not.
  function awaitConnection() {
    upload = null; // Its tries may be used up: one that has all of them goes on where it stopped.
    status.textContent = "This computer is offline. The upload goes on by itself when it is back.";
    window.addEventListener("online", goOn, { once: true });
  }

  function goOn() {
    start().catch(fail);
  }

  async function dropRefused(url) {
    // A file that was refused when it was whole is not kept at the portal: there is nothing to continue.
    upload = null;
    const storage = tus.defaultOptions.urlStorage;
    const refused = (await storage.findAllUploads()).filter((entry) => entry.uploadUrl === url);
    for (const entry of refused) await storage.removeUpload(entry.urlStorageKey);
    showEarlier();
  }

  function seeHeader(response) {
    const dataset = response.getHeader("Dataset-Id");
    if (dataset) made = `${root.dataset.page}${dataset}/`;
    else if (response.getHeader("Weights-Id")) made = root.dataset.weights;
  }

  async function start() {
    if (!part("option-project").reportValidity()) return;
    const rate = new Rate();
    clear(part("error"));
    if (!isHere(upload?.options.metadata)) upload = null;
    upload ??= new tus.Upload(file, {
      endpoint: root.dataset.endpoint,
      chunkSize: CHUNK_BYTES,
      retryDelays: [0, 500, 1500, 4000, 8000],
      // Room that is not there now is not there in ten seconds: say so at once.
      onShouldRetry: (error) => {
        const status = error.originalResponse?.getStatus();
        if (!status || status >= FAULT) return status !== NO_SPACE && !isOffline();
        return status === TOO_SLOW || ((status < 400 || HELD.includes(status)) && !isOffline());
      },
      metadata: metadata(),
      removeFingerprintOnSuccess: true,
      onBeforeRequest: (request) => request.setHeader("X-CSRFToken", csrfToken()),
      onAfterResponse: (_request, response) => seeHeader(response),
      onError: fail,
      onProgress: (sent, total) => {
        rate.add(sent);
        part("progress").value = total ? sent / total : 0;
        const speed = rate.perSecond();
        const left = speed ? `${bytes(speed)}/s, ${duration((total - sent) / speed)} left` : "measuring…";
        status.textContent = `${percent(total ? sent / total : 0)} · ${bytes(sent)} of ${bytes(total)} · ${left}`;
      },
      onSuccess: () => {
        status.textContent = "Upload complete. Opening it…";
        announce("Upload finished");
        window.location.assign(made ?? root.dataset.page);
      },
    });
    running(true);
    status.textContent = "Looking for an earlier upload…";
    const earlier = (await upload.findPreviousUploads()).find((one) => isHere(one.metadata));
    if (earlier) upload.resumeFromPreviousUpload(earlier);
    upload.start();
  }

  async function pause() {
    window.removeEventListener("online", goOn);
    await upload?.abort();
    running(false);
    status.textContent = "Paused. Press Upload to continue.";
  }

  function earlierRow(row) {
    const size = row.until
      ? `${bytes(row.sent)} of ${bytes(row.size)} sent, kept until ${nearTime(row.until)}`
      : bytes(row.size);
    const where = row.entry ? "" : "; not begun in this browser as it is now";
    // One that is not of this browser may be on its way this very moment.
    const asked = row.entry
      ? {}
      : { "data-confirm": `What has arrived of ${row.name} is deleted; whoever still sends it begins anew.` };
    const forget = (event) => {
      event.preventDefault();
      forgetEarlier(row);
    };
    return el(
      "li",
      {},
      el(
        "form",
        { ...asked, class: "d-flex gap-2 align-items-center mb-1", onsubmit: forget },
        el("span", {}, `${row.name ?? "a file"}${row.project ? ` in ${row.project}` : ""} (${size}${where})`),
        el("button", { class: "btn btn-sm" }, "Forget it"),
      ),
    );
  }

  async function showEarlier() {
    const kept = await tus.defaultOptions.urlStorage.findAllUploads();
    const held = await request(root.dataset.endpoint).then(
      async (response) => (await response.json()).items,
      () => null,
    );
    const rows = unfinished(kept, held);
    part("earlier").hidden = rows.length === 0;
    clear(part("earlier-list"), ...rows.map(earlierRow));
  }

  async function forgetEarlier(row) {
    // Its bytes go at the portal, too: unfinished uploads are counted. One that has gone already is as good.
    const options = { method: "DELETE", headers: { "Tus-Resumable": "1.0.0" } };
    const url = row.url ?? (row.id ? `${root.dataset.endpoint}/${row.id}` : null);
    clear(part("error"));
    try {
      if (url) await request(url, options);
    } catch (error) {
      if (error.status !== GONE) {
        clear(part("error"), alertBox(error));
        return;
      }
    }
    if (row.entry) await tus.defaultOptions.urlStorage.removeUpload(row.entry.urlStorageKey);
    showEarlier();
  }

  // A sample goes where the other data would.
  part("samples").addEventListener("submit", (event) => {
    const project = part("option-project");
    if (!project.reportValidity()) event.preventDefault();
    event.target.elements.project.value = project.value;
  });
  const drop = part("drop");
  takeDrops(drop, (transfer) => {
    const problem = dropProblem(transfer);
    if (problem) clear(part("error"), alertBox(problem));
    else if (part("pause").hidden) choose(transfer.files[0]);
  });
  part("file").addEventListener("change", (event) => choose(event.target.files[0]));
  part("start").addEventListener("click", () => start().catch(fail));
  part("pause").addEventListener("click", pause);
  part("forget").addEventListener("click", () => {
    part("chosen").hidden = true;
    drop.hidden = false;
    part("samples").hidden = false;
    part("file").value = "";
    part("file").focus();
  });
  window.addEventListener("beforeunload", (event) => {
    if (!part("pause").hidden && !made) event.preventDefault();
  });
  showEarlier();
  // A quick hand may have chosen a file before this part was loaded.
  choose(part("file").files[0]);
}
