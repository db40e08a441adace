"""What a GGUF file says its network is: metadata keys and tensor presence -> one Spec of plain numbers.

Owns the reading of keys, their defaults and the differences between architectures.
Leaves the mathematics to forward.py, and dequantization to the gguf package.
"""
import math
from dataclasses import dataclass, field, replace

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
    ffn_norm: str = "ffn_norm"   # the norm before the feed-forward half; files name it in two ways
    yarn_rounded: bool = True    # the ends of YaRN's ramp are rounded outwards to whole pairs
    swiglu: tuple[float, float] | None = None  # alpha and limit of gpt-oss's clamped SwiGLU, in the experts
    gating: str = "softmax"      # of the router, where the file does not say; see Experts
    normalize: bool = False      # chosen weights are divided by their sum, where the file does not say
    interleaved: bool = False     # Llama 4: chunks instead of windows, every fourth layer global, without rope


GPT_OSS = Arch(window_key=True, local_every=2, ffn_norm="post_attention_norm", yarn_rounded=False, swiglu=(1.702, 7.0),
               gating="softmax of chosen")
ARCHS = {
    "llama": Arch(neox=False, normalize=True),
    "qwen2": Arch(),
    "qwen3": Arch(),
    "phi3": Arch(window_key=True),
    "gemma2": Arch(gelu=True, scale_embedding=True, window_key=True, window_default=4096, local_every=2,
                   final_softcap=30.0, attn_softcap=50.0, wide_scale_layers=46),
    "gemma3": Arch(gelu=True, scale_embedding=True, window_key=True, local_every=6, local_rope_base=10000.0,
                   wide_scale_layers=62),
    "gpt-oss": GPT_OSS,
    "qwen2moe": Arch(),
    "qwen3moe": Arch(normalize=True),
    "glm4moe": Arch(ffn_norm="post_attention_norm", gating="sigmoid", normalize=True),
    "mistral3": Arch(neox=False, normalize=True),
    "llama4": Arch(neox=False, window_default=8192, local_every=4, gating="sigmoid", interleaved=True),
}
GATINGS = {1: "softmax", 2: "sigmoid", 3: "softmax of chosen"}  # values of the key expert_gating_func


@dataclass
class Yarn:
    """Which pairs keep their frequency: those that turn more than `fast` times within `original` positions; those that
    turn less than `slow` times are interpolated; a linear ramp lies between."""
    original: int
    fast: float = 32.0
    slow: float = 1.0
    rounded: bool = True  # the ramp's ends are whole pairs, rounded outwards


@dataclass
class Rope:
    """theta(pos, i) = pos * scale * base^(-2i/n_rot) / factors[i]; cos and sin are both multiplied by magnitude."""
    base: float
    scale: float = 1.0
    factors: np.ndarray | None = None  # [n_rot / 2] f32
    magnitude: float = 1.0
    yarn: Yarn | None = None


@dataclass
class Temperature:
    """Queries of position p are multiplied by 1 + scale * log(1 + floor((p + offset) / period))."""
    scale: float
    period: int
    offset: int = 0


