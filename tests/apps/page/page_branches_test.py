#!/usr/bin/env python3
"""The page: versions of messages, export and import."""
import json
import re
import unittest
from pathlib import Path

from playwright.sync_api import expect
from page_testing import PageTest


class Branches(PageTest):
    def path(self, page):
        return [m.text_content() for m in page.locator(".message .body").all()]

    def version(self, message):
        return message.locator(".count").text_content().removeprefix("Version ")

    def talk(self, page, *texts):
        for text in texts:
            self.valve.canned = [("content", f"answer to {text}")]
            n = self.answers(page).count()
            self.ask(page, text)
            self.done(page, n + 1)

    def test_edit_makes_a_version(self):
        page = self.open()
        self.talk(page, "one", "two")
        self.valve.canned = [("content", "another answer")]
        self.questions(page).first.get_by_role("button", name="Edit message").click()
        field = page.get_by_role("textbox", name="Edit message")
        expect(field).to_be_focused()
        expect(field).to_have_value("one")
        field.fill("uno")
        field.press("Enter")
        self.done(page, 1)
        self.assertEqual(self.path(page), ["uno", "another answer"])
        self.assertEqual(self.valve.chats()[-1]["messages"], [{"role": "user", "content": "uno"}])
        first = self.questions(page).first
        self.assertEqual(self.version(first), "2 / 2")
        first.get_by_role("button", name="Previous version").click()
        self.assertEqual(self.path(page), ["one", "answer to one", "two", "answer to two"])
        self.assertEqual(self.version(self.questions(page).first), "1 / 2")
        # At the end of the row the focus goes to the arrow that still leads somewhere.
        expect(self.questions(page).first.get_by_role("button", name="Next version")).to_be_focused()
        page.keyboard.press("Enter")
        self.assertEqual(self.path(page), ["uno", "another answer"])
        page.reload()
        expect(self.answers(page).locator(".body")).to_have_text("another answer")
        self.assertEqual(self.path(page), ["uno", "another answer"])

    def test_edit_can_be_left(self):
        page = self.open()
        self.talk(page, "one")
        for leave in (lambda: page.keyboard.press("Escape"), lambda: page.get_by_role("button", name="Cancel").click()):
            page.get_by_role("button", name="Edit message").click()
            page.get_by_role("textbox", name="Edit message").fill("never sent")
            leave()
            self.assertEqual(self.path(page), ["one", "answer to one"])
            expect(page.get_by_role("button", name="Edit message")).to_be_focused()
        self.assertEqual(len(self.valve.chats()), 1)

    def test_ask_again_makes_a_version(self):
        page = self.open()
        self.talk(page, "one", "two")
        for n in (2, 3):
            self.valve.canned = [("content", f"take {n}")]
            self.answers(page).first.get_by_role("button", name="Ask again").click()
            self.done(page, 1)
            self.assertEqual(self.path(page), ["one", f"take {n}"])
            self.assertEqual(self.version(self.answers(page).first), f"{n} / {n}")
        self.assertEqual([len(asked["messages"]) for asked in self.valve.chats()], [1, 3, 1, 1])
        # A version has what came after it.
        self.talk(page, "three")
        for _ in range(2):
            self.answers(page).first.get_by_role("button", name="Previous version").click()
        self.assertEqual(self.path(page), ["one", "answer to one", "two", "answer to two"])
        for _ in range(2):
            self.answers(page).first.get_by_role("button", name="Next version").click()
        self.assertEqual(self.path(page), ["one", "take 3", "three", "answer to three"])
        # A new one is shown, whichever was.
        self.answers(page).first.get_by_role("button", name="Previous version").click()
        self.valve.canned = [("content", "take 4")]
        self.answers(page).first.get_by_role("button", name="Ask again").click()
        self.done(page, 1)
        self.assertEqual((self.path(page), self.version(self.answers(page).first)), (["one", "take 4"], "4 / 4"))

    def test_another_version_can_be_seen_while_one_is_written(self):
        page = self.open()
        self.talk(page, "one")
        self.valve.canned = [("content", "slow"), ("content", " answer")]
        self.valve.hold()
        self.answers(page).first.get_by_role("button", name="Ask again").click()
        self.let_until(self.answers(page).first.locator(".body"), "slow")
        self.answers(page).first.get_by_role("button", name="Previous version").click()
        self.assertEqual(self.path(page), ["one", "answer to one"])
        expect(page.get_by_role("button", name="Send", exact=True)).to_be_visible()
        self.valve.release()
        self.answers(page).first.get_by_role("button", name="Next version").click()
        self.done(page, 1)
        self.assertEqual(self.path(page), ["one", "slow answer"])

    def exported(self, page, button):
        with page.expect_download() as waiting:
            page.get_by_role("button", name=button).click()
        return Path(waiting.value.path()).read_text(), waiting.value.suggested_filename

    def test_export_and_import_give_the_same(self):
        page = self.open()
        self.talk(page, "one", "two")
        self.valve.canned = [("reasoning_content", "Hm *so*."), ("content", "# take 2 \u2028 <b>ü</b> 🦆")]
        self.answers(page).first.get_by_role("button", name="Ask again").click()
        self.done(page, 1)
        shown = page.locator("#thread").inner_text()
        text, name = self.exported(page, "Export this one")
        self.assertRegex(name, r"^quern-conversation-\d{4}-\d\d-\d\d\.json$")
        page.get_by_role("button", name="New conversation").click()
        self.talk(page, "another")
        both, _ = self.exported(page, "Export all")
        self.assertEqual([c["title"] for c in json.loads(both)["conversations"]], ["one", "another"])

        # Into another browser, and out again.
        other = self.open(self.profile())
        other.locator("#import_file").set_input_files({"name": "x.json", "mimeType": "application/json", "buffer": text.encode()})
        expect(other.locator("#conversations li")).to_have_count(1)
        self.assertEqual(other.locator("#thread").inner_text(), shown)
        self.assertEqual(json.loads(self.exported(other, "Export this one")[0]), json.loads(text))
        # Twice is as good as once, and what is new comes in.
        other.locator("#import_file").set_input_files({"name": "x.json", "mimeType": "application/json", "buffer": both.encode()})
        expect(other.locator("#conversations li")).to_have_count(2)
        other.reload()
        expect(other.locator("#conversations li")).to_have_count(2)
        self.answers(other).first.get_by_role("button", name="Previous version").click()
        self.assertEqual(self.path(other), ["one", "answer to one", "two", "answer to two"])

    def test_files_that_are_refused(self):
        page = self.open()
        self.talk(page, "one")
        good = json.loads(self.exported(page, "Export this one")[0])
        messages = good["conversations"][0]["messages"]

        def changed(change):
            copy = json.loads(json.dumps(good))
            change(copy, copy["conversations"][0], copy["conversations"][0]["messages"])
            return json.dumps(copy)

        def put(name, value):
            return lambda file, conversation, m: m[1].__setitem__(name, value)

        cases = {
            "is no JSON": "{",
            "the file must be an object": "[]",
            "format must be": changed(lambda f, c, m: f.pop("format")),
            "version must be 1": changed(lambda f, c, m: f.update(version=2)),
            "more is not known": changed(lambda f, c, m: f.update(more=1)),
            "conversations[0].title must be a text": changed(lambda f, c, m: c.update(title={"toString": 1})),
            "conversations[0].id must be small letters and digits": changed(lambda f, c, m: c.update(id="__proto__")),
            "messages[1].role must be": changed(put("role", "system")),
            "messages[1].content must be a text": changed(put("content", ["<img>"])),
            "messages[1].created must be": changed(put("created", -1)),
            "messages[1].stats must be": changed(put("stats", {"tokens": "<b>"})),
            "messages[1].state must be": changed(put("state", "fine")),
            "messages[1].onclick is not known": changed(put("onclick", "alert(1)")),
            "messages[1].parent is no message before it": changed(put("parent", "abc")),
            "messages[1].id stands there twice": changed(put("id", messages[0]["id"])),
            "messages[1].chosen is no message below it": changed(put("chosen", messages[0]["id"])),
            "conversations[0].chosen is no message below it": changed(lambda f, c, m: c.update(chosen=messages[1]["id"])),
        }
        for why, text in cases.items():
            page.locator("#import_file").set_input_files({"name": "x.json", "mimeType": "application/json", "buffer": text.encode()})
            expect(page.locator("#notice")).to_contain_text(re.compile("This file cannot be imported: .*" + re.escape(why)))
            page.get_by_role("button", name="Dismiss").click()
        expect(page.locator("#conversations li")).to_have_count(1)
        page.locator("#import_file").set_input_files({"name": "x.json", "mimeType": "application/json", "buffer": changed(lambda f, c, m: None).encode()})
        expect(page.locator("#status")).to_have_text("Imported 1 conversation")


if __name__ == "__main__":
    unittest.main()
