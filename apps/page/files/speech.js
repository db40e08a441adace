// What a screen reader hears of what happens: short states, and an answer sentence by sentence instead of token by token.
import { by_id, element } from "./dom.js";

export function say(text) {
  by_id("status").textContent = text;
}

// Speaks one answer at a time. add() takes the text so far.
export class Reader {
  #spoken = 0;

  begin() {
    this.#spoken = 0;
    by_id("spoken").replaceChildren();
  }

  add(text, whole = false) {
    const rest = text.slice(this.#spoken);
    const ends = [...rest.matchAll(/[.!?:](?=\s)|\n/g)];
    const end = whole ? rest.length : ends.length ? ends.at(-1).index + 1 : 0;
    const sentence = rest.slice(0, end).trim();
    this.#spoken += end;
    if (sentence) by_id("spoken").append(element("p", {}, sentence));
  }
}
