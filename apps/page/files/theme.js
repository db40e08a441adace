// Light or dark, before anything is painted; a classic script for that reason. The button is theme_button.js's.
"use strict";
(() => {
  try {
    const chosen = localStorage.getItem("quern-theme");
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  } catch {
    // No storage: as the system has it.
  }
})();
