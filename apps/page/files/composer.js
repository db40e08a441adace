// The field that messages are written in.
import { by_id } from "./dom.js";

const MAX_HEIGHT = 240;

export class Composer {
  #field = by_id("composer_text");
  #send = by_id("send");
  #stop = by_id("stop");

  // send(text): whether it was taken. stop(): end the answer that comes.
  constructor({ send, stop }) {
    const form = by_id("composer");
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const text = this.#field.value;
      if (!text.trim() || !send(text)) return;
      this.#field.value = "";
      this.#fit();
      this.focus();
    });
    this.#field.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      form.requestSubmit();
    });
    this.#field.addEventListener("input", () => this.#fit());
    this.#stop.addEventListener("click", stop);
  }

  focus() {
    this.#field.focus();
  }

  show(running) {
    const had_focus = document.activeElement === this.#send || document.activeElement === this.#stop;
    this.#send.hidden = running;
    this.#stop.hidden = !running;
    if (had_focus) this.focus();
  }

  #fit() {
    this.#field.style.height = "auto";
    this.#field.style.height = `${Math.min(this.#field.scrollHeight, MAX_HEIGHT)}px`;
  }
}
