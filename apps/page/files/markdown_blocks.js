// Markdown, first half: text -> blocks, as plain objects. CommonMark and GitHub's tables as models write them, not every
// corner of the standard. Reads each line a bounded number of times, nests at most MAX_DEPTH deep, and makes no elements.
//
// Blocks: {type: "paragraph", text}, {type: "heading", level, text}, {type: "code", language, text, open},
// {type: "quote", blocks}, {type: "list", ordered, start, items: [{task, blocks}]}, {type: "table", align, rows},
// {type: "rule"}. At the top each also has `source`, its lines.

const MAX_DEPTH = 12;

const FENCE = /^( {0,3})(`{3,}|~{3,})[ \t]*([^`\n]*)$/;
const HEADING = /^ {0,3}(#{1,6})(?=[ \t]|$)/;
const RULE = /^ {0,3}([-*_])(?:[ \t]*\1){2,}[ \t]*$/;
const QUOTE = /^ {0,3}>/;
const MARKER = /^( *)([-*+]|\d{1,9}[.)])(?:([ \t]+)|$)/;
const TASK = /^\[([ xX])\][ \t]+/;

const blank = (line) => line.trim() === "";
const indent_of = (line) => line.length - line.trimStart().length;

// A bar within code does not end a cell, though the standard would have it so: models forget to escape it.
function cells_of(line) {
  const cells = [];
  let cell = "";
  const row = line.trim();
  for (let i = row.startsWith("|") ? 1 : 0; i < row.length; ++i) {
    const code_end = row[i] === "`" ? row.indexOf("`", i + 1) : -1;
    if (code_end > 0) cell += row.slice(i, code_end + 1).replaceAll("\\|", "|"), i = code_end;
    else if (row[i] === "\\" && row[i + 1] === "|") cell += row[++i];
    else if (row[i] === "|") cells.push(cell.trim()), cell = "";
    else cell += row[i];
  }
  if (cell.trim() !== "" || !row.endsWith("|")) cells.push(cell.trim());
  return cells;
}

// The alignments of a row like |:--|--:|, or null.
function alignments_of(line) {
  if (!line?.includes("-")) return null;
  const cells = cells_of(line);
  if (!cells.every((cell) => /^:?-+:?$/.test(cell))) return null;
  return cells.map((cell) => (cell.endsWith(":") ? (cell.startsWith(":") ? "center" : "right") : "left"));
}

function begins_table(lines, i) {
  if (!lines[i].includes("|")) return false;
  const align = alignments_of(lines[i + 1]);
  return align !== null && align.length === cells_of(lines[i]).length;
}

// Whether a line ends the paragraph before it.
function interrupts(lines, i) {
  const line = lines[i];
  if (FENCE.test(line) || HEADING.test(line) || RULE.test(line) || QUOTE.test(line) || begins_table(lines, i)) return true;
  const marker = MARKER.exec(line);
  return marker !== null && marker[3] !== undefined && (!/\d/.test(marker[2]) || /^1[.)]/.test(marker[2]));
}

// Each reader takes the lines and the place of a block and returns [block, the place behind it], or null.

function read_fence(lines, i) {
  const fence = FENCE.exec(lines[i]);
  if (!fence) return null;
  const [, indent, marks, info] = fence;
  const text = [];
  for (let at = i + 1; at < lines.length; ++at) {
    const end = lines[at].trim();
    if (end.length >= marks.length && end === marks[0].repeat(end.length)) return [code_block(info, text, false), at + 1];
    text.push(lines[at].slice(Math.min(indent_of(lines[at]), indent.length)));
  }
  return [code_block(info, text, true), lines.length];
}

function code_block(info, lines, open) {
  return { type: "code", language: info.trim().split(/\s/, 1)[0], text: lines.join("\n"), open };
}

function read_indented(lines, i) {
  const inside = (line) => line.startsWith("    ") || line.startsWith("\t");
  if (!inside(lines[i])) return null;
  let end = i;
  for (let at = i; at < lines.length && (inside(lines[at]) || blank(lines[at])); ++at) {
    if (!blank(lines[at])) end = at + 1;
  }
  return [code_block("", lines.slice(i, end).map((line) => line.replace(/^(?: {4}|\t)/, "")), false), end];
}

