#!/usr/bin/env python3
"""The openai and anthropic SDKs' own calls against quern serve."""
import json
import math
import os
import struct
import subprocess
import sys
import typing
import unittest
from pathlib import Path

import anthropic
import openai
import pydantic

sys.path.insert(0, str(Path(__file__).resolve().parent))
from server import QUERN, ServerTest, scripted, tiny  # noqa: E402

HELLO = [{"role": "user", "content": "hello"}]
GOLDENS = Path(os.environ["QUERN_SOURCE_DIR"]) / "tests" / "golden"
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

    # The conversation of a chain of responses is that of all their items.
    def test_openai_responses_go_on(self):
        first = self.openai.responses.create(model="small", input="hello", instructions="be short")
        again = self.openai.responses.retrieve(first.id)
        self.assertEqual(again.model_dump(), first.model_dump())
        self.assertEqual([i.type for i in again.output], ["reasoning", "message"])
        second = self.openai.responses.create(model="small", input=[{"role": "user", "content": "really?"}], previous_response_id=first.id)
        self.assertEqual(second.previous_response_id, first.id)
        items = [{"role": "user", "content": "hello"}, *(i.model_dump(exclude_none=True) for i in first.output), {"role": "user", "content": "really?"}]
        whole = self.openai.responses.create(model="small", input=items, store=False)
        self.assertEqual(second.usage.input_tokens, whole.usage.input_tokens)
        with self.openai.responses.stream(model="small", input="once more", previous_response_id=second.id) as stream:
            third = stream.get_final_response()
        self.assertEqual(third.previous_response_id, second.id)
        self.assertGreater(third.usage.input_tokens, second.usage.input_tokens)
        self.assertEqual(self.openai.responses.retrieve(third.id).output_text, third.output_text)
        self.assertIn("indeed.", third.output_text)
        with self.assertRaises(openai.NotFoundError):
            self.openai.responses.retrieve(whole.id)  # store=False
        # A deleted one is gone; what went on from it is whole by itself.
        self.openai.responses.delete(first.id)
        for call in (self.openai.responses.retrieve, self.openai.responses.delete):
            with self.assertRaises(openai.NotFoundError):
                call(first.id)
        with self.assertRaises(openai.NotFoundError) as caught:
            self.openai.responses.create(model="small", input="and?", previous_response_id=first.id)
        self.assertEqual(caught.exception.param, "previous_response_id")
        after = self.openai.responses.create(model="small", input="once more", previous_response_id=second.id)
        self.assertEqual(after.usage.input_tokens, third.usage.input_tokens)

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
        result = {"type": "function_call_output", "call_id": answer.output[-1].call_id, "output": "3 degrees"}
        client.responses.create(model="x", input=[result], previous_response_id=answer.id, tools=[{"type": "function", "name": "get_weather", "parameters": PARAMETERS}])
        with self.assertRaises(openai.BadRequestError):
            client.responses.create(model="x", input=[result])  # a result of no call

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


def as_floats(vector):
    """The f32 bytes of numbers, however many digits they came with."""
    return struct.pack(f"<{len(vector)}f", *vector)


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True)) / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


class Embedding(ServerTest):
    # With no place to wait, a list of inputs has to wait for itself.
    ARGS = ("-m", "small=" + tiny(), "--ctx", "128", "--queue", "0", "--parallel", "1")
    POOLING = "last"

    def setUp(self):
        self.client = openai.OpenAI(base_url=f"http://127.0.0.1:{self.server.port}/v1", api_key="none", max_retries=0)
        self.addCleanup(self.client.close)

    def embed(self, given, **more):
        answer = self.client.embeddings.create(model="any", input=given, **more)
        self.assertEqual([d.index for d in answer.data], list(range(len(answer.data))))
        self.assertEqual(answer.model, "small")
        self.assertEqual(answer.usage.prompt_tokens, answer.usage.total_tokens)
        return [d.embedding for d in answer.data], answer.usage.prompt_tokens

    def test_as_the_float_reference_has_it(self):
        golden = json.loads((GOLDENS / "llama.json").read_text())
        (vector,), n_tokens = self.embed(golden["tokens"])
        self.assertEqual(n_tokens, len(golden["tokens"]))
        self.assertGreater(cosine(vector, golden["embeddings"][self.POOLING]), 1 - golden["embedding_limit"])
        self.assertLess(cosine(self.embed(golden["tokens"][::-1])[0][0], golden["embeddings"][self.POOLING]), 1 - golden["embedding_limit"])

    def test_forms_of_numbers_and_inputs(self):
        texts = ["hello", "hello world", "Grüße"] + [f"number {i}" for i in range(40)]
        vectors, n_tokens = self.embed(texts)  # the SDK asks for base64
        self.assertAlmostEqual(sum(x * x for x in vectors[0]), 1, places=5)
        floats, again = self.embed(texts, encoding_format="float", dimensions=len(vectors[0]))
        self.assertEqual([as_floats(v) for v in floats], [as_floats(v) for v in vectors])
        self.assertEqual(again, n_tokens)
        self.assertNotEqual(vectors[0], vectors[1])
        ids = [self.server.post("/tokenize", {"content": t, "add_special": True})["tokens"] for t in texts]
        self.assertEqual(n_tokens, sum(map(len, ids)))
        self.assertEqual(self.embed(ids), (vectors, n_tokens))
        self.assertEqual(self.embed(texts[1])[0], vectors[1:2])
        printed = subprocess.run([QUERN, "embed", "-m", tiny(), "--pooling", self.POOLING, "--image", "off", "--tune", "off", texts[1]], capture_output=True, check=True, text=True)
        self.assertEqual(as_floats(json.loads(printed.stdout)), as_floats(vectors[1]))

    def refused_for(self, param, **given):
        with self.assertRaises(openai.BadRequestError) as caught:
            self.client.embeddings.create(model="any", **given)
        self.assertEqual(caught.exception.param, param)
        return caught.exception

    def test_refused_by_name(self):
        for empty in ("", [""], []):
            self.refused_for("input", input=empty)
        self.refused_for("input[1]", input=["a", ""])
        self.refused_for("input[1]", input=[[1], [100000]])
        self.refused_for("dimensions", input="a", dimensions=7)
        error = self.refused_for("input[1]", input=["a", "a b " * 200])
        self.assertEqual(error.code, "context_length_exceeded")
        self.assertGreater(error.body["n_prompt_tokens"], 128)
        self.assertEqual(error.body["n_ctx"], 128)
        self.assertEqual(self.refused_for("input", input=[5] * 129).body["n_prompt_tokens"], 129)
        self.assertEqual(len(self.embed([5] * 128)[0]), 1)


class MeanEmbedding(Embedding):
    ARGS = (*Embedding.ARGS, "--pooling", "mean", "--chunk", "7")
    POOLING = "mean"


if __name__ == "__main__":
    unittest.main()
