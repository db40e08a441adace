// Questions that must be answered before anything goes on. Native dialogs: focus stays in them, Escape cancels.
import { element } from "./dom.js";

// A promise of what build(finish) finished with, or of null where it was cancelled.
function ask(label, build) {
  return new Promise((resolve) => {
    const before = document.activeElement;
    const dialog = element("dialog", { "aria-label": label });
    let result = null;
    dialog.append(...build((value) => { result = value; dialog.close(); }));
    dialog.addEventListener("close", () => {
      dialog.remove();
      before?.focus();
      resolve(result);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

function buttons(cancel, ...others) {
  return element("div", { class: "dialog_buttons" }, element("button", { type: "button", class: "outlined", onclick: cancel }, "Cancel"), ...others);
}

// true or null.
export function confirm_that(question, action) {
  return ask(question, (finish) => [
    element("p", {}, question),
    buttons(() => finish(null), element("button", { type: "button", class: "filled", onclick: () => finish(true) }, action)),
  ]);
}

// A key, or null. why: what was wrong with the last one, or "".
export function ask_key(why) {
  return ask("API key", (finish) => {
    const field = element("input", { id: "key_field", type: "password", autocomplete: "off", required: true, spellcheck: "false", "aria-describedby": "key_why" });
    const form = element("form", { method: "dialog" },
      element("h2", {}, "API key"),
      element("p", { id: "key_why", class: why ? "problem" : null, role: why ? "alert" : null }, why ? `${why[0].toUpperCase()}${why.slice(1)}.` : "This server asks for a key (quern serve --api-key). It is kept until this tab is closed."),
      element("label", { for: "key_field" }, "Key"), field,
      buttons(() => finish(null), element("button", { type: "submit", class: "filled" }, "Use this key")));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (field.value.trim()) finish(field.value.trim());
    });
    return [form];
  });
}
