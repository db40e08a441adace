// Files that the user saves and opens.
import { element } from "./dom.js";

export function download(text, name) {
  const url = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  element("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

// Asks for a file through an <input type="file">: take(its text).
export function opener(input, take) {
  input.addEventListener("change", async () => {
    const [file] = input.files;
    if (file) take(await file.text());
    input.value = "";
  });
  return () => input.click();
}
