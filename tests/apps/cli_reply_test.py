#!/usr/bin/env python3
"""Replies in run and chat: reasoning shown and hidden, tool calls, what goes into the history, options for reasoning. On
models that say one fixed reply each (tools/synth/scripted.py)."""
import json
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from harness import MODELS, STATS, Program, Terminal, tiny_model  # noqa: E402

CALL = '[call get_weather] {"city": "Zürich"}\n'


def scripted(name):
    path = MODELS.parent / "scripted" / f"{name}.gguf"
    if not path.exists():
        raise AssertionError(f"{path} is missing: tools/make_testdata.py makes it")
    return str(path)


class Run(Program):
    def ask(self, name, *more):
        return self.quern("run", "-m", scripted(name), *more, "hello")

    def test_without_a_terminal_only_the_answer_comes(self):
        for name, answer in (("harmony", "It is four.\n"), ("think", "Yes, indeed.\n"), ("harmony-call", CALL)):
            for more in ((), ("--reasoning", "hide")):
                done = self.ask(name, *more)
                self.assertEqual(done.stdout, answer)
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
                self.assertTrue(STATS.search(done.stderr))

    def test_reasoning_is_marked_where_it_is_asked_for(self):
        for name, text in (("harmony", "[reasoning]\nLet me see.\n\n[answer]\nIt is four.\n"), ("think", "[reasoning]\nWeigh it.\n\n[answer]\nYes, indeed.\n"),
                           ("harmony-call", "[reasoning]\nLet me see.\n\n" + CALL)):
            self.assertEqual(self.ask(name, "--reasoning", "show").stdout, text)

    def test_raw_is_text_as_it_comes(self):
        prompt = "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n"
        done = self.quern("run", "-m", scripted("think"), "--raw", "-p", prompt)
        self.assertEqual(done.stdout, "<think>\nWeigh it.\n</think>\n\nYes, indeed.\n")

    def test_an_answer_that_is_all_reasoning_is_said(self):
        done = self.ask("harmony", "-n", "5")
        self.assertEqual(done.stdout, "\n")
        self.assertIn("--reasoning show shows it", done.stderr)
        self.assertEqual(self.ask("harmony", "-n", "5", "--reasoning", "show").stdout, "[reasoning]\nLet me see.\n")

    def test_on_a_terminal_it_is_dimmed(self):
        for env, more, text in (({}, (), "\x1b[2mLet me see.\x1b[0m\r\n\r\nIt is four.\r\n"), ({}, ("--reasoning", "hide"), "It is four.\r\n"),
                                ({"NO_COLOR": "1"}, (), "[reasoning]\r\nLet me see.\r\n\r\n[answer]\r\nIt is four.\r\n")):
            run = Terminal(["run", "-m", scripted("harmony"), *more, "hello"], {**self.env, **env}, self.folder)
            run.wait_for(r"tok/s\]")
            self.assertEqual(run.end(), 0)
            self.assertIn(text + "[prompt", run.all)
            self.assertEqual("\x1b[2m" in run.all, "\x1b[2m" in text)

    def test_options_for_reasoning_go_to_the_template(self):
        self.assertEqual(self.ask("think", "--thinking", "off", "--reasoning", "show").stdout, "Yes, indeed.\n")
        self.assertIn("[reasoning]", self.ask("think", "--thinking", "on", "--reasoning", "show").stdout)
        length = [int(STATS.search(self.ask("harmony", "--reasoning-effort", e).stderr)[1]) for e in ("auto", "medium", "high")]
        self.assertEqual([n - length[0] for n in length], [0, 0, -2])  # in bytes

    def test_and_are_refused_by_name_where_it_has_none(self):
        for name, more, missing in (("think", ("--reasoning-effort", "low"), "reasoning_effort"), ("harmony", ("--thinking", "off"), "enable_thinking")):
            error = self.error("run", "-m", scripted(name), *more, "hello")
            self.assertIn(" ".join(more), error)
            self.assertIn(f"no variable {missing}", error)
        self.assertIn("--raw uses none", self.error("run", "-m", scripted("think"), "--raw", "--thinking", "on", "hello"))
        done = self.quern("run", "-m", tiny_model(), "--thinking", "on", "hello", code=1)
        self.assertRegex(done.stderr, "--thinking on: .*no chat template")
        self.assertIn("auto, low, medium, high", self.error("run", "-m", scripted("harmony"), "--reasoning-effort", "huge", "hello", code=2))


