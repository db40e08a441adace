// Markdown, second half: the text of a paragraph -> spans, as plain objects. HTML is text like any other, except <br>. An
// image becomes a link to it: nothing is loaded from elsewhere. Links lead to http, https and mailto only.
//
// Spans: {type: "text", text}, {type: "code", text}, {type: "break"}, {type: "strong" | "emphasis" | "deleted", spans},
// {type: "link", href, spans}.

const MAX_DEPTH = 12;
const PUNCTUATION = /[!-/:-@[-`{-~\p{P}\p{S}]/u;
const SPACE = /\s/u;
const DESTINATION = /\(\s*(<[^<>\n]*>|[^\s()<>]*(?:\([^\s()<>]*\)[^\s()<>]*)*)(?:\s+(?:"[^"]*"|'[^']*'))?\s*\)/y;
const ADDRESS = /https?:\/\/[^\s<>"'`\]]{1,2000}/y;
const BRACKETED = /<(https?:\/\/[^\s<>]+|mailto:[^\s<>]+)>/y;
const BREAK = /<br[ \t]*\/?>/iy;
const ENTITY = /&(?:(amp|lt|gt|quot|apos|nbsp)|#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6}));/y;
const ENTITIES = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0" };

export function safe_address(address) {
  try {
    const { protocol, href } = new URL(address);
    return ["http:", "https:", "mailto:"].includes(protocol) ? href : null;
  } catch {
    return null;
  }
}

function match_at(pattern, text, at) {
  pattern.lastIndex = at;
  return pattern.exec(text);
}

const depth_of = (spans) => spans.reduce((most, span) => Math.max(most, span.depth ?? 0), 0);

class Inline {
  #text;
  #at = 0;
  #out = [];       // spans, and openers: runs of marks that may still begin something
  #openers = { "*": [], _: [], "~": [] };  // places in #out
  #brackets = [];  // {place in #out, image}

  constructor(text) {
    this.#text = text;
  }

  spans() {
    while (this.#at < this.#text.length) this.#step();
    return tidy(this.#out);
  }

  #push(text) {
    const last = this.#out.at(-1);
    if (last?.type === "text" && !last.opener) last.text += text;
    else this.#out.push({ type: "text", text });
  }

  #step() {
    const text = this.#text, at = this.#at, c = text[at];
    if (c === "\\") return this.#escape();
    if (c === "`") return this.#code();
    if (c === "*" || c === "_" || c === "~") return this.#marks(c);
    if (c === "\n") return this.#line_end();
    if (c === "[" || (c === "!" && text[at + 1] === "[")) return this.#bracket(c === "!");
    if (c === "]") return this.#link();
    if (c === "<") return this.#angle();
    if (c === "&") return this.#entity();
    if (c === "h" && !/[\p{L}\p{N}]/u.test(text[at - 1] ?? " ")) return this.#address();
    let end = at + 1;
    while (end < text.length && !"\\`*_~\n[!]<&h".includes(text[end])) ++end;
    this.#push(text.slice(at, end));
    this.#at = end;
  }

  #take(n) {
    this.#push(this.#text.slice(this.#at, this.#at + n));
    this.#at += n;
  }

  #escape() {
    const next = this.#text[this.#at + 1] ?? "";
    if (!/[!-/:-@[-`{-~]/.test(next)) return this.#take(1);
    this.#push(next);
    this.#at += 2;
  }

  // What people and models mean by a new line is a new line.
  #line_end() {
    const last = this.#out.at(-1);
    if (last?.type === "text" && !last.opener) last.text = last.text.trimEnd();
    this.#out.push({ type: "break" });
    this.#at += 1;
  }

  #code() {
    const marks = /`+/y;
    const run = match_at(marks, this.#text, this.#at)[0];
    let from = this.#at + run.length;
    for (;;) {
      const end = this.#text.indexOf(run, from);
      if (end < 0) return this.#take(run.length);
      const found = match_at(marks, this.#text, end)[0];
      if (found.length === run.length) {
        const inside = this.#text.slice(this.#at + run.length, end).replaceAll("\n", " ");
        const padded = inside.startsWith(" ") && inside.endsWith(" ") && inside.trim() !== "";
        this.#out.push({ type: "code", text: padded ? inside.slice(1, -1) : inside });
        this.#at = end + run.length;
        return;
      }
      from = end + found.length;
    }
  }

  #marks(mark) {
    const text = this.#text, at = this.#at;
    let end = at;
    while (text[end] === mark) ++end;
    const before = text[at - 1] ?? " ", after = text[end] ?? " ";
    const left = !SPACE.test(after) && (!PUNCTUATION.test(after) || SPACE.test(before) || PUNCTUATION.test(before));
    const right = !SPACE.test(before) && (!PUNCTUATION.test(before) || SPACE.test(after) || PUNCTUATION.test(after));
    let can_open = left, can_close = right;
    if (mark === "_") {
      can_open = left && (!right || PUNCTUATION.test(before));
      can_close = right && (!left || PUNCTUATION.test(after));
    }
    this.#at = end;
    let count = end - at;
    if (can_close) count = this.#close(mark, count);
    if (count === 0) return;
    if (!can_open) return this.#push(mark.repeat(count));
    this.#openers[mark].push(this.#out.length);
    this.#out.push({ type: "text", text: mark.repeat(count), opener: true });
  }

  // Ends what runs of this mark began; the number of marks that are left.
  #close(mark, count) {
    const openers = this.#openers[mark];
    while (count > 0 && openers.length > 0) {
      const place = openers.at(-1), opener = this.#out[place];
      const n = Math.min(2, count, opener.text.length);
      if (mark === "~" && n < 2) return count;
      const spans = this.#out.slice(place + 1);
      const depth = depth_of(spans) + 1;
      if (depth > MAX_DEPTH || spans.length === 0) {
        openers.pop();  // it stays text
        continue;
      }
      this.#cut(place + 1);
      opener.text = opener.text.slice(n);
      if (opener.text === "") {
        this.#out.pop();
        openers.pop();
      }
      this.#out.push({ type: mark === "~" ? "deleted" : n === 2 ? "strong" : "emphasis", spans: tidy(spans), depth });
      count -= n;
    }
    return count;
  }

  // Takes everything from a place on out of #out, and forgets the openers there.
  #cut(place) {
    this.#out.length = place;
    for (const openers of Object.values(this.#openers)) {
      while (openers.length > 0 && openers.at(-1) >= place) openers.pop();
    }
    while (this.#brackets.length > 0 && this.#brackets.at(-1).place >= place) this.#brackets.pop();
  }

  #bracket(image) {
    this.#brackets.push({ place: this.#out.length, image });
    this.#out.push({ type: "text", text: image ? "![" : "[", opener: true });
    this.#at += image ? 2 : 1;
  }

  #link() {
    const bracket = this.#brackets.pop();
    const found = bracket && match_at(DESTINATION, this.#text, this.#at + 1);
    if (!found) return this.#take(1);
    const href = safe_address(found[1].replace(/^<|>$/g, ""));
    if (href === null) {
      this.#push(`]${found[0]}`);
    } else {
      // No link in a link.
      const spans = tidy(this.#out.slice(bracket.place + 1)).flatMap((span) => (span.type === "link" ? span.spans : [span]));
      this.#cut(bracket.place);
      if (spans.length === 0) spans.push({ type: "text", text: href });
      this.#out.push({ type: "link", href, spans, depth: depth_of(spans) + 1 });
    }
    this.#at += 1 + found[0].length;
  }

  #angle() {
    const address = match_at(BRACKETED, this.#text, this.#at);
    if (address && this.#add_address(address[1])) {
      this.#at += address[0].length;
      return;
    }
    const line_break = match_at(BREAK, this.#text, this.#at);
    if (!line_break) return this.#take(1);
    this.#out.push({ type: "break" });
    this.#at += line_break[0].length;
  }

  #entity() {
    const found = match_at(ENTITY, this.#text, this.#at);
    if (!found) return this.#take(1);
    const [all, name, decimal, hex] = found;
    const code = name ? 0 : Number.parseInt(decimal ?? hex, decimal ? 10 : 16);
    this.#push(name ? ENTITIES[name] : code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : "\ufffd");
    this.#at += all.length;
  }

  #address() {
    const found = match_at(ADDRESS, this.#text, this.#at);
    if (!found) return this.#take(1);
    let address = found[0].replace(/[.,;:!?*_~]+$/, "");
    while (address.endsWith(")") && !address.includes("(")) address = address.slice(0, -1);
    if (!this.#add_address(address)) return this.#take(1);
    this.#at += address.length;
  }

  #add_address(address) {
    const href = safe_address(address);
    if (href !== null) this.#out.push({ type: "link", href, spans: [{ type: "text", text: address }], depth: 1 });
    return href !== null;
  }
}

// Openers that began nothing are text; neighbouring texts are one.
function tidy(spans) {
  const out = [];
  for (const span of spans) {
    const last = out.at(-1);
    if (span.type === "text" && last?.type === "text") last.text += span.text;
    else out.push(span.type === "text" ? { type: "text", text: span.text } : span);
  }
  return out;
}

export function markdown_spans(text) {
  return new Inline(text).spans();
}
