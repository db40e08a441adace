#!/usr/bin/env python3
"""Tiny GGUF models with random weights, one or more per architecture, for comparing engines with the float reference.

    tiny_models.py OUTDIR                 writes every model of the table below
    tiny_models.py OUTDIR llama qwen3-q   writes those whose names start so
    tiny_models.py --list

Every number comes from an integer hash, not from a library's random generator or a transcendental function, so the
weights are the same on every machine; digest() is what the goldens record. Weights are scaled so that each layer moves
the residual by about its own size, the windows matter, and the logits have some entropy (about 3 of 6.2 nats).
Routers would be near ties at many positions if they were merely random, and a choice that rounding turns over says
nothing about an engine. So each token's embedding has a part along a few of a set of orthogonal directions, and a
router's rows are those directions in an order of the layer's own, plus noise: see routed().
Needs: numpy, gguf.
"""
import argparse
import hashlib
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType as Q
from gguf import ExpertGatingFuncType, GGUFWriter, RopeScalingType, TokenType
from gguf.quants import quantize

VOCAB = 512
LOGIT_SPREAD = 2.5

BASE = dict(layers=3, dim=128, heads=4, kv_heads=2, ff=256, context=4096, eps=1e-5, rope_base=10000.0, tied=False,
            tokenizer="gpt2", pre="llama-bpe", fmt="F32")
WIDE = dict(dim=256, ff=512, layers=3)  # rows of whole 256-weight blocks
LLAMA = BASE | dict(arch="llama")
QWEN2 = BASE | dict(arch="qwen2", pre="qwen2", qkv_bias=True, rope_base=1e6, eps=1e-6, tied=True)
QWEN3 = BASE | dict(arch="qwen3", pre="qwen2", qk_norm=True, head_dim=64, rope_base=1e6, eps=1e-6)
GEMMA = BASE | dict(tokenizer="llama", pre="default", eps=1e-6, tied=True, head_dim=64, window=16, gemma=True)
# Real files say 50: no score here would come near it, and its absence would not show.
GEMMA2 = GEMMA | dict(arch="gemma2", layers=4, attn_softcap=5.0, final_softcap=30.0)
GEMMA3 = GEMMA | dict(arch="gemma3", layers=7, kv_heads=1, ff=192, qk_norm=True, rope_base=1e6)
PHI3 = BASE | dict(arch="phi3", tokenizer="llama", pre="default", kv_heads=4, fused=True)
# Models with experts are narrow: the stacks make up for it. `route`: size of the routed directions in an embedding.
MOE = BASE | dict(dim=64, heads=4, kv_heads=2, head_dim=32, ff=96, experts=8, used=2, ff_exp=32, route=1.0)
GPT_OSS = MOE | dict(arch="gpt-oss", pre="gpt-4o", rope_base=150000.0, window=16, used=4, qkv_bias=True, sinks=True,
                     yarn=(8.0, 256), biases=True, post_norm=True, exp_gain=3.5, layers=2)
QWEN2MOE = MOE | dict(arch="qwen2moe", pre="qwen2", heads=2, kv_heads=1, qkv_bias=True, rope_base=1e6, eps=1e-6,
                      ff_shared=64, shared_gate=True, layers=2)
QWEN3MOE = MOE | dict(arch="qwen3moe", pre="qwen2", qk_norm=True, rope_base=1e6, eps=1e-6, layers=2)
GLM4MOE = MOE | dict(arch="glm4moe", pre="glm4", qkv_bias=True, rope_base=1e6, rope_dim=16, dense_lead=1, nextn=1,
                     ff_shared=32, shared=1, gating=ExpertGatingFuncType.SIGMOID, exp_norm=True, exp_scale=1.5,
                     selection_bias=True, post_norm=True)
EIGHT = dict(dim=128, ff_exp=64)             # rows of whole 32-weight blocks
LLAMA4 = MOE | dict(arch="llama4", pre="llama4", layers=5, used=1, moe_step=2, ff_shared=32, ff=64)
BIG = dict(dim=256, ff_exp=256, experts=4)   # rows of whole 256-weight blocks
MISTRAL3 = BASE | dict(arch="mistral3", pre="tekken", head_dim=32, dim=96, rope_base=1e6, yarn=(8.0, 2048))


