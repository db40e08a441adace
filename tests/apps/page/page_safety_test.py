#!/usr/bin/env python3
"""The page: nothing that a model or a file says becomes active, nothing is loaded from elsewhere, the server's headers."""
import json
import tempfile
import unittest
from pathlib import Path

from playwright.sync_api import expect
from page_testing import PARTS, PageTest, scripted

# Each does something where it is taken as markup. `done` marks that; the control below shows that it would.
PAYLOADS = [
    '<img src=x onerror="done()">',
    "<svg><animate onbegin=done() attributeName=x dur=1s></svg>",
    "<svg><svg onload=done()></svg></svg>",
    "<details open ontoggle=done()><summary>x</summary></details>",
    '<iframe srcdoc="<script>parent.done()</script>"></iframe>',
    "<video><source onerror=done()></video>",
    "<style onload=done()>*{}</style>",
]
# Where markdown could be talked into an active link, or into leaving its text.
TRICKS = [
    '<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1 onerror=done()&gt;">',
    "[x](javascript:done())", "[x](JaVaScRiPt:done())", "[x](java\tscript:done())", "[x](&#106;avascript:done())", "[x](<javascript:done()>)", "[x](data:text/html,<script>done()</script>)",
    "[x](vbscript:done())", "[x](blob:done())", "[x](//evil.example/x)", "[x](/v1/models)", "[x](page/app.js)", "<javascript:done()>", "![x](https://evil.example/pixel.png)", "![x](x\" onerror=\"done())",
    "[x](https://evil.example/\"onmouseover=\"done())", "https://evil.example/\"onmouseover=\"done()", "`<img src=x onerror=done()>`", "```html\"><img src=x onerror=done()>\n<script>done()</script>\n```",
    "| <img src=x onerror=done()> |\n|---|\n| <script>done()</script> |", "# <img src=x onerror=done()>", "- [x] <img src=x onerror=done()>", "> <script>done()</script>", "&lt;img src=x onerror=done()&gt;",
]
PLAIN = {"P", "H3", "H4", "H5", "H6", "BR", "STRONG", "EM", "DEL", "CODE", "PRE", "A", "UL", "OL", "LI", "INPUT", "BLOCKQUOTE", "TABLE", "THEAD", "TBODY", "TR", "TH", "TD", "HR", "DIV", "SPAN",
         "BUTTON", "svg", "path"}


