#!/usr/bin/env python3
"""The board's page in a real browser: Debian's chromium, driven by playwright, from a file and without a network.

board_checks.js measures the page (overflow, contrast, places of marks, overlap of texts, labels); this file opens it in
light and dark, on a phone and a desk, with and without script, uses it by keyboard, and breaks it on purpose to see that
each check can fail. Screenshots are kept in QUERN_SCREENSHOTS.
"""
import base64
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from playwright.sync_api import sync_playwright

HERE = Path(__file__).resolve().parent
RECORDS = HERE / "data" / "records"
QUERN = os.environ["QUERN_BINARY"]
SHOTS = Path(os.environ["QUERN_SCREENSHOTS"])
CHECKS = (HERE / "board_checks.js").read_text()
PHONE, DESK = {"width": 360, "height": 740}, {"width": 1280, "height": 900}
# As the Debian package ships it, its wrapper script aside (that reads the user's settings).
CHROMIUM = next((p for p in ("/usr/lib/chromium/chromium", "/usr/bin/chromium") if Path(p).exists()), "/usr/bin/chromium")


class Board(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp(prefix="quern-board-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        SHOTS.mkdir(parents=True, exist_ok=True)
        sample = cls.folder / "sample-records"
        sample.mkdir()
        shutil.copy(RECORDS / "sample.json", sample)
        cls.sample = cls.draw(sample, "sample")
        cls.all = cls.draw(RECORDS, "all")
        cls.play = sync_playwright().start()
        cls.addClassCleanup(cls.play.stop)
        cls.browser = cls.play.chromium.launch(executable_path=CHROMIUM, env={**os.environ, "HOME": str(cls.folder)},
                                               args=["--disable-gpu", "--disable-dev-shm-usage"])
        cls.addClassCleanup(cls.browser.close)

    @classmethod
    def draw(cls, records, name):
        path = cls.folder / f"{name}.html"
        subprocess.run([QUERN, "board", "--records", str(records), "-o", str(path)], check=True, capture_output=True, timeout=60)
        return path

    def open(self, path, size=DESK, colors="light", script=True):
        """The page, and the list that problems of loading it go to."""
        context = self.browser.new_context(viewport=size, color_scheme=colors, java_script_enabled=script, offline=True, device_scale_factor=1)
        self.addCleanup(context.close)
        page = context.new_page()
        heard = []
        page.on("console", lambda m: heard.append(f"console: {m.type}: {m.text}"))
        page.on("pageerror", lambda e: heard.append(f"console: {e}"))
        page.on("request", lambda r: None if r.url in (path.as_uri(), "data:,") else heard.append(f"request: {r.url}"))
        page.on("dialog", lambda d: (heard.append(f"console: dialog {d.message}"), d.dismiss()))
        page.goto(path.as_uri(), wait_until="load")
        return page, heard

    def measured(self, page, heard, unfold=True):
        if unfold:
            page.evaluate("document.querySelectorAll('details').forEach((e) => { e.open = true; })")
        found = page.evaluate(CHECKS)
        problems = found["problems"] + heard
        if page.title() != "Quern board":
            problems.append(f"script: text of a record ran: {page.title()}")
        return problems, found

    def assert_good(self, path, size, colors, script=True):
        page, heard = self.open(path, size, colors, script)
        folded, _ = self.measured(page, heard, unfold=False)
        problems, found = self.measured(page, heard)
        self.assertEqual(folded + problems, [], f"{path.name} {size} {colors}")
        self.assertGreater(found["n_marks"], 200)
        self.assertGreater(found["n_placed"], 200)
        self.assertGreater(found["n_texts"], 200)
        return page

    def test_light_and_dark_on_every_width(self):
        for colors in ("light", "dark"):
            for name, size in (("phone", PHONE), ("desk", DESK)):
                page, _ = self.open(self.sample, size, colors)
                page.screenshot(path=SHOTS / f"sample-{name}-{colors}.png", full_page=True)
                self.assert_good(self.sample, size, colors)
                page = self.assert_good(self.all, size, colors)
                page.screenshot(path=SHOTS / f"all-{name}-{colors}.png", full_page=True)
        for width in (320, 768, 1920):
            self.assert_good(self.all, {"width": width, "height": 800}, "light")

    def test_policy_names_the_script(self):
        html = self.sample.read_text()
        script = re.search(r"<script>(.*?)</script>", html, re.S)[1]
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        self.assertIn(f"script-src 'sha256-{digest}'", html, "the script changed: this is its checksum for kScriptSha256")

    def test_complete_without_script(self):
        page = self.assert_good(self.sample, DESK, "dark", script=False)
        self.assertTrue(page.locator("#page_controls").is_hidden())
        with_script, _ = self.open(self.sample)
        self.assertEqual(page.locator("table").count(), with_script.locator("table").count())
        self.assertNotEqual(page.evaluate("getComputedStyle(document.body).backgroundColor"),
                            with_script.evaluate("getComputedStyle(document.body).backgroundColor"))

    def test_colours_can_be_chosen(self):
        page, heard = self.open(self.sample)
        ground = "getComputedStyle(document.body).backgroundColor"
        light = page.evaluate(ground)
        button = page.get_by_role("button", name="Colours")
        seen = []
        for _ in range(3):
            button.click()
            seen.append((button.text_content(), page.evaluate(ground) == light))
        self.assertEqual(seen, [("Colours: light", True), ("Colours: dark", False), ("Colours: system", True)])
        button.click()
        page.emulate_media(color_scheme="dark")
        self.assertEqual(page.evaluate(ground), light, "light was chosen")
        page.reload()
        self.assertEqual(page.evaluate(ground), light, "and is remembered")
        self.assertEqual(self.measured(page, [])[0], [])
        self.assertEqual([h for h in heard if not h.startswith("request: file:")], [])

    def test_rows_can_be_sorted_and_filtered(self):
        page, _ = self.open(self.sample)
        table = page.locator(".runs").first
        ratios = "t => [...t.tBodies].map(b => Number(b.rows[0].cells[1].dataset.sort))"
        head = table.locator("thead button", has_text="ratio")
        head.focus()
        page.keyboard.press("Enter")
        up = table.evaluate(ratios)
        self.assertEqual(up, sorted(up))
        page.keyboard.press("Enter")
        self.assertEqual(table.evaluate(ratios), sorted(up, reverse=True))
        self.assertEqual(table.locator("th[aria-sort=descending]").count(), 1)
        n_rows = page.locator("tbody[data-text]").count()
        page.get_by_label("Show").fill("1b tg128")
        self.assertEqual([m.get_attribute("data-text") for m in page.locator(".model").all() if m.is_visible()], ["Sample 1B"])
        shown = page.locator("tbody[data-text]:not([hidden])")
        self.assertEqual(shown.count(), 2)
        page.get_by_label("Show").fill("")
        self.assertEqual(page.locator("tbody[data-text]:not([hidden])").count(), n_rows)

    def reached(self, page):
        """Problems of going through the page by keyboard."""
        page.evaluate("document.activeElement.blur()")
        wanted = page.evaluate("""[...document.querySelectorAll("summary, a[href], button, input, .scroll")].filter((e) => e.checkVisibility())
            .map((e, i) => { e.dataset.stop = i; return [i, e.tagName + " " + e.textContent.slice(0, 30)]; })""")
        seen = set()
        for _ in range(len(wanted) + 5):
            page.keyboard.press("Tab")
            stop = page.evaluate("""(() => { const e = document.activeElement, s = getComputedStyle(e);
                return e.dataset.stop === undefined ? null : [Number(e.dataset.stop), s.outlineStyle !== "none" && parseFloat(s.outlineWidth) > 0]; })()""")
            if stop:
                seen.add(stop[0])
                if not stop[1]:
                    return [f"keyboard: no outline on {wanted[stop[0]][1]}"]
        return [f"keyboard: {name} is not reached" for i, name in wanted if i not in seen]

    def test_keyboard_reaches_and_opens_everything(self):
        page, _ = self.open(self.sample)
        self.assertEqual(self.reached(page), [])
        fold = page.locator("details").first
        fold.locator("summary").first.focus()
        page.keyboard.press("Enter")
        self.assertTrue(fold.evaluate("e => e.open"))
        self.assertTrue(page.get_by_text("quern bench -m sample-135m.gguf").first.is_visible())
        page.keyboard.press("Space")
        self.assertFalse(fold.evaluate("e => e.open"))

    def test_broken_pages_are_found(self):
        def once(pattern, new):
            return lambda html: re.sub(pattern, new, html, count=1, flags=re.S)

        body = lambda text: lambda html: html.replace("</main>", text + "</main>")  # noqa: E731
        controls = {
            "outside: a bar beyond the axis": ("outside", once(r'(<rect [^>]*width=")[\d.]+("[^>]*class="bar)', r"\g<1>900\2")),
            "outside: a dot left of the axis": ("outside", once(r'(<circle cx=")[\d.]+', r"\g<1>-60")),
            "place: a bar of the wrong length": ("place", once(r'(class="bar quern" data-x=")[\d.]+', r"\g<1>1")),
            "place: a roofline dot with another value": ("place", once(r'(class="dot b\d" data-x=")[\d.e+-]+', r"\g<1>3.3")),
            "place: a roof of another rate": ("place", once(r'(class="roof slope" data-rate=")[\d.]+', r"\g<1>60")),
            "overlap: a text twice": ("overlap", once(r"(<text [^>]*>[^<]*</text>)", r"\1\1")),
            "contrast: pale text": ("contrast", lambda html: html.replace("--muted:#565c64", "--muted:#9a9fa6")),
            "contrast: pale bars": ("contrast", lambda html: html.replace("--quern:#c24a17", "--quern:#f3d9ce")),
            "overflow: a wide thing": ("overflow", body('<p style="width:3000px">wide</p>')),
            "request: a picture from outside": ("", body('<img src="http://127.0.0.1:9/x.png" alt="">')),
            "console: another script": ("console", body("<script>document.title = 'owned'</script>")),
            "label: a silent plot": ("label", once(r'(<svg [^>]*aria-label=")[^"]*', r"\1")),
            "structure: an id twice": ("structure", body('<p id="page_theme">x</p>')),
            "small: tiny text": ("small", lambda html: html.replace("svg text{font-size:12px", "svg text{font-size:7px")),
        }
        html = self.sample.read_text()
        for name, (kind, change) in controls.items():
            broken = change(html)
            self.assertNotEqual(broken, html, f"{name}: the control changed nothing")
            path = self.folder / "broken.html"
            path.write_text(broken)
            problems, _ = self.measured(*self.open(path, DESK))
            self.assertTrue([p for p in problems if p.startswith(kind)], f"{name} was not found; found {problems[:3]}")
        path.write_text(html.replace("<summary>", '<summary tabindex="-1">', 1))
        self.assertTrue(self.reached(self.open(path)[0]), "a fold that no key reaches was not found")

    def test_sample_records_are_what_their_maker_makes(self):
        copy = self.folder / "maker"
        copy.mkdir()
        shutil.copy(HERE / "data" / "make_sample.py", copy)
        subprocess.run(["python3", str(copy / "make_sample.py")], check=True, timeout=60)
        for path in sorted(RECORDS.glob("*.json")):
            self.assertEqual((copy / "records" / path.name).read_bytes(), path.read_bytes(), f"{path.name}: run make_sample.py")


if __name__ == "__main__":
    unittest.main()
