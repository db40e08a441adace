#!/usr/bin/env python3
"""Tiny gpt-oss models that say one fixed reply each, token by token: replies in channels, with reasoning in tags, and
with tool calls, for tests of programs that take replies apart.

    scripted.py OUTDIR [NAME...]      scripted.py --list

A script is a list of rules (token, seen, next): behind `token` comes `next`; where `seen` is not None, only if that token
stands anywhere before, in the prompt or in the reply. Attention computes that: all scores are equal, so its values are
the mean of all tokens so far, in which each token of a rule has a place of its own. All other weights are zero.
Needs: numpy, gguf.
"""
import sys
from pathlib import Path

import numpy as np
from gguf import GGUFWriter, TokenType

sys.path.insert(0, str(Path(__file__).resolve().parent))
import tiny_models  # noqa: E402

PLACES = 32  # of tokens in the first half of the residual, and of what was seen in the second
STRONG, WEAKER, SEEN = 100.0, 99.0, 200.0  # a token among 1600 still makes up for what is weaker

CHATML = ("{% for m in messages %}<|im_start|>{{ m.role }}\n"
          "{% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n\n{% endif %}"
          "{{ m.content }}<|im_end|>\n{% endfor %}"
          "{% if add_generation_prompt %}<|im_start|>assistant\n"
          "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n{% endif %}{% endif %}")
# What an answer of the last turn keeps, a call with its result, and where the effort stands, as gpt-oss has it.
HARMONY = ("<|start|>system<|message|>Reasoning: {{ reasoning_effort | default('medium') }}<|end|>"
           "{% for m in messages %}{% set thinking = m.thinking %}"
           "{% if m.role == 'assistant' and m.tool_calls %}"
           "{% if m.content and m.thinking %}{{ raise_exception('one of content and thinking') }}{% endif %}"
           "{% if thinking %}<|start|>assistant<|channel|>analysis<|message|>{{ thinking }}<|end|>{% endif %}"
           "<|start|>assistant to=functions.{{ m.tool_calls[0].function.name }}<|channel|>commentary json<|message|>"
           "{{ m.tool_calls[0].function.arguments | tojson }}<|call|>"
           "{% elif m.role == 'assistant' %}<|start|>assistant<|channel|>final<|message|>{{ m.content }}<|end|>"
           "{% elif m.role == 'tool' %}<|start|>functions.{{ m.name }} to=assistant<|channel|>commentary<|message|>"
           "{{ m.content | tojson }}<|end|>"
           "{% else %}<|start|>{{ m.role }}<|message|>{{ m.content }}<|end|>{% endif %}{% endfor %}"
           "{% if add_generation_prompt %}<|start|>assistant{% endif %}")
# Tools announced, how they are called, and calls of history.
def chatml_with_calls(form, call):
    return ("{% if tools %}<|im_start|>system\n{{ tools | tojson }} are called as " + form + "<|im_end|>\n{% endif %}" +
            CHATML.replace("{{ m.content }}", "{{ m.content }}{% for c in m.tool_calls or [] %}" + call + "{% endfor %}"))


TAGGED = chatml_with_calls('<tool_call>\n{"name": ..., "arguments": ...}\n</tool_call>', (
    '<tool_call>\n{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}\n</tool_call>'))
BARE = chatml_with_calls('<|python_tag|>{"name": ..., "parameters": ...}', (
    '{"name": "{{ c.function.name }}", "parameters": {{ c.function.arguments | tojson }}}'))
XML = chatml_with_calls("<tool_call>\n<function=NAME>\n<parameter=KEY>\nVALUE\n</parameter>\n</function>\n</tool_call>", (
    "<tool_call>\n<function={{ c.function.name }}>\n{% for k, v in c.function.arguments | items %}<parameter={{ k }}>\n{{ v }}\n</parameter>\n{% endfor %}</function>\n</tool_call>"))
ARGS = chatml_with_calls("<tool_call>NAME\n<arg_key>KEY ...", (
    "<tool_call>{{ c.function.name }}\n{% for k, v in c.function.arguments | items %}<arg_key>{{ k }}</arg_key>\n<arg_value>{{ v }}</arg_value>\n{% endfor %}</tool_call>"))