def stacks(gate_up, down=None):
    return dict(fmt={"": "Q8_0", "ffn_gate_exps": gate_up, "ffn_up_exps": gate_up, "ffn_down_exps": down or gate_up})


# Name -> facts. `fmt` is the format of the large matrices; a dict gives it per role, "" for the rest.
MODELS = {
    "llama": LLAMA | dict(heads=6, kv_heads=2, head_dim=32),
    "llama-tied": LLAMA | dict(tokenizer="llama", pre="default", tied=True, kv_heads=4),
    "llama-rope-freqs": LLAMA | dict(rope_base=5e5, rope_freqs=True, head_dim=32),
    "llama-linear": LLAMA | dict(rope_linear=4.0),
    "qwen2": QWEN2,
    "qwen2-untied": QWEN2 | dict(tied=False, kv_heads=1),
    "qwen3": QWEN3,
    "qwen3-tied": QWEN3 | dict(tied=True, head_dim=32),
    "gemma2": GEMMA2,
    "gemma3": GEMMA3,
    "gemma3-linear": GEMMA3 | dict(rope_linear=8.0, rope_base=2e4, kv_heads=2, pattern=3),
    "phi3": PHI3,
    "phi3-short": PHI3 | dict(longrope=4096, kv_heads=2),
    "phi3-long": PHI3 | dict(longrope=64, kv_heads=2),
    "phi3-partial": PHI3 | dict(longrope=64, rope_dim=24, tied=True),
    "llama-q-q4_0": LLAMA | WIDE | dict(fmt={"": "Q4_0", "output": "Q8_0"}),
    "llama-q-q4_1": LLAMA | WIDE | dict(fmt={"": "Q4_1", "token_embd": "Q8_0"}, tied=True, kv_heads=1),
    "llama-q-q2_k": LLAMA | WIDE | dict(fmt={"": "Q2_K", "attn_v": "Q3_K", "ffn_down": "Q3_K", "output": "Q6_K"}),
    "llama-q-f16": LLAMA | dict(fmt={"": "F16", "output": "BF16"}),
    "qwen2-q-q5": QWEN2 | WIDE | dict(fmt={"": "Q5_0", "attn_v": "Q5_1", "ffn_down": "Q5_1", "token_embd": "Q8_0"}),
    "qwen3-q-q4_k": QWEN3 | WIDE | dict(fmt={"": "Q4_K", "attn_v": "Q6_K", "ffn_down": "Q6_K", "output": "Q6_K"}),
    "qwen3-q-bf16": QWEN3 | dict(fmt="BF16"),
    "gemma2-q-q5_k": GEMMA2 | WIDE | dict(fmt={"": "Q5_K", "token_embd": "Q6_K"}),
    "gemma3-q-mix": GEMMA3 | WIDE | dict(layers=7, fmt={"": "Q5_0", "attn_v": "Q8_0", "attn_output": "Q4_K",
                                                         "ffn_down": "Q6_K", "token_embd": "Q8_0"}),
    "phi3-q-iq4": PHI3 | WIDE | dict(fmt={"": "IQ4_XS", "attn_output": "IQ4_NL", "token_embd": "Q4_K"}),
    "phi3-q-mxfp4": PHI3 | WIDE | dict(fmt={"": "MXFP4", "token_embd": "Q8_0", "output": "Q8_0"}, longrope=64),
    "llama-yarn": LLAMA | dict(yarn=(4.0, 1024), head_dim=32),
    "qwen3-yarn": QWEN3 | dict(yarn=(16.0, 512), layers=2),
    "mistral3": MISTRAL3 | dict(log_mul=1.0, temperature=0.4, yarn=(8.0, 24), beta_fast=1.0, beta_slow=0.1),
    "mistral3-yarn": MISTRAL3 | dict(log_mul=0.0, beta_fast=8.0, beta_slow=1.5, tied=True),
    "llama-moe": MOE | dict(arch="llama", layers=2, ff_exp=96),
    "gpt-oss": GPT_OSS,
    "gpt-oss-no-yarn": GPT_OSS | dict(yarn=None, used=2, kv_heads=1),
    "gpt-oss-q-mxfp4": GPT_OSS | EIGHT | stacks("MXFP4"),
    "qwen2moe": QWEN2MOE,
    "qwen3moe": QWEN3MOE,
    "qwen3moe-all": QWEN3MOE | dict(experts=4, used=4, route=0.0),
    "qwen3moe-one": QWEN3MOE | dict(used=1, ff_exp=96),
    "qwen3moe-q-q8_0": QWEN3MOE | EIGHT | stacks("Q8_0"),
    "qwen3moe-q-q5_1": QWEN3MOE | EIGHT | stacks("Q5_1"),
    "qwen3moe-q-q4_0": QWEN3MOE | EIGHT | stacks("Q4_0"),
    "qwen3moe-q-q4_k": QWEN3MOE | BIG | stacks("Q4_K", "Q6_K"),
    "qwen3moe-q-q5_k": QWEN3MOE | BIG | dict(ff_exp=96) | stacks("Q5_K", "Q5_1"),
    "qwen3moe-q-q6_k": QWEN3MOE | BIG | stacks("Q6_K", "Q4_K"),
    "glm4moe": GLM4MOE | dict(groups=4, groups_used=2, used=3),
    "glm4moe-flat": GLM4MOE | dict(qk_norm=True, exp_norm=False, ff_shared=64, shared=2, rope_dim=32, used=3),
    "llama4": LLAMA4,
    "llama4-q-q8_0": LLAMA4 | EIGHT | dict(ff_shared=64) | stacks("Q8_0"),
}

