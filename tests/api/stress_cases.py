"""Requests of the stress program, and their answers in one form, whether they come whole or as a stream. Standard
library only; nothing here is asked or sent."""
import json
from dataclasses import dataclass
from typing import Callable, Optional

TOOL = {"name": "get_weather", "description": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}
ROLL = {"type": "object", "properties": {"name": {"enum": ["the", "inner"]}, "n": {"type": "integer", "minimum": 3, "maximum": 70}}, "required": ["name", "n"]}
WORDS = "the inner ring in there on a theory here é 😀 one, two\n(three) \t four \u0000 <|im_end|> </think> zero".split(" ")
SHARED = "There is a beginning that many of these requests have in common, so that pages are shared and copied. "


class Wrong(Exception):
    """An answer that is none."""


@dataclass
class Case:
    """A request with one answer. whole and streamed: the answer's JSON or its events, as a comparable value; where they
    are None, status and JSON are compared as they are."""
    path: str
    body: dict
    whole: Optional[Callable] = None
    streamed: Optional[Callable] = None


def counts(usage, prompt, completion):
    return [usage[prompt], usage[completion]]


# ---- /v1/completions

def completion_scores(logprobs):
    if not logprobs:
        return []
    tops = [sorted(top.items()) if top else None for top in logprobs["top_logprobs"]]
    return [list(entry) for entry in zip(logprobs["tokens"], logprobs["token_logprobs"], tops, logprobs["text_offset"], strict=True)]


def whole_completion(answer):
    choices = {c["index"]: {"text": c["text"], "end": c["finish_reason"], "scores": completion_scores(c["logprobs"])} for c in answer["choices"]}
    return {"choices": choices, "usage": counts(answer["usage"], "prompt_tokens", "completion_tokens")}


def without_done(events):
    if not events or events[-1] != "[DONE]":
        raise Wrong(f"the stream does not end in [DONE]: {events[-1:]}")
    return events[:-1]


def streamed_completion(events):
    out = {"choices": {}, "usage": None}
    for event in without_done(events):
        if event.get("usage"):
            out["usage"] = counts(event["usage"], "prompt_tokens", "completion_tokens")
        for c in event["choices"]:
            one = out["choices"].setdefault(c["index"], {"text": "", "end": None, "scores": []})
            one["text"] += c["text"]
            one["scores"] += completion_scores(c["logprobs"])
            one["end"] = c["finish_reason"] or one["end"]
    return out


# ---- /v1/chat/completions

def whole_chat(answer):
    choices = {}
    for c in answer["choices"]:
        message = c["message"]
        calls = [[call["id"], call["function"]["name"], call["function"]["arguments"]] for call in message.get("tool_calls", [])]
        choices[c["index"]] = {"text": message["content"] or "", "reasoning": message.get("reasoning_content", ""), "calls": calls,
                               "end": c["finish_reason"], "scores": (c["logprobs"] or {}).get("content") or []}
    return {"choices": choices, "usage": counts(answer["usage"], "prompt_tokens", "completion_tokens")}


def streamed_chat(events):
    out = {"choices": {}, "usage": None}
    for event in without_done(events):
        if event.get("usage"):
            out["usage"] = counts(event["usage"], "prompt_tokens", "completion_tokens")
        for c in event["choices"]:
            one = out["choices"].setdefault(c["index"], {"text": "", "reasoning": "", "calls": [], "end": None, "scores": []})
            delta = c["delta"]
            one["text"] += delta.get("content") or ""
            one["reasoning"] += delta.get("reasoning_content") or ""
            for call in delta.get("tool_calls", []):
                if "id" in call:
                    one["calls"].append([call["id"], call["function"]["name"], ""])
                one["calls"][call["index"]][2] += call["function"]["arguments"]
            one["scores"] += (c["logprobs"] or {}).get("content") or []
            one["end"] = c["finish_reason"] or one["end"]
    return out


# ---- /v1/messages

def message_usage(usage):
    return [usage["input_tokens"] + usage["cache_read_input_tokens"], usage["output_tokens"]]


def whole_message(answer):
    blocks = answer["content"]
    return {"text": "".join(b["text"] for b in blocks if b["type"] == "text"),
            "reasoning": "".join(b["thinking"] for b in blocks if b["type"] == "thinking"),
            "calls": [[b["id"], b["name"], b["input"]] for b in blocks if b["type"] == "tool_use"],
            "end": [answer["stop_reason"], answer["stop_sequence"]], "usage": message_usage(answer["usage"])}