HARMONY_NAMES = ["<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>", "<|return|>", "<|call|>"]


def chain(*tokens):
    return [(a, None, b) for a, b in zip(tokens, tokens[1:])]


# Before the word "assistant" the model reads t, the last byte of it in the prompt.
ANALYSIS = chain("t", "<|channel|>", "analysis", "<|message|>", "Let me", " see.", "<|end|>", "<|start|>", "assistant",
                 "<|channel|>")
CALL = chain("commentary", " to=functions.get_weather ", "<|constrain|>", "json", "<|message|>") + \
    [("<|message|>", " see.", '{"city":')] + chain('{"city":', ' "Zürich"}', "<|call|>")
THINK = chain("\n", "<think>", "\nWeigh", " it.\n", "</think>", "\n\nYes,", " indeed.", "<|im_end|>") + \
    [("\n", "</think>", "\n\nYes,")]
# What a page that shows it must not take as its own.
HOSTILE = chain("\n", "<img src=x onerror=done()>", " <script>done()</script>", " [x](javascript:done())", "<|im_end|>")
# Words in the final channel.
FINAL = [("<|channel|>", " see.", "final"), ("final", None, "<|message|>"), ("<|message|>", " see.", "It is"),
         ("It is", None, " four."), (" four.", None, "<|return|>")]
HARMONY_TOOLS = "{% if tools %}<|start|>developer<|message|>{{ tools | tojson }}<|end|>{% endif %}" + HARMONY
# Name -> markup, the token that ends it all, template, rules.
SCRIPTS = {
    "harmony": (HARMONY_NAMES, "<|return|>", HARMONY, ANALYSIS + FINAL),
    "harmony-call": (HARMONY_NAMES, "<|return|>", HARMONY, ANALYSIS + [("<|channel|>", " see.", "commentary")] + CALL),
    # The same with tools announced.
    "harmony-tools": (HARMONY_NAMES, "<|return|>", HARMONY_TOOLS, ANALYSIS + [("<|channel|>", " see.", "commentary")] + CALL),
    "harmony-analysis": (HARMONY_NAMES, "<|return|>", HARMONY_TOOLS, chain("t", "<|channel|>", "analysis", " to=functions.get_weather ", "<|constrain|>", "json", "<|message|>", '{"city":', ' "Zürich"}', "<|call|>")),
    "harmony-words": (HARMONY_NAMES, "<|return|>", HARMONY_TOOLS, ANALYSIS + FINAL),
    "think": (["<|im_start|>", "<|im_end|>"], "<|im_end|>", CHATML, THINK),
    "hostile": (["<|im_start|>", "<|im_end|>"], "<|im_end|>", CHATML, HOSTILE),
    # The other name of that variable, and no reasoning in history.
    "think-renamed": (["<|im_start|>", "<|im_end|>"], "<|im_end|>",
                      CHATML.replace("enable_thinking", "thinking").replace("m.reasoning_content", "false"), THINK),
    # Calls in tags, with tools announced.
    "tagged-tools": (["<|im_start|>", "<|im_end|>"], "<|im_end|>", TAGGED,
                     chain("\n", "<tool_call>", '\n{"name": "get_weather", ', '"arguments": ', '{"city": "Zürich"}', "}\n", "</tool_call>", "<|im_end|>")),
    # Words around the call.
    "tagged-words": (["<|im_start|>", "<|im_end|>"], "<|im_end|>", TAGGED,
                     chain("\n", "I look", " it up.", "<tool_call>", '\n{"name": "get_weather", ', '"arguments": ', '{"city": "Zürich"}', "}\n", "</tool_call>", "So it", " is.", "<|im_end|>")),
    # As an object, in the second one's words too.
    "bare-tools": (["<|im_start|>", "<|im_end|>", "<|python_tag|>"], "<|im_end|>", BARE,
                   chain("\n", '{"name": "get_weather", ', '"parameters": ', '{"city": "Zürich"}', "}", "<|im_end|>")),
    "bare-words": (["<|im_start|>", "<|im_end|>", "<|python_tag|>"], "<|im_end|>", BARE, chain("\n", "I look", " {it}", " up.", "<|im_end|>")),
    # Arguments in tags.
    "xml-tools": (["<|im_start|>", "<|im_end|>"], "<|im_end|>", XML,
                  chain("\n", "I look.", "<tool_call>", "\n<function=get_weather>\n", "<parameter=city>\n", "Zürich", "\n</parameter>\n", "<parameter=days>\n", "2", "\n</parameter>\n</function>\n",
                        "</tool_call>", "<|im_end|>")),
    "arg-tools": (["<|im_start|>", "<|im_end|>"], "<|im_end|>", ARGS,
                  chain("\n", "<tool_call>", "get_weather\n", "<arg_key>", "city", "</arg_key>", "<arg_value>", "Zürich", "</arg_value>", "\n") +
                  [("\n", "</arg_value>", "</tool_call>"), ("</tool_call>", None, "<|im_end|>")]),
}
TAGS = ["<think>", "</think>", "<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"]


