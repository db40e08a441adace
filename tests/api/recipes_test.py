#!/usr/bin/env python3
"""docs/RECIPES.md: its checked blocks are run word for word, but for the port; and requests in the form of programs that
cannot be run here."""
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from server import ServerTest, scripted  # noqa: E402

PAGE = (Path(os.environ["QUERN_SOURCE_DIR"]) / "docs/RECIPES.md").read_text()
SAYS = "Yes, indeed."


def blocks(language):
    return re.findall(rf"^```{language} checked\n(.*?)^```$", PAGE, re.M | re.S)


class Recipes(ServerTest):
    ARGS = ("-m", "smollm2-135m=" + scripted("think"))

    def here(self, text):
        self.assertIn("localhost:8080", text)
        return text.replace("localhost:8080", f"127.0.0.1:{self.server.port}")

    def run_block(self, command, text):
        done = subprocess.run([*command, self.here(text)], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    @unittest.skipUnless(shutil.which("curl"), "curl is not installed")
    def test_shell(self):
        plain, stream = (self.run_block(["bash", "-c"], text) for text in blocks("sh"))
        self.assertEqual(json.loads(plain)["choices"][0]["message"]["content"], SAYS)
        events = [line.removeprefix("data: ") for line in stream.splitlines() if line.startswith("data: ")]
        self.assertEqual(events.pop(), "[DONE]")
        chunks = [json.loads(event) for event in events]
        self.assertEqual("".join(c["choices"][0]["delta"].get("content") or "" for c in chunks if c["choices"]), SAYS)
        self.assertGreater(chunks[-1]["usage"]["completion_tokens"], 0)

    def test_python(self):
        texts = blocks("python")
        self.assertEqual(len(texts), 2)
        self.assertEqual(self.run_block([sys.executable, "-c"], texts[0]), SAYS + SAYS + "\n")
        self.assertEqual(self.run_block([sys.executable, "-c"], texts[1]), SAYS + "\n")

    def test_settings_are_well_formed_and_lead_here(self):
        claude, = (json.loads(self.here(text))["env"] for text in blocks("json"))
        answer = self.server.post("/v1/messages", {"model": claude["ANTHROPIC_DEFAULT_HAIKU_MODEL"], "max_tokens": 50, "messages": [{"role": "user", "content": "hello"}]},
                                  Authorization="Bearer " + claude["ANTHROPIC_AUTH_TOKEN"])
        self.assertEqual(answer["content"][-1]["text"], SAYS)
        self.assertEqual(claude["ANTHROPIC_BASE_URL"], f"http://127.0.0.1:{self.server.port}", "no /v1: it adds that")
        codex, = (tomllib.loads(self.here(text)) for text in blocks("toml"))
        provider = codex["model_providers"][codex["model_provider"]]
        self.assertEqual((provider["wire_api"], provider["base_url"]), ("responses", f"http://127.0.0.1:{self.server.port}/v1"))


class Forms(ServerTest):
    """What programs send, written down from their documentation and sources."""
    ARGS = ("-m", scripted("harmony-tools"))
    SHELL = {"type": "function", "name": "get_weather", "description": "weather", "strict": False,
             "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}}

    def codex(self, *items):
        return {"model": "local", "instructions": "You are a coding agent.", "stream": True, "store": False, "tool_choice": "auto", "parallel_tool_calls": False,
                "reasoning": {"effort": "medium", "summary": "auto"}, "include": ["reasoning.encrypted_content"], "prompt_cache_key": "a1b2", "text": {"verbosity": "low"},
                "tools": [self.SHELL, {"type": "custom", "name": "apply_patch", "description": "patch", "format": {"type": "grammar", "syntax": "lark", "definition": "x"}},
                          {"type": "web_search"}],
                "input": [{"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "rules"}]},
                          {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hello"}]}, *items]}

    def test_codex(self):
        events = self.server.events("/v1/responses", self.codex())
        self.assertEqual(events[0]["type"], "response.created")
        self.assertEqual(events[-1]["type"], "response.completed")
        calls = [item for item in events[-1]["response"]["output"] if item["type"] == "function_call"]
        self.assertEqual([c["name"] for c in calls], ["get_weather"])
        self.assertEqual(json.loads(calls[0]["arguments"]), {"city": "Zürich"})
        # The next turn, with what came and the call's result.
        output = [item for item in events[-1]["response"]["output"]]
        again = self.server.events("/v1/responses", self.codex(*output, {"type": "function_call_output", "call_id": calls[0]["call_id"], "output": "rain"}))
        self.assertEqual(again[-1]["type"], "response.completed")
        # A control: what nobody sends is refused by name.
        self.refused("/v1/responses", {**self.codex(), "stream": False, "nothing": 1}, "nothing")


if __name__ == "__main__":
    unittest.main()
