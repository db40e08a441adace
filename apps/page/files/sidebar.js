// The list of conversations.
import { by_id, element, icon_button } from "./dom.js";

export class Sidebar {
  #actions;
  #list = by_id("conversations");

  // actions: open(conversation), remove(conversation).
  constructor(actions) {
    this.#actions = actions;
  }

  // Newest first. busy(conversation): whether an answer is being written in it.
  show(conversations, current, busy) {
    const focused = document.activeElement?.closest?.("#conversations li")?.dataset.id;
    const sorted = [...conversations].sort((a, b) => b.changed - a.changed);
    this.#list.replaceChildren(...sorted.map((conversation) => this.#row(conversation, conversation === current, busy(conversation))));
    if (focused) this.#list.querySelector(`li[data-id="${focused}"] button`)?.focus();
  }

  #row(conversation, is_current, busy) {
    const title = conversation.title || "Untitled";
    return element("li", { "data-id": conversation.id },
      element("button", { type: "button", class: "entry", "aria-current": is_current ? "page" : null, onclick: () => this.#actions.open(conversation) },
        element("span", { class: "entry_title" }, title), busy ? element("span", { class: "busy" }, element("span", { class: "unseen" }, " (an answer is coming)")) : null),
      icon_button("trash", `Delete ${title}`, () => this.#actions.remove(conversation), { class: "quiet remove" }));
  }
}
