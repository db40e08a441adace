// The button that goes through system, light and dark.
import { recall, keep } from "./memory.js";

const NAMES = ["system", "light", "dark"];

export function start_theme_button(button) {
  const root = document.documentElement;
  const show = (name) => {
    if (name === "system") delete root.dataset.theme;
    else root.dataset.theme = name;
    button.setAttribute("aria-label", `Colours: ${name}`);
    button.title = `Colours: ${name}`;
  };
  let at = Math.max(0, NAMES.indexOf(recall("theme", "system")));
  show(NAMES[at]);
  button.addEventListener("click", () => {
    at = (at + 1) % NAMES.length;
    keep("theme", NAMES[at]);
    show(NAMES[at]);
  });
}
