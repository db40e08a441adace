// Markdown as elements. A text that grows (an answer while it comes) changes only the blocks at its end.
import { code_spans } from "./code_colors.js";
import { copy_button } from "./copy.js";
import { element } from "./dom.js";
import { markdown_blocks } from "./markdown_blocks.js";
import { markdown_spans } from "./markdown_inline.js";

const HEADING_OFFSET = 2;  // a message's own heading is of level 2

const SPANS = {
  text: (span) => span.text,
  break: () => element("br"),
  code: (span) => element("code", {}, span.text),
  strong: (span) => element("strong", {}, ...inline(span.spans)),
  emphasis: (span) => element("em", {}, ...inline(span.spans)),
  deleted: (span) => element("del", {}, ...inline(span.spans)),
  link: (span) => element("a", { href: span.href, target: "_blank", rel: "noopener noreferrer nofollow" }, ...inline(span.spans)),
};

const inline = (spans) => spans.map((span) => SPANS[span.type](span));
const inline_text = (text) => inline(markdown_spans(text));

function code_element(block) {
  const name = block.language || "code";
  const code = element("code", {}, ...(block.open ? [block.text] : code_spans(block.language, block.text)));
  return element("div", { class: "code" },
    element("div", { class: "code_head" }, element("span", {}, name.slice(0, 40)), copy_button(() => block.text, "Copy code")),
    element("pre", { tabindex: "0", role: "group", "aria-label": `${name.slice(0, 40)}, scrollable` }, code));
}

function item_element(item) {
  const [first, ...rest] = item.blocks;
  const head = first?.type === "paragraph" ? inline_text(first.text) : first ? [block_element(first)] : [];
  const box = item.task === null ? [] : [element("input", { type: "checkbox", disabled: true, checked: item.task, "aria-label": item.task ? "done" : "to do" }), " "];
  return element("li", { class: item.task === null ? null : "task" }, ...box, ...head, ...rest.map(block_element));
}

function table_element(block) {
  const row = (cells, tag) => element("tr", {}, ...cells.map((cell, i) => element(tag, { class: block.align[i], scope: tag === "th" ? "col" : null }, ...inline_text(cell))));
  const [head, ...body] = block.rows;
  return element("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Table, scrollable" },
    element("table", {}, element("thead", {}, row(head, "th")), element("tbody", {}, ...body.map((cells) => row(cells, "td")))));
}

const BLOCKS = {
  paragraph: (block) => element("p", {}, ...inline_text(block.text)),
  heading: (block) => element(`h${Math.min(6, block.level + HEADING_OFFSET)}`, {}, ...inline_text(block.text)),
  code: code_element,
  quote: (block) => element("blockquote", {}, ...block.blocks.map(block_element)),
  list: (block) => element(block.ordered ? "ol" : "ul", { start: block.ordered && block.start !== 1 ? String(block.start) : null }, ...block.items.map(item_element)),
  table: table_element,
  rule: () => element("hr"),
};

function block_element(block) {
  return BLOCKS[block.type](block);
}

export class Markdown {
  #text = "";
  #shown = [];  // {source, block, node}

  constructor(container) {
    this.container = container;
  }

  update(text) {
    if (text === this.#text) return;
    this.#text = text;
    const blocks = markdown_blocks(text);
    let same = 0;
    while (same < blocks.length && same < this.#shown.length && this.#shown[same].source === blocks[same].source) ++same;
    if (same === blocks.length - 1 && same === this.#shown.length - 1 && this.#grow(blocks[same])) return;
    for (const { node } of this.#shown.splice(same)) node.remove();
    for (const block of blocks.slice(same)) {
      const node = block_element(block);
      this.container.append(node);
      this.#shown.push({ source: block.source, block, node });
    }
  }

  // Code that is not complete yet gets only its new text, so that a long one is not built anew for each token.
  #grow(block) {
    const last = this.#shown.at(-1);
    if (block.type !== "code" || !block.open || last.block.type !== "code" || last.block.language !== block.language) return false;
    last.block.text = block.text;
    last.source = block.source;
    last.node.querySelector("code").textContent = block.text;
    return true;
  }
}
