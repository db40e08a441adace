#!/usr/bin/env python3
"""quern serve by plain HTTP: routes, streams, refusals, limits, hang-ups, the end. On models that say one fixed reply each
(tools/synth/scripted.py) and on a tiny one whose text means nothing."""
import http.client
import json
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "apps"))
from harness import with_template  # noqa: E402
from server import QUERN, Server, ServerTest, scripted, tiny, wait_until  # noqa: E402

HELLO = [{"role": "user", "content": "hello"}]
TOOL = {"type": "function", "function": {"name": "get_weather", "description": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}


class Thinking(ServerTest):
    ARGS = ("-m", "small=" + scripted("think"))

    def test_models(self):
        listed = self.server.get("/v1/models")
        self.assertEqual([m["id"] for m in listed["data"]], ["small"])
        self.assertEqual(listed["first_id"], "small")
        self.assertEqual(listed["data"][0]["reasoning"], {"thinks": True, "effort": False, "switch": True, "end": True})
        self.assertGreater(listed["data"][0]["n_ctx"], 0)
        self.assertEqual(self.server.get("/v1/models/small")["object"], "model")
        self.assertEqual(self.server.get("/v1/models/large", 404)["error"]["code"], "model_not_found")

    def test_chat(self):
        answer = self.server.post("/v1/chat/completions", {"model": "any", "messages": HELLO})
        message = answer["choices"][0]["message"]
        self.assertEqual(message["content"], "Yes, indeed.")
        self.assertEqual(message["reasoning_content"], "Weigh it.")
        self.assertEqual(answer["choices"][0]["finish_reason"], "stop")
        self.assertEqual(answer["model"], "small")
        usage = answer["usage"]
        self.assertEqual(usage["total_tokens"], usage["prompt_tokens"] + usage["completion_tokens"])
        self.assertTrue(0 < usage["completion_tokens_details"]["reasoning_tokens"] < usage["completion_tokens"])
        again = self.server.post("/v1/chat/completions", {"messages": HELLO})
        self.assertGreater(again["usage"]["prompt_tokens_details"]["cached_tokens"], 0)

    def test_chat_streamed(self):
        for include in (False, True):
            events = self.server.events("/v1/chat/completions", {"messages": HELLO, **({"stream_options": {"include_usage": True}} if include else {})})
            self.assertEqual(events.pop(), "[DONE]")
            usage = events.pop() if include else None
            if include:
                self.assertEqual(usage["choices"], [])
                self.assertGreater(usage["usage"]["prompt_tokens"], 0)
            self.assertTrue(all(("usage" in e) == include for e in events))
            deltas = [e["choices"][0]["delta"] for e in events]
            self.assertEqual(deltas[0]["role"], "assistant")
            self.assertEqual("".join(d.get("content") or "" for d in deltas), "Yes, indeed.")
            self.assertEqual("".join(d.get("reasoning_content") or "" for d in deltas), "Weigh it.")
            self.assertEqual([e["choices"][0]["finish_reason"] for e in events if e["choices"][0]["finish_reason"]], ["stop"])

    def test_thinking_off(self):
        answer = self.server.post("/v1/chat/completions", {"messages": HELLO, "enable_thinking": False})
        self.assertNotIn("reasoning_content", answer["choices"][0]["message"])
        self.assertEqual(answer["choices"][0]["message"]["content"], "Yes, indeed.")

    def test_stop_strings(self):
        body = {"messages": HELLO, "stop": [", in"]}  # across the border of two tokens
        self.assertEqual(self.server.post("/v1/chat/completions", body)["choices"][0]["message"]["content"], "Yes")
        events = self.server.events("/v1/chat/completions", body)
        self.assertEqual("".join(e["choices"][0]["delta"].get("content") or "" for e in events[:-1]), "Yes")
        # What only looks like the beginning of one comes out.
        body["stop"] = ["indeed!"]
        self.assertEqual(self.server.post("/v1/chat/completions", body)["choices"][0]["message"]["content"], "Yes, indeed.")

    def test_several_answers(self):
        answer = self.server.post("/v1/chat/completions", {"messages": HELLO, "n": 3})
        self.assertEqual([c["index"] for c in answer["choices"]], [0, 1, 2])
        self.assertEqual({c["message"]["content"] for c in answer["choices"]}, {"Yes, indeed."})
        events = self.server.events("/v1/chat/completions", {"messages": HELLO, "n": 2})
        for i in (0, 1):
            mine = [e["choices"][0] for e in events[:-1] if e["choices"][0]["index"] == i]
            self.assertEqual("".join(c["delta"].get("content") or "" for c in mine), "Yes, indeed.")

    def test_max_tokens(self):
        for field in ("max_tokens", "max_completion_tokens"):
            answer = self.server.post("/v1/chat/completions", {"messages": HELLO, field: 2})
            self.assertEqual(answer["choices"][0]["finish_reason"], "length")
            self.assertEqual(answer["usage"]["completion_tokens"], 2)

    def test_logprobs(self):
        answer = self.server.post("/v1/chat/completions", {"messages": HELLO, "logprobs": True, "top_logprobs": 2})
        entries = answer["choices"][0]["logprobs"]["content"]
        self.assertIn("Weigh it.", "".join(e["token"] for e in entries))
        for entry in entries:
            self.assertEqual(bytes(entry["bytes"]).decode(), entry["token"])
            self.assertEqual(len(entry["top_logprobs"]), 2)
            self.assertGreaterEqual(entry["top_logprobs"][0]["logprob"], entry["top_logprobs"][1]["logprob"])
        events = self.server.events("/v1/chat/completions", {"messages": HELLO, "logprobs": True, "top_logprobs": 2})
        streamed = [e for c in events[:-1] for e in ((c["choices"][0]["logprobs"] or {}).get("content") or [])]
        self.assertEqual(streamed, entries)

    def test_the_token_that_ends_a_text_has_a_likelihood(self):
        """Programs that score a text drop the last entry, the token that was generated; there must be one."""
        prompt = self.server.post("/apply-template", {"messages": HELLO})["prompt"]
        body = {"prompt": prompt, "max_tokens": 100, "logprobs": 1, "temperature": 0}
        answer = self.server.post("/v1/completions", body)
        tokens = answer["choices"][0]["logprobs"]["tokens"]
        self.assertEqual(answer["choices"][0]["finish_reason"], "stop")
        self.assertEqual(len(tokens), answer["usage"]["completion_tokens"] + 1)
        self.assertNotIn("im_end", answer["choices"][0]["text"])
        streamed = [t for e in self.server.events("/v1/completions", body)[:-1] for t in (e["choices"][0]["logprobs"] or {}).get("tokens", [])]
        self.assertEqual(streamed, tokens)
        # Where the first token already ends it, a scored prompt has its entry and one more.
        ids = self.server.post("/tokenize", {"content": prompt, "add_special": True})["tokens"]
        ids.append(next(i for i in range(256, 2000) if self.server.post("/detokenize", {"tokens": [i]})["content"] == " indeed."))
        scored = self.server.post("/v1/completions", {"prompt": ids, "max_tokens": 1, "logprobs": 1, "echo": True, "temperature": 0})["choices"][0]
        self.assertEqual((len(scored["logprobs"]["token_logprobs"]), scored["finish_reason"]), (len(ids) + 1, "stop"))
        # Not so in a conversation, whose API has no place for it.
        chat = self.server.post("/v1/chat/completions", {"messages": HELLO, "logprobs": True})
        self.assertEqual(len(chat["choices"][0]["logprobs"]["content"]), chat["usage"]["completion_tokens"])

    def test_messages(self):
        body = {"model": "x", "max_tokens": 99, "messages": HELLO}
        answer = self.server.post("/v1/messages", body)
        self.assertEqual([b["type"] for b in answer["content"]], ["thinking", "text"])
        self.assertEqual(answer["content"][1]["text"], "Yes, indeed.")
        self.assertEqual(answer["stop_reason"], "end_turn")
        events = self.server.events("/v1/messages", body)
        self.assertEqual((events[0]["type"], events[-1]["type"]), ("message_start", "message_stop"))
        self.assertEqual("".join(e["delta"].get("text", "") for e in events if e["type"] == "content_block_delta"), "Yes, indeed.")
        counted = self.server.post("/v1/messages/count_tokens", {"model": "x", "messages": HELLO})["input_tokens"]
        usage = answer["usage"]
        self.assertEqual(counted, usage["input_tokens"] + usage["cache_read_input_tokens"])
        error = self.server.post("/v1/messages", {"model": "x", "messages": HELLO}, 400)
        self.assertEqual((error["type"], error["error"]["type"]), ("error", "invalid_request_error"))
        self.assertIn("max_tokens", error["error"]["message"])

    def test_responses(self):
        answer = self.server.post("/v1/responses", {"input": "hello"})
        self.assertEqual([o["type"] for o in answer["output"]], ["reasoning", "message"])
        self.assertEqual(answer["output"][1]["content"][0]["text"], "Yes, indeed.")
        events = self.server.events("/v1/responses", {"input": "hello"})
        self.assertEqual(events[-1]["type"], "response.completed")
        self.assertEqual([o["type"] for o in events[-1]["response"]["output"]], ["reasoning", "message"])

    def test_a_list_of_embeddings_ends_with_its_client(self):
        figures = lambda: {"requests_total": 0, **self.server.get("/v1/stats")["models"][0]}  # noqa: E731
        before = figures()["requests_total"]
        body = json.dumps({"input": ["word " * 60] * 2048}).encode()
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=30) as s:
            s.sendall(b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            self.assertTrue(wait_until(lambda: figures()["requests_total"] > before))
        self.assertTrue(wait_until(lambda: figures()["requests_prompt"] + figures()["requests_queued"] == 0))
        self.assertLess(figures()["requests_total"], before + 2048)

    def test_refused_by_name(self):
        chat = "/v1/chat/completions"
        self.refused(chat, {"messages": []}, "messages")
        self.refused(chat, {"messages": HELLO, "unheard_of": 1}, "unheard_of")
        self.refused(chat, {"messages": HELLO, "reasoning_effort": "low"}, "reasoning_effort")
        for choice in ("auto", "required", {"type": "function", "function": {"name": "get_weather"}}):
            self.refused(chat, {"messages": HELLO, "tools": [TOOL], "tool_choice": choice}, "tools")  # its template takes none
        self.refused(chat, {"messages": HELLO, "tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "nobody"}}}, "tool_choice")
        self.refused(chat, {"messages": HELLO, "logit_bias": {"99999": 1}}, "logit_bias")
        self.refused(chat, {"messages": HELLO, "chat_template_kwargs": {"messages": []}}, "chat_template_kwargs")
        self.refused("/v1/completions", {"prompt": [999999]}, "prompt")
        self.refused("/v1/completions", {"prompt": "a", "suffix": "b"}, "suffix")
        self.refused("/detokenize", {"tokens": [999999]}, "tokens")

    def test_bodies_that_are_no_requests(self):
        for body in (b"", b"{", b"[]", b'{"messages": "\xc3\x28"}', b"\xff", b'{"a":' * 100000, b"null"):
            status, _, text = self.server.ask("POST", "/v1/chat/completions", body)
            self.assertEqual(status, 400, body[:20])
            self.assertTrue(json.loads(text)["error"]["message"])
        self.assertEqual(self.server.get("/health")["status"], "ok")

    def test_paths(self):
        for path in ("/v1/nothing", "/../etc/passwd", "/%2e%2e/etc/passwd", "//", "/v1/models/%2e%2e"):
            self.server.get(path, 404)
        status, _, _ = self.server.ask("GET", "/v1/chat/completions")
        self.assertEqual(status, 405)

    def test_tokens_and_back(self):
        tokens = self.server.post("/tokenize", {"content": "Let me see. é"})["tokens"]
        self.assertEqual(self.server.post("/detokenize", {"tokens": tokens})["content"], "Let me see. é")
        pieces = self.server.post("/tokenize", {"content": "é<|im_end|>", "with_pieces": True})["tokens"]
        self.assertEqual(pieces[-1]["piece"], "<|im_end|>")
        plain = self.server.post("/tokenize", {"content": "<|im_end|>", "parse_special": False})["tokens"]
        self.assertGreater(len(plain), 1)
        prompt = self.server.post("/apply-template", {"messages": HELLO})["prompt"]
        self.assertEqual(prompt, "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n")

    def test_figures(self):
        self.server.post("/v1/chat/completions", {"messages": HELLO})
        status, headers, text = self.server.ask("GET", "/metrics")
        self.assertEqual(status, 200)
        self.assertTrue(headers["Content-Type"].startswith("text/plain; version=0.0.4"))
        found = {line.split("{")[0]: float(line.split()[-1]) for line in text.splitlines() if not line.startswith("#")}
        self.assertGreater(found["quern_generated_tokens_total"], 0)
        self.assertIn('quern_requests_total{model="small"}', text)
        stats = self.server.get("/v1/stats")["models"][0]
        self.assertEqual((stats["id"], stats["state"]), ("small", "loaded"))
        self.assertGreater(stats["prompt_tokens_total"], 0)

    def test_a_browser_of_another_page_is_refused(self):
        ask = {"messages": HELLO}
        self.server.post("/v1/chat/completions", ask, 403, Origin="http://evil.example")
        self.server.post("/v1/chat/completions", ask, 403, Host="evil.example")
        self.server.post("/v1/chat/completions", ask, 200, Origin=f"http://localhost:{self.server.port}", Host=f"localhost:{self.server.port}")
        _, headers, _ = self.server.ask("GET", "/v1/models")
        self.assertFalse([h for h in headers if h.lower().startswith("access-control")])

    def test_a_body_that_is_too_long_is_refused_at_once(self):
        # Not one byte of it is sent, asked for or waited for.
        for more in (b"", b"Expect: 100-continue\r\n"):
            raw = socket.create_connection(("127.0.0.1", self.server.port), timeout=20)
            raw.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %d\r\n\r\n" % (more, 30 << 20))
            self.assertTrue(raw.recv(4096).startswith(b"HTTP/1.1 413 "))
            raw.close()
        # The control: one that is not too long is waited for.
        raw = socket.create_connection(("127.0.0.1", self.server.port), timeout=20)
        raw.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
        self.assertIn(b" 100 ", raw.recv(4096))
        raw.sendall(b"{}")
        self.assertIn(b" 400 ", raw.recv(4096))
        raw.close()
        # Without a length it is cut off once it is too long.
        connection = self.server.connect()
        with self.assertRaises(OSError):
            connection.request("POST", "/v1/completions", iter([b"a" * 65536] * 400), {"Transfer-Encoding": "chunked"}, encode_chunked=True)
            self.assertNotEqual(connection.getresponse().status, 200)
            raise ConnectionError("answered")
        connection.close()

    def test_a_prompt_that_is_too_long(self):
        error = self.refused("/v1/chat/completions", {"messages": [{"role": "user", "content": "a b " * 20000}]}, None)
        self.assertEqual(error["code"], "context_length_exceeded")
        self.assertGreater(error["n_prompt_tokens"], error["n_ctx"])
        # By its bytes alone: nobody has counted these tokens, one for each.
        error = self.refused("/v1/completions", {"prompt": "a" * (7 << 20)}, None)
        self.assertTrue(error["n_ctx"] < error["n_prompt_tokens"] < (7 << 20) / 2, error)


class Calling(ServerTest):
    ARGS = ("-m", scripted("harmony-tools"))

    def test_call(self):
        answer = self.server.post("/v1/chat/completions", {"messages": HELLO, "tools": [TOOL]})
        self.assertEqual(answer["choices"][0]["finish_reason"], "tool_calls")
        call = answer["choices"][0]["message"]["tool_calls"][0]
        self.assertEqual(json.loads(call["function"]["arguments"]), {"city": "Zürich"})
        self.assertRegex(call["id"], "^[a-z0-9]{9}$")
        events = self.server.events("/v1/chat/completions", {"messages": HELLO, "tools": [TOOL]})
        parts = [c for e in events[:-1] for c in e["choices"][0]["delta"].get("tool_calls", [])]
        self.assertEqual(parts[0]["id"], call["id"])
        self.assertEqual("".join(p["function"]["arguments"] for p in parts), call["function"]["arguments"])
        # And its result goes back, under whatever id the client gave the call.
        turn = {"role": "assistant", "content": None, "tool_calls": [{**call, "id": "toolu_abc"}]}
        result = {"role": "tool", "tool_call_id": "toolu_abc", "content": "3 degrees"}
        self.server.post("/v1/chat/completions", {"messages": [*HELLO, turn, result], "tools": [TOOL]})

    def test_call_of_messages(self):
        body = {"model": "x", "max_tokens": 99, "messages": HELLO, "tools": [{"name": "get_weather", "input_schema": {"type": "object"}}]}
        answer = self.server.post("/v1/messages", body)
        self.assertEqual(answer["stop_reason"], "tool_use")
        self.assertEqual(answer["content"][-1]["input"], {"city": "Zürich"})
        events = self.server.events("/v1/messages", body)
        whole = "".join(e["delta"].get("partial_json", "") for e in events if e["type"] == "content_block_delta")
        self.assertEqual(json.loads(whole), {"city": "Zürich"})

    def test_a_call_that_nobody_offered_is_text(self):
        message = self.server.post("/v1/chat/completions", {"messages": HELLO})["choices"][0]["message"]
        self.assertNotIn("tool_calls", message)
        self.assertIn("Zürich", message["content"])
        self.assertIn("Zürich", self.server.post("/v1/chat/completions", {"messages": HELLO, "tools": [TOOL], "tool_choice": "none"})["choices"][0]["message"]["content"])

    def test_effort(self):
        self.server.post("/v1/chat/completions", {"messages": HELLO, "reasoning_effort": "high"})
        self.assertIn("Reasoning: high", self.server.post("/apply-template", {"messages": HELLO, "reasoning_effort": "high"})["prompt"])


class Channels(ServerTest):
    """A budget in tokens of the analysis channel. Ended too soon, this model says its words in the answer."""
    ARGS = ("-m", "harmony=" + scripted("harmony"), "-m", "call=" + scripted("harmony-tools"))

    def test_models(self):
        self.assertTrue(all(m["reasoning"]["end"] for m in self.server.get("/v1/models")["data"]))

    def test_a_budget_ends_the_analysis(self):
        for budget, reasoning, content, n in ((None, "Let me see.", "It is four.", 2), (1, "Let me", "Let me see.\n\nIt is four.", 1),
                                              (2, "Let me see.", "It is four.", 2), (3, "Let me see.", "It is four.", 2)):
            body = {"messages": HELLO, "temperature": 0, **({"thinking_budget_tokens": budget} if budget else {})}
            answer = self.server.post("/v1/chat/completions", body)
            message = answer["choices"][0]["message"]
            self.assertEqual((message["reasoning_content"], message["content"]), (reasoning, content))
            self.assertEqual(answer["usage"]["completion_tokens_details"]["reasoning_tokens"], n)
            deltas = [e["choices"][0]["delta"] for e in self.server.events("/v1/chat/completions", body)[:-1]]
            self.assertEqual("".join(d.get("reasoning_content") or "" for d in deltas), reasoning)
            self.assertEqual("".join(d.get("content") or "" for d in deltas), content)
            if budget:
                thinking = {"type": "enabled", "budget_tokens": budget}
                blocks = self.server.post("/v1/messages", {"model": "harmony", "max_tokens": 99, "messages": HELLO, "thinking": thinking})["content"]
                self.assertEqual([b.get("thinking") or b.get("text") for b in blocks], [reasoning, content])

    def test_with_answers_that_are_bound(self):
        body = {"messages": HELLO, "temperature": 0, "thinking_budget_tokens": 1}
        message = self.server.post("/v1/chat/completions", {**body, "response_format": FORMAT})["choices"][0]["message"]
        self.assertEqual(message["reasoning_content"], "Let me")
        self.assertTrue(is_roll(json.loads(message["content"])))
        choice = self.server.post("/v1/chat/completions", {**body, "model": "call", "tools": [TOOL, OTHER], "tool_choice": "required"})["choices"][0]
        self.assertEqual((choice["finish_reason"], choice["message"]["reasoning_content"]), ("tool_calls", "Let me"))

    def test_a_call_is_not_interrupted(self):
        for budget in (2, 3, 4):
            body = {"model": "call", "messages": HELLO, "temperature": 0, "tools": [TOOL], "thinking_budget_tokens": budget}
            answer = self.server.post("/v1/chat/completions", body)
            choice = answer["choices"][0]
            self.assertEqual(answer["usage"]["completion_tokens_details"]["reasoning_tokens"], 2)
            if budget > 2:
                self.assertEqual(json.loads(choice["message"]["tool_calls"][0]["function"]["arguments"]), {"city": "Zürich"})


class TaggedCalling(ServerTest):
    ARGS = ("-m", scripted("tagged-tools"))

    def test_call(self):
        body = {"messages": HELLO, "tools": [TOOL]}
        choice = self.server.post("/v1/chat/completions", body)["choices"][0]
        self.assertEqual(choice["finish_reason"], "tool_calls")
        self.assertFalse(choice["message"]["content"])
        call = choice["message"]["tool_calls"][0]
        self.assertEqual(call["function"]["name"], "get_weather")
        self.assertEqual(json.loads(call["function"]["arguments"]), {"city": "Zürich"})
        turn = {"role": "assistant", "content": None, "tool_calls": [call]}
        prompt = self.server.post("/apply-template", {"messages": [*HELLO, turn], "tools": [TOOL]})["prompt"]
        self.assertIn('<tool_call>\n{"name": "get_weather"', prompt)

    def test_without_tools_it_is_text(self):
        message = self.server.post("/v1/chat/completions", {"messages": HELLO})["choices"][0]["message"]
        self.assertIn("<tool_call>", message["content"])
        self.assertNotIn("tool_calls", message)


ROLL = {"type": "object", "properties": {"side": {"enum": ["heads", "tails"]}, "n": {"type": "integer", "minimum": 1, "maximum": 6}, "sure": {"type": "boolean"}},
        "required": ["side", "n", "sure"], "additionalProperties": False}
FORMAT = {"type": "json_schema", "json_schema": {"name": "roll", "schema": ROLL, "strict": True}}
OTHER = {"type": "function", "function": {"name": "flip", "parameters": ROLL}}


def is_roll(value):
    return set(value) == {"side", "n", "sure"} and value["side"] in ("heads", "tails") and value["n"] in range(1, 7) and value["sure"] in (True, False)


class BoundThinking(ServerTest):
    """What models say that would say something else."""
    ARGS = ("-m", scripted("think"))

    def test_a_schema_binds_the_answer_and_not_the_reasoning(self):
        for seed in range(4):
            body = {"messages": HELLO, "response_format": FORMAT, "temperature": 1.5, "seed": seed}
            message = self.server.post("/v1/chat/completions", body)["choices"][0]["message"]
            self.assertTrue(is_roll(json.loads(message["content"])), message)
            events = self.server.events("/v1/chat/completions", body)
            streamed = "".join(e["choices"][0]["delta"].get("content") or "" for e in events[:-1])
            self.assertEqual(streamed, message["content"])
        greedy = self.server.post("/v1/chat/completions", {"messages": HELLO, "response_format": FORMAT, "temperature": 0})
        self.assertEqual(greedy["choices"][0]["message"]["reasoning_content"], "Weigh it.")
        self.assertTrue(is_roll(json.loads(greedy["choices"][0]["message"]["content"])))
        self.assertEqual(greedy["choices"][0]["finish_reason"], "stop")

    def test_without_reasoning(self):
        body = {"messages": HELLO, "response_format": FORMAT, "enable_thinking": False, "temperature": 0}
        message = self.server.post("/v1/chat/completions", body)["choices"][0]["message"]
        self.assertTrue(is_roll(json.loads(message["content"])))
        self.assertFalse(message.get("reasoning_content"))

    def test_a_budget_ends_the_reasoning_of_a_bound_answer(self):
        body = {"messages": HELLO, "response_format": FORMAT, "thinking_budget_tokens": 1, "temperature": 0}
        message = self.server.post("/v1/chat/completions", body)["choices"][0]["message"]
        self.assertTrue(is_roll(json.loads(message["content"])))
        self.assertNotEqual(message.get("reasoning_content"), "Weigh it.")

    def test_grammar(self):
        body = {"messages": HELLO, "grammar": 'root ::= "rouge" | "noir"', "temperature": 0}
        self.assertIn(self.server.post("/v1/chat/completions", body)["choices"][0]["message"]["content"], ("rouge", "noir"))

    def test_responses(self):
        answer = self.server.post("/v1/responses", {"input": "hello", "text": {"format": {"type": "json_schema", "name": "roll", "schema": ROLL}}})
        self.assertTrue(is_roll(json.loads(answer["output"][-1]["content"][0]["text"])))

    def test_refused_by_name(self):
        chat = "/v1/chat/completions"

        def schema(value):
            return {"type": "json_schema", "json_schema": {"name": "a", "schema": value}}
        for bad, word in (({"not": {}}, "not"), ({"type": "string", "pattern": "^hello\\!$"}, "pattern"), ({"$ref": "#/$defs/Name"}, "Name"),
                          ({"type": "objekt"}, "objekt"), ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, "oneOf")):
            problem = self.refused(chat, {"messages": HELLO, "response_format": schema(bad)}, "response_format")
            self.assertIn(word, problem["message"])
        self.refused(chat, {"messages": HELLO, "grammar": 'root ::= root "a"'}, "grammar")
        self.refused(chat, {"messages": HELLO, "grammar": "root ::= " + "(" * 60000}, "grammar")
        self.refused(chat, {"messages": HELLO, "response_format": FORMAT, "ignore_eos": True}, "response_format")
        self.refused(chat, {"messages": HELLO, "response_format": FORMAT, "grammar": 'root ::= "a"'}, "grammar")


class BoundCalling(ServerTest):
    ARGS = ("-m", "harmony=" + scripted("harmony-tools"), "-m", "tagged=" + scripted("tagged-tools"), "-m", "plain=" + scripted("harmony-call"))

    def test_a_call_of_a_name(self):
        for model in ("harmony", "tagged"):
            for stream in (False, True):
                body = {"model": model, "messages": HELLO, "temperature": 0, "tools": [TOOL, OTHER], "tool_choice": {"type": "function", "function": {"name": "flip"}}}
                if stream:
                    parts = [c for e in self.server.events("/v1/chat/completions", body)[:-1] for c in e["choices"][0]["delta"].get("tool_calls", [])]
                    name, arguments = parts[0]["function"]["name"], "".join(p["function"]["arguments"] for p in parts)
                else:
                    choice = self.server.post("/v1/chat/completions", body)["choices"][0]
                    self.assertEqual(choice["finish_reason"], "tool_calls", choice)
                    name, arguments = choice["message"]["tool_calls"][0]["function"].values()
                self.assertEqual(name, "flip")
                self.assertTrue(is_roll(json.loads(arguments)), arguments)

    def test_some_call(self):
        for model in ("harmony", "tagged"):
            body = {"model": model, "messages": HELLO, "temperature": 0, "tools": [TOOL, OTHER], "tool_choice": "required", "parallel_tool_calls": False}
            calls = self.server.post("/v1/chat/completions", body)["choices"][0]["message"]["tool_calls"]
            self.assertEqual([c["function"]["name"] for c in calls], ["get_weather"])
            body = {"model": model, "max_tokens": 99, "messages": HELLO, "temperature": 0, "tools": [{"name": "flip", "input_schema": ROLL}], "tool_choice": {"type": "any"}}
            answer = self.server.post("/v1/messages", body)
            self.assertEqual(answer["stop_reason"], "tool_use")
            self.assertTrue(is_roll(answer["content"][-1]["input"]))

    def test_a_format_beside_tools(self):
        # The model wants to call, and may.
        body = {"model": "tagged", "messages": HELLO, "temperature": 0, "tools": [TOOL], "response_format": FORMAT}
        self.assertEqual(self.server.post("/v1/chat/completions", body)["choices"][0]["finish_reason"], "tool_calls")
        message = self.server.post("/v1/chat/completions", {**body, "tool_choice": "none"})["choices"][0]["message"]
        self.assertTrue(is_roll(json.loads(message["content"])))
        message = self.server.post("/v1/chat/completions", {"model": "harmony", "messages": HELLO, "temperature": 0, "response_format": FORMAT})["choices"][0]["message"]
        self.assertTrue(is_roll(json.loads(message["content"])))
        self.assertIn("Let me see.", message["reasoning_content"])

    def test_refused(self):
        self.refused("/v1/chat/completions", {"model": "plain", "messages": HELLO, "temperature": 0, "tools": [TOOL], "tool_choice": "required"}, "tools")
        self.refused("/v1/chat/completions", {"model": "tagged", "messages": HELLO, "temperature": 0, "tools": [TOOL], "tool_choice": "required", "response_format": FORMAT}, "tool_choice")
        bad = {"type": "function", "function": {"name": "bad", "parameters": {"not": {}}}}
        problem = self.refused("/v1/chat/completions", {"model": "tagged", "messages": HELLO, "temperature": 0, "tools": [bad], "tool_choice": "required"}, "tool_choice")
        self.assertIn("bad", problem["message"])


def strict(tool, flag=True, **more):
    return {"type": "function", "function": {**tool["function"], **more, "strict": flag}}


CITY = {"type": "object", "properties": {"city": {"enum": ["Oslo", "Bern"]}}, "required": ["city"], "additionalProperties": False}
ZURICH = {"city": "Zürich"}


class StrictCalling(ServerTest):
    """Models that call with a city that the schema of a strict tool does not have, and models that say words."""
    MODELS = ("harmony-tools", "harmony-analysis", "tagged-tools", "tagged-words", "bare-tools", "arg-tools")
    WORDS = {"harmony-words": "It is four.", "bare-words": "I look {it} up."}
    ARGS = tuple(a for name in (*MODELS, *WORDS) for a in ("-m", f"{name}=" + scripted(name)))

    def call(self, model, tools, stream=False, **more):
        """(text, arguments) of an answer with one call"""
        body = {"model": model, "messages": HELLO, "temperature": 0, "tools": tools, **more}
        if stream:
            deltas = [e["choices"][0]["delta"] for e in self.server.events("/v1/chat/completions", body)[:-1]]
            arguments = "".join(c["function"].get("arguments") or "" for d in deltas for c in d.get("tool_calls", []))
            return "".join(d.get("content") or "" for d in deltas), json.loads(arguments)
        choice = self.server.post("/v1/chat/completions", body)["choices"][0]
        self.assertEqual(choice["finish_reason"], "tool_calls", choice)
        calls = choice["message"]["tool_calls"]
        self.assertEqual([c["function"]["name"] for c in calls], ["get_weather"])
        return choice["message"]["content"] or "", json.loads(calls[0]["function"]["arguments"])

    def test_a_call_that_may_come_follows_the_schema(self):
        for model in self.MODELS:
            words = "I look it up.So it is." if model == "tagged-words" else ""
            for stream in (False, True):
                text, arguments = self.call(model, [strict(TOOL, parameters=CITY)], stream)
                self.assertIn(arguments.get("city"), ("Oslo", "Bern"), model)
                self.assertEqual(text, words)
                # The control: nothing binds it.
                self.assertEqual(self.call(model, [strict(TOOL, False, parameters=CITY)], stream), (words, ZURICH))
            # Beside one that is strict, others' arguments stay free.
            self.assertEqual(self.call(model, [strict(TOOL, False, parameters=CITY), strict(OTHER)]), (words, ZURICH), model)

    def test_in_every_dialect(self):
        for model in self.MODELS:
            answer = self.server.post("/v1/responses", {"model": model, "input": "hello", "temperature": 0,
                                                        "tools": [{"type": "function", "name": "get_weather", "parameters": CITY, "strict": True}]})
            call = next(o for o in answer["output"] if o["type"] == "function_call")
            self.assertIn(json.loads(call["arguments"])["city"], ("Oslo", "Bern"))
            answer = self.server.post("/v1/messages", {"model": model, "max_tokens": 99, "messages": HELLO, "temperature": 0,
                                                       "tools": [{"name": "get_weather", "input_schema": CITY, "strict": True}]})
            self.assertIn(next(b["input"]["city"] for b in answer["content"] if b["type"] == "tool_use"), ("Oslo", "Bern"))

    def test_words_stay_as_they_are(self):
        for model, words in self.WORDS.items():
            body = {"model": model, "messages": HELLO, "temperature": 0, "tools": [strict(TOOL, parameters=CITY)]}
            choice = self.server.post("/v1/chat/completions", body)["choices"][0]
            self.assertEqual((choice["message"]["content"], choice["finish_reason"]), (words, "stop"))
        body["model"] = "harmony-words"
        self.assertEqual(self.server.post("/v1/chat/completions", body)["choices"][0]["message"]["reasoning_content"], "Let me see.")
        message = self.server.post("/v1/chat/completions", {**body, "thinking_budget_tokens": 1})["choices"][0]["message"]
        self.assertEqual(message["reasoning_content"], "Let me")

    def test_refused_by_name(self):
        chat, bad = "/v1/chat/completions", {"type": "object", "properties": {"city": {"not": {}}}}
        for model in self.MODELS:
            body = {"model": model, "messages": HELLO, "temperature": 0, "max_tokens": 1}
            problem = self.refused(chat, {**body, "tools": [strict(OTHER), strict(TOOL, parameters=bad)]}, "tools")
            for word in ("get_weather", "not", "#/properties/city/not"):
                self.assertIn(word, problem["message"])
            self.server.post(chat, {**body, "tools": [strict(OTHER), strict(TOOL, False, parameters=bad)]})
            self.server.post(chat, {**body, "tools": [strict(TOOL, parameters=bad)], "tool_choice": "none"})
            self.refused(chat, {**body, "tools": [strict(TOOL)], "ignore_eos": True}, "tools")
        self.refused(chat, {**body, "tools": [strict(TOOL, "yes")]}, "tools[0].function.strict")

    def test_a_family_whose_calls_cannot_be_bound(self):
        with tempfile.TemporaryDirectory(prefix="quern-strict-") as folder:
            template = "{{ tools | tojson }} <|tool_call>call:NAME{}<tool_call|>{% for m in messages %}{{ m.content }}{% endfor %}"
            server = Server("-m", with_template(tiny(), f"{folder}/model.gguf", template))
            self.addCleanup(server.stop)
            body = {"messages": HELLO, "tools": [strict(TOOL)], "max_tokens": 1}
            problem = server.post("/v1/chat/completions", body, 400)["error"]
            self.assertEqual(problem["param"], "tools")
            self.assertIn("strict", problem["message"])
            server.post("/v1/chat/completions", {**body, "tools": [strict(TOOL, False)]})


class TagCalling(ServerTest):
    """Calls whose arguments stand in tags, which the schemas' types make JSON of."""
    ARGS = ("-m", "xml=" + scripted("xml-tools"), "-m", "arg=" + scripted("arg-tools"))
    DAYS = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}

    def ask(self, model, tools, stream, **more):
        body = {"model": model, "messages": HELLO, "temperature": 0, "tools": tools, **more}
        if not stream:
            choice = self.server.post("/v1/chat/completions", body)["choices"][0]
            self.assertEqual(choice["finish_reason"], "tool_calls", choice)
            call = choice["message"]["tool_calls"][0]["function"]
            return choice["message"]["content"] or "", call["name"], json.loads(call["arguments"])
        deltas = [e["choices"][0]["delta"] for e in self.server.events("/v1/chat/completions", body)[:-1]]
        calls = [c["function"] for d in deltas for c in d.get("tool_calls", [])]
        return "".join(d.get("content") or "" for d in deltas), calls[0]["name"], json.loads("".join(c.get("arguments") or "" for c in calls))

    def test_call(self):
        for stream in (False, True):
            self.assertEqual(self.ask("xml", [strict(TOOL, False, parameters=self.DAYS)], stream), ("I look.", "get_weather", {"city": "Zürich", "days": 2}))
            self.assertEqual(self.ask("xml", [TOOL], stream), ("I look.", "get_weather", {"city": "Zürich", "days": "2"}))
            self.assertEqual(self.ask("arg", [TOOL], stream), ("", "get_weather", {"city": "Zürich"}))
        answer = self.server.post("/v1/messages", {"model": "xml", "max_tokens": 99, "messages": HELLO, "temperature": 0,
                                                   "tools": [{"name": "get_weather", "input_schema": self.DAYS}]})
        self.assertEqual(answer["content"][-1]["input"], {"city": "Zürich", "days": 2})

    def test_history(self):
        turn = {"role": "assistant", "content": "", "tool_calls": [{"id": "abcdefghi", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Bern"}'}}]}
        result = {"role": "tool", "tool_call_id": "abcdefghi", "content": "3 degrees"}
        for model, words in (("xml", "<function=get_weather>\n<parameter=city>\nBern\n</parameter>"), ("arg", "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Bern</arg_value>")):
            self.assertIn(words, self.server.post("/apply-template", {"model": model, "messages": [*HELLO, turn, result], "tools": [TOOL]})["prompt"])

    def test_bound(self):
        for model, words in (("xml", "I look."), ("arg", "")):
            for stream in (False, True):
                text, name, arguments = self.ask(model, [OTHER, TOOL], stream, tool_choice={"type": "function", "function": {"name": "flip"}}, enable_thinking=False)
                self.assertEqual((text, name), ("", "flip"))
                self.assertTrue(is_roll(arguments), arguments)
                text, name, arguments = self.ask(model, [strict(TOOL, parameters=CITY)], stream)
                self.assertEqual((text, name), (words, "get_weather"))
                self.assertIn(arguments.get("city"), ("Oslo", "Bern"))

    def test_refused(self):
        body = {"messages": HELLO, "tools": [strict(TOOL, parameters={"properties": {"city": {"type": "string", "pattern": "^a"}}})]}
        for model in ("xml", "arg"):
            for more, field in (({}, "tools"), ({"tool_choice": "required"}, "tool_choice")):
                message = self.refused("/v1/chat/completions", {"model": model, **body, **more}, field)["message"]
                self.assertIn("get_weather", message)
                self.assertIn("pattern", message)


class Texts(ServerTest):
    ARGS = ("-m", tiny(), "-c", "256", "--ping", "0.1", "--parallel", "2")

    def test_same_seed_same_text(self):
        body = {"prompt": "abc", "max_tokens": 12, "temperature": 1.5, "seed": 7}
        first, second = (self.server.post("/v1/completions", body)["choices"][0]["text"] for _ in range(2))
        self.assertEqual(first, second)
        self.assertNotEqual(first, self.server.post("/v1/completions", {**body, "seed": 8})["choices"][0]["text"])
        streamed = self.server.events("/v1/completions", body)
        self.assertEqual("".join(e["choices"][0]["text"] for e in streamed[:-1]), first)

    def test_greedy(self):
        texts = {self.server.post("/v1/completions", {"prompt": "abc", "max_tokens": 8, "temperature": t})["choices"][0]["text"] for t in (0, -1)}
        self.assertEqual(len(texts), 1)

    def test_top_k(self):
        body = {"prompt": "abc", "max_tokens": 12, "temperature": 2, "ignore_eos": True}
        texts = [{self.server.post("/v1/completions", {**body, "top_k": k, "seed": seed})["choices"][0]["text"] for seed in range(6)} for k in (0, 1)]
        self.assertEqual(len(texts[0]), 6)  # off
        self.assertEqual(len(texts[1]), 1)

    def test_a_cached_prefix_changes_no_likelihood(self):
        body = {"prompt": "Quite a text that nobody sent before, and long enough to be worth keeping", "max_tokens": 4, "temperature": 0, "logprobs": 3}
        cold, warm = (self.server.post("/v1/completions", body) for _ in range(2))
        self.assertEqual(cold["usage"]["prompt_tokens_details"]["cached_tokens"], 0)
        self.assertGreater(warm["usage"]["prompt_tokens_details"]["cached_tokens"], 0)
        self.assertEqual(cold["choices"], warm["choices"])

    def test_bound_texts(self):
        text = self.server.post("/v1/completions", {"prompt": "abc", "max_tokens": 64, "grammar": 'root ::= [ab]{3} "!"'})["choices"][0]["text"]
        self.assertRegex(text, "^[ab]{3}!$")
        text = self.server.post("/v1/completions", {"prompt": "abc", "max_tokens": 64, "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": ROLL}}})["choices"][0]["text"]
        self.assertTrue(is_roll(json.loads(text)))

    def test_echo_and_logprobs_of_the_prompt(self):
        tokens = self.server.post("/tokenize", {"content": "abc def", "add_special": True})["tokens"]
        answer = self.server.post("/v1/completions", {"prompt": "abc def", "max_tokens": 0, "echo": True, "logprobs": 1})
        choice = answer["choices"][0]
        self.assertEqual(choice["text"], "abc def")
        self.assertEqual(len(choice["logprobs"]["tokens"]), len(tokens))
        self.assertIsNone(choice["logprobs"]["token_logprobs"][0])
        self.assertTrue(all(p <= 0 for p in choice["logprobs"]["token_logprobs"][1:]))
        by_ids = self.server.post("/v1/completions", {"prompt": tokens, "max_tokens": 0, "echo": True, "logprobs": 1})["choices"][0]
        self.assertEqual(by_ids["logprobs"], choice["logprobs"])
        more = self.server.post("/v1/completions", {"prompt": "abc def", "max_tokens": 2, "echo": True, "logprobs": 1, "ignore_eos": True})["choices"][0]
        self.assertEqual(len(more["logprobs"]["tokens"]), len(tokens) + 2)

    def test_several_prompts(self):
        answer = self.server.post("/v1/completions", {"prompt": ["abc", "xyz"], "n": 2, "max_tokens": 3, "temperature": 0})
        texts = [c["text"] for c in answer["choices"]]
        self.assertEqual((texts[0], texts[2]), (texts[1], texts[3]))
        self.assertEqual(texts[0], self.server.post("/v1/completions", {"prompt": "abc", "max_tokens": 3, "temperature": 0})["choices"][0]["text"])

    def test_bias_and_penalties_change_what_is_said(self):
        body = {"prompt": "abc", "max_tokens": 6, "temperature": 0, "ignore_eos": True, "logprobs": 0}
        plain = self.server.post("/v1/completions", body)["choices"][0]
        token = self.server.post("/tokenize", {"content": "q"})["tokens"][-1]
        biased = self.server.post("/v1/completions", {**body, "logit_bias": {str(token): 100}})["choices"][0]
        self.assertEqual(set(biased["logprobs"]["tokens"]), {self.server.post("/detokenize", {"tokens": [token]})["content"]})
        self.assertNotEqual(biased["text"], plain["text"])
        spread = self.server.post("/v1/completions", {**body, "logit_bias": {str(token): 100}, "presence_penalty": 100})["choices"][0]
        self.assertNotEqual(spread["text"], biased["text"])

    def test_no_chat_without_a_template(self):
        self.refused("/v1/chat/completions", {"messages": HELLO}, "messages")

    def test_a_full_context_ends_the_answer(self):
        answer = self.server.post("/v1/completions", {"prompt": "abc", "max_tokens": 100000, "ignore_eos": True})
        self.assertEqual(answer["choices"][0]["finish_reason"], "length")

    def test_a_hang_up_ends_the_answer(self):
        for stream in (True, False):
            before = self.server.get("/v1/stats")["models"][0].get("requests_cancelled_total", 0)
            raw = socket.create_connection(("127.0.0.1", self.server.port), timeout=10)
            # Many answers, so that the last has not begun when the client goes.
            body = json.dumps({"prompt": ["abc"] * 16, "max_tokens": 250, "ignore_eos": True, "stream": stream}).encode()
            raw.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            if stream:
                self.assertIn(b"200 OK", raw.recv(64))
            else:
                time.sleep(0.05)
            raw.close()
            busy = ("requests_queued", "requests_prompt", "requests_generating")
            self.assertTrue(wait_until(lambda: not any(self.server.get("/v1/stats")["models"][0][b] for b in busy)))
            self.assertGreater(self.server.get("/v1/stats")["models"][0]["requests_cancelled_total"], before)

    def test_headers_come_at_once(self):
        raw = socket.create_connection(("127.0.0.1", self.server.port), timeout=10)
        body = json.dumps({"prompt": ["abc"] * 16, "max_tokens": 250, "ignore_eos": True, "stream": True}).encode()
        raw.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        self.assertIn(b"text/event-stream", raw.recv(4096))
        stats = self.server.get("/v1/stats")["models"][0]
        self.assertGreater(stats["requests_queued"] + stats["requests_prompt"], 0)  # most have not begun
        raw.close()


class Templates(unittest.TestCase):
    """Templates that refuse a conversation: a client's error, in the template's words."""
    STRICT = ("{% if messages[0].role == 'system' %}{{ raise_exception('no system role here') }}{% endif %}"
              "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) or m.role == 'system' %}{{ raise_exception('roles must alternate') }}{% endif %}"
              "[{{ m.role }}]{{ m.content }}{% endfor %}[assistant]")
    PARTS = "{% for m in messages %}{% for p in m.content %}<{{ p.text }}>{% endfor %}{% endfor %}"

    def serve(self, template):
        folder = tempfile.TemporaryDirectory(prefix="quern-template-")
        self.addCleanup(folder.cleanup)
        server = Server("-m", with_template(tiny(), f"{folder.name}/model.gguf", template))
        self.addCleanup(server.stop)
        return server

    def test_refusals(self):
        server = self.serve(self.STRICT)
        user, assistant, system = ({"role": role, "content": "a"} for role in ("user", "assistant", "system"))
        for messages, words in (([user, user], "roles must alternate"), ([user, system], "roles must alternate"), ([system, user], "no system role here")):
            for path, body in (("/v1/chat/completions", {"messages": messages}), ("/v1/responses", {"input": messages}), ("/apply-template", {"messages": messages})):
                error = server.post(path, body, 400)["error"]
                self.assertEqual((error["message"], error["type"]), (words, "invalid_request_error"))
        body = {"messages": [user, assistant, user], "max_tokens": 2}
        self.assertEqual(len(server.post("/v1/chat/completions", body)["choices"]), 1)

    def test_one_that_takes_parts_only(self):
        server = self.serve(self.PARTS)
        prompt = server.post("/apply-template", {"messages": [{"role": "user", "content": "a"}]})["prompt"]
        self.assertEqual(prompt, "<a>")

    def test_one_that_fails_whatever_it_gets(self):
        server = self.serve("{{ raise_exception('not today') }}")
        error = server.post("/v1/chat/completions", {"messages": HELLO}, 400)["error"]
        self.assertIn("not today", error["message"])
        self.assertIn("text", server.post("/v1/completions", {"prompt": "a", "max_tokens": 1})["choices"][0])


class Keys(ServerTest):
    ARGS = ("-m", tiny(), "--api-key", "secret", "--cors-origin", "https://app.example")

    def test_keys(self):
        self.assertEqual(self.server.ask("GET", "/v1/models")[0], 401)
        self.assertEqual(self.server.ask("GET", "/v1/models", headers={"Authorization": "Bearer wrong"})[0], 401)
        self.assertEqual(self.server.ask("GET", "/v1/models", headers={"Authorization": "Bearer secret"})[0], 200)
        self.assertEqual(self.server.ask("GET", "/v1/models", headers={"x-api-key": "secret"})[0], 200)
        self.assertEqual(self.server.ask("GET", "/health")[0], 200)
        self.assertNotEqual(self.server.ask("GET", "/")[0], 401)  # a page asks for the key itself

    def test_a_configured_origin_may_ask(self):
        status, headers, _ = self.server.ask("OPTIONS", "/v1/models", headers={"Origin": "https://app.example"})
        self.assertEqual(status, 204)
        self.assertEqual(headers["Access-Control-Allow-Origin"], "https://app.example")
        self.assertEqual(self.server.ask("OPTIONS", "/v1/models", headers={"Origin": "https://other.example"})[0], 403)


class Ends(unittest.TestCase):
    def start(self, *args):
        server = Server("-m", tiny(), *args)
        self.addCleanup(server.stop, signal.SIGKILL)
        return server

    def stream(self, server):
        raw = socket.create_connection(("127.0.0.1", server.port), timeout=30)
        body = json.dumps({"prompt": "abc", "max_tokens": 1500, "ignore_eos": True, "stream": True}).encode()
        raw.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        self.assertIn(b"200 OK", raw.recv(64))
        return raw

    def rest(self, raw):
        data = b""
        while more := raw.recv(65536):
            data += more
        raw.close()
        return data

    def test_sigterm_lets_answers_end(self):
        server = self.start()
        raw = self.stream(server)
        server.process.send_signal(signal.SIGTERM)
        self.assertIn(b"data: [DONE]", self.rest(raw))
        self.assertEqual(server.process.wait(20), 0)

    def test_a_deadline_ends_them_with_an_error(self):
        server = self.start("--drain", "0")
        raw = self.stream(server)
        server.process.send_signal(signal.SIGTERM)
        rest = self.rest(raw)
        self.assertTrue(b'"error"' in rest or b"[DONE]" in rest, rest[-300:])
        self.assertEqual(server.process.wait(20), 0)

    def long_stream(self, server):
        raw = socket.create_connection(("127.0.0.1", server.port), timeout=60)
        body = json.dumps({"prompt": ["abc"] * 16, "max_tokens": 4000, "ignore_eos": True, "stream": True}).encode()
        raw.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        self.assertIn(b"200 OK", raw.recv(64))
        return raw

    def test_while_it_drains_new_requests_are_refused_and_a_second_signal_ends_it(self):
        server = self.start("--drain", "3600", "-c", "4096", "--parallel", "1")
        known = server.connect()  # a connection from before
        known.request("GET", "/health")
        self.assertEqual(known.getresponse().read(), b'{"status":"ok"}')
        raw = self.long_stream(server)
        server.process.send_signal(signal.SIGTERM)
        self.assertTrue(wait_until(lambda: any("stopping" in line for line in server.log)))
        known.request("POST", "/v1/completions", json.dumps({"prompt": "a"}))
        answer = known.getresponse()
        self.assertEqual(answer.status, 503)
        self.assertGreaterEqual(int(answer.getheader("Retry-After")), 1)
        answer.read()
        known.request("GET", "/health")
        self.assertIn(b"draining", known.getresponse().read())
        known.close()
        with self.assertRaises(OSError):
            server.ask("GET", "/health")  # nobody listens
        server.process.send_signal(signal.SIGTERM)
        self.assertIn(b'"error"', self.rest(raw))
        self.assertEqual(server.process.wait(60), 0)

    def test_idle_connections_do_not_hold_it(self):
        server = self.start()
        raw = socket.create_connection(("127.0.0.1", server.port), timeout=10)
        self.assertEqual(server.stop(), 0)
        raw.close()


class Tls(unittest.TestCase):
    def test_answers_by_tls_and_not_without(self):
        with tempfile.TemporaryDirectory() as folder:
            key, chain = f"{folder}/key.pem", f"{folder}/chain.pem"
            subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", chain, "-days", "2", "-subj", "/CN=localhost",
                            "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"], check=True, capture_output=True)
            server = Server("-m", tiny(), "--tls-cert", chain, "--tls-key", key)
            try:
                trust = ssl.create_default_context(cafile=chain)
                connection = http.client.HTTPSConnection("127.0.0.1", server.port, timeout=20, context=trust)
                connection.request("POST", "/v1/completions", json.dumps({"prompt": "abc", "max_tokens": 3, "stream": True}))
                self.assertIn("data: [DONE]", connection.getresponse().read().decode())
                connection.close()
                with self.assertRaises((http.client.HTTPException, OSError)):
                    server.ask("GET", "/health")
            finally:
                self.assertEqual(server.stop(), 0)


