// Which of the page's columns are shown: conversations at the left, settings or the live view at the right. On a narrow
// window a column lies over the rest, which then cannot be reached; Escape or a touch beside it closes it.
import { by_id } from "./dom.js";
import { keep, recall } from "./memory.js";

const NARROW = matchMedia("(max-width: 860px)");

export class Layout {
  #panels = new Map();

  constructor() {
    NARROW.addEventListener("change", () => this.#settle());
    document.addEventListener("click", (event) => {
      const over = this.#over();
      if (over && event.target.matches(".layout, body, html")) this.close(over);  // beside the column
    });
    document.addEventListener("keydown", (event) => {
      const over = this.#over();
      if (event.key === "Escape" && over && !document.querySelector("dialog[open]")) {
        event.preventDefault();
        this.close(over);
      }
    });
  }

  // changed(open) is called whenever the panel is shown or hidden. group: of its members one is shown at a time.
  add(name, { group, changed = () => {} }) {
    const panel = { element: by_id(name), toggle: by_id(`${name}_toggle`), group, changed };
    this.#panels.set(name, panel);
    panel.toggle.addEventListener("click", () => (panel.element.hidden ? this.open(name) : this.close(name)));
    by_id(`${name}_close`).addEventListener("click", () => this.close(name));
    const shown = !NARROW.matches && recall(`show-${name}`, group === "left" ? "yes" : "no") === "yes";
    this.#show(panel, shown);
  }

  is_open(name) {
    return !this.#panels.get(name).element.hidden;
  }

  open(name) {
    const panel = this.#panels.get(name);
    for (const [other, { group }] of this.#panels) {
      if (other !== name && (NARROW.matches || group === panel.group)) this.#set(other, false);
    }
    this.#set(name, true);
    if (NARROW.matches || panel.group === "right") panel.element.querySelector("button, select, input, textarea")?.focus();
  }

  close(name) {
    const { element, toggle } = this.#panels.get(name);
    const had_focus = element.contains(document.activeElement);
    this.#set(name, false);
    if (had_focus || NARROW.matches) toggle.focus();
  }

  // On a narrow window: back to the messages.
  leave(name) {
    if (NARROW.matches && this.is_open(name)) this.#set(name, false);
  }

  #set(name, open) {
    if (this.is_open(name) === open) return;
    if (!NARROW.matches) keep(`show-${name}`, open ? "yes" : "no");
    this.#show(this.#panels.get(name), open);
  }

  #show({ element, toggle, changed }, open) {
    element.hidden = !open;
    toggle.setAttribute("aria-expanded", String(open));
    this.#settle();
    changed(open);
  }

  #over() {
    return NARROW.matches ? [...this.#panels.keys()].find((name) => this.is_open(name)) : undefined;
  }

  #settle() {
    by_id("main").inert = this.#over() !== undefined;
  }
}
