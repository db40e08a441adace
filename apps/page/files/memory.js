// Small things that this browser remembers by name: settings, the theme, which conversation was open. Texts only.
// Conversations are store.js's. A browser that allows no storage remembers until the page is closed.

const here = new Map();

export function recall(name, otherwise = "") {
  if (here.has(name)) return here.get(name);
  try {
    return localStorage.getItem(`quern-${name}`) ?? otherwise;
  } catch {
    return otherwise;
  }
}

export function keep(name, text) {
  here.set(name, text);
  try {
    localStorage.setItem(`quern-${name}`, text);
  } catch {
    // It is in `here`.
  }
}