class Safety(PageTest):
    ARGS = ("-m", "small=" + scripted("think"), "-m", "hostile=" + scripted("hostile"))

    def watch(self, page):
        page.evaluate("window.n_done = 0; window.done = () => { ++window.n_done; }; null")

    def assert_harmless(self, page, where):
        page.wait_for_timeout(30)  # handlers of errors and loads come a little later
        self.assertEqual(page.evaluate("window.n_done"), 0, where)
        tags = set(page.evaluate("[...document.querySelectorAll('.message .body *, .reasoning_text *')].map((e) => e.tagName)"))
        self.assertLessEqual(tags, PLAIN, where)
        attributes = set(page.evaluate("[...document.querySelectorAll('.message .body *, .reasoning_text *')].flatMap((e) => e.getAttributeNames())"))
        self.assertFalse({a for a in attributes if a.startswith("on") or a in ("src", "srcdoc", "style", "action", "formaction")}, where)
        for href in page.evaluate("[...document.querySelectorAll('.message a')].map((e) => e.getAttribute('href'))"):
            self.assertRegex(href, r"^(https?|mailto):", where)

    def test_the_control_payloads_would_be_active(self):
        """The same texts by innerHTML, in a page without the policy, do what they are made for."""
        page = self.profile().new_page()
        page.goto("about:blank")
        for payload in PAYLOADS:
            n = page.evaluate("""async (payload) => {
                let n = 0;
                window.done = () => { ++n; };
                const box = document.createElement("div");
                document.body.append(box);
                box.innerHTML = payload;
                for (let i = 0; i < 100 && !n; ++i) await new Promise((go) => setTimeout(go, 20));
                box.remove();
                return n;
            }""", payload)
            self.assertGreater(n, 0, f"{payload} does nothing anyway")

    def test_answers_stay_text(self):
        page = self.open()
        self.watch(page)
        for text in PAYLOADS:
            body = self.say(page, text)
            self.assert_harmless(page, text)
            self.assertIn("done()", body.text_content(), "and can be read")
        for text in TRICKS:
            self.say(page, text)
            self.assert_harmless(page, text)
        self.assertEqual(self.answers(page).count(), len(PAYLOADS) + len(TRICKS))

    def test_a_model_that_writes_markup(self):
        page = self.open()
        self.watch(page)
        page.get_by_role("button", name="Model and settings").click()
        page.get_by_label("Model", exact=True).select_option("hostile")
        self.ask(page, "hello")
        self.done(page)
        expect(self.answers(page).locator(".who")).to_have_text("hostile")
        self.assert_harmless(page, "the model's own words")
        self.assertIn("<img src=x onerror=done()>", self.answers(page).locator(".body").text_content())
        self.assertEqual(self.answers(page).locator("a").count(), 0)

    def test_everything_else_that_comes_from_outside_stays_text(self):
        page = self.open()
        self.watch(page)
        for payload in PAYLOADS[:3]:
            self.ask(page, payload)  # is the title too
            self.done(page)
            self.valve.canned = [("reasoning_content", payload), ("reasoning_content", "\n\n[x](javascript:done())"), ("content", "fine")]
            self.valve.model = payload
            self.ask(page, payload)
            self.done(page, 2)
            self.answers(page).last.locator("details.reasoning summary").click()
            self.assert_harmless(page, payload)
            self.valve.canned = None
            page.get_by_role("button", name="New conversation").click()

    def test_files_stay_text(self):
        page = self.open()
        self.watch(page)
        now = 1700000000000
        messages, parent = [], None
        for i, text in enumerate(PAYLOADS + TRICKS):
            messages.append({"id": f"u{i}", "parent": parent, "role": "user", "content": text, "created": now, "chosen": f"a{i}"})
            messages.append({"id": f"a{i}", "parent": f"u{i}", "role": "assistant", "content": text, "reasoning": text, "model": text, "error": text, "state": "error", "created": now, "chosen": None})
            parent = f"a{i}"
        for i in range(len(PAYLOADS + TRICKS) - 1):
            messages[2 * i + 1]["chosen"] = f"u{i + 1}"
        file = {"format": "quern-conversations", "version": 1, "conversations": [{"id": f"c{i}", "title": text[:200], "created": now, "changed": now + i, "chosen": "u0", "messages": messages}
                                                                                 for i, text in enumerate(PAYLOADS[:4])]}
        page.locator("#import_file").set_input_files({"name": "x.json", "mimeType": "application/json", "buffer": json.dumps(file).encode()})
        expect(page.locator("#conversations li")).to_have_count(4)
        self.assertEqual(self.answers(page).count(), len(PAYLOADS + TRICKS))
        for fold in page.locator("details.reasoning summary").all():
            fold.click()
        self.assert_harmless(page, "an imported file")
        page.reload()
        expect(self.answers(page)).to_have_count(len(PAYLOADS + TRICKS))
        self.watch(page)
        self.assert_harmless(page, "what is kept of it")

    def test_strings_cannot_become_markup_at_all(self):
        page = self.open()
        for attempt in ("document.body.innerHTML = '<b>x</b>'", "document.body.insertAdjacentHTML('beforeend', '<b>x</b>')", "eval('1')", "document.write('x')",
                        "document.createElement('script').text = '1'"):
            # A little later, as the page's own: what a driver evaluates itself is free of the policy.
            refused = page.evaluate(f"() => new Promise((tell) => setTimeout(() => {{ try {{ {attempt}; tell(false); }} catch (error) {{ tell(String(error)); }} }}))")
            self.assertTrue(refused, attempt)
        self.heard = [line for line in self.heard if "TrustedHTML" not in line and "TrustedScript" not in line and "Content Security Policy" not in line]

    def test_sources_make_no_markup(self):
        """No way from a string to markup or script stands in the page's own files."""
        words = ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "DOMParser", "createContextualFragment", "setHTMLUnsafe", "srcdoc", "eval(", "new Function", "javascript:", "http://", "style=", "<style")
        allowed = {("dom.js", "http://"), ("icon.svg", "http://"), ("markdown_inline.js", "http://")}  # names, not addresses
        found = {(path.name, word) for path in PARTS for word in words if word in path.read_text()}
        self.assertLessEqual(found, allowed)
        self.assertGreater(len(PARTS), 20)
        with tempfile.TemporaryDirectory() as folder:  # the control
            bad = Path(folder) / "bad.js"
            bad.write_text("box.innerHTML = text;")
            self.assertTrue([word for word in words if word in bad.read_text()])

    def test_headers(self):
        for path, kind in (("/", "text/html; charset=utf-8"), ("/page/app.js", "text/javascript; charset=utf-8"), ("/page/style.css", "text/css; charset=utf-8"), ("/page/icon.svg", "image/svg+xml; charset=utf-8")):
            status, headers, body = self.server.ask("GET", path)
            self.assertEqual((status, headers["Content-Type"], headers["X-Content-Type-Options"], headers["Cache-Control"]), (200, kind, "nosniff", "no-cache"), path)
            policy = {part.split()[0]: part.split()[1:] for part in headers["Content-Security-Policy"].split(";")}
            self.assertEqual(policy["default-src"], ["'self'"])
            for name in ("base-uri", "form-action", "frame-ancestors", "object-src"):
                self.assertEqual(policy[name], ["'none'"])
            self.assertEqual(policy["require-trusted-types-for"], ["'script'"])
            self.assertFalse({"script-src", "style-src"} & set(policy))
            again, more, empty = self.server.ask("GET", path, headers={"If-None-Match": headers["ETag"]})
            self.assertEqual((again, more["ETag"], empty), (304, headers["ETag"], ""))
            self.assertEqual(self.server.ask("GET", path, headers={"If-None-Match": '"other"'})[0], 200)
            status, head, empty = self.server.ask("HEAD", path)
            self.assertEqual((status, empty, int(head["Content-Length"])), (200, "", len(body.encode())))
            self.assertEqual(self.server.ask("POST", path, b"{}")[0], 405)
        for path in ("/page/", "/page/../page/app.js", "/page/nothing.js", "/index.html", "/page/index.html"):
            self.assertEqual(self.server.ask("GET", path)[0], 404, path)

    def test_every_file_is_served_as_it_is(self):
        for path in PARTS:
            got, _, body = self.server.ask("GET", "/" if path.name == "index.html" else f"/page/{path.name}")
            self.assertEqual((got, body), (200, path.read_text()), path.name)

    def test_the_page_cannot_be_framed_or_load_from_elsewhere(self):
        context = self.profile()
        page = context.new_page()
        page.goto("about:blank")
        page.evaluate(f"""() => new Promise((done) => {{
            const frame = document.createElement("iframe");
            frame.onload = done;
            frame.src = "http://127.0.0.1:{self.valve.port}/";
            document.body.append(frame);
        }})""")
        self.assertFalse(any(frame.locator("#composer").count() for frame in page.frames[1:]))
        page = self.open(context)
        for attempt in ("fetch('http://127.0.0.1:9/x')", "new Promise((ok, no) => { const i = new Image(); i.onload = ok; i.onerror = no; i.src = 'http://127.0.0.1:9/x.png'; })"):
            self.assertEqual(page.evaluate(f"{attempt}.then(() => 'loaded', () => 'refused')"), "refused")
        self.assertTrue([line for line in self.heard if "Content Security Policy" in line])
        self.assertFalse([line for line in self.heard if "ERR_CONNECTION" in line], "it was the policy that refused")
        self.heard.clear()

    def test_the_control_a_request_to_elsewhere_is_heard(self):
        """In a browser that ignores the policy; every other test asserts that nothing of the kind is heard."""
        page = self.open(self.profile(bypass_csp=True))
        page.evaluate("fetch('http://127.0.0.1:9/x').catch(() => 0)")
        self.assertIn("request: http://127.0.0.1:9/x", self.heard)
        self.heard.clear()


if __name__ == "__main__":
    unittest.main()
