#!/usr/bin/env python3
"""The page: asking, streams, stopping, reasoning, markdown, settings, several conversations."""
import unittest

from playwright.sync_api import expect
from page_testing import PageTest, scripted, wait_until


class Chat(PageTest):
    def test_send_and_stream(self):
        page = self.open()
        self.valve.hold()
        self.ask(page, "Is it so?\nReally?")
        expect(self.questions(page)).to_have_text("YouIs it so?\nReally?", use_inner_text=False)
        expect(self.answers(page)).to_have_attribute("aria-busy", "true")
        expect(page.get_by_role("textbox", name="Message", exact=True)).to_have_value("")
        body = self.answers(page).locator(".body")
        self.let_until(body, "Yes,")
        self.assertEqual(body.text_content().strip(), "Yes,", "only what has come")
        self.assertTrue(page.get_by_role("button", name="Stop the answer").is_visible())
        self.valve.release()
        self.done(page)
        expect(body).to_have_text("Yes, indeed.")
        expect(self.answers(page).locator(".who")).to_have_text("small")
        expect(self.answers(page).locator(".stats")).to_contain_text("tokens/s")
        expect(page.locator("#spoken")).to_contain_text("Yes, indeed.")
        expect(page.locator("#status")).to_have_text("Answer complete")
        [asked] = self.valve.chats()
        self.assertEqual(asked, {"model": "small", "messages": [{"role": "user", "content": "Is it so?\nReally?"}], "stream": True,
                                 "stream_options": {"include_usage": True}})
        # The next turn carries all before it.
        self.ask(page, "And then?")
        self.done(page, 2)
        self.assertEqual(self.valve.chats()[1]["messages"], [
            {"role": "user", "content": "Is it so?\nReally?"},
            {"role": "assistant", "content": "Yes, indeed.", "reasoning_content": "Weigh it."},
            {"role": "user", "content": "And then?"}])
        expect(self.answers(page).nth(1).locator(".stats")).to_contain_text("from the cache")

    def test_keys_of_the_field(self):
        page = self.open()
        field = page.get_by_role("textbox", name="Message", exact=True)
        field.fill("  \n ")
        field.press("Enter")
        self.assertEqual(self.valve.chats(), [], "there was nothing to send")
        field.fill("one")
        field.press("Shift+Enter")
        page.keyboard.type("two")
        expect(field).to_have_value("one\ntwo")
        height = field.bounding_box()["height"]
        self.assertGreater(height, 50, "the field grows with its text")
        self.valve.hold()
        field.press("Enter")
        expect(self.answers(page)).to_have_count(1)
        field.fill("too early")
        field.press("Enter")
        expect(page.locator("#status")).to_contain_text("still coming")
        expect(field).to_have_value("too early")
        self.valve.release()
        self.done(page)
        self.assertEqual(len(self.valve.chats()), 1)

    def test_who_just_types_means_the_message(self):
        page = self.open()
        page.keyboard.type("hello")
        expect(page.get_by_role("textbox", name="Message", exact=True)).to_have_value("hello")

    def test_stop(self):
        page = self.open()
        for n, stop in enumerate((lambda: page.get_by_role("button", name="Stop the answer").click(), lambda: page.keyboard.press("Escape")), 1):
            self.valve.hold()
            before = self.valve.n_hung_up
            self.ask(page, "Is it so?")
            body = self.answers(page).nth(n - 1).locator(".body")
            self.let_until(body, "Yes,")
            stop()
            self.done(page, n)
            expect(body).to_have_text("Yes,")
            expect(self.answers(page).nth(n - 1).locator(".note")).to_have_text("Stopped.")
            self.assertTrue(wait_until(lambda: self.valve.n_hung_up == before + 1), "the server was not told")
            expect(page.get_by_role("textbox", name="Message", exact=True)).to_be_focused()
            self.valve.release()
        # What was stopped is part of the conversation.
        self.ask(page, "Go on")
        self.done(page, 3)
        self.assertEqual([m["content"].strip() for m in self.valve.chats()[-1]["messages"]], ["Is it so?", "Yes,", "Is it so?", "Yes,", "Go on"])

    def test_reasoning_is_shown_and_folded(self):
        page = self.open()
        self.valve.hold()
        self.ask(page, "Is it so?")
        fold = self.answers(page).locator("details.reasoning")
        self.let_until(fold, "Weigh")
        self.assertTrue(fold.evaluate("e => e.open"), "shown while it runs")
        expect(fold.locator("summary")).to_have_text("Thinking")
        expect(page.get_by_role("button", name="Answer now")).to_be_visible()
        self.valve.release()
        self.done(page)
        self.assertFalse(fold.evaluate("e => e.open"), "folded afterwards")
        expect(fold.locator("summary")).to_contain_text("Thought for")
        fold.locator("summary").click()
        expect(fold.locator(".reasoning_text")).to_have_text("Weigh it.")
        expect(page.get_by_role("button", name="Answer now")).to_be_hidden()
        page.reload()
        fold = self.answers(page).locator("details.reasoning")
        expect(fold.locator("summary")).to_contain_text("Thought for")
        self.assertFalse(fold.evaluate("e => e.open"))

    def test_a_fold_that_was_touched_stays(self):
        page = self.open()
        self.valve.hold()
        self.ask(page, "Is it so?")
        fold = self.answers(page).locator("details.reasoning")
        self.let_until(fold, "Weigh")
        fold.locator("summary").click()
        self.let_until(fold, "it.")
        self.assertFalse(fold.evaluate("e => e.open"), "closed by hand")
        fold.locator("summary").click()
        self.valve.release()
        self.done(page)
        self.assertTrue(fold.evaluate("e => e.open"), "opened by hand")

    def test_thinking_can_be_ended(self):
        page = self.open()
        self.valve.canned = [("reasoning_content", "Hm."), ("content", "Yes.")]
        self.valve.hold()
        self.ask(page, "Is it so?")
        self.let_until(self.answers(page).locator("details.reasoning"), "Hm.")
        self.assertTrue(page.get_by_role("button", name="Answer now").is_hidden(), "nobody knows whether that model can")
        self.valve.release()
        self.done(page)
        self.valve.canned = [("reasoning_content", "Hm."), ("content", "Yes.")]
        self.valve.model = "small"
        self.valve.hold()
        self.ask(page, "Is it so?")
        self.let_until(self.answers(page).nth(1).locator("details.reasoning"), "Hm.")
        page.get_by_role("button", name="Answer now").click()
        # The server does not know the canned answer, and the page says what the server says.
        expect(page.locator("#notice")).to_contain_text("no answer with this id is running")
        self.assertIn(("POST", "/v1/requests/chatcmpl-canned/end_thinking"), [entry[:2] for entry in self.valve.asked])
        self.valve.release()
        self.done(page, 2)
        self.forgive("404")

    def test_a_connection_that_breaks(self):
        page = self.open()
        self.valve.canned = [("content", "Half of "), ("content", "it.")]
        self.valve.broken = True
        self.ask(page, "Is it so?")
        self.done(page)
        expect(self.answers(page).locator(".body")).to_have_text("Half of")
        expect(self.answers(page).locator(".problem")).to_contain_text("connection")
        self.valve.canned, self.valve.broken = None, False
        page.get_by_role("button", name="Ask again").click()
        self.done(page)
        expect(self.answers(page).locator(".body")).to_have_text("Yes, indeed.")

    def test_what_the_server_refuses(self):
        page = self.open()
        self.ask(page, "word " * 30000)
        self.done(page)
        expect(self.answers(page).locator(".problem")).to_contain_text("prompt is too long")
        self.forgive("400")

    def test_settings_are_sent(self):
        page = self.open()
        page.get_by_role("button", name="Model and settings").click()
        panel = page.get_by_role("complementary", name="Model and settings")
        expect(panel.get_by_label("Model", exact=True)).to_have_value("small")
        for label, value in (("Temperature", "0.25"), ("Top-p", "0.5"), ("Top-k", "7"), ("Min-p", "0"), ("Longest answer", "5"), ("Seed", "12"), ("System prompt", "Be brief.")):
            panel.get_by_label(label, exact=True).fill(value)
        panel.get_by_label("Thinking", exact=True).select_option("off")
        self.assertTrue(panel.get_by_label("Reasoning effort").is_hidden(), "this model has none")
        page.reload()  # they are kept
        expect(page.locator("#composer_model")).to_have_text("small")
        self.ask(page, "Is it so?")
        self.done(page)
        [asked] = self.valve.chats()
        self.assertEqual({k: v for k, v in asked.items() if k not in ("stream", "stream_options", "model")},
                         {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Is it so?"}], "temperature": 0.25, "top_p": 0.5,
                          "top_k": 7, "min_p": 0, "max_tokens": 5, "seed": 12, "enable_thinking": False})
        expect(self.answers(page).locator("details.reasoning")).to_have_count(0)
        panel.get_by_role("button", name="Back to the server's values").click()
        self.ask(page, "And now?")
        self.done(page, 2)
        self.assertEqual(set(self.valve.chats()[1]), {"model", "messages", "stream", "stream_options"})

    def test_a_setting_that_is_no_value_is_not_sent(self):
        page = self.open()
        page.get_by_role("button", name="Model and settings").click()
        for label, value, why in (("Temperature", "warm", "must be a number"), ("Top-p", "1.5", "must be from 0 to 1"), ("Top-k", "2.5", "must be a whole number"), ("Longest answer", "0", "must be from 1")):
            field = page.get_by_label(label, exact=True)
            field.fill(value)
            expect(field).to_have_attribute("aria-invalid", "true")
            page.get_by_role("button", name="Close the settings").click()
            self.ask(page, "Is it so?")
            expect(field).to_be_focused()
            expect(page.locator("#notice")).to_contain_text(f"{label} {why}")
            field.fill("")
        self.assertEqual(self.valve.chats(), [])
        self.assertEqual(self.answers(page).count(), 0)

    def test_conversations(self):
        page = self.open()
        rows = page.locator("#conversations li")
        self.assertEqual(rows.count(), 0)
        for text in ("first things", "second things"):
            page.get_by_role("button", name="New conversation").click()
            self.ask(page, text)
            self.done(page)
        expect(rows).to_have_count(2)
        expect(page.locator("[aria-current=page]")).to_have_text("second things")
        rows.get_by_role("button", name="first things", exact=True).click()
        expect(self.questions(page).locator(".body")).to_have_text("first things")
        page.get_by_label("Title of this conversation").fill("Renamed")
        page.get_by_label("Title of this conversation").press("Tab")
        expect(rows.first).to_contain_text("Renamed")
        page.reload()
        expect(self.questions(page).locator(".body")).to_have_text("first things")
        expect(page.locator("[aria-current=page]")).to_have_text("Renamed")
        page.get_by_role("button", name="Delete Renamed").click()
        page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
        expect(rows).to_have_count(2)
        page.get_by_role("button", name="Delete Renamed").click()
        page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        expect(rows).to_have_count(1)
        expect(page.get_by_role("heading", name="Ask something")).to_be_visible()
        page.reload()
        expect(rows).to_have_count(1)

    def test_answers_go_on_while_another_conversation_is_open(self):
        page = self.open()
        self.valve.hold()
        self.ask(page, "slow one")
        self.let_until(self.answers(page).locator(".body"), "Yes,")
        page.get_by_role("button", name="New conversation").click()
        expect(page.locator(".busy")).to_have_count(1)
        expect(page.get_by_role("button", name="Send", exact=True)).to_be_visible()
        self.valve.release()
        expect(page.locator(".busy")).to_have_count(0)
        page.get_by_role("button", name="slow one", exact=True).click()
        expect(self.answers(page).locator(".body")).to_have_text("Yes, indeed.")

    def test_two_windows(self):
        context = self.profile()
        one, two = self.open(context), self.open(context)
        self.ask(one, "from the first")
        self.done(one)
        row = two.get_by_role("button", name="from the first", exact=True)
        expect(row).to_be_visible()
        row.click()
        expect(self.answers(two).locator(".body")).to_have_text("Yes, indeed.")
        self.ask(two, "from the second")
        self.done(two, 2)
        self.done(one, 2)

    def test_an_answer_survives_a_reload_half_way(self):
        page = self.open()
        self.valve.hold()
        self.ask(page, "Is it so?")
        self.let_until(self.answers(page).locator(".body"), "Yes,")
        page.wait_for_timeout(1200)  # it is saved once a second
        page.reload()
        expect(self.answers(page).locator(".body")).to_have_text("Yes,")
        expect(self.answers(page).locator(".note")).to_contain_text("Interrupted")