@dataclass
class Experts:
    """Which experts a token gets and how they are weighted.

    Scores are the softmax or sigmoid of the router's outputs ("softmax of chosen": the outputs themselves). Experts are
    chosen by score plus the router's selection bias, weighted by the score alone."""
    n: int
    used: int
    gating: str
    normalize: bool              # weights are divided by their sum
    scale: float                 # then multiplied by this
    groups: int = 1              # experts are chosen from the groups_used groups whose two best sum highest
    groups_used: int = 1
    weigh_input: bool = False    # the weight multiplies an expert's input, not its output
    shared: bool = False         # a shared expert is added, in layers that have one
    selection_bias: bool = False
    swiglu: tuple[float, float] | None = None


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
    chunked: bool                # local layers see their chunk of `window` positions instead
    local: list[bool]            # per layer: sees only the window
    rope: Rope                   # of global layers
    rope_local: Rope             # of local layers
    unrotated: list[bool]        # per layer: no rope
    unit_qk: bool                # rotated queries and keys are divided by their root mean square
    temperature: Temperature | None  # of layers without rope where there are such, else of all
    sinks: bool                  # heads have a sink, where the file has them
    ffn_norm: str
    experts: Experts | None
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

    def part(self, name, which):
        """f32 of tensor[which], which indexes the outermost dimension; only that much is dequantized."""
        t = self.tensors.get(name)
        if t is None:
            raise SystemExit(f"the file lacks the tensor {name}")
        shape = tuple(int(n) for n in reversed(t.shape))
        if t.tensor_type == GGMLQuantizationType.F32:
            return np.ascontiguousarray(t.data.reshape(shape)[which], np.float32)
        data = np.ascontiguousarray(t.data.reshape(*shape[:-1], -1)[which])
        return np.ascontiguousarray(dequantize(data, t.tensor_type), np.float32)

    def tensor(self, name):
        """f32 array in row-major order: a matrix is [n_out, n_in]."""
        return self.part(name, slice(None))


def local_layers(f, arch, n_layers):
    pattern = f.own("attention.sliding_window_pattern", 0) if arch.window_key else 0
    if isinstance(pattern, (list, np.ndarray)):
        return [bool(b) for b in pattern][:n_layers]
    every = int(pattern) or arch.local_every
    return [every == 0 or i % every < every - 1 for i in range(n_layers)]


def yarn_magnitude(f, factor):
    """What cos and sin are multiplied by: stated, or 1 + 0.1 log(factor), over the same times the "log multiplier"."""
    grown = lambda multiplier: 1.0 + 0.1 * multiplier * math.log(factor) if factor > 1 else 1.0
    stated = f.own("rope.scaling.yarn_attn_factor", 0.0)
    return stated or grown(1.0) / grown(f.own("rope.scaling.yarn_log_multiplier", 0.0))


def rope_of(f, arch, n_ctx, context, n_rot):
    """The rope of global layers; picks LongRoPE's factors by the context the engine was made for."""
    kind = f.own("rope.scaling.type", "linear")
    factor = 0.0 if kind == "none" else f.own("rope.scaling.factor", f.own("rope.scale_linear", 0.0))
    rope = Rope(base=f.own("rope.freq_base", 10000.0), scale=1.0 / factor if factor else 1.0,
                magnitude=f.own("rope.scaling.attn_factor", 1.0))
    original = int(f.own("rope.scaling.original_context_length", context))
    if kind == "yarn":
        rope.magnitude *= yarn_magnitude(f, factor or 1.0)
        rope.yarn = Yarn(original, f.own("rope.scaling.yarn_beta_fast", 32.0), f.own("rope.scaling.yarn_beta_slow", 1.0),
                         arch.yarn_rounded)
    name = "rope_freqs.weight"
    if not f.has(name):
        name = f"rope_factors_{'long' if n_ctx > original else 'short'}.weight"
    if f.has(name):
        rope.factors = f.tensor(name).reshape(-1)
        if rope.factors.size != n_rot // 2:
            raise SystemExit(f"{name} has {rope.factors.size} factors for {n_rot // 2} rotated pairs")
    return rope


def with_rounded_yarn(spec):
    """The spec as llama.cpp reads a gpt-oss file: with the ends of YaRN's ramp rounded. None: it is the same spec."""
    if not spec.rope.yarn or spec.rope.yarn.rounded:
        return None
    rounded = lambda rope: replace(rope, yarn=replace(rope.yarn, rounded=True))
    return replace(spec, rope=rounded(spec.rope), rope_local=rounded(spec.rope_local))


