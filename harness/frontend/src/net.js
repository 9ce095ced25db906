// Requests to the public API from a signed-in page: CSRF, JSON, and errors a person can read.

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
    throw new ApiError("The portal cannot be reached.", { hint: "Check the connection; the page tries again." });
  }
  if (!response.ok) throw await problem(response);
  return response;
}

export async function json(url, options) {
  return (await request(url, options)).json();
}

export function pageData(id) {
  const node = document.getElementById(id);
  return node ? JSON.parse(node.textContent) : null;
}
