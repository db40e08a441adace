#!/usr/bin/env python3
"""The page of a server that asks for a key."""
import unittest

from playwright.sync_api import expect
from page_testing import PageTest, scripted


class Key(PageTest):
    ARGS = ("-m", "small=" + scripted("think"), "--api-key", "secret")

    def keys(self):
        return [headers.get("Authorization") for _, path, _, headers in self.valve.asked if path.startswith("/v1/")]

    def test_the_page_itself_needs_none(self):
        self.assertEqual(self.server.ask("GET", "/")[0], 200)
        self.assertEqual(self.server.ask("GET", "/page/app.js")[0], 200)
        self.assertEqual(self.server.ask("GET", "/v1/models")[0], 401)
        self.assertEqual(self.server.ask("GET", "/v1/stats")[0], 401)

    def test_it_asks_for_the_key(self):
        page = self.open(models=False)
        dialog = page.get_by_role("dialog", name="API key")
        field = dialog.get_by_label("Key", exact=True)
        expect(field).to_be_focused()
        self.assertEqual(field.get_attribute("type"), "password")
        field.fill("wrong")
        page.keyboard.press("Enter")
        expect(dialog.get_by_role("alert")).to_contain_text("not known")
        field.fill("secret")
        dialog.get_by_role("button", name="Use this key").click()
        expect(dialog).to_have_count(0)
        expect(page.locator("#composer_model")).to_have_text("small")
        self.ask(page, "Is it so?")
        self.done(page)
        expect(self.answers(page).locator(".body")).to_have_text("Yes, indeed.")
        page.reload()
        expect(page.locator("#composer_model")).to_have_text("small")
        self.assertEqual(self.keys()[:3], [None, "Bearer wrong", "Bearer secret"])
        self.assertEqual(set(self.keys()[3:]), {"Bearer secret"})
        self.assertEqual(page.evaluate("JSON.stringify(localStorage).includes('secret')"), False, "it is not kept beyond the tab")
        self.forgive("401")

    def test_without_a_key(self):
        page = self.open(models=False)
        page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
        expect(page.locator("#notice")).to_contain_text("API key")
        n = len(self.keys())
        page.get_by_role("button", name="Live view", exact=True).click()
        page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
        page.wait_for_timeout(2500)
        self.assertEqual(len(self.keys()), n + 1, "it does not ask again and again")
        page.locator("#notice").get_by_role("button", name="Enter a key").click()
        page.get_by_role("dialog").get_by_label("Key", exact=True).fill("secret")
        page.keyboard.press("Enter")
        expect(page.locator("#composer_model")).to_have_text("small")
        self.forgive("401")

    def test_the_key_can_be_changed(self):
        page = self.open(models=False)
        page.get_by_role("dialog").get_by_label("Key", exact=True).fill("secret")
        page.keyboard.press("Enter")
        page.get_by_role("button", name="Model and settings").click()
        page.get_by_role("button", name="Change the API key").click()
        page.get_by_role("dialog").get_by_label("Key", exact=True).fill("older")
        page.keyboard.press("Enter")
        expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("not known")
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)
        self.forgive("401")


if __name__ == "__main__":
    unittest.main()