function read_heading(lines, i) {
  const heading = HEADING.exec(lines[i]);
  if (!heading) return null;
  const text = lines[i].slice(heading[0].length).trim().replace(/(^|[ \t])#+$/, "").trim();
  return [{ type: "heading", level: heading[1].length, text }, i + 1];
}

function read_rule(lines, i) {
  return RULE.test(lines[i]) ? [{ type: "rule" }, i + 1] : null;
}

function read_quote(lines, i, depth) {
  if (!QUOTE.test(lines[i])) return null;
  let end = i;
  while (end < lines.length && QUOTE.test(lines[end])) ++end;
  const inner = lines.slice(i, end).map((line) => line.replace(/^ {0,3}> ?/, ""));
  return [{ type: "quote", blocks: blocks_of(inner, depth + 1) }, end];
}

function read_table(lines, i) {
  if (!begins_table(lines, i)) return null;
  const align = alignments_of(lines[i + 1]);
  const rows = [cells_of(lines[i])];
  let end = i + 2;
  for (; end < lines.length && !blank(lines[end]) && lines[end].includes("|"); ++end) {
    const cells = cells_of(lines[end]), n = align.length;
    const more = cells.splice(n).map((cell) => ` | ${cell}`).join("");  // more cells than columns: in the last one
    rows.push(Array.from({ length: n }, (_, i) => (cells[i] ?? "") + (i === n - 1 ? more : "")));
  }
  return [{ type: "table", align, rows }, end];
}

// Models indent what belongs to an item by two spaces as often as by the width of its marker: both do.
function read_list(lines, i, depth) {
  const first = MARKER.exec(lines[i]);
  if (!first || first[1].length > 3) return null;
  const base = first[1].length, ordered = /\d/.test(first[2]), kind = first[2].at(-1);
  const items = [];
  let at = i;
  while (at < lines.length) {
    const marker = MARKER.exec(lines[at]);
    if (!marker || marker[1].length >= base + 2 || marker[2].at(-1) !== kind || RULE.test(lines[at])) break;
    const width = Math.min(marker[0].length, marker[1].length + marker[2].length + 4);
    const inner = [lines[at].slice(width)];
    let blanks = 0;
    for (++at; at < lines.length; ++at) {
      const line = lines[at];
      if (blank(line)) { ++blanks; continue; }
      const inside = indent_of(line) >= base + 2;
      if (!inside && (blanks > 0 || interrupts(lines, at) || MARKER.test(line))) break;
      while (blanks > 0) inner.push(""), --blanks;
      inner.push(line.slice(Math.min(indent_of(line), width)));
    }
    at -= blanks;
    const task = TASK.exec(inner[0]);
    if (task) inner[0] = inner[0].slice(task[0].length);
    items.push({ task: task ? task[1] !== " " : null, blocks: blocks_of(inner, depth + 1) });
    let next = at;
    while (next < lines.length && blank(lines[next])) ++next;
    if (next === lines.length || !MARKER.test(lines[next])) break;
    at = next;
  }
  return [{ type: "list", ordered, start: ordered ? Number.parseInt(first[2], 10) : 1, items }, at];
}

function read_paragraph(lines, i) {
  let end = i + 1;
  while (end < lines.length && !blank(lines[end]) && !interrupts(lines, end)) ++end;
  return [{ type: "paragraph", text: lines.slice(i, end).map((line) => line.trimStart()).join("\n").trimEnd() }, end];
}

const READERS = [read_fence, read_heading, read_rule, read_quote, read_list, read_table, read_indented, read_paragraph];

function blocks_of(lines, depth) {
  const readers = depth < MAX_DEPTH ? READERS : [read_fence, read_paragraph];
  const blocks = [];
  let at = 0;
  while (at < lines.length) {
    if (blank(lines[at])) { ++at; continue; }
    for (const read of readers) {
      const found = read(lines, at, depth);
      if (!found) continue;
      const [block, end] = found;
      if (depth === 0) block.source = lines.slice(at, end).join("\n");
      blocks.push(block);
      at = end;
      break;
    }
  }
  return blocks;
}

export function markdown_blocks(text) {
  return blocks_of(text.replaceAll("\r\n", "\n").split("\n"), 0);
}