class Starts(unittest.TestCase):
    def error(self, *args, code):
        done = subprocess.run([QUERN, "serve", *args], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stderr

    def test_other_hosts_need_a_key(self):
        self.assertIn("--api-key", self.error("-m", tiny(), "--host", "0.0.0.0", code=2))

    def test_bad_arguments(self):
        self.assertIn("missing.gguf", self.error("-m", "missing.gguf", code=1))
        self.assertIn("--tls-key", self.error("-m", tiny(), "--tls-cert", "x", code=2))
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = str(taken.getsockname()[1])
            self.assertIn(port, self.error("-m", tiny(), "--port", port, code=1))



class Kept(ServerTest):
    ARGS = ("-m", "small=" + scripted("think"), "--store", "2")

    def test_the_oldest_responses_are_forgotten(self):
        path = "/v1/responses"
        answers = [self.server.post(path, {"input": "hello"}) for _ in range(3)]
        self.assertTrue(all(a["store"] for a in answers))
        for known in answers[1:]:
            self.assertEqual(self.server.get(f"{path}/{known['id']}"), known)
        error = self.server.get(f"{path}/{answers[0]['id']}", 404)["error"]
        self.assertEqual((error["code"], error["param"]), ("response_not_found", None))
        self.assertIn(answers[0]["id"], error["message"])
        self.refused(path, {"input": "a", "previous_response_id": answers[0]["id"]}, "previous_response_id", 404)
        self.refused(path, {"input": "a", "previous_response_id": 7}, "previous_response_id")
        self.assertEqual(self.server.ask("GET", f"{path}/{answers[2]['id']}?stream=true")[0], 400)
        self.assertEqual(self.server.ask("PUT", f"{path}/{answers[2]['id']}", {})[0], 405)
        status, _, text = self.server.ask("DELETE", f"{path}/{answers[2]['id']}")
        self.assertEqual((status, json.loads(text)), (200, {"id": answers[2]["id"], "object": "response", "deleted": True}))
        self.assertEqual(self.server.ask("DELETE", f"{path}/{answers[2]['id']}")[0], 404)

    def test_what_is_not_whole_is_not_kept(self):
        for more, kept in (({}, True), ({"store": False}, False), ({"store": None}, True), ({"max_output_tokens": 1}, True)):
            events = self.server.events("/v1/responses", {"input": "hello", **more})
            final = events[-1]["response"]
            self.assertEqual(final["store"], kept)
            self.assertEqual(events[0]["response"]["store"], kept)
            self.server.get(f"/v1/responses/{final['id']}", 200 if kept else 404)


class NothingKept(ServerTest):
    ARGS = ("-m", "small=" + scripted("think"), "--store", "0")

    def test_store_0_keeps_nothing(self):
        answer = self.server.post("/v1/responses", {"input": "hello"})
        self.assertFalse(answer["store"])
        error = self.server.get(f"/v1/responses/{answer['id']}", 404)["error"]
        self.assertIn("--store", error["message"])
        self.refused("/v1/responses", {"input": "a", "store": True}, "store")
        self.refused("/v1/responses", {"input": "a", "previous_response_id": answer["id"]}, "previous_response_id", 404)
        self.server.post("/v1/responses", {"input": "hello", "store": False})


if __name__ == "__main__":
    unittest.main()
