// Runs in the page: everything that can be said about it by measuring. Returns a list of problems, "kind: where and what".
(() => {
  const problems = [];
  const say = (kind, text) => { if (problems.length < 200) problems.push(`${kind}: ${text}`); };
  const visible = (e) => e.checkVisibility({ visibilityProperty: true, opacityProperty: true }) && e.getClientRects().length > 0;
  const named = (e) => `<${e.tagName.toLowerCase()} class="${e.getAttribute("class") ?? ""}"> ${(e.textContent ?? "").trim().slice(0, 40)}`;
  const width = document.documentElement.clientWidth;

  // Nothing is wider than the page, except inside regions that scroll.
  if (document.documentElement.scrollWidth > width) say("overflow", `the page is ${document.documentElement.scrollWidth} wide, the window ${width}`);
  for (const e of document.body.querySelectorAll("*")) {
    if (!visible(e) || e.matches(".hidden") || e.closest(".scroll") !== null && !e.classList.contains("scroll")) continue;
    const r = e.getBoundingClientRect();
    if (r.width > 0 && (r.right > width + 0.6 || r.left < -0.6)) say("overflow", `${named(e)} from ${r.left.toFixed(1)} to ${r.right.toFixed(1)} of ${width}`);
    if (e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).overflowX === "hidden") say("overflow", `${named(e)} is cut`);
  }

  // Colours. Text against the nearest opaque ground, marks of plots against the card they lie on.
  const rgb = (text) => { const m = text.match(/[\d.]+/g).map(Number); return { c: m.slice(0, 3), a: m[3] ?? 1 }; };
  const light = ({ c }) => { const [r, g, b] = c.map((v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const contrast = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
  const ground = (e) => { for (let at = e; at; at = at.parentElement) { const b = rgb(getComputedStyle(at).backgroundColor); if (b.a === 1) return b; } return { c: [255, 255, 255], a: 1 }; };
  let lowest = 99, n_texts = 0;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const e = node.parentElement;
    if (!node.data.trim() || !visible(e) || e.closest("script,style,title")) continue;
    const style = getComputedStyle(e);
    const ratio = contrast(rgb(e instanceof SVGElement ? style.fill : style.color), ground(e));
    lowest = Math.min(lowest, ratio);
    ++n_texts;
    if (ratio < 4.5) say("contrast", `${named(e)} ${ratio.toFixed(2)}`);
    const svg = e.ownerSVGElement, size = parseFloat(style.fontSize) * (svg ? svg.getBoundingClientRect().width / svg.viewBox.baseVal.width : 1);
    if (size < 8.8) say("small", `${named(e)} ${size.toFixed(1)} px`);
  }
  for (const e of document.querySelectorAll(".plot .bar, .plot .path, .plot .roof, .swatch")) {
    if (!visible(e)) continue;
    const style = getComputedStyle(e);
    const ratio = contrast(rgb(e.matches(".bar") ? style.fill : e.matches(".swatch") ? style.backgroundColor : style.stroke), ground(e.parentElement));
    if (ratio < 3) say("contrast", `${named(e)} as a mark ${ratio.toFixed(2)}`);
  }

  // Corners of an element as drawn, rotation included; and whether two such quadrilaterals overlap (separating axes).
  const corners = (e) => {
    const b = e.getBBox(), m = e.getScreenCTM();
    return [[b.x, b.y], [b.x + b.width, b.y], [b.x + b.width, b.y + b.height], [b.x, b.y + b.height]].map(([x, y]) => [m.a * x + m.c * y + m.e, m.b * x + m.d * y + m.f]);
  };
  const overlap = (p, q, slack) => {
    for (const [one, other] of [[p, q], [q, p]]) {
      for (let i = 0; i < 4; ++i) {
        const [x1, y1] = one[i], [x2, y2] = one[(i + 1) % 4], n = Math.hypot(x2 - x1, y2 - y1);
        if (n === 0) return false;
        const along = (list) => list.map(([x, y]) => (x * (y2 - y1) - y * (x2 - x1)) / n);
        const a = along(one), b = along(other);
        if (Math.max(...a) - slack <= Math.min(...b) || Math.max(...b) - slack <= Math.min(...a)) return false;
      }
    }
    return true;
  };

  let n_marks = 0, n_placed = 0;
  for (const svg of document.querySelectorAll("svg.plot")) {
    if (!visible(svg)) continue;
    const label = svg.getAttribute("aria-label") ?? "";
    const where = `${svg.getAttribute("class")} (${label.slice(0, 40)})`;
    if (svg.getAttribute("role") !== "img" || label.length < 10) say("label", `${where} says nothing to a screen reader`);
    const frame = svg.getBoundingClientRect(), unit = frame.width / svg.viewBox.baseVal.width;
    const areas = [...svg.querySelectorAll(".area")].map((e) => ({ r: e.getBoundingClientRect(), ticks: { x: [], y: [] } }));
    const inside = (a, b, slack) => a.left >= b.left - slack && a.right <= b.right + slack && a.top >= b.top - slack && a.bottom <= b.bottom + slack;
    const fits = (r) => areas.find((a) => inside(r, a.r, 1));
    for (const e of svg.querySelectorAll(".grid")) {
      const r = e.getBoundingClientRect(), area = fits(r);
      if (!area) { say("place", `${where}: a grid line outside`); continue; }
      area.ticks[e.dataset.axis].push({ value: Number(e.dataset.value), at: e.dataset.axis === "x" ? (r.left + r.right) / 2 : (r.top + r.bottom) / 2 });
    }
    const log = svg.classList.contains("roofline");
    // Where a value must be by the grid lines, or null where there are not two.
    const wanted = (area, axis, value) => {
      const ticks = area.ticks[axis];
      if (ticks.length < 2) return null;
      const f = log ? Math.log : (v) => v, first = ticks[0], last = ticks[ticks.length - 1];
      const at = first.at + (last.at - first.at) * (f(value) - f(first.value)) / (f(last.value) - f(first.value));
      const [low, high] = axis === "x" ? [area.r.left, area.r.right] : [area.r.top, area.r.bottom];
      return Math.min(high, Math.max(low, at));
    };
    const compare = (area, axis, value, at, slack, e) => {
      const right = wanted(area, axis, value);
      if (right === null) { say("place", `${where}: no grid for ${named(e)}`); return; }
      ++n_placed;
      if (!(Math.abs(right - at) <= slack)) say("place", `${where}: ${e.getAttribute("class")} of ${value} is at ${axis} ${at.toFixed(1)}, the grid says ${right.toFixed(1)}`);
    };
    for (const e of svg.querySelectorAll(".bar, .dot, .whisker, .roof, .path, .one")) {
      const r = e.getBoundingClientRect(), area = fits(r), d = e.dataset;
      ++n_marks;
      if (!area) { say("outside", `${where}: ${e.getAttribute("class")} lies outside its axes`); continue; }
      if (e.matches(".bar")) {
        const b = corners(e);
        compare(area, "x", Number(d.x), b[1][0], 0.7, e);
        compare(area, "x", Number(d.from ?? 0), b[0][0], 0.7, e);
      } else if (e.matches(".dot")) {
        // A dot at the edge is moved in by its radius.
        const slack = (at, low, high) => (at - low < 6 * unit || high - at < 6 * unit ? 5.5 * unit : 0.7);
        const x = (r.left + r.right) / 2, y = (r.top + r.bottom) / 2;
        if ("x" in d) compare(area, "x", Number(d.x), x, slack(x, area.r.left, area.r.right), e);
        if ("y" in d) compare(area, "y", Number(d.y), y, slack(y, area.r.top, area.r.bottom), e);
        if (!("x" in d) && !("y" in d)) say("place", `${where}: a dot without a value`);
      } else if (e.matches(".whisker:not(.cap)")) {
        compare(area, "x", Number(d.x1), r.left, 1.6, e);
        compare(area, "x", Number(d.x2), r.right, 1.6, e);
      } else if (e.matches(".slope")) {
        // A line of GB/s: y = rate * x at both ends.
        const m = e.getScreenCTM(), b = e;
        for (const [k, x, y] of [[d.x1, b.x1, b.y1], [d.x2, b.x2, b.y2]]) {
          compare(area, "x", Number(k), m.a * x.baseVal.value + m.e, 0.7, e);
          compare(area, "y", Number(k) * Number(d.rate), m.d * y.baseVal.value + m.f, 0.7, e);
        }
      } else if (e.matches(".peak")) {
        compare(area, "y", Number(d.y), (r.top + r.bottom) / 2, 0.7, e);
      }
    }
    const dots = log ? [...svg.querySelectorAll(".dot")] : [];
    const texts = [...svg.querySelectorAll("text")];
    texts.forEach((e, i) => {
      for (const dot of dots) if (overlap(corners(e), corners(dot), 1.5)) say("overlap", `${where}: "${e.textContent}" and a dot`);
      if (!inside(e.getBoundingClientRect(), frame, 2)) say("outside", `${where}: text "${e.textContent}" leaves the plot`);
      for (const other of texts.slice(0, i)) if (overlap(corners(e), corners(other), 1.5)) say("overlap", `${where}: "${e.textContent}" and "${other.textContent}"`);
    });
  }

  // Structure.
  const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
  if (new Set(ids).size !== ids.length) say("structure", "an id occurs twice");
  let level = 0;
  for (const h of document.querySelectorAll("h1,h2,h3,h4")) {
    const next = Number(h.tagName[1]);
    if (next > level + 1) say("structure", `${named(h)} follows a heading of level ${level}`);
    level = next;
  }
  for (const e of document.querySelectorAll("th")) if (!e.scope) say("label", `${named(e)} has no scope`);
  for (const e of document.querySelectorAll(".scroll")) if (e.tabIndex !== 0 || !e.getAttribute("aria-label")) say("label", `${named(e)} cannot be scrolled by keyboard`);
  for (const e of document.querySelectorAll("input")) if (e.labels.length === 0) say("label", `${named(e)} has no label`);
  if (!document.documentElement.lang) say("label", "no language");
  return { problems, n_marks, n_placed, n_texts, lowest };
})()
