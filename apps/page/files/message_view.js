// One message as an element: its text, its reasoning, what can be done with it.
import { stats_text } from "./answer.js";
import { copy_button } from "./copy.js";
import { element, icon, icon_button } from "./dom.js";
import { Markdown } from "./markdown.js";

const ENDS = {
  length: "Stopped at the limit of tokens, or because the context is full.",
  stopped: "Stopped.",
  running: "Interrupted, or still coming in another window.",
};

export class MessageView {
  #actions;
  #body = element("div", { class: "body" });
  #foot = element("div", { class: "foot" });
  #problem = element("p", { class: "problem", role: "alert", hidden: true });
  #note = element("p", { class: "note", hidden: true });
  #markdown = null;
  #reasoning = null;  // {details, summary, markdown, end, touched}

  // actions: choose(message), edit(message, text), repeat(message), end_thinking(message), answer_of(message): the
  // running Answer or null, model_of(message): what models.js knows of its model, or null.
  constructor(message, siblings, actions) {
    this.message = message;
    this.#actions = actions;
    this.who = element("h2", { class: "who" });
    this.element = element("article", { class: `message ${message.role}`, "data-id": message.id }, this.who, this.#body, this.#note, this.#problem, this.#foot);
    if (message.role === "assistant") {
      this.#body.classList.add("markdown");
      this.#markdown = new Markdown(this.#body);
    }
    this.update(siblings);
  }

  // Again after the message or its siblings changed.
  update(siblings) {
    const { message } = this;
    const mine = message.role === "user";
    this.who.textContent = mine ? "You" : message.model || "Answer";
    if (mine) this.#body.textContent = message.content;
    else this.#show_answer();
    this.#show_foot(siblings);
  }

  // Only the text, while it comes.
  grow() {
    this.who.textContent = this.message.model || "Answer";
    this.#show_answer();
  }

  #show_answer() {
    const { message } = this;
    const answer = this.#actions.answer_of(message);
    this.element.setAttribute("aria-busy", String(answer !== null));
    this.element.classList.toggle("waiting", answer !== null && !message.content && !message.reasoning);
    if (message.reasoning) this.#show_reasoning(answer);
    this.#markdown.update(message.content);
    const end = answer ? undefined : ENDS[message.state];
    this.#note.textContent = end ?? "";
    this.#note.hidden = !end;
    this.#problem.textContent = message.error ?? "";
    this.#problem.hidden = !message.error;
  }

  #show_reasoning(answer) {
    const thinks = answer?.thinks ?? false;
    this.#reasoning ??= this.#make_reasoning();
    const { details, summary, markdown, end } = this.#reasoning;
    const seconds = this.message.stats?.thinking;
    summary.textContent = thinks ? "Thinking" : seconds !== undefined ? `Thought for ${seconds.toFixed(1)} s` : "Thought";
    summary.classList.toggle("thinking", thinks);
    end.hidden = !(thinks && this.#actions.model_of(this.message)?.reasoning?.end);
    if (!this.#reasoning.touched) details.open = thinks;
    markdown.update(this.message.reasoning);
  }

  #make_reasoning() {
    const text = element("div", { class: "reasoning_text markdown" });
    const label = element("span");
    const end = element("button", { type: "button", class: "outlined small", hidden: true, onclick: () => this.#actions.end_thinking(this.message) }, "Answer now");
    const summary = element("summary", {}, label);
    const details = element("details", { class: "reasoning" }, summary, text, end);
    summary.addEventListener("click", () => { this.#reasoning.touched = true; });
    this.#body.before(details);
    return { details, summary: label, markdown: new Markdown(text), end, touched: false };
  }

  #show_foot(siblings) {
    const { message } = this;
    const focused = this.#foot.contains(document.activeElement) ? document.activeElement.dataset.does : null;
    const running = this.#actions.answer_of(message) !== null;
    const button = (does, shape, label, onclick, more = {}) => icon_button(shape, label, onclick, { "data-does": does, ...more });
    const mine = message.role === "user";
    const copy = copy_button(() => message.content, mine ? "Copy message" : "Copy answer");
    copy.dataset.does = "copy";
    this.#foot.replaceChildren(...[
      siblings.length > 1 ? this.#versions(siblings, button) : null,
      running ? null : copy,
      running || !mine ? null : button("edit", "edit", "Edit message", () => this.edit()),
      running || mine ? null : button("repeat", "repeat", "Ask again", () => this.#actions.repeat(message)),
      running || mine ? null : element("span", { class: "stats" }, stats_text(message.stats, this.#actions.model_of(message)?.n_ctx)),
    ].filter(Boolean));
    if (focused) this.focus(focused);
  }

  #versions(siblings, button) {
    const at = siblings.indexOf(this.message);
    const go = (to) => () => this.#actions.choose(siblings[to]);
    return element("span", { class: "versions", role: "group", "aria-label": "Versions" },
      button("previous", "left", "Previous version", go(at - 1), { disabled: at === 0 }),
      element("span", { class: "count" }, element("span", { class: "unseen" }, "Version "), `${at + 1} / ${siblings.length}`),
      button("next", "right", "Next version", go(at + 1), { disabled: at === siblings.length - 1 }));
  }

  // Puts the focus on a button of this message; where that cannot take it, on another one.
  focus(does) {
    const wanted = this.#foot.querySelector(`[data-does="${does}"]:not(:disabled)`);
    (wanted ?? this.#foot.querySelector("button:not(:disabled)"))?.focus();
  }

  // A field in place of the text. Enter sends as in the composer.
  edit() {
    const field = element("textarea", { rows: String(Math.min(12, this.message.content.split("\n").length + 1)), "aria-label": "Edit message" });
    field.value = this.message.content;
    const form = element("form", { class: "edit" }, field, element("div", { class: "edit_buttons" },
      element("button", { type: "button", class: "outlined", onclick: () => close() }, "Cancel"),
      element("button", { type: "submit", class: "filled" }, icon("up"), "Send as a new version")));
    const close = () => {
      form.replaceWith(this.#body);
      this.#foot.hidden = false;
      this.focus("edit");
    };
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (field.value.trim()) this.#actions.edit(this.message, field.value);
    });
    field.addEventListener("keydown", (event) => {
      if (event.key === "Escape") {
        event.stopPropagation();
        close();
      } else if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        form.requestSubmit();
      }
    });
    this.#body.replaceWith(form);
    this.#foot.hidden = true;
    field.focus();
  }
}
