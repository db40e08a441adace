// The messages that are shown of a conversation, and where the window stands in them.
import { by_id } from "./dom.js";
import { MessageView } from "./message_view.js";

const NEAR = 60;  // pixels from the end that still count as the end

export class ThreadView {
  #actions;
  #views = [];
  #place = by_id("messages");
  #thread = by_id("thread");
  #to_end = by_id("to_end");
  #follows = true;  // new text keeps the end in view
  #drawing = new Set();

  constructor(actions) {
    this.#actions = actions;
    this.#place.addEventListener("scroll", () => {
      this.#follows = this.#place.scrollHeight - this.#place.scrollTop - this.#place.clientHeight < NEAR;
      this.#to_end.hidden = this.#follows;
    }, { passive: true });
    this.#to_end.addEventListener("click", () => {
      this.to_end();
      by_id("composer_text").focus();
    });
  }

  // Draws the path of a conversation; messages that stand there already stay.
  show(conversation) {
    const path = conversation.path();
    let same = 0;
    while (same < path.length && this.#views[same]?.message === path[same]) ++same;
    for (const view of this.#views.splice(same)) view.element.remove();
    for (const view of this.#views) view.update(conversation.siblings(view.message));
    for (const message of path.slice(same)) {
      const view = new MessageView(message, conversation.siblings(message), this.#actions);
      this.#views.push(view);
      this.#thread.append(view.element);
    }
    by_id("welcome").hidden = path.length > 0;
    this.#follow();
  }

  view_of(message) {
    return this.#views.find((view) => view.message === message) ?? null;
  }

  // An answer has more text: drawn once a frame, however many tokens come.
  grow(message) {
    const view = this.view_of(message);
    if (!view || this.#drawing.has(message)) return;
    this.#drawing.add(message);
    requestAnimationFrame(() => {
      this.#drawing.delete(message);
      if (this.view_of(message) === view) view.grow();
      this.#follow();
    });
  }

  to_end() {
    this.#follows = true;
    this.#follow();
  }

  #follow() {
    if (this.#follows) this.#place.scrollTop = this.#place.scrollHeight;
    this.#to_end.hidden = this.#follows;
  }
}