# Bytes of a block, and its weights: of the formats whose blocks are drawn packed (the gguf package cannot quantize most
# of them); the others are quantized from floats.
PACKED = {"Q2_K": (84, 256), "Q3_K": (110, 256), "Q4_K": (144, 256), "Q5_K": (176, 256), "Q6_K": (210, 256),
          "IQ4_NL": (18, 32), "IQ4_XS": (136, 256), "MXFP4": (17, 32)}


def hashed(seed, n):
    """uint64 [n]: splitmix64 over a counter."""
    with np.errstate(over="ignore"):
        z = np.arange(1, n + 1, dtype=np.uint64) + np.uint64(seed) * np.uint64(1 << 32)
        z *= np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def normal(seed, n):
    """f32 [n], nearly normal with variance 1: the sum of four 16-bit uniforms, exact in double before rounding."""
    z = hashed(seed, n)
    total = np.zeros(n, np.float64)
    for k in range(4):
        total += ((z >> np.uint64(16 * k)) & np.uint64(0xFFFF)).astype(np.float64)
    return ((total - 2 * 65535) / (65536 * np.sqrt(4.0 / 12.0))).astype(np.float32)


def half(values):
    return values.astype(np.float16).view(np.uint8).reshape(-1, 2)


def packed(fmt, seed, rows, cols, std):
    """uint8 [rows, bytes per row]: random codes under scales that give weights the standard deviation std."""
    size, per = PACKED[fmt]
    n = rows * cols // per
    blk = hashed(seed, n * (-(-size // 8))).view(np.uint8).reshape(n, -1)[:, :size].copy()
    jitter = 0.75 + (hashed(seed + 1, n) >> np.uint64(40)).astype(np.float64) / (1 << 25)  # 0.75 to 1.25
    s = std * jitter
    if fmt == "Q2_K":    # 16 groups: 4-bit scale and minimum, 2-bit codes: (0..3) * sc * d - m * dmin
        blk[:, :16] = 0x58 + (blk[:, :16] & 0x07) + (blk[:, :16] & 0x70)  # scale 8..15, minimum 5..12
        blk[:, 80:82], blk[:, 82:84] = half(s / 13.5), half(s / 13.5 * 1.5 * 11.5 / 8.5)
    elif fmt == "Q3_K":  # 16 groups: 6-bit scale less 32, codes -4..3
        blk[:, 108:110] = half(s / 43.0)
    elif fmt == "Q4_K":  # 8 groups: 6-bit scale and minimum, codes 0..15
        blk[:, 0:2], blk[:, 2:4] = half(s / 210.0), half(s / 210.0 * 7.5)
    elif fmt == "Q5_K":  # as Q4_K, codes 0..31
        blk[:, 0:2], blk[:, 2:4] = half(s / 430.0), half(s / 430.0 * 15.5)
    elif fmt == "Q6_K":  # 16 groups: int8 scale, codes -32..31
        blk[:, 192:208] = ((blk[:, 192:208] & 0x3F).astype(np.int16) - 32).astype(np.int8).view(np.uint8)
        blk[:, 208:210] = half(s / 340.0)
    elif fmt == "IQ4_NL":  # a 16-entry table of about -127..113
        blk[:, 0:2] = half(s / 70.0)
    elif fmt == "IQ4_XS":  # 8 groups: 6-bit scale less 32, the same table
        blk[:, 0:2] = half(s / 1300.0)
    elif fmt == "MXFP4":  # power-of-two scale, e2m1 codes
        e = int(np.round(np.log2(std / 2.7))) + 127
        blk[:, 0] = e - 1 + blk[:, 0] % 3
    return blk.reshape(rows, -1)


def byte_level_vocabulary():
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in plain]
    of = {b: chr(b) for b in plain} | {b: chr(256 + i) for i, b in enumerate(others)}
    names = [of[b] for b in range(256)]
    merges, known = [], set(names)
    for a, b in (("t", "h"), ("th", "e"), ("i", "n"), ("e", "r"), ("Ġ", "the"), ("o", "n"), ("Ġ", "in"), ("r", "e")):
        merges.append(f"{a} {b}")
        if a + b not in known:
            known.add(a + b)
            names.append(a + b)
    names += [f"<fill{i}>" for i in range(len(names), VOCAB - 1)] + ["<|endoftext|>"]
    kinds = [TokenType.NORMAL] * (VOCAB - 1) + [TokenType.CONTROL]
    return names, kinds, merges


def piece_vocabulary():
    names = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    kinds = [TokenType.UNKNOWN, TokenType.CONTROL, TokenType.CONTROL] + [TokenType.BYTE] * 256
    pieces = ["\u2581the", "\u2581in", "th", "he", "in", "er", "on", "re", "\u2581"] + [chr(c) for c in range(33, 127)]
    pieces += [f"\u2581fill{i}" for i in range(VOCAB - 1 - len(names) - len(pieces))]
    return names + pieces + ["<|endoftext|>"], kinds + [TokenType.NORMAL] * len(pieces) + [TokenType.CONTROL]


def add_tokenizer(w, p):
    w.add_tokenizer_model(p["tokenizer"])
    w.add_tokenizer_pre(p["pre"])
    if p["tokenizer"] == "gpt2":
        names, kinds, merges = byte_level_vocabulary()
        w.add_token_list(names)
        w.add_token_types(kinds)
        w.add_token_merges(merges)
        w.add_bos_token_id(VOCAB - 1)
        w.add_eos_token_id(VOCAB - 1)
        w.add_add_bos_token(False)
    else:
        names, kinds = piece_vocabulary()
        w.add_token_list(names)
        w.add_token_types(kinds)
        w.add_token_scores([0.0] * 259 + [-float(i) for i in range(len(names) - 259)])
        w.add_bos_token_id(1)
        w.add_eos_token_id(2)
        w.add_unk_token_id(0)
        w.add_add_bos_token(True)
        w.add_add_space_prefix(not p.get("gemma", False))


def add_yarn(w, p):
    w.add_rope_scaling_type(RopeScalingType.YARN)
    w.add_rope_scaling_factor(p["yarn"][0])
    w.add_rope_scaling_orig_ctx_len(p["yarn"][1])
    for fact, add in (("beta_fast", w.add_rope_scaling_yarn_beta_fast), ("beta_slow", w.add_rope_scaling_yarn_beta_slow),
                      ("log_mul", w.add_rope_scaling_yarn_log_mul), ("temperature", w.add_attn_temperature_scale)):
        if fact in p:
            add(p[fact])


# A fact of a row and the GGUFWriter call (add_...) that records it.
MOE_METADATA = (("experts", "expert_count"), ("used", "expert_used_count"), ("ff_exp", "expert_feed_forward_length"),
                ("shared", "expert_shared_count"), ("dense_lead", "leading_dense_block_count"),
                ("exp_scale", "expert_weights_scale"), ("exp_norm", "expert_weights_norm"),
                ("gating", "expert_gating_func"), ("groups", "expert_group_count"),
                ("groups_used", "expert_group_used_count"), ("nextn", "nextn_predict_layers"),
                ("moe_step", "interleave_moe_layer_step"))


def add_metadata(w, p):
    w.add_block_count(p["layers"] + p.get("nextn", 0))
    for fact, call in MOE_METADATA:
        if fact in p:
            getattr(w, "add_" + call)(p[fact])
    if p.get("shared_gate"):
        w.add_expert_shared_feed_forward_length(p["ff_shared"])
    if p.get("yarn"):
        add_yarn(w, p)
    w.add_context_length(p["context"])
    w.add_embedding_length(p["dim"])
    w.add_feed_forward_length(p["ff"])
    w.add_head_count(p["heads"])
    w.add_head_count_kv(p["kv_heads"])
    if p["head_dim"] * p["heads"] != p["dim"] or p.get("gemma"):
        w.add_key_length(p["head_dim"])
        w.add_value_length(p["head_dim"])
    w.add_layer_norm_rms_eps(p["eps"])
    w.add_rope_freq_base(p["rope_base"])
    w.add_rope_dimension_count(p.get("rope_dim", p["head_dim"]))
    w.add_vocab_size(VOCAB)
    if "window" in p:
        w.add_sliding_window(p["window"])
    if "pattern" in p:
        w.add_sliding_window_pattern(p["pattern"])
    if "attn_softcap" in p:
        w.add_attn_logit_softcapping(p["attn_softcap"])
        w.add_final_logit_softcapping(p["final_softcap"])
    if "rope_linear" in p:
        w.add_rope_scaling_type(RopeScalingType.LINEAR)
        w.add_rope_scaling_factor(p["rope_linear"])
    if p["arch"] == "phi3":
        w.add_rope_scaling_orig_ctx_len(p.get("longrope", p["context"]))
        w.add_sliding_window(0)
        if "longrope" in p:
            w.add_rope_scaling_attn_factors(1.19)


class Tensors:
    """The tensors of one model in file order: (name, array as the writer wants it, type or None)."""

    def __init__(self, p, seed):
        self.p, self.seed, self.list = p, seed, []

    def next_seed(self):
        self.seed += 2
        return self.seed

    def vector(self, name, n, around=0.0, spread=0.1):
        data = (around + spread * normal(self.next_seed(), n).astype(np.float64)).astype(np.float32)
        self.list.append((name, data, None))

    def matrix(self, name, rows, cols, gain=1.0, depth=None, add=None):
        """gain: what the matrix multiplies the size of its input by, on average. depth: of a stack of such matrices.
        add: f32 [rows, cols], added to the random values."""
        if depth:
            self.matrix(name, depth * rows, cols, gain)
            name, data, kind = self.list.pop()
            self.list.append((name, data.reshape(depth, rows, -1), kind))
            return
        fmt, role = self.p["fmt"], name.removesuffix(".weight").split(".")[-1]
        if isinstance(fmt, dict):
            fmt = fmt.get(role, fmt[""])
        std, seed = gain / np.sqrt(cols), self.next_seed()
        if fmt in PACKED:
            self.list.append((name, packed(fmt, seed, rows, cols, std), Q[fmt]))
            return
        data = (normal(seed, rows * cols).astype(np.float64) * std).astype(np.float32).reshape(rows, cols)
        if add is not None:
            data += add
        if fmt == "F32":
            self.list.append((name, data, None))
        elif fmt == "F16":
            self.list.append((name, data.astype(np.float16), None))
        else:
            self.list.append((name, quantize(data, Q[fmt]), Q[fmt]))


def directions(p):
    """f32 [experts, dim] of +-1, orthogonal: rows of a Hadamard matrix (dim is a power of 2)."""
    e, j = np.arange(1, p["experts"] + 1)[:, None], np.arange(p["dim"])[None, :]
    bits = e & j
    odd = sum((bits >> k) & 1 for k in range(16)) & 1
    return (1 - 2 * odd).astype(np.float32)


def routed(t, p):
    """f32 [VOCAB, dim]: for each token the sum of `used` of the directions, about `route` times each."""
    order = np.argsort(hashed(t.next_seed(), VOCAB * p["experts"]).reshape(VOCAB, -1), axis=1, kind="stable")
    falling = np.linspace(1.25, 0.75, p["used"]) if p["used"] > 1 else np.ones(1)
    chosen = np.zeros((VOCAB, p["experts"]), np.float32)
    np.put_along_axis(chosen, order[:, :p["used"]], (p["route"] * falling).astype(np.float32)[None, :], 1)
    return chosen @ directions(p)


def router(t, p, b):
    """F32 whatever the format. A token's own experts have logits of about 2.5, the others of about 0, with noise."""
    n, D, a = p["experts"], p["dim"], p["route"]
    data = normal(t.next_seed(), n * D).reshape(n, D) * np.float32(0.5 if a else 1.5)
    scale = 1 / np.sqrt(D)
    if a:
        data += directions(p)[np.argsort(hashed(t.next_seed(), n), kind="stable")]
        scale *= 2.5 * np.sqrt(1.5 + p["used"] * a * a) / (a * np.sqrt(D))  # 1.5: the residual's other parts
    t.list.append((b + "ffn_gate_inp.weight", data * np.float32(scale), None))


def expert_tensors(t, p, b):
    n, D, F = p["experts"], p["dim"], p["ff_exp"]
    gain = p.get("exp_gain", 1.3)  # gpt-oss clamps at 7: some values have to get there
    router(t, p, b)
    t.matrix(b + "ffn_gate_exps.weight", F, D, gain, n)
    t.matrix(b + "ffn_up_exps.weight", F, D, gain, n)
    t.matrix(b + "ffn_down_exps.weight", D, F, 1.3 / gain, n)
    if p.get("selection_bias"):
        t.vector(b + "exp_probs_b.bias", n, 0.0, 0.15)
    if p.get("biases"):
        t.vector(b + "ffn_gate_inp.bias", n, 0.0, 0.5)
        for name, rows, spread in (("gate", F, 1.0), ("up", F, 1.0), ("down", D, 0.5)):
            t.vector(f"{b}ffn_{name}_exps.bias", n * rows, 0.0, spread)
            name, data, kind = t.list.pop()
            t.list.append((name, data.reshape(n, rows), kind))
    if "ff_shared" in p:
        t.matrix(b + "ffn_gate_shexp.weight", p["ff_shared"], D, 1.3)
        t.matrix(b + "ffn_up_shexp.weight", p["ff_shared"], D, 1.3)
        t.matrix(b + "ffn_down_shexp.weight", D, p["ff_shared"], 1.3)
    if p.get("shared_gate"):
        t.vector(b + "ffn_gate_inp_shexp.weight", D, 0.0, 0.1)


def next_token_tensors(t, p, b):
    D = p["dim"]
    t.matrix(b + "nextn.eh_proj.weight", D, 2 * D)
    for name in ("enorm", "hnorm", "shared_head_norm"):
        t.vector(f"{b}nextn.{name}.weight", D, 1.0)


def attention_tensors(t, p, b):
    D, d = p["dim"], p["head_dim"]
    q, kv = p["heads"] * d, p["kv_heads"] * d
    t.vector(b + "attn_norm.weight", D, 1.0)
    if p.get("fused"):
        t.matrix(b + "attn_qkv.weight", q + 2 * kv, D, 1.4)
    else:
        for name, rows in (("attn_q", q), ("attn_k", kv), ("attn_v", kv)):
            t.matrix(f"{b}{name}.weight", rows, D, 1.4)
            if p.get("qkv_bias"):
                t.vector(f"{b}{name}.bias", rows, 0.0, 0.5)
    if p.get("qk_norm"):
        t.vector(b + "attn_q_norm.weight", d, 1.4, 0.2)
        t.vector(b + "attn_k_norm.weight", d, 1.4, 0.2)
    t.matrix(b + "attn_output.weight", D, q, 1.5)
    if p.get("sinks"):
        t.vector(b + "attn_sinks.weight", p["heads"], 1.0, 1.0)
    if p.get("biases"):
        t.vector(b + "attn_output.bias", D, 0.0, 0.3)
    if p.get("gemma"):
        t.vector(b + "post_attention_norm.weight", D, 3.0, 0.5)


def feed_forward_tensors(t, p, b, i):
    D, F = p["dim"], p["ff"]
    t.vector(b + ("post_attention_norm.weight" if p.get("post_norm") else "ffn_norm.weight"), D, 1.0)
    if "experts" in p and i >= p.get("dense_lead", 0) and (i + 1) % p.get("moe_step", 1) == 0:
        expert_tensors(t, p, b)
        return
    if not p.get("fused"):
        t.matrix(b + "ffn_gate.weight", F, D, 1.3)
    t.matrix(b + "ffn_up.weight", 2 * F if p.get("fused") else F, D, 1.3)
    t.matrix(b + "ffn_down.weight", D, F, 1.3)
    if p.get("gemma"):
        t.vector(b + "post_ffw_norm.weight", D, 3.0, 0.5)


def tensors(name):
    p = MODELS[name] | {"head_dim": MODELS[name].get("head_dim", MODELS[name]["dim"] // MODELS[name]["heads"])}
    t = Tensors(p, int.from_bytes(hashlib.sha256(name.encode()).digest()[:3], "little") << 8)
    tied = p["tied"]
    # A tied matrix has to serve as output: entries of std s / sqrt(dim) give logits of std s. The layers have to
    # outweigh the embedding then, or each token predicts itself: Gemma, which multiplies its embedding by sqrt(dim),
    # has post-norms that see to it, the others start with a small residual.
    spread = 2.0 if p.get("gemma") else LOGIT_SPREAD
    t.matrix("token_embd.weight", VOCAB, p["dim"], spread if tied else np.sqrt(p["dim"]) * 0.7,
             add=routed(t, p) if p.get("route") else None)
    if p.get("rope_freqs") or "longrope" in p:
        n = p.get("rope_dim", p["head_dim"]) // 2
        ramp = np.arange(n) / (n - 1)
        if p.get("rope_freqs"):
            t.list.append(("rope_freqs.weight", (1 + 7 * np.clip(ramp * 3 - 1, 0, 1)).astype(np.float32), None))
        else:
            t.list.append(("rope_factors_long.weight", (1 + 30 * ramp * ramp).astype(np.float32), None))
            t.list.append(("rope_factors_short.weight", (1 + 1.5 * ramp).astype(np.float32), None))
    for i in range(p["layers"] + p.get("nextn", 0)):
        attention_tensors(t, p, f"blk.{i}.")
        feed_forward_tensors(t, p, f"blk.{i}.", i)
        if i >= p["layers"]:
            next_token_tensors(t, p, f"blk.{i}.")
    t.vector("output_norm.weight", p["dim"], 1.0)
    if not tied:
        t.matrix("output.weight", VOCAB, p["dim"], LOGIT_SPREAD)
    return p, t.list


def digest(name):
    """Of the tensors' names, types and bytes: tells whether a golden was made from these weights."""
    h = hashlib.sha256()
    for tensor, data, kind in tensors(name)[1]:
        h.update(f"{tensor} {data.shape} {kind or data.dtype}\n".encode())
        h.update(np.ascontiguousarray(data).tobytes())
    return h.hexdigest()


def write(name, path):
    p, listed = tensors(name)
    w = GGUFWriter(path, p["arch"])
    w.add_name(f"tiny {name}")
    add_metadata(w, p)
    add_tokenizer(w, p)
    w.add_quantization_version(2)
    for tensor, data, kind in listed:
        w.add_tensor(tensor, data, raw_dtype=kind)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def select(prefixes):
    names = [n for n in MODELS if not prefixes or any(n.startswith(x) for x in prefixes)]
    if not names:
        raise SystemExit(f"no tiny model is named so; there are: {', '.join(MODELS)}")
    return names


def token_ids(n, seed=7, vocab=VOCAB):
    """Fixed ids for these models: uniform, with some runs repeated so that attention has something to find."""
    ids = (hashed(seed, n) >> np.uint64(20)).astype(np.int64) % (vocab - 4) + 3
    for at in range(24, n - 8, 40):
        ids[at:at + 8] = ids[at - 20:at - 12]
    return ids


def command_line(doc, known, chosen, write_one):
    """OUTDIR [NAMES] | --list: write_one(name, path) for each of chosen(NAMES)."""
    ap = argparse.ArgumentParser(description=doc.split("\n")[0])
    ap.add_argument("outdir", nargs="?")
    ap.add_argument("names", nargs="*")
    ap.add_argument("--list", action="store_true")
    a = ap.parse_args()
    if a.list:
        print("\n".join(known))
        return
    if not a.outdir:
        ap.error("name an output folder")
    Path(a.outdir).mkdir(parents=True, exist_ok=True)
    for name in chosen(a.names):
        write_one(name, str(Path(a.outdir) / f"{name}.gguf"))


if __name__ == "__main__":
    command_line(__doc__, MODELS, select, write)
