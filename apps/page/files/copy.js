// Buttons that put a text on the clipboard.
import { element, icon } from "./dom.js";
import { say } from "./speech.js";

const SHOWN_MS = 1600;

// Outside of https and localhost browsers have no clipboard interface; a selected field still copies.
async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const field = element("textarea", { class: "unseen", "aria-hidden": "true", tabindex: "-1" });
  field.value = text;
  document.body.append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  if (!done) throw new Error("no clipboard");
}

// text(): what to copy when it is pressed.
export function copy_button(text, label) {
  const button = element("button", { type: "button", class: "quiet copy", "aria-label": label, title: label }, icon("copy"));
  button.addEventListener("click", async () => {
    let shown = "check";
    try {
      await copy(text());
      say("Copied");
    } catch {
      shown = "close";
      say("The browser did not allow copying");
    }
    button.focus();
    button.replaceChildren(icon(shown));
    setTimeout(() => button.replaceChildren(icon("copy")), SHOWN_MS);
  });
  return button;
}
