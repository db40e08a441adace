// Building elements. Text goes in as text nodes: nothing here, or anywhere on this page, makes markup of a string.

const SVG = "http://www.w3.org/2000/svg";

// Stroked shapes on a field of 24 by 24.
const ICONS = {
  check: "M5 12.5 10 17.5 19 7",
  close: "M6 6l12 12M18 6 6 18",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  down: "M12 5v14M6 13l6 6 6-6",
  download: "M12 4v11M7 11l5 5 5-5M4 20h16",
  edit: "M4 20h4L19 9l-4-4L4 16zM13 7l4 4",
  left: "M14 6l-6 6 6 6",
  menu: "M4 7h16M4 12h16M4 17h16",
  plus: "M12 5v14M5 12h14",
  pulse: "M3 12h4l3-7 4 14 3-7h4",
  repeat: "M4 11a8 8 0 0 1 14-4l2 2M20 4v5h-5M20 13a8 8 0 0 1-14 4l-2-2M4 20v-5h5",
  right: "M10 6l6 6-6 6",
  sliders: "M4 7h10M18 7h2M4 17h2M10 17h10M16 5v4M8 15v4",
  stop: "M7 7h10v10H7z",
  theme: "M12 3a9 9 0 1 0 0 18zM12 3a9 9 0 0 1 0 18",
  trash: "M5 7h14M10 4h4M7 7l1 13h8l1-13",
  up: "M12 19V5M6 11l6-6 6 6",
  upload: "M12 20V9M7 13l5-5 5 5M4 4h16",
};

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name.slice(2), value);
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

// element("button", {type: "button", hidden: false, onclick: f}, child, "text"): false, null and undefined are left out.
export function element(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

export function icon(name) {
  return svg("svg", { class: "icon", viewBox: "0 0 24 24", "aria-hidden": "true" }, svg("path", { d: ICONS[name] }));
}

// A button that shows an icon and says a name.
export function icon_button(name, label, onclick, attributes = {}) {
  return element("button", { type: "button", class: "quiet", "aria-label": label, title: label, onclick, ...attributes }, icon(name));
}

export function by_id(id) {
  return document.getElementById(id);
}

// Buttons of index.html name their icon.
export function fill_icons() {
  for (const button of document.querySelectorAll("[data-icon]")) {
    button.prepend(icon(button.dataset.icon));
    const label = button.getAttribute("aria-label");
    if (label) button.title = label;
  }
}
