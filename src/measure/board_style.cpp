// Constant text of the page: style and script. Colours are custom properties, one set for light and one for dark.
// The script adds sorting, filtering and the choice of colours; without it the page lacks nothing else.
#include "measure/board_parts.h"

namespace quern::measure::board {

// Colours of text have a contrast of 4.5 and more on their grounds, those of marks 3 and more
// (tests/measure/board_page_test.py).
#define QUERN_BOARD_DARK                                                                                          \
  "--ground:#14171a;--card:#1c2024;--line:#363c43;--text:#ebe8e2;--muted:#a9afb7;--link:#ffab7d;--focus:#ffab7d;" \
  "--good:#7fd49a;--bad:#ff9d9d;--quern:#ff8f5c;--peer1:#8fa9c9;--peer2:#c9b062;--peer3:#b08fc9;--b0:#ff8f5c;"    \
  "--b1:#6cb2e0;--b2:#d9b44a;--b3:#7cc089;--b4:#c68fd1;--b5:#9aa7b8;--b6:#f08aa6;--b7:#5fc1bb;"                   \
  "color-scheme:dark"

const std::string_view kStyle =
    R"css(
  :root{--ground:#f7f5f0;--card:#ffffff;--line:#d9d5cb;--text:#1d2023;--muted:#565c64;--link:#97360f;--focus:#97360f;
  --good:#1b6b38;--bad:#a32020;--quern:#c24a17;--peer1:#5b7796;--peer2:#8a7420;--peer3:#80609a;--b0:#c24a17;--b1:#2a76a8;
  --b2:#917312;--b3:#3f7f4c;--b4:#8a4d99;--b5:#64707f;--b6:#b5446b;--b7:#217f79;color-scheme:light}
  @media (prefers-color-scheme:dark){:root:not([data-theme=light]){)css" QUERN_BOARD_DARK R"css(}}
  :root[data-theme=dark]{)css" QUERN_BOARD_DARK R"css(}
  *{box-sizing:border-box}
  html{scroll-behavior:smooth;-webkit-text-size-adjust:100%;text-size-adjust:100%}
  @media (prefers-reduced-motion:reduce){html{scroll-behavior:auto}}
  body{margin:0 auto;max-width:1240px;padding:0 16px 48px;background:var(--ground);color:var(--text);
  font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}
  h1,h2,h3,h4,p,dl,figure,ul{margin:0}
  h1{font-size:30px;line-height:1.2;letter-spacing:-.01em}
  h2{font-size:24px;line-height:1.25;overflow-wrap:anywhere}
  h3{font-size:20px;line-height:1.3;overflow-wrap:anywhere}
  h4{font-size:16px;margin-top:28px}
  a{color:var(--link)}
  code{font:.92em/1.4 ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;overflow-wrap:anywhere}
  :focus-visible{outline:2px solid var(--focus);outline-offset:2px;border-radius:3px}
  .muted,.unit,.none{color:var(--muted)}
  .unit{font-weight:400;font-size:.86em}
  .top{display:flex;flex-wrap:wrap;gap:16px 32px;align-items:flex-end;justify-content:space-between;padding:32px 0 16px}
  .top p{max-width:68ch;margin-top:8px;color:var(--muted)}
  .controls{display:flex;flex-wrap:wrap;gap:8px 12px;align-items:center}
  .controls[hidden]{display:none}
  .controls input,.controls button{font:inherit;font-size:14px;color:var(--text);background:var(--card);
  border:1px solid var(--muted);border-radius:6px;padding:6px 10px;max-width:100%}
  .controls input::placeholder{color:var(--muted);opacity:1}
  .controls button{cursor:pointer}
  nav{border-block:1px solid var(--line);padding:10px 0;font-size:15px;overflow-wrap:anywhere}
  nav ul{list-style:none;padding:0;display:flex;flex-wrap:wrap;gap:4px 20px}
  nav>ul>li{display:flex;flex-wrap:wrap;gap:4px 20px}
  nav>ul>li>a{font-weight:600}
  .box{padding-top:36px}
  .box>h3{margin-top:28px}
  .facts{display:flex;flex-wrap:wrap;gap:12px 28px;margin-top:14px}
  .facts div{min-width:0;overflow-wrap:anywhere}
  .facts dt{font-size:13px;color:var(--muted)}
  .facts dd{margin:0;font-weight:600}
  .model{margin-top:28px;padding:20px;background:var(--card);border:1px solid var(--line);border-radius:10px}
  .model[hidden],tbody[hidden]{display:none}
  .model-facts{color:var(--muted);font-size:14px;margin-top:4px;overflow-wrap:anywhere}
  .legend{display:flex;flex-wrap:wrap;gap:4px 18px;font-size:14px;margin-top:14px;overflow-wrap:anywhere}
  .swatch{display:inline-block;width:11px;height:11px;border-radius:2px;margin-right:7px;background:var(--c)}
  .plots{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,320px),1fr));gap:28px 36px;margin-top:18px;align-items:start}
  figure{min-width:0}
  figcaption{font-size:14px;margin-bottom:8px;overflow-wrap:anywhere;line-height:1.35}
  figcaption strong{display:block;font-size:15px}
  figcaption span{color:var(--muted)}
  .plot{display:block;width:100%;max-width:420px;height:auto;overflow:visible}
  .wide .plot{max-width:440px}
  svg text{font-size:12px;fill:var(--text);font-variant-numeric:tabular-nums}
  svg .strong{font-weight:600}
  svg .muted,svg .tick{fill:var(--muted)}
  svg .tick,svg .small,svg .roof-name,svg .mark-name{font-size:11px}
  svg .mono{font-family:ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace;font-size:10.5px}
  .area{fill:none}
  .roofline .area,.history .area{stroke:var(--line)}
  .grid{stroke:var(--line);stroke-width:1}
  .quern{--c:var(--quern)}.peer1{--c:var(--peer1)}.peer2{--c:var(--peer2)}.peer3{--c:var(--peer3)}
  .b0{--c:var(--b0)}.b1{--c:var(--b1)}.b2{--c:var(--b2)}.b3{--c:var(--b3)}
  .b4{--c:var(--b4)}.b5{--c:var(--b5)}.b6{--c:var(--b6)}.b7{--c:var(--b7)}
  .bar{fill:var(--c)}
  .segment{stroke:var(--card);stroke-width:1}
  .dot{fill:var(--card);stroke:var(--c);stroke-width:1.2}
  .bar~.dot{stroke:var(--text);stroke-width:.9}
  .history .dot,.roofline .dot{fill:var(--c);stroke:var(--card);stroke-width:1.2}
  .whisker{stroke:var(--text);stroke-width:1.5}
  .one{stroke:var(--text);stroke-width:1.2;stroke-dasharray:3 2.5}
  .path{fill:none;stroke:var(--c);stroke-width:2}
  .roof{stroke:var(--text);stroke-width:1.6}
  .peak{stroke-dasharray:6 3}
  .leader{stroke:var(--muted);stroke-width:.8}
  .roof-name,.mark-name{paint-order:stroke;stroke:var(--card);stroke-width:3px;stroke-linejoin:round}
  svg .roof-name{fill:var(--muted)}
  .box{--here:var(--ground)}.model{--here:var(--card)}
  .scroll{overflow-x:auto;margin-top:16px;max-width:100%;background:linear-gradient(to left,var(--here) 30%,transparent) right/48px 100% no-repeat local,
  linear-gradient(to left,var(--line),transparent) right/14px 100% no-repeat scroll}
  table{border-collapse:collapse;font-size:14px;font-variant-numeric:tabular-nums}
  th,td{padding:6px 16px 6px 0;text-align:left;vertical-align:baseline;white-space:nowrap}
  thead th{color:var(--muted);font-weight:600;font-size:13px;border-bottom:1px solid var(--line)}
  tbody th{font-weight:600}
  .n{text-align:right}
  td.strong{font-weight:600}
  .runs{width:100%}
  .runs tbody tr:first-child>*{border-top:1px solid var(--line)}
  .runs tbody tr:first-child>*{padding-bottom:1px}
  .more td{padding:0 0 6px;white-space:normal}
  .more details{max-width:min(900px,calc(100vw - 76px))}
  .summary td{font-size:17px;font-weight:600}
  .summary thead th{vertical-align:bottom;white-space:normal;min-width:88px;max-width:180px;overflow-wrap:break-word}
  .summary thead .unit{display:block}
  .summary tbody th{white-space:normal;min-width:130px;overflow-wrap:anywhere}
  .faster{color:var(--good)}.slower{color:var(--bad)}
  .flag{display:inline-block;border:1px solid currentColor;border-radius:4px;padding:0 5px;font-size:12px;color:var(--bad)}
  thead button{all:unset;cursor:pointer;color:inherit}
  thead button:focus-visible{outline:2px solid var(--focus)}
  thead button:hover{text-decoration:underline}
  [aria-sort=ascending] button::after{content:" ↑"}
  [aria-sort=descending] button::after{content:" ↓"}
  summary{cursor:pointer;color:var(--muted);font-size:13px;width:fit-content;max-width:100%;overflow-wrap:anywhere}
  .hidden{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
  .more td{position:relative}
  .earlier{margin-top:16px}
  .earlier>summary{font-size:14px}
  details dl{display:grid;grid-template-columns:max-content minmax(0,1fr);gap:2px 14px;padding:6px 0 4px;font-size:13px}
  details dt{color:var(--muted);max-width:26vw;overflow-wrap:anywhere}
  details dd{margin:0;overflow-wrap:anywhere}
  .tables{display:flex;flex-wrap:wrap;gap:8px 48px}
  .tables>div{min-width:0;max-width:100%}
  .tables p,.tables~p{font-size:13px;margin-top:8px;overflow-wrap:anywhere}
  .buckets tbody tr>*{border-top:1px solid var(--line);padding-block:4px}
  .buckets tbody th{font-weight:400;white-space:normal;overflow-wrap:anywhere;min-width:120px}
  footer{margin-top:40px;font-size:14px;color:var(--muted)}
  @media (max-width:560px){
  .model{margin-inline:-16px;padding:18px 16px;border-inline:0;border-radius:0}
  .runs tbody th{white-space:normal;min-width:136px;overflow-wrap:anywhere}
  .runs tbody th .unit{display:block}
  .summary thead th{min-width:0}
  .summary thead .unit{font-size:11px}
  .summary tbody th{min-width:84px}
  .summary th,.summary td{padding-right:10px}
  .summary td{font-size:15px}
  .more details{max-width:calc(100vw - 32px);position:sticky;left:0}
  }
  @media print{.controls,nav{display:none}}
)css";

