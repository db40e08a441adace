#!/usr/bin/env python3
"""The openai and anthropic SDKs' own calls against quern serve."""
import json
import sys
import typing
import unittest
from pathlib import Path

import anthropic
import openai
import pydantic

sys.path.insert(0, str(Path(__file__).resolve().parent))
from server import ServerTest, scripted, tiny  # noqa: E402

HELLO = [{"role": "user", "content": "hello"}]
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}}


class Thinking(ServerTest):
    ARGS = ("-m", "small=" + scripted("think"))

    def setUp(self):
        self.openai = openai.OpenAI(base_url=f"http://127.0.0.1:{self.server.port}/v1", api_key="none", max_retries=0)
        self.anthropic = anthropic.Anthropic(base_url=f"http://127.0.0.1:{self.server.port}", api_key="none", max_retries=0)
        self.addCleanup(self.openai.close)
        self.addCleanup(self.anthropic.close)

    def test_openai_models(self):
        self.assertEqual([m.id for m in self.openai.models.list()], ["small"])
        self.assertEqual(self.openai.models.retrieve("small").owned_by, "quern")
        with self.assertRaises(openai.NotFoundError):
            self.openai.models.retrieve("other")

    def test_openai_chat(self):
        answer = self.openai.chat.completions.create(model="small", messages=HELLO, logprobs=True, top_logprobs=1)
        self.assertEqual(answer.choices[0].message.content, "Yes, indeed.")
        self.assertGreater(answer.usage.completion_tokens, 0)
        self.assertTrue(answer.choices[0].logprobs.content[0].bytes)

    def test_openai_chat_streamed(self):
        stream = self.openai.chat.completions.create(model="small", messages=HELLO, stream=True, stream_options={"include_usage": True})
        chunks = list(stream)
        self.assertEqual("".join(c.choices[0].delta.content or "" for c in chunks if c.choices), "Yes, indeed.")
        self.assertGreater(chunks[-1].usage.prompt_tokens, 0)

    def test_openai_errors(self):
        with self.assertRaises(openai.BadRequestError) as caught:
            self.openai.chat.completions.create(model="small", messages=[])
        self.assertEqual(caught.exception.param, "messages")
        with self.assertRaises(openai.BadRequestError) as caught:
            self.openai.chat.completions.create(model="small", messages=[{"role": "user", "content": "a b " * 20000}])
        self.assertEqual(caught.exception.code, "context_length_exceeded")

    def test_openai_responses(self):
        answer = self.openai.responses.create(model="small", input="hello")
        self.assertEqual(answer.output_text, "Yes, indeed.")
        self.assertGreater(answer.usage.output_tokens_details.reasoning_tokens, 0)
        with self.openai.responses.stream(model="small", input="hello") as stream:
            text = "".join(e.delta for e in stream if e.type == "response.output_text.delta")
            self.assertEqual(text, "Yes, indeed.")
            self.assertEqual(stream.get_final_response().output_text, "Yes, indeed.")

    def test_anthropic_messages(self):
        answer = self.anthropic.messages.create(model="small", max_tokens=50, messages=HELLO)
        self.assertEqual([b.type for b in answer.content], ["thinking", "text"])
        self.assertEqual(answer.content[1].text, "Yes, indeed.")
        self.assertEqual(answer.stop_reason, "end_turn")
        counted = self.anthropic.messages.count_tokens(model="small", messages=HELLO)
        self.assertEqual(counted.input_tokens, answer.usage.input_tokens + answer.usage.cache_read_input_tokens)
        self.assertEqual([m.id for m in self.anthropic.models.list()], ["small"])

    def test_anthropic_streamed(self):
        with self.anthropic.messages.stream(model="small", max_tokens=50, messages=HELLO) as stream:
            self.assertEqual("".join(stream.text_stream), "Yes, indeed.")
            self.assertEqual(stream.get_final_message().content[0].thinking, "Weigh it.")

    def test_anthropic_errors(self):
        with self.assertRaises(anthropic.BadRequestError) as caught:
            self.anthropic.messages.create(model="small", max_tokens=50, messages=[])
        self.assertIn("messages", str(caught.exception))


