// What the server is doing: figures and small plots of /v1/stats, which is asked only while they are shown.
import { by_id, element } from "./dom.js";
import { Plot } from "./plot.js";

const EVERY_MS = 1000, N_SHOWN = 90;

const rate = (name) => (now, before, seconds) => Math.max(0, now[name] - before[name]) / seconds;
const mib = (bytes) => `${(bytes / 1048576).toFixed(1)} MiB`;
const count = (value) => Math.round(value).toLocaleString("en");

// value(now, before, seconds); text(value, now): what stands beside it; top(now): the plot's upper edge where it is fixed.
const FIGURES = [
  { name: "Generation", unit: "tokens/s", value: rate("generated_tokens_total"), note: (now) => `${count(now.generated_tokens_total)} tokens in all` },
  { name: "Prompts", unit: "tokens/s", value: (now, before, seconds) => Math.max(0, rate("prompt_tokens_total")(now, before, seconds) - rate("cached_tokens_total")(now, before, seconds)),
    note: (now) => `${count(now.prompt_tokens_total - now.cached_tokens_total)} tokens evaluated` },
  { name: "Batch", unit: "requests", value: (now) => now.requests_generating + now.requests_prompt, top: (now) => now.parallel, note: (now) => `of ${count(now.parallel)}; ${count(now.requests_prompt)} at their prompt` },
  { name: "Queue", unit: "requests", value: (now) => now.requests_queued, note: (now) => `of ${count(now.queue_limit)}; ${count(now.requests_refused_total)} refused` },
  { name: "KV pages", unit: "pages", value: (now) => now.kv_pages, note: (now) => `${mib(now.kv_bytes)} of ${mib(now.kv_bytes_budget)}` },
  { name: "Prefix cache", unit: "%", value: (now) => (now.prompt_tokens_total ? (100 * now.cached_tokens_total) / now.prompt_tokens_total : 0), top: () => 100,
    note: (now) => `${count(now.prefix_hits_total)} hits in ${count(now.requests_total)} requests` },
];

// All models as one; a model that nobody asked yet has no figures.
function sum(models) {
  const total = new Proxy({}, { get: (of, name) => of[name] ?? 0 });
  for (const model of models) {
    for (const [name, value] of Object.entries(model)) {
      if (typeof value === "number") total[name] += value;
    }
  }
  return total;
}

export class Live {
  #api;
  #open = false;
  #timer = null;
  #watch = 0;  // the number of the time it is watched; 0: it is not
  #n_watches = 0;
  #before = null;  // {time, figures}
  #shown = [];     // {figure, number, note, plot, values}
  #problem = element("p", { class: "problem", role: "alert", hidden: true });
  #models = element("ul", { class: "live_models", "aria-label": "Models" });

  constructor(api) {
    this.#api = api;
    const list = element("dl", { class: "figures" });
    for (const figure of FIGURES) {
      const number = element("span", { class: "figure_number" }, "–"), note = element("span", { class: "figure_note" }), plot = new Plot();
      list.append(element("div", { class: "figure", "data-figure": figure.name },
        element("dt", {}, figure.name),
        element("dd", {}, number, element("span", { class: "unit" }, ` ${figure.unit}`), note, plot.element)));
      this.#shown.push({ figure, number, note, plot, values: [] });
    }
    by_id("live_body").append(this.#problem, list, this.#models);
    document.addEventListener("visibilitychange", () => this.#settle());
  }

  show(open) {
    this.#open = open;
    this.#settle();
  }

  // Asks while the panel and the window are in view, and at no other time.
  #settle() {
    const wanted = this.#open && document.visibilityState === "visible";
    if (wanted === this.#watch > 0) return;
    clearTimeout(this.#timer);
    this.#before = null;
    this.#watch = wanted ? ++this.#n_watches : 0;
    if (wanted) this.#look(this.#watch);
  }

  async #look(watch) {
    try {
      const stats = await this.#api.get("v1/stats");
      if (watch !== this.#watch) return;
      this.#problem.hidden = true;
      this.#draw(stats);
    } catch (error) {
      this.#problem.textContent = error.message;
      this.#problem.hidden = false;
      if (error.status === 401) return;  // the key was asked for already
    }
    if (watch === this.#watch) this.#timer = setTimeout(() => this.#look(watch), EVERY_MS);
  }

  #draw(stats) {
    const now = sum(stats.models), time = performance.now();
    const { figures: before, time: then } = this.#before ?? { figures: now, time: time - EVERY_MS };
    this.#before = { figures: now, time };
    for (const { figure, number, note, plot, values } of this.#shown) {
      const value = figure.value(now, before, (time - then) / 1000);
      values.push(value);
      if (values.length > N_SHOWN) values.shift();
      const text = value >= 100 || Number.isInteger(value) ? count(value) : value.toFixed(1);
      number.textContent = text;
      note.textContent = now.parallel ? figure.note(now) : "no request yet";
      plot.update(values, N_SHOWN, figure.top?.(now) || Math.max(...values, 1), `${figure.name} in the last ${values.length} seconds; now ${text} ${figure.unit}, at most ${Math.max(...values).toFixed(1)}`);
    }
    this.#models.replaceChildren(...stats.models.map((model) => element("li", {}, element("span", {}, model.id), element("span", { class: "figure_note" }, `${model.state}, ${mib(model.bytes)}`))));
  }
}
