#!/usr/bin/env python3
"""The numpy oracle against transformers' model code for networks whose GGUF files transformers cannot read well.

    check_transformers_built.py MODEL.gguf... --tokens ids.txt

transformers' own loader leaves out facts of these files (YaRN, widths of experts, head sizes) or refuses them. So here
the configuration is stated by hand and the weights are put in by name; the mathematics is transformers' (torch,
float32). Covers gpt-oss, qwen2moe, qwen3moe, glm4moe, mistral3, llama4. Needs: numpy, gguf, torch, transformers (5.x).
"""
import argparse
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "parity")]

import numpy as np  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402

import kl  # noqa: E402
from oracle import Oracle  # noqa: E402

ATTENTION = {"attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
             "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm",
             "attn_k_norm": "self_attn.k_norm", "ffn_norm": "post_attention_layernorm",
             "post_attention_norm": "post_attention_layernorm"}
DENSE = {"ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
SHARED = {"qwen2moe": "mlp.shared_expert", "glm4moe": "mlp.shared_experts", "llama4": "feed_forward.shared_expert"}


def rope_parameters(f):
    """As a config.json of the model says it; what GGUF files leave out is from the models' published ones."""
    out = {"rope_theta": float(f.own("rope.freq_base")), "rope_type": "default"}
    if f.own("rope.scaling.type", "none") == "yarn":
        out |= {"rope_type": "yarn", "factor": float(f.own("rope.scaling.factor")),
                "original_max_position_embeddings": int(f.own("rope.scaling.original_context_length")),
                "beta_fast": f.own("rope.scaling.yarn_beta_fast", 32.0),
                "beta_slow": f.own("rope.scaling.yarn_beta_slow", 1.0), "truncate": f.arch != "gpt-oss"}
        if f.own("rope.scaling.yarn_log_multiplier", 0.0):
            out |= {"mscale": 1.0, "mscale_all_dim": f.own("rope.scaling.yarn_log_multiplier")}
    if f.arch == "mistral3":
        out |= {"llama_4_scaling_beta": f.own("attention.temperature_scale", 0.0)}
        out.setdefault("original_max_position_embeddings", int(f.own("context_length")))
    if f.arch == "glm4moe":
        out["partial_rotary_factor"] = int(f.own("rope.dimension_count")) / int(f.own("attention.key_length"))
    return out


def common_facts(f, s):
    e, has = s.experts, f.has
    facts = dict(vocab_size=s.vocab, hidden_size=s.dim, num_hidden_layers=s.n_layers, num_attention_heads=s.n_heads,
                 num_key_value_heads=s.n_kv_heads, head_dim=s.head_dim,
                 intermediate_size=int(f.own("feed_forward_length")),
                 rms_norm_eps=s.eps, max_position_embeddings=s.context, tie_word_embeddings=not has("output.weight"),
                 rope_parameters=rope_parameters(f), attention_bias=has("blk.0.attn_q.bias"))
    if e:
        facts |= dict(num_experts=e.n, num_local_experts=e.n, num_experts_per_tok=e.used, norm_topk_prob=e.normalize,
                      moe_intermediate_size=int(f.own("expert_feed_forward_length")))
    return facts


def configuration(f, s):
    facts, T = common_facts(f, s), transformers
    width = lambda name: int(f.tensors[name].shape[1]) if f.has(name) else 0
    last = s.n_layers - 1
    if f.arch == "gpt-oss":
        return T.GptOssConfig(**facts | dict(intermediate_size=facts["moe_intermediate_size"], sliding_window=s.window))
    if f.arch == "qwen2moe":
        return T.Qwen2MoeConfig(**facts, shared_expert_intermediate_size=width(f"blk.{last}.ffn_up_shexp.weight"))
    if f.arch == "qwen3moe":
        return T.Qwen3MoeConfig(**facts)
    if f.arch == "glm4moe":
        shared = width(f"blk.{last}.ffn_up_shexp.weight") // facts["moe_intermediate_size"]
        return T.Glm4MoeConfig(**facts, n_routed_experts=s.experts.n, n_shared_experts=shared, n_group=s.experts.groups,
                               topk_group=s.experts.groups_used, routed_scaling_factor=s.experts.scale,
                               first_k_dense_replace=int(f.own("leading_dense_block_count", 0)),
                               use_qk_norm=f.has("blk.0.attn_q_norm.weight"))
    if f.arch == "mistral3":
        return T.Ministral3Config(**facts)
    if f.arch == "llama4":
        dense = facts["intermediate_size"]
        return T.Llama4TextConfig(**facts | dict(intermediate_size=facts["moe_intermediate_size"]),
                                  intermediate_size_mlp=dense,
                                  interleave_moe_layer_step=int(f.own("interleave_moe_layer_step")),
                                  attention_chunk_size=s.window, use_qk_norm=s.unit_qk, attn_temperature_tuning=True)
    raise SystemExit(f"{f.arch} is not covered here")


def stack(f, name):
    return f.tensor(name).reshape([int(n) for n in reversed(f.tensors[name].shape)])


def expert_weights(f, arch, b, p, out):
    """b: prefix in the file, p: in transformers. The fused matrices of gpt-oss alternate gate and up."""
    gate, up, down = (stack(f, f"{b}ffn_{t}_exps.weight") for t in ("gate", "up", "down"))
    p += "feed_forward." if arch == "llama4" else "mlp."
    if arch == "gpt-oss":
        between = lambda a, c: np.stack([a, c], axis=2).reshape(a.shape[0], -1, *a.shape[2:])
        out[p + "experts.gate_up_proj"] = between(gate, up).transpose(0, 2, 1)
        out[p + "experts.gate_up_proj_bias"] = between(*(stack(f, f"{b}ffn_{t}_exps.bias") for t in ("gate", "up")))
        out[p + "experts.down_proj"] = down.transpose(0, 2, 1)
        out[p + "experts.down_proj_bias"] = stack(f, b + "ffn_down_exps.bias")
        out[p + "router.bias"] = f.tensor(b + "ffn_gate_inp.bias")
    else:
        turned = (lambda w: w.transpose(0, 2, 1)) if arch == "llama4" else (lambda w: w)
        out[p + "experts.gate_up_proj"] = turned(np.concatenate([gate, up], axis=1))
        out[p + "experts.down_proj"] = turned(down)
    out[p + ("router.weight" if arch in ("gpt-oss", "llama4") else "gate.weight")] = f.tensor(b + "ffn_gate_inp.weight")
    if arch == "glm4moe":
        out[p + "gate.e_score_correction_bias"] = f.tensor(b + "exp_probs_b.bias")


def unpermuted(w, heads):
    """Rows of q or k whose pairs are neighbours, put back into halves."""
    return w.reshape(heads, -1, 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


def weights(f, s):
    arch = f.arch
    out = {"model.embed_tokens.weight": f.tensor("token_embd.weight")}
    out["model.norm.weight"] = f.tensor("output_norm.weight")
    out["lm_head.weight"] = f.tensor("output.weight" if f.has("output.weight") else "token_embd.weight")
    for i in range(s.n_layers):
        b, p = f"blk.{i}.", f"model.layers.{i}."
        names = ATTENTION | {k: v.replace("mlp", "feed_forward") if arch == "llama4" else v for k, v in DENSE.items()}
        for part in ("gate", "up", "down") if arch in SHARED else ():
            names[f"ffn_{part}_shexp"] = f"{SHARED[arch]}.{part}_proj"
        for name, theirs in names.items():
            for kind in ("weight", "bias"):
                if f.has(f"{b}{name}.{kind}"):
                    w = f.tensor(f"{b}{name}.{kind}")
                    if arch == "mistral3" and name in ("attn_q", "attn_k"):
                        w = unpermuted(w, s.n_heads if name == "attn_q" else s.n_kv_heads)
                    out[f"{p}{theirs}.{kind}"] = w
        if f.has(b + "attn_sinks.weight"):
            out[p + "self_attn.sinks"] = f.tensor(b + "attn_sinks.weight")
        if f.has(b + "ffn_gate_inp_shexp.weight"):
            out[p + "mlp.shared_expert_gate.weight"] = f.tensor(b + "ffn_gate_inp_shexp.weight").reshape(1, -1)
        if f.has(b + "ffn_gate_inp.weight"):
            expert_weights(f, arch, b, p, out)
    return out


def transformers_logits(oracle, ids):
    config = configuration(oracle.file, oracle.spec)
    config._attn_implementation = "eager"
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    missing, extra = model.load_state_dict({k: torch.tensor(np.ascontiguousarray(v))
                                            for k, v in weights(oracle.file, oracle.spec).items()}, strict=False)
    missing = [m for m in missing if m != "lm_head.weight"]
    if missing or extra:
        raise SystemExit(f"weights without a place: {list(extra)}; places without a weight: {missing}")
    with torch.no_grad():
        return type(model).__name__, model(torch.tensor(ids[None])).logits[0].float().numpy()


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("models", nargs="+")
    ap.add_argument("--tokens", required=True)
    ap.add_argument("--limit", type=int, help="use only the first LIMIT ids")
    a = ap.parse_args()
    ids, rows = kl.read_ids(a.tokens)[:a.limit], []
    for path in a.models:
        oracle = Oracle(path)
        reference = oracle.logits(ids)
        name, other = transformers_logits(oracle, ids)
        figures = kl.compare(reference, other)
        rows.append([Path(path).stem, name, len(ids), f"{figures['mean']:.2e}", f"{figures['max']:.2e}",
                     f"{figures['top1']:.4f}", f"{np.abs(reference - other).max():.2g}"])
    kl.print_rows(["file", "class", "tokens", "mean KL", "max KL", "same top-1", "largest difference of a logit"], rows)


if __name__ == "__main__":
    main()