def experts_of(f, arch):
    n = int(f.own("expert_count", 0))
    if not n:
        return None
    used, groups = int(f.own("expert_used_count")), int(f.own("expert_group_count", 0)) or 1
    groups_used = int(f.own("expert_group_used_count", 0)) or groups
    if not (0 < used <= n and n % groups == 0 and groups_used <= groups and (groups == 1 or n // groups >= 2)):
        raise SystemExit(f"cannot choose {used} of {n} experts from {groups_used} of {groups} groups")
    any_layer = lambda name: any(t.endswith(name) for t in f.tensors)
    key = int(f.own("expert_gating_func", 0))
    if key and key not in GATINGS:
        raise SystemExit(f"expert gating function {key} is not covered by this oracle")
    return Experts(n=n, used=used, gating=GATINGS.get(key, arch.gating), groups=groups, groups_used=groups_used,
                   normalize=bool(f.own("expert_weights_norm", arch.normalize)), swiglu=arch.swiglu,
                   scale=float(f.own("expert_weights_scale", 0.0)) or 1.0, weigh_input=arch.interleaved,
                   shared=any_layer(".ffn_up_shexp.weight"), selection_bias=any_layer(".exp_probs_b.bias"))


def temperature_of(f, arch, original):
    if arch.interleaved:
        return Temperature(scale=0.1, period=8192, offset=1)
    scale = float(f.own("attention.temperature_scale", 0.0)) if f.arch == "mistral3" else 0.0
    return Temperature(scale, original) if scale else None


def read_spec(f, n_ctx):
    """n_ctx: tokens of context the engines compared are made for; only LongRoPE files depend on it."""
    if f.arch not in ARCHS:
        raise SystemExit(f"architecture {f.arch} is not covered by this oracle (it has: {', '.join(ARCHS)})")
    arch = ARCHS[f.arch]
    n_blocks, dim, n_heads = (int(f.own(k)) for k in ("block_count", "embedding_length", "attention.head_count"))
    n_layers = n_blocks - int(f.own("nextn_predict_layers", 0))  # the blocks at the end predict further tokens
    head_dim = int(f.own("attention.key_length", dim // n_heads))
    n_rot = int(f.own("rope.dimension_count", head_dim))
    context = int(f.own("context_length"))
    window = int(f.own("attention.sliding_window", arch.window_default)) if arch.window_key else arch.window_default
    local = local_layers(f, arch, n_layers) if window else [False] * n_layers
    rope = rope_of(f, arch, n_ctx, context, n_rot)
    own_local = f.own("rope.freq_base_swa", arch.local_rope_base or rope.base)
    rope_local = Rope(base=own_local) if arch.local_rope_base else replace(rope, base=own_local)
    per_head = dim // n_heads if n_layers == arch.wide_scale_layers else head_dim
    experts = experts_of(f, arch)
    return Spec(arch=f.arch, n_layers=n_layers, dim=dim, n_heads=n_heads,
                n_kv_heads=int(f.own("attention.head_count_kv", n_heads)), head_dim=head_dim,
                value_dim=int(f.own("attention.value_length", dim // n_heads)), n_rot=n_rot,
                eps=float(f.own("attention.layer_norm_rms_epsilon")), neox=arch.neox, gelu=arch.gelu,
                embedding_scale=math.sqrt(dim) if arch.scale_embedding else 1.0, attn_scale=1.0 / math.sqrt(per_head),
                attn_softcap=float(f.own("attn_logit_softcapping", arch.attn_softcap)),
                final_softcap=float(f.own("final_logit_softcapping", arch.final_softcap)), window=window,
                chunked=arch.interleaved, local=local, rope=rope, rope_local=rope_local,
                unrotated=[arch.interleaved and not x for x in local],
                unit_qk=arch.interleaved and experts is not None and experts.n != 128,
                temperature=temperature_of(f, arch, int(f.own("rope.scaling.original_context_length", context))),
                sinks=f.has("blk.0.attn_sinks.weight"), ffn_norm=arch.ffn_norm, experts=experts, context=context,
                vocab=int(f.tensors["token_embd.weight"].shape[1]))