def streamed_message(events):
    if not events or events[-1].get("type") != "message_stop":
        raise Wrong(f"the stream does not end in message_stop: {events[-1:]}")
    out = {"text": "", "reasoning": "", "calls": [], "end": None, "usage": None}
    written = {}  # arguments by the index of their block
    for event in events:
        if event["type"] == "content_block_start" and event["content_block"]["type"] == "tool_use":
            block = event["content_block"]
            written[event["index"]] = ""
            out["calls"].append([block["id"], block["name"], event["index"]])
        elif event["type"] == "content_block_delta":
            delta = event["delta"]
            out["text"] += delta.get("text", "")
            out["reasoning"] += delta.get("thinking", "")
            if "partial_json" in delta:
                written[event["index"]] += delta["partial_json"]
        elif event["type"] == "message_delta":
            out["end"] = [event["delta"]["stop_reason"], event["delta"]["stop_sequence"]]
            out["usage"] = message_usage(event["usage"])
    out["calls"] = [[call_id, name, json.loads(written[index])] for call_id, name, index in out["calls"]]
    return out


# ---- /v1/responses

def whole_response(answer):
    parts = [(item, part) for item in answer["output"] if item["type"] != "function_call" for part in item["content"]]
    return {"text": "".join(p["text"] for item, p in parts if item["type"] == "message"),
            "reasoning": "".join(p["text"] for item, p in parts if item["type"] == "reasoning"),
            "calls": [[i["call_id"], i["name"], i["arguments"]] for i in answer["output"] if i["type"] == "function_call"],
            "end": answer["status"], "usage": counts(answer["usage"], "input_tokens", "output_tokens")}


def streamed_response(events):
    if not events or events[-1].get("type") not in ("response.completed", "response.incomplete"):
        raise Wrong(f"the stream does not end in a response: {events[-1:]}")
    out = whole_response(events[-1]["response"])
    for kind, name in (("text", "response.output_text.delta"), ("reasoning", "response.reasoning_text.delta")):
        deltas = "".join(e["delta"] for e in events if e["type"] == name)
        if deltas != out[kind]:
            raise Wrong(f"deltas of {kind} are not the response's: {deltas!r}, {out[kind]!r}")
    return out


# ---- the requests

def words(rng, most):
    return " ".join(rng.choice(WORDS) for _ in range(rng.randint(1, most)))


def some(rng, chance, value):
    return value if rng.random() < chance else {}


def sampling(rng):
    """Seeded or greedy: anything else has no one answer."""
    seeded = {"temperature": rng.choice([0.4, 1, 1.7]), "seed": rng.randrange(1 << 40)}
    out = seeded if rng.random() < 0.75 else {"temperature": rng.choice([0, -1])}
    out |= some(rng, 0.2, {"top_k": rng.choice([0, 1, 5])}) | some(rng, 0.2, {"top_p": 0.8}) | some(rng, 0.2, {"min_p": 0.05})
    out |= some(rng, 0.15, {"typical_p": 0.9}) | some(rng, 0.2, {"presence_penalty": 0.7}) | some(rng, 0.2, {"frequency_penalty": 0.4})
    out |= some(rng, 0.2, {"repeat_penalty": 1.3, "repeat_last_n": rng.choice([-1, 0, 7, 100000])})
    out |= some(rng, 0.2, {"logit_bias": {"20": 3, "30": -100, "101": 2.5}}) | some(rng, 0.3, {"ignore_eos": True})
    out |= some(rng, 0.35, {"stop": rng.choice(["e", ["th", "\n"], [">", "never there", "in"], "fill4"])})
    return out | some(rng, 0.25, {"n": rng.randint(2, 3)})


def completion(rng):
    text = words(rng, 12) if rng.random() < 0.5 else SHARED[:rng.randint(1, len(SHARED))] + words(rng, 4)
    ids = [rng.randint(10, 250) for _ in range(rng.randint(1, 90))]
    prompt = rng.choice([text, text, ids, [text, words(rng, 3)], [ids, ids[:5]]])
    body = {"model": rng.choice(["text", "window"]), "prompt": prompt, "max_tokens": rng.randint(1, 24)} | sampling(rng)
    body |= some(rng, 0.3, {"logprobs": rng.randint(0, 4)})
    if rng.random() < 0.2:
        return Case("/v1/completions", body | {"echo": True} | some(rng, 0.5, {"max_tokens": 0}), whole_completion)
    return Case("/v1/completions", body, whole_completion, streamed_completion)


def conversation(rng):
    turns = [{"role": "system", "content": SHARED}] if rng.random() < 0.5 else []
    for _ in range(rng.randint(0, 2)):
        turns += [{"role": "user", "content": words(rng, 5)}, {"role": "assistant", "content": words(rng, 5)}]
    text = words(rng, 6)
    return [*turns, {"role": "user", "content": text if rng.random() < 0.7 else [{"type": "text", "text": text}]}]


def chat(rng):
    model = rng.choice(["text", "think", "call", "tags"])
    body = {"model": model, "messages": conversation(rng), "max_completion_tokens": rng.randint(1, 40)} | sampling(rng)
    body |= some(rng, 0.3, {"logprobs": True, "top_logprobs": rng.randint(0, 3)})
    if model in ("call", "tags"):
        body |= some(rng, 0.8, {"tools": [{"type": "function", "function": TOOL}]})
    if model == "call":
        body |= some(rng, 0.3, {"reasoning_effort": "high"})
    if model == "think":
        body |= rng.choice([{}, {}, {"enable_thinking": False}, {"thinking_budget_tokens": 1}])
    return Case("/v1/chat/completions", body, whole_chat, streamed_chat)