const std::string_view kScript =
    R"js(
"use strict";
(() => {
  const root = document.documentElement, names = ["system", "light", "dark"];
  const store = (value) => { try { if (value !== undefined) localStorage.setItem("quern-board", value); return localStorage.getItem("quern-board"); } catch { return null; } };
  const theme = document.getElementById("page_theme"), filter = document.getElementById("page_filter");
  let chosen = Math.max(0, names.indexOf(store()));
  const paint = () => {
    if (chosen) root.dataset.theme = names[chosen]; else delete root.dataset.theme;
    theme.textContent = "Colours: " + names[chosen];
  };
  theme.addEventListener("click", () => { chosen = (chosen + 1) % names.length; store(names[chosen]); paint(); });
  paint();

  filter.addEventListener("input", () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const model of document.querySelectorAll(".model")) {
      const name = model.dataset.text.toLowerCase();
      const rows = [...model.querySelectorAll("tbody[data-text]")];
      for (const row of rows) {
        const text = name + " " + row.dataset.text.toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
      }
      model.hidden = !words.every((word) => name.includes(word)) && rows.every((row) => row.hidden);
    }
  });

  for (const table of document.querySelectorAll(".runs")) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down > 0 ? "ascending" : "descending");
        const key = (body) => { const cell = body.rows[0].cells[column]; return "sort" in cell.dataset ? Number(cell.dataset.sort) : cell.textContent; };
        const order = (a, b) => (typeof a === "number" ? a - b : a < b ? -1 : a > b ? 1 : 0) * down;
        table.append(...[...table.tBodies].sort((a, b) => order(key(a), key(b))));
      });
    });
  }
  document.getElementById("page_controls").hidden = false;
})();
)js";

const std::string_view kScriptSha256 = "mpUVkp0KxM8RRtuhoFS/qQRS1odoCyRkf8ow8tAiJ3c=";

}  // namespace quern::measure::board
