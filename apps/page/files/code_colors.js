// Colours for code: comments, strings, numbers and keywords, by families of languages. What is not known stays plain.
import { element } from "./dom.js";

const MAX_LENGTH = 60000;

const STRINGS = String.raw`"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?`;
const LINE = { slashes: String.raw`\/\/[^\n]*|\/\*[^]*?(?:\*\/|$)`, hash: "#[^\n]*", dashes: "--[^\n]*", angle: "<!--[^]*?(?:-->|$)" };

const C = "auto break case catch class const constexpr continue default delete do else enum extern false for friend goto if inline namespace new noexcept nullptr operator private protected public return sizeof static struct switch template this throw true try typedef typename union using virtual void volatile while bool char double float int long short signed size_t unsigned string final override interface implements import package extends instanceof abstract boolean byte null";
const WORDS = {
  c: C,
  go: "break case chan const continue default defer else fallthrough for func go goto if import interface map package range return select struct switch type var nil true false string int error bool",
  js: "async await break case catch class const continue default delete do else export extends false finally for from function if import in instanceof interface let new null of return static super switch this throw true try type typeof undefined var void while yield",
  python: "and as assert async await break class continue def del elif else except False finally for from global if import in is lambda None nonlocal not or pass raise return self True try while with yield match case",
  ruby: "begin class def do else elsif end false if in module nil not or require rescue return self super then true unless until when while yield",
  rust: "as async await break const continue crate else enum extern false fn for if impl in let loop match mod move mut pub ref return self Self static struct super trait true type unsafe use where while",
  shell: "case do done elif else esac exit export fi for function if in local return set then until while echo cd sudo",
  sql: "add all alter and as asc between by case create delete desc distinct drop else end exists foreign from group having in index inner insert into is join key left like limit not null on or order outer primary references right select set table then union unique update values when where with",
  none: "true false null yes no",
};

// family -> [comments, keywords]; languages by the names that follow a fence.
const FAMILIES = [
  ["c cc cpp c++ h hpp cuda java kotlin kt swift scala dart php csharp cs c# objc zig", LINE.slashes, WORDS.c],
  ["js javascript ts typescript jsx tsx mjs", LINE.slashes, WORDS.js],
  ["go golang", LINE.slashes, WORDS.go],
  ["rust rs", LINE.slashes, WORDS.rust],
  ["python py python3", LINE.hash, WORDS.python],
  ["ruby rb", LINE.hash, WORDS.ruby],
  ["sh bash shell zsh console fish make makefile cmake dockerfile", LINE.hash, WORDS.shell],
  ["yaml yml toml ini r perl", LINE.hash, WORDS.none],
  ["json jsonc css scss", LINE.slashes, WORDS.none],
  ["sql lua haskell hs", LINE.dashes, WORDS.sql],
  ["html xml svg", LINE.angle, ""],
];

const LANGUAGES = new Map();
for (const [names, comments, words] of FAMILIES) {
  const template = names.startsWith("js") ? "|`(?:[^`\\\\]|\\\\[^])*`?" : "";
  const pattern = new RegExp(`(${comments})|(${STRINGS}${template})|\\b(\\d[\\w.]*)|([\\p{L}_][\\p{L}\\p{N}_]*)`, "gu");
  for (const name of names.split(" ")) LANGUAGES.set(name, { pattern, words: new Set(words.split(" ")), any_case: names.startsWith("sql") });
}

const CLASSES = ["comment", "string", "number"];

// Texts and elements, in order.
export function code_spans(language, text) {
  const known = LANGUAGES.get(language.toLowerCase());
  if (!known || text.length > MAX_LENGTH) return [text];
  const out = [];
  let from = 0;
  for (const found of text.matchAll(known.pattern)) {
    const [all, comment, string, number, word] = found;
    const at = [comment, string, number].findIndex((group) => group !== undefined);
    const name = at >= 0 ? CLASSES[at] : known.words.has(known.any_case ? word.toLowerCase() : word) ? "keyword" : null;
    if (!name) continue;
    out.push(text.slice(from, found.index), element("span", { class: name }, all));
    from = found.index + all.length;
  }
  out.push(text.slice(from));
  return out;
}