class Chat(Program):
    def chat(self, name, *lines, more=()):
        return self.quern("chat", "-m", scripted(name), *more, stdin="\n".join(lines) + "\n")

    def saved(self, name="c.json"):
        return json.loads((self.folder / name).read_text())["messages"]

    def test_reasoning_is_kept_for_the_template(self):
        done = self.chat("think", "hello", "again", f"/save {self.folder}/c.json", more=("--reasoning", "show"))
        # The template shows the model its own reasoning, and then it does not reason again.
        self.assertEqual(done.stdout, "[reasoning]\nWeigh it.\n\n[answer]\nYes, indeed.\n\n\nYes, indeed.\n")
        self.assertEqual(self.saved()[1], {"role": "assistant", "content": "Yes, indeed.", "reasoning_content": "Weigh it."})
        self.assertEqual(self.saved()[3], {"role": "assistant", "content": "\n\nYes, indeed."})
        again = self.chat("think-renamed", "hello", "again", more=("--reasoning", "show"))
        self.assertEqual(again.stdout.count("Weigh it."), 2)

    def test_a_saved_conversation_is_the_same_one(self):
        self.chat("think", "hello", f"/save {self.folder}/one.json")
        done = self.chat("think", f"/load {self.folder}/one.json", "again", more=("--reasoning", "show"))
        self.assertEqual(done.stdout, "\n\nYes, indeed.\n")
        for bad in ({"role": "assistant", "content": None}, {"role": "assistant", "content": "", "tool_calls": [{"id": "a"}]},
                    {"role": "user", "content": "x", "reasoning_content": 1}, {"role": "", "content": "x"}):
            (self.folder / "bad.json").write_text(json.dumps({"messages": [bad]}))
            self.assertIn("not a saved conversation", self.chat("think", f"/load {self.folder}/bad.json").stderr, bad)

    def test_calls_and_their_results(self):
        save = f"/save {self.folder}/c.json"
        done = self.chat("harmony-call", "/result 1", "hello", "/result 3 degrees", save, "/undo", "/stats", "/result 2")
        self.assertEqual(done.stdout, CALL * 2)
        self.assertEqual(done.stderr.count("[/result TEXT answers the call of get_weather]"), 2)
        self.assertEqual(done.stderr.count("[no call waits for a result]"), 2)
        self.assertIn("[0 turns,", done.stderr)
        user, call, result, _ = self.saved()
        function = {"name": "get_weather", "arguments": '{"city": "Zürich"}'}
        self.assertEqual(call["tool_calls"], [{"id": "call00000", "type": "function", "function": function}])
        self.assertEqual(call["reasoning_content"], "Let me see.")
        self.assertEqual(result, {"role": "tool", "content": "3 degrees", "tool_call_id": "call00000", "name": "get_weather"})
        # Loaded again, arguments as an object too, it goes on where it was.
        call["tool_calls"][0]["function"]["arguments"] = {"city": "Zürich"}
        call["content"] = None
        (self.folder / "open.json").write_text(json.dumps({"messages": [user, call]}))
        self.assertEqual(self.chat("harmony-call", f"/load {self.folder}/open.json", "/result 3 degrees", save).stdout, CALL)
        self.assertEqual(self.saved()[2], result)

    def test_a_result_that_does_not_fit_is_taken_back(self):
        done = self.chat("harmony-call", "hello", "/result " + "long " * 500, f"/save {self.folder}/c.json", more=("-c", "300"))
        self.assertIn("the result is taken back", done.stderr)
        self.assertEqual(len(self.saved()), 2)

    def test_set(self):
        done = self.chat("think", "/set reasoning show", "/set thinking off", "/set reasoning-effort low", "hello", "/clear", "/set thinking auto", "hello", "/set reasoning x")
        self.assertEqual(done.stdout, "Yes, indeed.\n[reasoning]\nWeigh it.\n\n[answer]\nYes, indeed.\n")
        self.assertEqual(done.stderr.count("[set]"), 3)
        self.assertIn("--reasoning-effort low: ", done.stderr)
        self.assertIn("'x' is not allowed", done.stderr)

    def test_a_model_that_cannot_is_refused_at_the_start(self):
        self.assertIn("--thinking on", self.error("chat", "-m", scripted("harmony"), "--thinking", "on"))

    def test_on_a_terminal_reasoning_is_dimmed(self):
        chat = Terminal(["chat", "-m", scripted("harmony")], self.env, self.folder)
        chat.wait_for_prompt()
        chat.type("hello\r")
        chat.wait_for(r"\x1b\[2mLet me see\.\x1b\[0m\r\n\r\nIt is four\.\r\n")
        chat.wait_for_prompt()
        chat.type("\x04")
        self.assertEqual(chat.end(), 0)


if __name__ == "__main__":
    unittest.main()
