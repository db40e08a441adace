#!/usr/bin/env python3
"""The page: names, roles, contrast and places by page_checks.js, keyboard alone, narrow windows, light and dark. Screenshots
are kept in QUERN_SCREENSHOTS. Each kind of check is seen to fail on a page that is broken on purpose."""
import unittest

from playwright.sync_api import expect
from page_testing import DESK, PHONE, SHOTS, PageTest

SAMPLE = """Two ways to do it. The **first** reads the file once and keeps only what it needs:

```python
from collections import Counter

def most_common(path, n=3):
    # words of a file, most frequent first
    with open(path, encoding="utf-8") as file:
        return Counter(file.read().lower().split()).most_common(n)
```

The second uses `sort` and `uniq`:

1. split the text into words
2. sort them, then count neighbours
   - `uniq -c` counts
   - `sort -rn` orders

| way | memory | speed |
|:--|--:|--:|
| Python | all words | 1.0 |
| shell | a buffer | 0.7 |

> Both give the same answer for ASCII text.
"""


class Look(PageTest):
    def fill(self, page):
        self.valve.canned = [("reasoning_content", "The user wants the most frequent words. I could count with a dictionary, or sort."), ("content", SAMPLE)]
        self.ask(page, "How do I find the three most frequent words of a text file?")
        self.done(page)
        self.valve.canned = [("content", "Yes: `Counter` is part of the standard library.")]
        self.ask(page, "Is that in the standard library?")
        self.done(page, 2)
        self.answers(page).last.get_by_role("button", name="Ask again").click()
        self.done(page, 2)

    def assert_good(self, page, where):
        found = self.checked(page)
        self.assertEqual(found["problems"], [], where)
        self.assertGreater(found["n_named"], 8)
        self.assertGreater(found["n_texts"], 3)

    def test_every_state_in_light_and_dark_wide_and_narrow(self):
        for colors in ("light", "dark"):
            for name, size in (("desk", DESK), ("phone", PHONE)):
                where = f"{name}-{colors}"
                page = self.open(size=size, colors=colors)
                self.assert_good(page, f"{where}: empty")
                page.screenshot(path=SHOTS / f"empty-{where}.png")
                self.fill(page)
                self.assert_good(page, f"{where}: conversation")
                page.screenshot(path=SHOTS / f"chat-end-{where}.png")
                page.locator("#messages").evaluate("e => { e.scrollTop = 0; }")
                expect(page.get_by_role("button", name="Latest")).to_be_visible()
                self.answers(page).first.locator("details.reasoning summary").click()
                self.questions(page).first.get_by_role("button", name="Edit message").hover()
                self.assert_good(page, f"{where}: unfolded")
                page.screenshot(path=SHOTS / f"chat-{where}.png")
                self.questions(page).first.get_by_role("button", name="Edit message").click()
                self.assert_good(page, f"{where}: edit")
                page.screenshot(path=SHOTS / f"edit-{where}.png")
                page.keyboard.press("Escape")
                for panel, label in (("settings", "Model and settings"), ("live", "Live view")):
                    page.get_by_role("button", name=label, exact=True).click()
                    if panel == "live":
                        page.wait_for_timeout(2200)
                    self.assert_good(page, f"{where}: {panel}")
                    page.screenshot(path=SHOTS / f"{panel}-{where}.png")
                    page.keyboard.press("Escape") if name == "phone" else page.get_by_role("button", name=label, exact=True).click()
                if name == "phone":
                    page.get_by_role("button", name="Conversations").click()
                    self.assert_good(page, f"{where}: conversations")
                    page.screenshot(path=SHOTS / f"conversations-{where}.png")
                    page.keyboard.press("Escape")
                    page.get_by_role("button", name="Conversations").click()
                page.get_by_role("button", name="Delete How do I").click()
                self.assert_good(page, f"{where}: dialog")
                page.screenshot(path=SHOTS / f"dialog-{where}.png")
        for width in (320, 600, 861, 1920):
            page = self.open(size={"width": width, "height": 700})
            self.fill(page)
            self.assert_good(page, f"{width} wide")

    def test_broken_pages_are_found(self):
        controls = {
            "name: a silent button": ("name", "send.removeAttribute('aria-label')"),
            "name: a field without a label": ("name", "document.querySelector('label[for=title]').remove()"),
            "id: one twice": ("id", "document.body.append(Object.assign(document.createElement('p'), {id: 'send'}))"),
            "reference: to nothing": ("reference", "composer_text.setAttribute('aria-describedby', 'gone')"),
            "role: an invented one": ("role", "messages.setAttribute('role', 'chat')"),
            "state: open that is not": ("state", "live_toggle.setAttribute('aria-expanded', 'true')"),
            "structure: two headings of the page": ("structure", "messages.append(document.createElement('h1'))"),
            "structure: a level left out": ("structure", "thread.append(Object.assign(document.createElement('h5'), {textContent: 'x'}))"),
            "focus: out of order": ("focus", "send.tabIndex = 3"),
            "focus: hidden from screen readers": ("focus", "document.querySelector('.bar').setAttribute('aria-hidden', 'true')"),
            "focus: a place that scrolls": ("focus", "{ const e = document.createElement('div'); e.style.cssText = 'height:30px;overflow:auto'; e.append('long '.repeat(900)); thread.append(e); }"),
            "overflow: a wide thing": ("overflow", "{ const e = document.createElement('p'); e.style.width = '3000px'; e.append('wide'); thread.append(e); }"),
            "small: a tiny button": ("small", "send.style.cssText = 'width:12px;height:12px'"),
            "contrast: pale text": ("contrast", "document.documentElement.style.setProperty('--muted', '#b5b5b5')"),
            "contrast: pale edges": ("contrast", "document.documentElement.style.setProperty('--edge', '#eeeeee')"),
        }
        for name, (kind, change) in controls.items():
            page = self.open()
            self.assertEqual(self.checked(page)["problems"], [])
            page.evaluate(f"() => {{ {change} }}")
            problems = self.checked(page)["problems"]
            self.assertTrue([p for p in problems if p.startswith(kind)], f"{name} was not found; found {problems[:3]}")
            page.close()

    def focused(self, page):
        """The name of what has the focus, and whether that can be seen."""
        return page.evaluate("""() => { const e = document.activeElement, s = getComputedStyle(e), box = getComputedStyle(e.closest(".composer") ?? e);
            return [(e.getAttribute("aria-label") ?? (e.labels?.length ? e.labels[0].textContent : e.textContent)).trim(),
                    [s, box].some((x) => x.outlineStyle !== "none" && parseFloat(x.outlineWidth) > 0)]; }""")

    def assert_focus(self, page, name):
        self.assertEqual(self.focused(page), [name, True])

    def tab_to(self, page, name, key="Tab"):
        passed = []
        for _ in range(80):
            page.keyboard.press(key)
            at, visible = self.focused(page)
            self.assertTrue(visible, f"the focus is on {at!r}, and nothing shows it")
            passed.append(at)
            if at == name:
                return passed
        self.fail(f"{name!r} is not reached; there are {passed}")

    def test_keyboard_alone(self):
        page = self.open()
        page.evaluate("document.activeElement.blur()")
        page.keyboard.press("Tab")
        self.assert_focus(page, "Skip to the message field")
        page.keyboard.press("Enter")
        self.assert_focus(page, "Message")
        page.keyboard.type("first question")
        page.keyboard.press("Enter")
        self.done(page)
        self.assert_focus(page, "Message")  # one can go on writing
        # Back to the message, edit it, and go through its versions.
        self.tab_to(page, "Edit message", "Shift+Tab")
        page.keyboard.press("Enter")
        self.assert_focus(page, "Edit message")
        page.keyboard.press("Control+A")
        page.keyboard.type("better question")
        page.keyboard.press("Enter")
        self.done(page)
        expect(self.questions(page).locator(".body")).to_have_text("better question")
        self.tab_to(page, "Previous version", "Shift+Tab")
        page.keyboard.press("Enter")
        expect(self.questions(page).locator(".body")).to_have_text("first question")
        self.assert_focus(page, "Next version")
        # Asking again.
        self.tab_to(page, "Ask again")
        page.keyboard.press("Enter")
        self.done(page)
        expect(self.answers(page).locator(".count")).to_contain_text("2 / 2")
        # Settings, and back by the same key.
        self.tab_to(page, "Model and settings", "Shift+Tab")
        page.keyboard.press("Enter")
        self.assert_focus(page, "Close the settings")
        self.tab_to(page, "Temperature")
        page.keyboard.type("0.5")
        self.tab_to(page, "Close the settings", "Shift+Tab")
        page.keyboard.press("Space")
        self.assert_focus(page, "Model and settings")
        # A new conversation, the old one again, and its end.
        self.tab_to(page, "New conversation", "Shift+Tab")
        page.keyboard.press("Enter")
        self.assert_focus(page, "Message")
        self.tab_to(page, "first question", "Shift+Tab")
        page.keyboard.press("Enter")
        expect(self.questions(page).locator(".body")).to_have_text("first question")
        self.tab_to(page, "Delete first question", "Shift+Tab")
        page.keyboard.press("Enter")
        self.assert_focus(page, "Cancel")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        expect(page.locator("#conversations li")).to_have_count(0)
        expect(page.get_by_role("button", name="New conversation")).to_be_focused()

    def test_colours_can_be_chosen(self):
        page = self.open()
        ground = "getComputedStyle(document.body).backgroundColor"
        light = page.evaluate(ground)
        button = page.get_by_role("button", name="Colours")
        seen = []
        for _ in range(3):
            button.click()
            seen.append((button.get_attribute("aria-label"), page.evaluate(ground) == light))
        self.assertEqual(seen, [("Colours: light", True), ("Colours: dark", False), ("Colours: system", True)])
        page.emulate_media(color_scheme="dark")
        self.assertNotEqual(page.evaluate(ground), light, "as the system has it")
        button.click()
        self.assertEqual(page.evaluate(ground), light, "light was chosen")
        page.reload()
        self.assertEqual(page.evaluate(ground), light, "and is remembered")
        # It holds from the first paint on: the modules, which come later, have no part in it.
        other = page.context.new_page()
        other.emulate_media(color_scheme="dark")
        other.route("**/page/app.js", lambda route: route.abort())
        other.goto(page.url)
        self.assertEqual(other.evaluate(ground), light)

    def test_narrow_windows(self):
        page = self.open(size=PHONE)
        self.assertFalse(page.get_by_role("navigation", name="Conversations").is_visible())
        self.fill(page)
        menu = page.locator("#sidebar_toggle")
        menu.click()
        self.assertTrue(page.get_by_role("navigation", name="Conversations").is_visible())
        self.assertTrue(page.locator("#main").evaluate("e => e.inert"), "what lies below cannot be reached")
        page.keyboard.press("Escape")
        self.assertFalse(page.locator("#main").evaluate("e => e.inert"))
        expect(menu).to_be_focused()
        page.get_by_role("button", name="Model and settings").click()
        page.mouse.click(8, 400)  # beside it
        expect(page.locator("#settings")).to_be_hidden()
        menu.click()
        page.get_by_role("button", name="New conversation").click()
        expect(page.locator("#sidebar")).to_be_hidden()
        expect(page.get_by_role("textbox", name="Message", exact=True)).to_be_focused()

    def test_text_follows_until_one_scrolls_up(self):
        page = self.open()
        place = page.locator("#messages")
        rest = "e => Math.round(e.scrollHeight - e.scrollTop - e.clientHeight)"
        self.valve.canned = [("content", f"line {i}\n\n") for i in range(120)]
        self.valve.hold()
        self.ask(page, "many lines")
        self.valve.let(31)
        expect(self.answers(page).locator(".body")).to_contain_text("line 30")
        self.assertLess(place.evaluate(rest), 5)
        place.evaluate("e => { e.scrollTop = 0; }")
        expect(page.get_by_role("button", name="Latest")).to_be_visible()
        self.valve.release()
        self.done(page)
        self.assertEqual(place.evaluate("e => e.scrollTop"), 0)
        page.get_by_role("button", name="Latest").click()
        self.assertLess(place.evaluate(rest), 5)
        expect(page.get_by_role("button", name="Latest")).to_be_hidden()


if __name__ == "__main__":
    unittest.main()