def vocabulary(markup, rules):
    names, _, merges = tiny_models.byte_level_vocabulary()
    bytes_of = dict(zip(range(256), names))
    written = {}  # text -> as it stands in the file
    for token in dict.fromkeys([*markup, *TAGS[:2], *(t for rule in rules for t in rule if t)]):
        special = token in markup or token in TAGS
        written[token] = token if special else "".join(bytes_of[b] for b in token.encode())
    names = list(dict.fromkeys(names[:-(len(written) + 1)] + list(written.values())))
    names += [f"<fill{len(names) + i}x>" for i in range(tiny_models.VOCAB - 1 - len(names))] + ["<|endoftext|>"]
    kinds = [TokenType.CONTROL if n in markup or n == "<|endoftext|>" else
             TokenType.USER_DEFINED if n in TAGS else TokenType.NORMAL for n in names]
    return names, kinds, merges, {token: names.index(text) for token, text in written.items()}


def weights(p, rules, ids):
    tokens = list(dict.fromkeys(t for rule in rules for t in rule if t))
    if len(tokens) >= PLACES:
        raise SystemExit(f"a script of {len(tokens)} tokens, and there is place for {PLACES - 1}")
    place = {token: i for i, token in enumerate(tokens)}
    embedding = np.zeros((tiny_models.VOCAB, p["dim"]), np.float32)
    embedding[:, PLACES - 1] = 1
    for token, i in place.items():
        embedding[ids[token]] = np.eye(p["dim"], dtype=np.float32)[i]
    output = np.zeros((tiny_models.VOCAB, p["dim"]), np.float32)
    for token, seen, following in rules:
        row = output[ids[following]]
        row[place[token]] = STRONG if seen is None else WEAKER
        if seen is not None:
            row[PLACES + place[seen]] = SEEN
    mean = np.zeros((p["dim"], p["heads"] * p["head_dim"]), np.float32)
    for seen in {seen for _, seen, _ in rules if seen}:
        mean[PLACES + place[seen], place[seen]] = 1  # the first head sees the first half
    return {"token_embd.weight": embedding, "output.weight": output, "blk.1.attn_output.weight": mean,
            "blk.1.attn_v.weight": np.eye(p["kv_heads"] * p["head_dim"], p["dim"], dtype=np.float32)}


def write(name, path):
    markup, eos, template, rules = SCRIPTS[name]
    p = tiny_models.MODELS["gpt-oss-no-yarn"] | dict(window=4096, kv_heads=2)
    names, kinds, merges, ids = vocabulary(markup, rules)
    ours = weights(p, rules, ids)
    w = GGUFWriter(path, p["arch"])
    w.add_name(f"scripted {name}")
    tiny_models.add_metadata(w, p)
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre(p["pre"])
    w.add_token_list(names)
    w.add_token_types(kinds)
    w.add_token_merges(merges)
    w.add_eos_token_id(ids[eos])
    w.add_add_bos_token(False)
    w.add_chat_template(template)
    for tensor, data, _ in tiny_models.tensors("gpt-oss")[1]:
        norm, sinks = "norm" in tensor, "sinks" in tensor
        rest = np.full(data.shape, 1 if norm else -100 if sinks else 0, np.float32)
        w.add_tensor(tensor, ours.get(tensor, rest))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


if __name__ == "__main__":
    tiny_models.command_line(__doc__, SCRIPTS, lambda names: names or SCRIPTS, write)