class Models(PageTest):
    ARGS = ("-m", "small=" + scripted("think"), "-m", "channels=" + scripted("harmony"))

    def test_another_model(self):
        page = self.open()
        page.get_by_role("button", name="Model and settings").click()
        choice, effort, thinking = (page.get_by_label(name, exact=True) for name in ("Model", "Reasoning effort", "Thinking"))
        self.assertTrue(effort.is_hidden(), "the first is loaded, and has none")
        self.assertEqual(choice.locator("option").all_text_contents(), ["small", "channels (not loaded yet)"])
        choice.select_option("channels")
        expect(thinking).to_be_visible()  # nobody knows yet
        effort.select_option("high")
        self.ask(page, "How many?")
        self.done(page)
        [asked] = self.valve.chats()
        self.assertEqual((asked["model"], asked["reasoning_effort"]), ("channels", "high"))
        expect(self.answers(page).locator(".body")).to_have_text("It is four.")
        expect(self.answers(page).locator(".who")).to_have_text("channels")
        expect(thinking).to_be_hidden()  # now it is loaded
        expect(effort).to_have_value("high")
        self.assertEqual(choice.locator("option").all_text_contents(), ["small", "channels"])
        # Of the other model's settings nothing is sent to this one.
        choice.select_option("small")
        self.ask(page, "And now?")
        self.done(page, 2)
        self.assertNotIn("reasoning_effort", self.valve.chats()[1])


