// The form of settings.js: the model, sampling, the system prompt, the key.
import { by_id, element } from "./dom.js";
import { ROWS, problem_of } from "./settings.js";

const STATES = { unloaded: "not loaded yet", loading: "loading", failed: "failed to load" };

export class SettingsView {
  #settings;
  #models;
  #changed;
  #form = by_id("settings_form");
  #select = element("select", { id: "set_model" });
  #rows = new Map();  // name -> the row's element

  // changed(): the model or a value is another one now. change_key(): asks for another key.
  constructor(settings, models, { changed, change_key }) {
    this.#settings = settings;
    this.#models = models;
    this.#changed = changed;
    this.#select.addEventListener("change", () => this.#set("model", this.#select.value));
    this.#form.append(element("div", { class: "field" }, element("label", { for: "set_model" }, "Model"), this.#select));
    for (const row of ROWS) {
      const made = this.#row(row);
      this.#rows.set(row.name, made);
      this.#form.append(made);
    }
    this.#form.append(element("button", { type: "button", class: "outlined", onclick: () => this.#reset() }, "Back to the server's values"));
    this.key = element("button", { type: "button", class: "outlined", hidden: true, onclick: change_key }, "Change the API key");
    this.#form.append(this.key);
    this.#form.addEventListener("submit", (event) => event.preventDefault());
    this.show();
  }

  // After the list of models changed.
  show() {
    const { list, current } = this.#models;
    this.#select.replaceChildren(...list.map((model) => {
      const state = STATES[model.state];
      return element("option", { value: model.id, selected: model === current }, state ? `${model.id} (${state})` : model.id);
    }));
    for (const row of ROWS) this.#rows.get(row.name).hidden = Boolean(row.offered) && !row.offered(current);
  }

  // Puts the focus on a row, for who must correct it.
  focus(row) {
    by_id(`set_${row.name}`).focus();
  }

  #row(row) {
    const id = `set_${row.name}`, hint = `${id}_hint`;
    const common = { id, "aria-describedby": row.help ? hint : null };
    let field;
    if (row.kind === "choice") {
      field = element("select", common, ...Object.entries(row.choices).map(([value, label]) => element("option", { value }, label)));
    } else if (row.kind === "text") {
      field = element("textarea", { ...common, rows: "3" });
    } else {
      field = element("input", { ...common, inputmode: row.kind === "whole" ? "numeric" : "decimal", autocomplete: "off", placeholder: "as the server has it" });
    }
    field.value = this.#settings.text(row.name);
    const help = element("p", { class: "hint", id: hint, hidden: !row.help }, row.help ?? "");
    const check = () => {
      const problem = problem_of(row, field.value.trim());
      field.setAttribute("aria-invalid", String(problem !== ""));
      help.textContent = problem ? `${row.label} ${problem}` : row.help ?? "";
      help.classList.toggle("problem", problem !== "");
    };
    field.addEventListener("input", () => {
      this.#set(row.name, row.kind === "text" ? field.value : field.value.trim());
      check();
    });
    check();
    return element("div", { class: `field ${row.kind}` }, element("label", { for: id }, row.label), field, help);
  }

  #set(name, text) {
    this.#settings.set(name, text);
    if (name === "model") this.show();
    this.#changed();
  }

  #reset() {
    for (const row of ROWS) {
      const field = by_id(`set_${row.name}`);
      field.value = "";
      field.dispatchEvent(new Event("input"));
    }
  }
}
