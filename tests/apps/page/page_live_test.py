#!/usr/bin/env python3
"""The page: the live view, and one real conversation with SmolLM2."""
import json
import os
import subprocess
import unittest
from pathlib import Path

from playwright.sync_api import expect
from page_testing import SHOTS, PageTest, wait_until
from server import QUERN


class Live(PageTest):
    def n_asked(self):
        return sum(path == "/v1/stats" for _, path, _, _ in self.valve.asked)

    def figure(self, page, name):
        return page.locator(f"[data-figure='{name}']")

    def test_figures_change(self):
        page = self.open()
        self.ask(page, "Is it so?")
        self.done(page)
        self.assertEqual(self.n_asked(), 0, "nothing is asked while nobody looks")
        page.get_by_role("button", name="Live view", exact=True).click()
        total = self.figure(page, "Generation").locator(".figure_note")
        expect(total).to_contain_text("tokens in all")
        before = total.text_content()
        for name in ("Generation", "Prompts", "Batch", "Queue", "KV pages", "Prefix cache"):
            expect(self.figure(page, name).locator(".figure_number")).not_to_have_text("–")
        self.ask(page, "And then?")
        self.done(page, 2)
        expect(total).not_to_have_text(before)
        expect(self.figure(page, "Prefix cache").locator(".figure_note")).to_contain_text("1 hits in 2 requests")
        expect(self.figure(page, "KV pages").locator(".figure_number")).not_to_have_text("0")
        stats = self.server.get("/v1/stats")["models"][0]
        expect(total).to_have_text(f"{int(stats['generated_tokens_total'])} tokens in all")
        expect(self.figure(page, "Batch").locator(".figure_note")).to_contain_text(f"of {int(stats['parallel'])}")
        # The plot has a point for each look, and says in words what it shows.
        plot = self.figure(page, "Generation").get_by_role("img")
        self.assertTrue(wait_until(lambda: (plot.locator(".plot_line").get_attribute("d") or "").count("L") >= 2))
        self.assertRegex(plot.get_attribute("aria-label"), r"^Generation in the last \d+ seconds; now [\d.,]+ tokens/s, at most [\d.]+$")

    def test_asked_only_while_shown(self):
        page = self.open()
        toggle = page.get_by_role("button", name="Live view", exact=True)
        toggle.click()
        self.assertTrue(wait_until(lambda: self.n_asked() >= 3), "once a second")
        toggle.click()
        page.wait_for_timeout(200)
        n = self.n_asked()
        page.wait_for_timeout(2500)
        self.assertEqual(self.n_asked(), n, "not while it is closed")
        toggle.click()
        self.assertTrue(wait_until(lambda: self.n_asked() > n))
        page.evaluate("Object.defineProperty(document, 'visibilityState', {value: 'hidden', configurable: true}); document.dispatchEvent(new Event('visibilitychange'))")
        page.wait_for_timeout(200)
        n = self.n_asked()
        page.wait_for_timeout(2500)
        self.assertEqual(self.n_asked(), n, "nor while the window is out of view")
        page.evaluate("delete document.visibilityState; document.dispatchEvent(new Event('visibilitychange'))")
        self.assertTrue(wait_until(lambda: self.n_asked() > n))


def smollm2():
    """Where the model is: given, in the user's cache, or got now; or why it is not."""
    given = Path(os.environ.get("QUERN_TEST_MODELS", "/nowhere")) / "smollm2.gguf"
    if given.exists():
        return str(given), ""
    for command in ("path", "get"):
        done = subprocess.run([QUERN, "models", command, "smollm2-135m"], capture_output=True, text=True, timeout=300)
        if done.returncode == 0:
            return done.stdout.strip(), ""
    return "", done.stderr.strip()


MODEL, WHY_NOT = smollm2()


@unittest.skipIf(not MODEL, f"SKIPPED: no SmolLM2: {WHY_NOT}")
class Real(PageTest):
    ARGS = ("-m", f"smollm2-135m={MODEL}")

    def test_a_conversation(self):
        page = self.open()
        page.get_by_role("button", name="Model and settings").click()
        for label, value in (("Temperature", "0"), ("Longest answer", "120"), ("System prompt", "You are a helpful assistant.")):
            page.get_by_label(label, exact=True).fill(value)
        self.assertTrue(page.get_by_label("Thinking", exact=True).is_hidden(), "this model does not think")
        page.get_by_role("button", name="Live view", exact=True).click()
        self.ask(page, "What is the capital of France? Answer in one sentence.")
        self.done(page)
        expect(self.answers(page).locator(".body")).to_contain_text("Paris")
        self.ask(page, "Write a short Python function that adds two numbers, in a code block.")
        self.done(page, 2)
        # As the server alone would answer the same.
        asked = self.valve.chats()[-1]
        self.assertEqual([m["role"] for m in asked["messages"]], ["system", "user", "assistant", "user"])
        alone = self.server.post("/v1/chat/completions", {k: v for k, v in asked.items() if not k.startswith("stream")})["choices"][0]["message"]["content"]
        with page.expect_download() as waiting:
            page.get_by_role("button", name="Export this one").click()
        self.assertIn(alone, [m["content"] for m in json.loads(Path(waiting.value.path()).read_text())["conversations"][0]["messages"]])
        expect(self.answers(page).last.locator(".stats")).to_contain_text("from the cache")
        page.wait_for_timeout(1500)
        page.screenshot(path=SHOTS / "smollm2.png")


if __name__ == "__main__":
    unittest.main()
