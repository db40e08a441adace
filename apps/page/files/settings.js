// What the user sets for all conversations: which model, how it samples. Rows of one table; a field that is left empty is
// not sent, so the server's own value holds. The form is settings_view.js's.
import { recall, keep } from "./memory.js";

// Of a model that is not loaded nobody knows: the server will say.
const may = (name) => (model) => model !== null && (model.reasoning?.[name] ?? true);

// name, label, kind ("real", "whole", "text", "choice"), bounds, choices, help, offered(model): whether the model has it.
export const ROWS = [
  { name: "system", label: "System prompt", kind: "text", help: "Stands before every conversation" },
  { name: "thinking", label: "Thinking", kind: "choice", choices: { "": "as the model does", on: "on", off: "off" }, offered: may("switch") },
  { name: "effort", label: "Reasoning effort", kind: "choice", choices: { "": "as the model does", low: "low", medium: "medium", high: "high" }, offered: may("effort") },
  { name: "temperature", label: "Temperature", kind: "real", min: 0, max: 100, help: "0 always takes the likeliest token" },
  { name: "top_p", label: "Top-p", kind: "real", min: 0, max: 1, help: "Only the fewest tokens that reach this probability" },
  { name: "top_k", label: "Top-k", kind: "whole", min: 0, max: 1000000000, help: "Only so many of the likeliest; 0: all" },
  { name: "min_p", label: "Min-p", kind: "real", min: 0, max: 1, help: "None less likely than this share of the likeliest" },
  { name: "max_tokens", label: "Longest answer", kind: "whole", min: 1, max: 1000000000, help: "In tokens; empty: until the context is full" },
  { name: "seed", label: "Seed", kind: "whole", min: 0, max: Number.MAX_SAFE_INTEGER, help: "The same seed gives the same answer; empty: a new one each time" },
];

// Why a text is no value of a row, or "".
export function problem_of(row, text) {
  if (text === "" || row.kind === "text") return "";
  if (row.kind === "choice") return text in row.choices ? "" : "is not one of the choices";
  const value = Number(text);
  if (!Number.isFinite(value) || text.trim() === "") return "must be a number";
  if (row.kind === "whole" && !Number.isInteger(value)) return "must be a whole number";
  return value < row.min || value > row.max ? `must be from ${row.min} to ${row.max}` : "";
}

export class Settings {
  #texts = {};

  constructor() {
    let kept = {};
    try {
      kept = JSON.parse(recall("settings", "{}"));
    } catch {
      // As if nothing had been kept.
    }
    for (const row of ROWS) this.#texts[row.name] = typeof kept?.[row.name] === "string" ? kept[row.name] : "";
    this.model = typeof kept?.model === "string" ? kept.model : "";
  }

  text(name) {
    return this.#texts[name];
  }

  set(name, text) {
    if (name === "model") this.model = text;
    else this.#texts[name] = text;
    keep("settings", JSON.stringify({ ...this.#texts, model: this.model }));
  }

  // The first row whose text is no value, as {row, problem}, or null.
  wrong() {
    for (const row of ROWS) {
      const problem = problem_of(row, this.#texts[row.name]);
      if (problem) return { row, problem };
    }
    return null;
  }

  // Fields of a request to this model.
  fields(model) {
    const fields = {};
    for (const row of ROWS) {
      const text = this.#texts[row.name];
      if (text === "" || (row.offered && !row.offered(model)) || row.kind === "text") continue;
      if (row.name === "thinking") fields.enable_thinking = text === "on";
      else if (row.name === "effort") fields.reasoning_effort = text;
      else fields[row.name] = Number(text);
    }
    return fields;
  }
}