class Markdown(PageTest):
    def test_blocks_and_spans(self):
        page = self.open()
        body = self.say(page, "# Title\n\nSome **bold**, *slanted*, ~~gone~~ and `code`.\nNew line.\n\n- one\n  - inner\n- two\n\n3. three\n4. four\n\n",
                        "> quoted\n> more\n\n| a | b |\n|:--|--:|\n| 1 | `x|y` \\| z |\n| 2 | 3 | 4 |\n\n---\n\n- [x] done\n- [ ] open\n\n[link](https://example.com/a_(b)) https://example.com/x.\n")
        html = body.evaluate("e => e.innerHTML")
        expect(body.locator("h3")).to_have_text("Title")
        for selector, text in (("strong", "bold"), ("em", "slanted"), ("del", "gone"), ("p > code", "code"), ("ul ul li", "inner"), ("blockquote p", "quotedmore")):
            expect(body.locator(selector)).to_have_text(text, use_inner_text=False)
        self.assertEqual(body.locator("ol").get_attribute("start"), "3")
        self.assertEqual(body.locator("ol > li").count(), 2)
        self.assertEqual(body.locator("thead th").all_text_contents(), ["a", "b"])
        self.assertEqual(body.locator("tbody td").all_text_contents(), ["1", "x|y | z", "2", "3 | 4"])
        self.assertEqual(body.locator("hr").count(), 1, html)
        boxes = body.locator("input[type=checkbox]")
        self.assertEqual([b.is_checked() for b in boxes.all()], [True, False])
        self.assertEqual([(a.get_attribute("href"), a.text_content()) for a in body.locator("a").all()],
                         [("https://example.com/a_(b)", "link"), ("https://example.com/x", "https://example.com/x")])
        self.assertEqual({a.get_attribute("rel") for a in body.locator("a").all()}, {"noopener noreferrer nofollow"})

    def test_code_is_copied(self):
        context = self.profile(permissions=["clipboard-read", "clipboard-write"])
        page = self.open(context)
        body = self.say(page, "Look:\n\n```python\ndef f(x):\n    return \"a\" # b\n", "```\n\nThat is all.")
        expect(body.locator(".keyword").first).to_have_text("def")
        expect(body.locator(".comment")).to_have_text("# b")
        page.get_by_role("button", name="Copy code").click()
        expect(page.locator("#status")).to_have_text("Copied")
        self.assertEqual(page.evaluate("navigator.clipboard.readText()"), 'def f(x):\n    return "a" # b')
        page.get_by_role("button", name="Copy answer").click()
        self.assertTrue(page.evaluate("navigator.clipboard.readText()").startswith("Look:\n\n```python"))
        # Without that interface, as on a page that came by plain HTTP from another machine.
        page.evaluate("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
        page.get_by_role("button", name="Copy message").click()
        field = page.get_by_role("textbox", name="Message", exact=True)
        field.focus()
        page.keyboard.press("Control+V")
        expect(field).to_have_value("go on")

    def test_growing_text_gives_the_same_as_the_whole(self):
        text = "Intro *a*\n\n1. x\n   - y\n\n```js\nlet a = `b`;\n\nfoo();\n```\n\n| h | i |\n|---|---|\n| 1 | 2 |\n\n> q\n\nlast **word** `tick"
        page = self.open()
        pieces = self.say(page, *[text[i:i + 3] for i in range(0, len(text), 3)]).evaluate("e => e.innerHTML")
        whole = self.say(page, text).evaluate("e => e.innerHTML")
        self.assertEqual(pieces, whole)

    def test_text_that_is_made_to_be_slow_or_deep(self):
        page = self.open()
        hostile = ["*" * 20000, "**a" * 5000, "*a **b " * 5000, "[" * 20000, "[a](" * 5000, "![" * 8000, "> " * 5000 + "x", "- " * 3000 + "x", "`" * 20000 + "a", "``a`" * 5000,
                   "http://[" * 4000, "<" * 20000, "&#" * 9000, "|" * 9000 + "\n" + "|-" * 9000, "_a_ " * 5000, "~~a~~" * 4000, "[x](<" * 4000, "# " * 8000, "\n".join("  " * i + "- x" for i in range(300)),
                   "*_" * 4000 + "a" + "_*" * 4000]
        for text in hostile:
            # What takes for ever fails by the time limit of the whole test.
            page.evaluate("""async (text) => {
                const { Markdown } = await import(new URL("page/markdown.js", document.baseURI));
                const box = document.createElement("div");
                new Markdown(box).update(text);
                let depth = 0;
                for (const e of box.querySelectorAll(":not(:has(*))")) { let n = 0; for (let at = e; at !== box; at = at.parentElement) ++n; depth = Math.max(depth, n); }
                if (depth > 80) throw new Error("nested " + depth + " deep");
                if (!box.childElementCount) throw new Error("nothing is left of it");
            }""", text)


if __name__ == "__main__":
    unittest.main()
