"""The float forward pass of a decoder described by a Spec, in numpy: plain formulas, nothing quantized, no KV cache.

Follows the papers and reference configurations (RoPE, RMSNorm, GQA, SwiGLU/GeGLU, Gemma 2/3 reports, LongRoPE, YaRN;
the routing of Qwen-MoE, DeepSeek-V3 and GLM-4.5, gpt-oss, Llama 4). Works layer by layer over all windows, so that only
one layer's dequantized weights are in memory, and of experts one at a time: moe.py. Leaves files to spec.py and output
to oracle.py.
"""
import numpy as np

import moe
from nonlinear import gelu_tanh, silu, softcap

QUERY_BLOCK = 256  # rows of attention scores held at once


def rms_norm(x, weight, eps):
    """x: [..., n]; weight: [n]. The mean of squares is taken in double."""
    mean = np.mean(np.square(x, dtype=np.float64), axis=-1, keepdims=True)
    return (x * (1.0 / np.sqrt(mean + eps)).astype(x.dtype)) * weight


def yarn_ramp(yarn, base, n_rot):
    """f64 [n_rot / 2]: 0 where a pair keeps its frequency, 1 where it is interpolated."""
    def pair(turns):  # the pair that turns so often within the original context
        return n_rot * np.log(yarn.original / (turns * 2 * np.pi)) / (2 * np.log(base))
    low, high = pair(yarn.fast), pair(yarn.slow)
    if yarn.rounded:
        low, high = np.floor(low), np.ceil(high)
    low, high = max(low, 0), min(high, n_rot - 1)
    return np.clip((np.arange(n_rot // 2) - low) / max(high - low, 0.001), 0, 1)


def rope_tables(spec, rope, n, dtype):
    """cos and sin, each [n, n_rot / 2]; the angles are computed in double."""
    half = spec.n_rot // 2
    freq = float(rope.base) ** (-2.0 * np.arange(half) / spec.n_rot)
    ramp = yarn_ramp(rope.yarn, float(rope.base), spec.n_rot) if rope.yarn else 1.0
    freq = freq * (rope.scale * ramp + (1.0 - ramp))
    if rope.factors is not None:
        freq = freq / rope.factors.astype(np.float64)
    theta = np.arange(n)[:, None] * freq
    return (np.cos(theta) * rope.magnitude).astype(dtype), (np.sin(theta) * rope.magnitude).astype(dtype)


def rotate(x, cos, sin, neox):
    """x: [n, heads, head_dim]; rotates the first n_rot values of each head."""
    half = cos.shape[1]
    c, s = cos[:, None, :], sin[:, None, :]
    out = x.copy()
    if neox:
        a, b = x[..., :half], x[..., half:2 * half]
        out[..., :half], out[..., half:2 * half] = a * c - b * s, a * s + b * c
    else:
        a, b = x[..., 0:2 * half:2], x[..., 1:2 * half:2]
        out[..., 0:2 * half:2], out[..., 1:2 * half:2] = a * c - b * s, a * s + b * c
    return out


def first_seen(spec, at):
    """The first position that a row of a local layer sees."""
    return at // spec.window * spec.window if spec.chunked else max(0, at - spec.window + 1)


def attend(spec, q, k, v, local, sinks):
    """q: [n, heads, head_dim], k: [n, kv_heads, head_dim], v: [n, kv_heads, value_dim] -> [n, heads * value_dim].

    Position i sees position j where j <= i; in a local layer only where i - j < window (or both are in one chunk).
    sinks: [heads], scores of a position without a value, or None."""
    n, group = q.shape[0], spec.n_heads // spec.n_kv_heads
    out = np.empty((n, spec.n_heads, v.shape[2]), q.dtype)
    q = q * q.dtype.type(spec.attn_scale)
    for kv in range(spec.n_kv_heads):
        keys, values = np.ascontiguousarray(k[:, kv].T), np.ascontiguousarray(v[:, kv])
        for at in range(0, n, QUERY_BLOCK):
            end = min(n, at + QUERY_BLOCK)
            first = first_seen(spec, at) if local else 0
            rows, cols = np.arange(at, end)[:, None], np.arange(first, end)[None, :]
            hidden = cols > rows
            if local:
                hidden |= rows // spec.window != cols // spec.window if spec.chunked else rows - cols >= spec.window
            for head in range(kv * group, (kv + 1) * group):
                s = softcap(q[at:end, head] @ keys[:, first:end], spec.attn_softcap)
                s[hidden] = -np.inf
                top = s.max(axis=1, keepdims=True)
                if sinks is not None:
                    top = np.maximum(top, sinks[head])
                p = np.exp(s - top)
                total = p.sum(axis=1, keepdims=True, dtype=np.float64)
                if sinks is not None:
                    total += np.exp(sinks[head].astype(np.float64) - top)
                out[at:end, head] = (p @ values[first:end]) / total.astype(q.dtype)
    return out.reshape(n, -1)


class Layer:
    """The dequantized weights of one block; optional ones are None."""

    def __init__(self, f, i, dtype, trace=None):
        self.f, self.prefix, self.dtype = f, f"blk.{i}.", dtype
        self.cache = {}
        self.trace = trace  # where given, routers append (router input, function that gives the choice for an input)

    def get(self, name):
        if name not in self.cache:
            full = self.prefix + name
            self.cache[name] = self.f.tensor(full).astype(self.dtype, copy=False) if self.f.has(full) else None
        return self.cache[name]

    def multiply(self, name, x, weight):
        """One of the block's quantized matrices at work; name: of its tensor, for those who replace this."""
        return x @ weight.T

    def expert(self, name, number, x):
        """Matrix and bias of a stack, dequantized for this call alone."""
        full = self.prefix + name
        y = self.multiply(name, x, self.f.part(full + ".weight", number).astype(self.dtype, copy=False))
        return y + self.f.part(full + ".bias", number).astype(self.dtype) if self.f.has(full + ".bias") else y

    def linear(self, name, x):
        y = self.multiply(name, x, self.f_required(name + ".weight"))
        bias = self.get(name + ".bias")
        return y if bias is None else y + bias

    def f_required(self, name):
        w = self.get(name)
        if w is None:
            raise SystemExit(f"the file lacks the tensor {self.prefix}{name}")
        return w

    def norm(self, name, x, eps, required=True):
        w = self.f_required(name + ".weight") if required else self.get(name + ".weight")
        return x if w is None else rms_norm(x, w, eps)


def attention(spec, layer, x, i, tables):
    """i: number of the layer."""
    n, H, K, D, V = len(x), spec.n_heads, spec.n_kv_heads, spec.head_dim, spec.value_dim
    if layer.get("attn_qkv.weight") is not None:
        q, k, v = np.split(layer.linear("attn_qkv", x), [H * D, H * D + K * D], axis=1)
    else:
        q, k, v = (layer.linear("attn_" + t, x) for t in "qkv")
    q, k, v = q.reshape(n, H, D), k.reshape(n, K, D), v.reshape(n, K, V)
    q = layer.norm("attn_q_norm", q, spec.eps, required=False)
    k = layer.norm("attn_k_norm", k, spec.eps, required=False)
    if not spec.unrotated[i]:
        cos, sin = tables[spec.local[i]]
        q, k = rotate(q, cos[:n], sin[:n], spec.neox), rotate(k, cos[:n], sin[:n], spec.neox)
        if spec.unit_qk:
            q, k = rms_norm(q, x.dtype.type(1), spec.eps), rms_norm(k, x.dtype.type(1), spec.eps)
    t = spec.temperature
    if t and (spec.unrotated[i] or not any(spec.unrotated)):
        q = q * (1 + t.scale * np.log1p((np.arange(n) + t.offset) // t.period)).astype(q.dtype)[:, None, None]
    sinks = layer.get("attn_sinks.weight") if spec.sinks else None
    return layer.linear("attn_output", attend(spec, q, k, v, spec.local[i], sinks))


def feed_forward(spec, layer, x):
    up = layer.linear("ffn_up", x)
    if layer.get("ffn_gate.weight") is not None:
        gate = layer.linear("ffn_gate", x)
    else:  # one fused matrix: the gate's rows come first
        gate, up = np.split(up, 2, axis=1)
    return layer.linear("ffn_down", (gelu_tanh(gate) if spec.gelu else silu(gate)) * up)


def block(spec, layer, h, i, spans, tables):
    """One block on all rows, in place."""
    after = lambda name, y: y if name == spec.ffn_norm else layer.norm(name, y, spec.eps, required=False)
    for span in spans:
        y = attention(spec, layer, layer.norm("attn_norm", h[span], spec.eps), i, tables)
        h[span] += after("post_attention_norm", y)
    if spec.experts and layer.get("ffn_gate_inp.weight") is not None:  # all rows at once: an expert is read once
        h += after("post_ffw_norm", moe.feed_forward(spec, layer, layer.norm(spec.ffn_norm, h, spec.eps)))
        return
    for span in spans:
        y = feed_forward(spec, layer, layer.norm(spec.ffn_norm, h[span], spec.eps))
        h[span] += after("post_ffw_norm", y)


def hidden_states(f, spec, ids, window_len, dtype=np.float32, progress=None, trace=None):
    """ids: int [n] -> [n, dim], final norm applied. Every window_len tokens start anew from position 0."""
    ids = np.asarray(ids)
    if ids.min() < 0 or ids.max() >= spec.vocab:
        raise SystemExit(f"token ids must be from 0 to {spec.vocab - 1}")
    h = f.part("token_embd.weight", ids).astype(dtype) * dtype(spec.embedding_scale)
    spans = [slice(a, min(a + window_len, len(ids))) for a in range(0, len(ids), window_len)]
    longest = min(window_len, len(ids))
    tables = [rope_tables(spec, rope, longest, dtype) for rope in (spec.rope, spec.rope_local)]  # [local]
    for i in range(spec.n_layers):
        block(spec, Layer(f, i, dtype, trace), h, i, spans, tables)
        if progress:
            progress(i + 1, spec.n_layers)
    return rms_norm(h, f.tensor("output_norm.weight").astype(dtype), spec.eps)


class Head:
    """The output matrix: logits of a block of rows at a time, since [n, vocab] can be gigabytes."""

    def __init__(self, f, spec, dtype=np.float32):
        name = "output.weight" if f.has("output.weight") else "token_embd.weight"
        self.weight_t = f.tensor(name).astype(dtype, copy=False).T
        self.bias = f.tensor("output.bias").astype(dtype) if f.has("output.bias") else None
        self.cap = spec.final_softcap

    def logits(self, hidden):
        """hidden: [rows, dim] -> [rows, vocab]"""
        y = hidden @ self.weight_t
        return softcap(y if self.bias is None else y + self.bias, self.cap)