def bound(rng):
    """Answers that are bound to a grammar, a schema, or to be a call."""
    if rng.random() < 0.5:
        form = rng.choice([{"grammar": 'root ::= [a-f]{3,12} ("!" | "?")'}, {"response_format": {"type": "json_schema", "json_schema": {"name": "r", "schema": ROLL}}}])
        return Case("/v1/completions", {"model": "text", "prompt": words(rng, 6), "max_tokens": 64, "temperature": 1, "seed": rng.randrange(99)} | form,
                    whole_completion, streamed_completion)
    body = {"model": rng.choice(["call", "tags"]), "messages": conversation(rng), "max_completion_tokens": 120, "temperature": 0}
    body |= {"tools": [{"type": "function", "function": TOOL}], "tool_choice": rng.choice(["required", {"type": "function", "function": {"name": TOOL["name"]}}])}
    return Case("/v1/chat/completions", body | {"parallel_tool_calls": False}, whole_chat, streamed_chat)


def message(rng):
    model = rng.choice(["text", "think", "call"])
    turns = conversation(rng)
    system = turns.pop(0)["content"] if turns[0]["role"] == "system" else None
    body = {"model": model, "messages": turns, "max_tokens": rng.randint(1, 40), "temperature": 0} | ({"system": system} if system else {})
    body |= some(rng, 0.3, {"stop_sequences": ["e", "deed"]})
    if model == "call":
        body |= some(rng, 0.8, {"tools": [{"name": TOOL["name"], "input_schema": TOOL["parameters"]}]})
    if model == "think":
        body |= some(rng, 0.4, {"thinking": {"type": "enabled", "budget_tokens": 1}})
    return Case("/v1/messages", body, whole_message, streamed_message)


def response(rng):
    model = rng.choice(["text", "think", "call"])
    body = {"model": model, "input": rng.choice([words(rng, 8), conversation(rng)]), "temperature": 0, "max_output_tokens": rng.randint(1, 40)}
    if model == "call":
        body |= some(rng, 0.8, {"tools": [{"type": "function", **TOOL}, {"type": "web_search"}]})
    return Case("/v1/responses", body, whole_response, streamed_response)


def plain(rng):
    """Requests that generate nothing, and those that are refused in the same words each time."""
    turns = [{"role": "user", "content": words(rng, 5)}]
    return Case(*rng.choice([
        ("/tokenize", {"model": "text", "content": words(rng, 30), "with_pieces": rng.random() < 0.5}),
        ("/tokenize", {"model": "window", "content": SHARED * 50, "add_special": True}),
        ("/detokenize", {"model": "text", "tokens": [rng.randint(0, 500) for _ in range(40)]}),
        ("/detokenize", {"model": "text", "tokens": [1000000]}),
        ("/apply-template", {"model": "call", "messages": turns, "reasoning_effort": "low"}),
        ("/v1/messages/count_tokens", {"model": "think", "messages": turns}),
        ("/v1/embeddings", {"model": "text", "input": ["a", "b"]}),
        ("/v1/completions", {"model": "text", "prompt": SHARED * 20}),
        ("/v1/completions", {"model": "text", "prompt": "a" * 500000}),
        ("/v1/completions", {"model": "nobody", "prompt": "a"}),
        ("/v1/chat/completions", {"model": "window", "messages": turns}),
        ("/v1/chat/completions", {"model": "text", "messages": turns, "temperature": "hot"}),
        ("/v1/responses", {"model": "text", "input": "a", "previous_response_id": "resp_1"}),
    ]))


def long_body(rng):
    """Goes on for longer than a client stays that hangs up."""
    return {"model": rng.choice(["text", "window"]), "prompt": [words(rng, 9)] * rng.randint(1, 4), "max_tokens": 500, "ignore_eos": True, "stream": rng.random() < 0.7}


def make_cases(rng, n):
    makers = [completion] * 5 + [chat] * 4 + [bound] * 2 + [message] * 2 + [response] * 2 + [plain] * 3
    return [makers[i % len(makers)](rng) for i in range(n)]


def differences(expected, got):
    """Lines that say what differs; none: nothing does. A stream that was not asked for its usage has none."""
    if expected == got:
        return []
    if not isinstance(expected, dict) or not isinstance(got, dict):
        return [f"expected {str(expected)[:600]}", f"     got {str(got)[:600]}"]
    lines = []
    for key in sorted(set(expected) | set(got), key=str):
        a, b = expected.get(key), got.get(key)
        if a != b and not (key == "usage" and b is None):
            lines += [f"{key}: expected {str(a)[:600]}", f"{key}:      got {str(b)[:600]}"]
    return lines
