"""What a GGUF file says its network is: metadata keys and tensor presence -> one Spec of plain numbers.

Owns the reading of keys, their defaults and the differences between architectures.
Leaves the mathematics to forward.py, and dequantization to the gguf package.
"""
import math
from dataclasses import dataclass, field

import numpy as np
from gguf import GGMLQuantizationType, GGUFReader
from gguf.quants import dequantize


@dataclass(frozen=True)
class Arch:
    """The facts of an architecture that its files do not state."""
    neox: bool = True            # rotate halves of a head; else adjacent pairs (files whose q and k rows were permuted)
    gelu: bool = False           # tanh-approximated GELU instead of SiLU
    scale_embedding: bool = False
    window_default: int = 0      # sliding window where the key is missing
    local_every: int = 0         # every n-th layer is global, the others see the window; 0: all layers alike
    local_rope_base: float = 0.0  # rope base of local layers where it differs (no linear scaling there then)
    final_softcap: float = 0.0
    attn_softcap: float = 0.0
    wide_scale_layers: int = 0   # the file with this many layers scales queries by dim / heads, not by head size
    window_key: bool = False     # the file's sliding_window key counts


ARCHS = {
    "llama": Arch(neox=False),
    "qwen2": Arch(),
    "qwen3": Arch(),
    "phi3": Arch(window_key=True),
    "gemma2": Arch(gelu=True, scale_embedding=True, window_key=True, window_default=4096, local_every=2,
                   final_softcap=30.0, attn_softcap=50.0, wide_scale_layers=46),
    "gemma3": Arch(gelu=True, scale_embedding=True, window_key=True, local_every=6, local_rope_base=10000.0,
                   wide_scale_layers=62),
}


@dataclass
class Rope:
    """theta(pos, i) = pos * scale * base^(-2i/n_rot) / factors[i]; cos and sin are both multiplied by magnitude."""
    base: float
    scale: float = 1.0
    factors: np.ndarray | None = None  # [n_rot / 2] f32
    magnitude: float = 1.0


@dataclass
class Spec:
    arch: str
    n_layers: int
    dim: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    value_dim: int
    n_rot: int
    eps: float
    neox: bool
    gelu: bool
    embedding_scale: float
    attn_scale: float
    attn_softcap: float
    final_softcap: float
    window: int                  # 0: none
    local: list[bool]            # per layer: sees only the window
    rope: Rope                   # of global layers
    rope_local: Rope             # of local layers
    context: int
    vocab: int
    notes: list[str] = field(default_factory=list)


class File:
    """Metadata and dequantized tensors of one GGUF file (single shard)."""

    def __init__(self, path):
        self.reader = GGUFReader(path)
        self.tensors = {t.name: t for t in self.reader.tensors}
        self.arch = self.key("general.architecture")

    def key(self, name, default=None):
        f = self.reader.fields.get(name)
        return default if f is None else f.contents()

    def own(self, name, default=None):
        """The value of an architecture key; raises where it is missing and there is no default."""
        v = self.key(f"{self.arch}.{name}", default)
        if v is None:
            raise SystemExit(f"the file lacks the key {self.arch}.{name}")
        return v

    def has(self, name):
        return name in self.tensors

    def tensor(self, name):
        """f32 array in row-major order: a matrix is [n_out, n_in]."""
        t = self.tensors.get(name)
        if t is None:
            raise SystemExit(f"the file lacks the tensor {name}")
        shape = tuple(int(n) for n in reversed(t.shape))
        if t.tensor_type == GGMLQuantizationType.F32:
            return np.ascontiguousarray(t.data, np.float32).reshape(shape)
        return np.ascontiguousarray(dequantize(t.data, t.tensor_type), np.float32).reshape(shape)


def local_layers(f, arch, n_layers):
    pattern = f.own("attention.sliding_window_pattern", 0) if arch.window_key else 0
    if isinstance(pattern, (list, np.ndarray)):
        return [bool(b) for b in pattern][:n_layers]
    every = int(pattern) or arch.local_every
    return [every == 0 or i % every < every - 1 for i in range(n_layers)]


def rope_of(f, n_ctx, context, n_rot):
    """The rope of global layers; picks LongRoPE's factors by the context the engine was made for."""
    kind = f.own("rope.scaling.type", "linear")
    if kind == "yarn":
        raise SystemExit("YaRN rope scaling is not covered by this oracle")
    factor = 0.0 if kind == "none" else f.own("rope.scaling.factor", f.own("rope.scale_linear", 0.0))
    rope = Rope(base=f.own("rope.freq_base", 10000.0), scale=1.0 / factor if factor else 1.0,
                magnitude=f.own("rope.scaling.attn_factor", 1.0))
    original = f.own("rope.scaling.original_context_length", context)
    name = "rope_freqs.weight"
    if not f.has(name):
        name = f"rope_factors_{'long' if n_ctx > original else 'short'}.weight"
    if f.has(name):
        rope.factors = f.tensor(name).reshape(-1)
        if rope.factors.size != n_rot // 2:
            raise SystemExit(f"{name} has {rope.factors.size} factors for {n_rot // 2} rotated pairs")
    return rope


def read_spec(f, n_ctx):
    """n_ctx: tokens of context the engines compared are made for; only LongRoPE files depend on it."""
    if f.arch not in ARCHS:
        raise SystemExit(f"architecture {f.arch} is not covered by this oracle (it has: {', '.join(ARCHS)})")
    if f.has("blk.0.ffn_gate_inp.weight"):
        raise SystemExit("expert layers are not covered by this oracle")
    arch = ARCHS[f.arch]
    n_layers, dim, n_heads = (int(f.own(k)) for k in ("block_count", "embedding_length", "attention.head_count"))
    head_dim = int(f.own("attention.key_length", dim // n_heads))
    n_rot = int(f.own("rope.dimension_count", head_dim))
    context = int(f.own("context_length"))
    window = int(f.own("attention.sliding_window", arch.window_default)) if arch.window_key else 0
    rope = rope_of(f, n_ctx, context, n_rot)
    own_local = f.own("rope.freq_base_swa", arch.local_rope_base or rope.base)
    rope_local = Rope(base=own_local) if arch.local_rope_base else Rope(own_local, rope.scale, rope.factors,
                                                                        rope.magnitude)
    per_head = dim // n_heads if n_layers == arch.wide_scale_layers else head_dim
    return Spec(arch=f.arch, n_layers=n_layers, dim=dim, n_heads=n_heads,
                n_kv_heads=int(f.own("attention.head_count_kv", n_heads)), head_dim=head_dim,
                value_dim=int(f.own("attention.value_length", dim // n_heads)), n_rot=n_rot,
                eps=float(f.own("attention.layer_norm_rms_epsilon")), neox=arch.neox, gelu=arch.gelu,
                embedding_scale=math.sqrt(dim) if arch.scale_embedding else 1.0, attn_scale=1.0 / math.sqrt(per_head),
                attn_softcap=float(f.own("attn_logit_softcapping", arch.attn_softcap)),
                final_softcap=float(f.own("final_logit_softcapping", arch.final_softcap)), window=window,
                local=local_layers(f, arch, n_layers) if window else [False] * n_layers, rope=rope,
                rope_local=rope_local, context=context, vocab=int(f.tensors["token_embd.weight"].shape[1]))
