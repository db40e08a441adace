"""The page of a real quern serve in Debian's chromium: what the tests of this folder share.

Each class has one server and one browser; each test has a browser profile of its own, which hears every request, every
message of the console and every dialog. Screenshots go to QUERN_SCREENSHOTS."""
import os
import sys
import tempfile
import unittest
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import expect, sync_playwright

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "api"))
from server import Server, scripted, tiny, wait_until  # noqa: E402, F401
from valve import Valve  # noqa: E402

SHOTS = Path(os.environ["QUERN_SCREENSHOTS"])
CHECKS = (HERE / "page_checks.js").read_text()
DESK, PHONE = {"width": 1280, "height": 860}, {"width": 390, "height": 800}
CHROMIUM = next((p for p in ("/usr/lib/chromium/chromium", "/usr/bin/chromium") if Path(p).exists()), "/usr/bin/chromium")
PARTS = [Path(p) for p in (HERE.parent.parent.parent / "apps" / "page" / "files").glob("*")]
expect.set_options(timeout=15000)


class PageTest(unittest.TestCase):
    ARGS = ("-m", "small=" + scripted("think"))

    @classmethod
    def setUpClass(cls):
        SHOTS.mkdir(parents=True, exist_ok=True)
        cls.server = Server(*cls.ARGS)
        cls.addClassCleanup(cls.stop_server)
        cls.valve = Valve(cls.server.port)
        cls.addClassCleanup(cls.valve.close)
        home = tempfile.TemporaryDirectory(prefix="quern-page-")
        cls.addClassCleanup(home.cleanup)
        play = sync_playwright().start()
        cls.addClassCleanup(play.stop)
        cls.browser = play.chromium.launch(executable_path=CHROMIUM, env={**os.environ, "HOME": home.name},
                                           args=["--disable-gpu", "--disable-dev-shm-usage"])
        cls.addClassCleanup(cls.browser.close)

    @classmethod
    def stop_server(cls):
        code = cls.server.stop()
        if code != 0:
            raise AssertionError(f"quern serve ended with {code}: {cls.server.log}")

    def setUp(self):
        self.heard = []  # what must not be heard
        self.valve.canned, self.valve.broken, self.valve.model = None, False, "canned"
        self.valve.release()
        self.valve.asked.clear()

    def tearDown(self):
        self.valve.release()
        self.assertEqual(self.heard, [])

    def profile(self, size=DESK, colors="light", **more):
        context = self.browser.new_context(viewport=size, color_scheme=colors, device_scale_factor=1, accept_downloads=True, **more)
        self.addCleanup(context.close)
        return context

    def listen(self, page, port):
        def request(r):
            parts = urlsplit(r.url)
            if parts.scheme != "blob" and parts.netloc != f"127.0.0.1:{port}":
                self.heard.append(f"request: {r.url}")

        page.on("request", request)
        page.on("console", lambda m: self.heard.append(f"console: {m.type}: {m.text}"))
        page.on("pageerror", lambda e: self.heard.append(f"error: {e}"))
        page.on("dialog", lambda d: (self.heard.append(f"dialog: {d.message}"), d.dismiss()))

    def open(self, context=None, port=None, models=True, **more):
        context = context or self.profile(**more)
        page = context.new_page()
        port = port or self.valve.port
        self.listen(page, port)
        page.goto(f"http://127.0.0.1:{port}/")
        page.wait_for_selector("html[data-ready=yes]")
        if models:
            expect(page.locator("#composer_model")).not_to_have_text("")
        return page

    def ask(self, page, text):
        field = page.get_by_role("textbox", name="Message", exact=True)
        field.fill(text)
        field.press("Enter")

    def answers(self, page):
        return page.locator(".message.assistant")

    def questions(self, page):
        return page.locator(".message.user")

    def done(self, page, n=1):
        """Waits until n answers are shown and none is being written."""
        expect(self.answers(page)).to_have_count(n)
        expect(page.locator("[aria-busy=true]")).to_have_count(0)
        expect(page.get_by_role("button", name="Send", exact=True)).to_be_visible()

    def forgive(self, *parts):
        """What the console says of a refusal that a test provokes."""
        found = [line for line in self.heard if all(part in line for part in parts)]
        self.assertTrue(found, f"nothing of {parts} in {self.heard}")
        self.heard = [line for line in self.heard if line not in found]

    def let_until(self, locator, text):
        """One event at a time, until an element holds the text."""
        for _ in range(40):
            if locator.count() and text in (locator.last.text_content() or ""):
                return
            self.valve.let()
            wait_until(lambda: locator.count() and text in (locator.last.text_content() or ""), 0.2)
        self.fail(f"no {text!r} came")

    def checked(self, page):
        """What page_checks.js finds."""
        return page.evaluate(CHECKS)

    def say(self, page, *deltas):
        """An answer of these contents, to a question of no importance."""
        self.valve.canned = [("content", text) for text in deltas]
        n = self.answers(page).count()
        self.ask(page, "go on")
        self.done(page, n + 1)
        return self.answers(page).nth(n).locator(".body")
