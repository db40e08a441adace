// The server as functions. Paths are relative, so the page also works behind a proxy that puts it in a folder.
import { event_data } from "./sse.js";

const KEY = "quern-key";  // in sessionStorage: gone with the tab

export class ApiError extends Error {
  constructor(message, status = 0) {
    super(message);
    this.name = "ApiError";
    this.status = status;  // of HTTP; 0: there was none
  }
}

async function error_of(answer) {
  let message = `The server answered ${answer.status}.`;
  try {
    const { error } = await answer.json();
    if (typeof error?.message === "string") message = error.message;
  } catch {
    // Not the server's own words: the status has to do.
  }
  const seconds = answer.headers.get("Retry-After");
  return new ApiError(seconds ? `${message} (again in ${seconds} s)` : message, answer.status);
}

export class Api {
  #ask_key;
  #asking = null;
  #key = "";

  // ask_key(why): a promise of a key, or of null where the user gives none.
  constructor(ask_key) {
    this.#ask_key = ask_key;
    try {
      this.#key = sessionStorage.getItem(KEY) ?? "";
    } catch {
      // It is asked for again after a reload.
    }
  }

  get has_key() {
    return this.#key !== "";
  }

  set_key(key) {
    this.#key = key;
    try {
      sessionStorage.setItem(KEY, key);
    } catch {
      // As above.
    }
  }

  async #fetch(path, { body, signal } = {}) {
    const headers = this.#key ? { Authorization: `Bearer ${this.#key}` } : {};
    if (body !== undefined) headers["Content-Type"] = "application/json";
    try {
      return await fetch(path, { method: body === undefined ? "GET" : "POST", headers, body: body === undefined ? undefined : JSON.stringify(body), signal, cache: "no-store" });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new ApiError("The server cannot be reached. Is it still running?");
    }
  }

  // The answer, once its status is good. A key that is missing or wrong is asked for, by one question at a time.
  async #ask(path, options) {
    for (;;) {
      const key = this.#key;
      const answer = await this.#fetch(path, options);
      if (answer.ok) return answer;
      const error = await error_of(answer);
      if (answer.status !== 401) throw error;
      if (key !== this.#key) continue;
      this.#asking ??= this.#ask_key(key ? error.message : "").finally(() => { this.#asking = null; });
      const given = await this.#asking;
      if (given === null) throw error;
      this.set_key(given);
    }
  }

  async get(path) {
    return (await this.#ask(path, {})).json();
  }

  async post(path, body) {
    return (await this.#ask(path, { body })).json();
  }

  // The events of a streamed answer, as objects. An error event throws.
  async *stream(path, body, signal) {
    const answer = await this.#ask(path, { body, signal });
    try {
      for await (const data of event_data(answer.body)) {
        if (data === "[DONE]") return;
        const event = JSON.parse(data);
        if (event.error) throw new ApiError(event.error.message ?? "The answer failed.");
        yield event;
      }
    } catch (error) {
      if (error.name === "AbortError" || error instanceof ApiError) throw error;
      throw new ApiError("The connection broke off.");
    }
    throw new ApiError("The connection ended before the answer did.");
  }
}