class Calling(ServerTest):
    ARGS = ("-m", scripted("harmony-tools"))

    def test_openai_tools(self):
        client = openai.OpenAI(base_url=f"http://127.0.0.1:{self.server.port}/v1", api_key="none", max_retries=0)
        self.addCleanup(client.close)
        tools = [{"type": "function", "function": {"name": "get_weather", "parameters": PARAMETERS}}]
        answer = client.chat.completions.create(model="x", messages=HELLO, tools=tools)
        call = answer.choices[0].message.tool_calls[0]
        self.assertEqual((call.function.name, json.loads(call.function.arguments)), ("get_weather", {"city": "Zürich"}))
        follow = [*HELLO, answer.choices[0].message.model_dump(exclude_none=True), {"role": "tool", "tool_call_id": call.id, "content": "3 degrees"}]
        client.chat.completions.create(model="x", messages=follow, tools=tools)
        answer = client.responses.create(model="x", input="hello", tools=[{"type": "function", "name": "get_weather", "parameters": PARAMETERS}])
        self.assertEqual(json.loads(answer.output[-1].arguments), {"city": "Zürich"})

    def test_openai_structured_and_required(self):
        client = openai.OpenAI(base_url=f"http://127.0.0.1:{self.server.port}/v1", api_key="none", max_retries=0)
        self.addCleanup(client.close)

        class Roll(pydantic.BaseModel):
            side: typing.Literal["heads", "tails"]
            sure: bool
        answer = client.chat.completions.parse(model="m", messages=HELLO, response_format=Roll)
        self.assertIsInstance(answer.choices[0].message.parsed, Roll)
        answer = client.responses.parse(model="m", input="hello", text_format=Roll)
        self.assertIsInstance(answer.output_parsed, Roll)
        tools = [{"type": "function", "function": {"name": "flip", "parameters": Roll.model_json_schema()}}]
        answer = client.chat.completions.create(model="m", messages=HELLO, tools=tools, tool_choice="required")
        Roll.model_validate_json(answer.choices[0].message.tool_calls[0].function.arguments)

    def test_anthropic_tools(self):
        client = anthropic.Anthropic(base_url=f"http://127.0.0.1:{self.server.port}", api_key="none", max_retries=0)
        self.addCleanup(client.close)
        tools = [{"name": "get_weather", "input_schema": PARAMETERS}]
        with client.messages.stream(model="x", max_tokens=99, messages=HELLO, tools=tools) as stream:
            message = stream.get_final_message()
        self.assertEqual((message.stop_reason, message.content[-1].input), ("tool_use", {"city": "Zürich"}))
        result = {"type": "tool_result", "tool_use_id": message.content[-1].id, "content": "3 degrees"}
        content = [b.model_dump(exclude_none=True, include={"type", "text", "thinking", "signature", "id", "name", "input"}) for b in message.content]
        client.messages.create(model="x", max_tokens=99, tools=tools, messages=[*HELLO, {"role": "assistant", "content": content}, {"role": "user", "content": [result]}])


class Texts(ServerTest):
    ARGS = ("-m", tiny())

    def test_openai_completions(self):
        client = openai.OpenAI(base_url=f"http://127.0.0.1:{self.server.port}/v1", api_key="none", max_retries=0)
        self.addCleanup(client.close)
        answer = client.completions.create(model="x", prompt="abc", max_tokens=4, logprobs=2, echo=True, temperature=0)
        self.assertTrue(answer.choices[0].text.startswith("abc"))
        self.assertEqual(len(answer.choices[0].logprobs.tokens), len(answer.choices[0].logprobs.text_offset))
        streamed = client.completions.create(model="x", prompt="abc", max_tokens=4, stream=True, temperature=0)
        self.assertEqual("abc" + "".join(c.choices[0].text for c in streamed), answer.choices[0].text)
        with self.assertRaises(openai.BadRequestError):
            client.embeddings.create(model="x", input="abc")


if __name__ == "__main__":
    unittest.main()
