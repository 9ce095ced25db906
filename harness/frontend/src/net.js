// Requests to the public API from a signed-in page: CSRF, JSON, and errors a person can read.
import { reach } from "./reach.js";
import { waitMs } from "./waits.js";

const UNREACHED = 0;
// Of a proxy before a portal that starts anew, or of a portal that cannot answer for now.
const FOR_NOW = new Set([UNREACHED, 502, 503, 504]);

export class ApiError extends Error {
  constructor(message, { hint = "", field = null, code = "", status = 0 } = {}) {
    super(message);
    Object.assign(this, { hint, field, code, status });
  }
}

export function csrfToken() {
  return document.querySelector('meta[name="csrf-token"]')?.content ?? "";
}

async function problem(response) {
  try {
    const body = await response.json();
    const error = body.error ?? {};
    return new ApiError(error.message || response.statusText, { ...error, status: response.status });
  } catch {
    return new ApiError(`The server answered ${response.status}.`, { status: response.status });
  }
}

export async function request(url, { method = "GET", body, signal, headers = {} } = {}) {
  const options = { method, signal, credentials: "same-origin", headers: { Accept: "application/json", ...headers } };
  if (method !== "GET") options.headers["X-CSRFToken"] = csrfToken();
  if (body !== undefined) {
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  let response;
  try {
    response = await fetch(url, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("The portal cannot be reached.", {
      hint: "Check the connection, then try again.",
      status: UNREACHED,
    });
  }
  if (!response.ok) throw await problem(response);
  return response;
}

// What a page cannot do without is asked for again while the portal is out of reach, which the page says meanwhile.
// `isWanted`: false once something newer is asked for instead.
export async function read(url, options, isWanted = () => true, wait = waitMs) {
  try {
    for (let tries = 0; ; tries += 1) {
      try {
        return await request(url, options);
      } catch (error) {
        if (!FOR_NOW.has(error.status) || !isWanted()) throw error;
        const words = error.status === UNREACHED ? "The portal cannot be reached" : error.message;
        reach("reading", false, `${words.replace(/\.$/, "")}; trying again`);
        await new Promise((done) => setTimeout(done, wait(tries)));
        if (!isWanted()) throw error;
      }
    }
  } finally {
    reach("reading", true);
  }
}

export async function json(url, options, isWanted) {
  return (await read(url, options, isWanted)).json();
}

export function pageData(id) {
  const node = document.getElementById(id);
  return node ? JSON.parse(node.textContent) : null;
}
