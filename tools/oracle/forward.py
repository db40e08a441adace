"""The float forward pass of a decoder described by a Spec, in numpy: plain formulas, nothing quantized, no KV cache.

Follows the papers (RoPE, RMSNorm, GQA, SwiGLU/GeGLU, Gemma 2/3 reports, LongRoPE). Works layer by layer over all
windows, so that only one layer's dequantized weights are in memory. Leaves files to spec.py and output to oracle.py.
"""
import numpy as np

QUERY_BLOCK = 256  # rows of attention scores held at once


def rms_norm(x, weight, eps):
    """x: [..., n]; weight: [n]. The mean of squares is taken in double."""
    mean = np.mean(np.square(x, dtype=np.float64), axis=-1, keepdims=True)
    return (x * (1.0 / np.sqrt(mean + eps)).astype(x.dtype)) * weight


def silu(x):
    # exp of a large negative x overflows to inf and the quotient is then the right 0
    with np.errstate(over="ignore"):
        return x / (1 + np.exp(-x))


def gelu_tanh(x):
    return x * (0.5 * (1 + np.tanh(x.dtype.type(0.7978845608028654) * (x + x.dtype.type(0.044715) * x * x * x))))


def softcap(x, cap):
    return np.tanh(x / x.dtype.type(cap)) * x.dtype.type(cap) if cap else x


def rope_tables(spec, rope, n, dtype):
    """cos and sin, each [n, n_rot / 2]; the angles are computed in double."""
    half = spec.n_rot // 2
    freq = float(rope.base) ** (-2.0 * np.arange(half) / spec.n_rot) * rope.scale
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


def attend(spec, q, k, v, window):
    """q: [n, heads, head_dim], k: [n, kv_heads, head_dim], v: [n, kv_heads, value_dim] -> [n, heads * value_dim].

    Position i sees position j where j <= i, and i - j < window where there is a window."""
    n, group = q.shape[0], spec.n_heads // spec.n_kv_heads
    out = np.empty((n, spec.n_heads, v.shape[2]), q.dtype)
    q = q * q.dtype.type(spec.attn_scale)
    for kv in range(spec.n_kv_heads):
        keys, values = np.ascontiguousarray(k[:, kv].T), np.ascontiguousarray(v[:, kv])
        for at in range(0, n, QUERY_BLOCK):
            end = min(n, at + QUERY_BLOCK)
            first = max(0, at - window + 1) if window else 0
            rows, cols = np.arange(at, end)[:, None], np.arange(first, end)[None, :]
            hidden = cols > rows
            if window:
                hidden |= rows - cols >= window
            for head in range(kv * group, (kv + 1) * group):
                s = softcap(q[at:end, head] @ keys[:, first:end], spec.attn_softcap)
                s[hidden] = -np.inf
                p = np.exp(s - s.max(axis=1, keepdims=True))
                total = p.sum(axis=1, keepdims=True, dtype=np.float64)
                out[at:end, head] = (p @ values[first:end]) / total.astype(q.dtype)
    return out.reshape(n, -1)


class Layer:
    """The dequantized weights of one block; optional ones are None."""

    def __init__(self, f, i, dtype):
        self.f, self.prefix, self.dtype = f, f"blk.{i}.", dtype
        self.cache = {}

    def get(self, name):
        if name not in self.cache:
            full = self.prefix + name
            self.cache[name] = self.f.tensor(full).astype(self.dtype, copy=False) if self.f.has(full) else None
        return self.cache[name]

    def linear(self, name, x):
        y = x @ self.f_required(name + ".weight").T
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


def attention(spec, layer, x, local, tables):
    n, H, K, D, V = len(x), spec.n_heads, spec.n_kv_heads, spec.head_dim, spec.value_dim
    if layer.get("attn_qkv.weight") is not None:
        q, k, v = np.split(layer.linear("attn_qkv", x), [H * D, H * D + K * D], axis=1)
    else:
        q, k, v = (layer.linear("attn_" + t, x) for t in "qkv")
    q, k, v = q.reshape(n, H, D), k.reshape(n, K, D), v.reshape(n, K, V)
    q = layer.norm("attn_q_norm", q, spec.eps, required=False)
    k = layer.norm("attn_k_norm", k, spec.eps, required=False)
    cos, sin = tables[local]
    q, k = rotate(q, cos[:n], sin[:n], spec.neox), rotate(k, cos[:n], sin[:n], spec.neox)
    return layer.linear("attn_output", attend(spec, q, k, v, spec.window if local else 0))


def feed_forward(spec, layer, x):
    up = layer.linear("ffn_up", x)
    if layer.get("ffn_gate.weight") is not None:
        gate = layer.linear("ffn_gate", x)
    else:  # one fused matrix: the gate's rows come first
        gate, up = np.split(up, 2, axis=1)
    return layer.linear("ffn_down", (gelu_tanh(gate) if spec.gelu else silu(gate)) * up)


def hidden_states(f, spec, ids, window_len, dtype=np.float32, progress=None):
    """ids: int [n] -> [n, dim], final norm applied. Every window_len tokens start anew from position 0."""
    ids = np.asarray(ids)
    if ids.min() < 0 or ids.max() >= spec.vocab:
        raise SystemExit(f"token ids must be from 0 to {spec.vocab - 1}")
    embedding = f.tensor("token_embd.weight")
    h = embedding[ids].astype(dtype) * dtype(spec.embedding_scale)
    del embedding
    spans = [slice(a, min(a + window_len, len(ids))) for a in range(0, len(ids), window_len)]
    longest = min(window_len, len(ids))
    tables = [rope_tables(spec, rope, longest, dtype) for rope in (spec.rope, spec.rope_local)]  # [local]
    for i in range(spec.n_layers):
        layer = Layer(f, i, dtype)
        for span in spans:
            x = h[span]
            y = attention(spec, layer, layer.norm("attn_norm", x, spec.eps), spec.local[i], tables)
            x = x + layer.norm("post_attention_norm", y, spec.eps, required=False)
            y = feed_forward(spec, layer, layer.norm("ffn_norm", x, spec.eps))
            h[span] = x + layer.norm("post_ffw_norm", y, spec.eps, required=False)
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
