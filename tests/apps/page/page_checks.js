// Runs in the page: what can be said by looking at it about names, roles, references, order of headings, contrast, sizes
// and what can be reached. Returns a list of problems, "kind: where and what".
(() => {
  const problems = [];
  const say = (kind, text) => { if (problems.length < 100) problems.push(`${kind}: ${text}`); };
  const shown = (e) => e.checkVisibility({ visibilityProperty: true, opacityProperty: true }) && e.getClientRects().length > 0;
  const unseen = (e) => e.closest(".unseen, .skip, .user > .who") !== null;
  const where = (e) => `<${e.tagName.toLowerCase()} id="${e.id}" class="${e.getAttribute("class") ?? ""}"> ${(e.textContent ?? "").trim().slice(0, 40)}`;
  const all = (selector) => [...document.querySelectorAll(selector)];

  // Names. A placeholder or a title is none.
  const text_of = (e) => [...e.childNodes].map((n) => (n.nodeType === 3 ? n.data : n.nodeType === 1 && n.getAttribute("aria-hidden") !== "true" ? text_of(n) : "")).join("");
  const name_of = (e) => {
    const by = e.getAttribute("aria-labelledby");
    if (by) return by.split(" ").map((id) => document.getElementById(id)?.textContent ?? "").join(" ").trim();
    if (e.hasAttribute("aria-label")) return e.getAttribute("aria-label").trim();
    if (e.labels?.length) return [...e.labels].map(text_of).join(" ").trim();
    return text_of(e).trim();
  };
  const NAMED = "button, input, select, textarea, a[href], summary, dialog, nav, aside, form, section[aria-label], [role=group], [role=img], [role=log]";
  let n_named = 0;
  for (const e of all(NAMED)) {
    if (!shown(e) && !unseen(e)) continue;
    ++n_named;
    if (e.matches("form:not([aria-label])")) continue;  // no landmark then
    if (name_of(e).length < 2) say("name", `${where(e)} has none`);
  }

  // References and ids.
  const ids = new Map();
  for (const e of all("[id]")) ids.set(e.id, (ids.get(e.id) ?? 0) + 1);
  for (const [id, n] of ids) if (n > 1) say("id", `"${id}" stands there ${n} times`);
  for (const attribute of ["aria-labelledby", "aria-describedby", "aria-controls", "for"]) {
    for (const e of all(`[${attribute}]`)) {
      for (const id of e.getAttribute(attribute).split(" ")) if (!ids.has(id)) say("reference", `${where(e)} ${attribute}="${id}"`);
    }
  }
  const ROLES = ["alert", "group", "img", "log", "status"];
  for (const e of all("[role]")) if (!ROLES.includes(e.getAttribute("role"))) say("role", `${where(e)} is ${e.getAttribute("role")}`);
  for (const e of all("[aria-expanded]")) {
    const target = document.getElementById(e.getAttribute("aria-controls") ?? "");
    if (!target || (e.getAttribute("aria-expanded") === "true") !== shown(target)) say("state", `${where(e)} says aria-expanded=${e.getAttribute("aria-expanded")}`);
  }

  // Landmarks and headings.
  for (const [selector, n] of [["main", 1], ["h1", 1], ["[role=status]", 1], ["[role=log]", 1]]) {
    if (all(selector).length !== n) say("structure", `${all(selector).length} of ${selector}`);
  }
  if (!document.documentElement.lang || !document.title) say("structure", "no language or no title");
  let level = 0;
  for (const e of all("main :is(h1, h2, h3, h4, h5, h6)")) {
    if (!shown(e) && !unseen(e)) continue;
    const here = Number(e.tagName[1]);
    if (here > level + 1 && !e.closest(".markdown")) say("structure", `${where(e)} follows a heading of level ${level}`);
    level = here;
  }

  // What the keyboard reaches.
  const FOCUS = "button, input, select, textarea, a[href], summary, [tabindex]";
  for (const e of all(FOCUS)) {
    if (e.tabIndex > 0) say("focus", `${where(e)} comes out of order`);
    if (e.closest("[aria-hidden=true]") && e.tabIndex >= 0) say("focus", `${where(e)} is hidden from screen readers`);
  }
  for (const e of all("body *")) {
    const style = getComputedStyle(e);
    const scrolls = (e.scrollHeight > e.clientHeight + 1 && /auto|scroll/.test(style.overflowY)) || (e.scrollWidth > e.clientWidth + 1 && /auto|scroll/.test(style.overflowX));
    if (scrolls && shown(e) && e.tabIndex < 0 && !e.querySelector(FOCUS)) say("focus", `${where(e)} scrolls, and no key gets there`);
  }

  // Places and sizes.
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > width) say("overflow", `the page is ${document.documentElement.scrollWidth} wide, the window ${width}`);
  for (const e of all("body *")) {
    if (!shown(e) || unseen(e) || e.closest("pre, .scroll, [inert]")) continue;
    const r = e.getBoundingClientRect();
    if (r.width > 0 && (r.right > width + 1 || r.left < -1)) say("overflow", `${where(e)} from ${r.left.toFixed(0)} to ${r.right.toFixed(0)} of ${width}`);
  }
  for (const e of all("button, select, input:not([disabled]), summary")) {
    const r = e.getBoundingClientRect();
    if (shown(e) && (r.width < 24 || r.height < 24)) say("small", `${where(e)} is ${r.width.toFixed(0)} by ${r.height.toFixed(0)}`);
  }

  // Contrast of text, of icons and of what edges a field.
  const rgb = (text) => { const m = text.match(/[\d.]+/g).map(Number); return { c: m.slice(0, 3), a: m[3] ?? 1 }; };
  const light = ({ c }) => { const [r, g, b] = c.map((v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const contrast = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
  const ground = (e) => { for (let at = e; at; at = at.parentElement) { const b = rgb(getComputedStyle(at).backgroundColor); if (b.a === 1) return b; } return { c: [255, 255, 255], a: 1 }; };
  let n_texts = 0;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const e = node.parentElement;
    if (!node.data.trim() || !shown(e) || unseen(e) || e.closest("noscript, option, .skip, :disabled, [inert]")) continue;
    ++n_texts;
    const ratio = contrast(rgb(getComputedStyle(e).color), ground(e));
    if (ratio < 4.5) say("contrast", `${where(e)} ${ratio.toFixed(2)}`);
    if (parseFloat(getComputedStyle(e).fontSize) < 12) say("small", `${where(e)} ${getComputedStyle(e).fontSize}`);
  }
  for (const e of all(".icon, .plot_line, .mark")) {
    if (!shown(e) || e.closest(":disabled, [inert]")) continue;
    const ratio = contrast(rgb(getComputedStyle(e).stroke), ground(e.parentElement));
    if (ratio < 3) say("contrast", `${where(e.parentElement)} an icon ${ratio.toFixed(2)}`);
  }
  for (const e of all(".settings :is(input, select, textarea), .composer")) {
    if (!shown(e) || e.closest("[inert]")) continue;
    const ratio = contrast(rgb(getComputedStyle(e).borderTopColor), ground(e.parentElement));
    if (ratio < 3) say("contrast", `${where(e)} an edge ${ratio.toFixed(2)}`);
  }
  return { problems, n_named, n_texts };
})();
