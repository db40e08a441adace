#!/usr/bin/env python3
"""Engines against the float reference on tiny random models of every architecture: one row per model.

    tiny.py --peer                       llama.cpp, as it comes and with f32 KV
    tiny.py --peer --quern BIN --gate    also quern; exits 1 where a float model's KL to either is 1e-4 or more, or a
                                         quantized model's KL to the reference is over 1.25 times llama.cpp's + 1e-4
    tiny.py --peer --files A.gguf B.gguf ...   the same for files of your own
    tiny.py --peer --synth synth_gguf.py [PRESET ...]   for files that tool writes: --tiny of each preset, in F32 and as
                                         quantized by default

Float models (F32) leave no quantization noise, so what remains is rounding: KV in f16, GELU tables, order of sums.
The control column is the reference against itself with one thing misread (window, rope, softcap, activation, ...): the
least of these figures and which it was. A comparison that does not show it proves nothing.
"quern to peer" is their mutual mean KL.
llama.cpp reads gpt-oss files otherwise than gpt-oss's reference does (docs/ACCURACY.md): its own figures are against the
reference with that reading, and "readings" is the KL between the two, so an engine cannot be near both.
"turned" is the share of routers' choices that change when their input is disturbed by 1 %.
"""
import argparse
import dataclasses
import os
import sys
import tempfile
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "oracle"), str(HERE.parent / "synth")]

import engines  # noqa: E402
import kl  # noqa: E402
import moe  # noqa: E402
import tiny_models  # noqa: E402
from oracle import Oracle  # noqa: E402
from spec import with_rounded_yarn  # noqa: E402

FLOAT_LIMIT = 1e-4
ROUTER_NOISE = 0.01  # about what 8-bit activations do to a router's input
WINDOW_SEEN = 96  # positions within which a window or period shows here
SYNTH = ("gpt-oss-20b", "qwen3-30b-a3b", "glm-4.5-air", "mistral-small-24b", "qwen3-8b", "qwen2.5-0.5b", "llama-3.2-1b",
         "smollm2-135m", "gemma3-270m")
PEER_EXACT = ["--fa", "off", "--kv", "f32"]


def spoiled_experts(e):
    """The same for the experts: name -> changed Experts."""
    wrong = {}
    if e.used < e.n:
        wrong["an expert more"] = dict(used=e.used + 1)
    if e.used > 1:
        wrong["an expert less"] = dict(used=e.used - 1)
    if e.used > 1 or not e.normalize:
        wrong["gating"] = dict(gating="softmax" if e.gating == "sigmoid" else "sigmoid")
    if e.gating != "softmax of chosen" and (e.used < e.n or e.gating == "sigmoid"):
        wrong["normalization of weights"] = dict(normalize=not e.normalize)
    if e.scale != 1.0:
        wrong["no scale of weights"] = dict(scale=1.0)
    if e.groups_used < e.groups:
        wrong["no groups"] = dict(groups=1, groups_used=1)
    if e.weigh_input:
        wrong["weights on the output"] = dict(weigh_input=False)
    if e.shared:
        wrong["no shared expert"] = dict(shared=False)
    if e.selection_bias:
        wrong["no selection bias"] = dict(selection_bias=False)
    if e.swiglu:
        alpha, limit = e.swiglu
        wrong |= {"swiglu alpha": dict(swiglu=(1.0, limit)), "swiglu limit": dict(swiglu=(alpha, 1e9))}
    return {name: dataclasses.replace(e, **changes) for name, changes in wrong.items()}


def spoiled_rope(spec):
    """The same for rope: name -> changes of the Spec."""
    def both(**changes):
        return dict(rope=dataclasses.replace(spec.rope, **changes),
                    rope_local=dataclasses.replace(spec.rope_local, **changes))

    base = spec.rope.base * 2
    wrong = {"rope base*2": both(base=base) if any(spec.unrotated) else dict(rope=dataclasses.replace(spec.rope, base=base)),
             "rope pairs": dict(neox=not spec.neox)}
    if spec.rope.scale != 1.0:
        wrong["no rope scale"] = both(scale=1.0)
    if spec.rope.magnitude != 1.0:
        wrong["no rope magnitude"] = both(magnitude=1.0)
    if spec.rope.factors is not None:
        wrong["no rope factors"] = both(factors=None)
    if spec.rope.yarn:
        yarn = spec.rope.yarn
        wrong |= {"linear instead of yarn": both(yarn=None),
                  "yarn fast turns*2": both(yarn=dataclasses.replace(yarn, fast=yarn.fast * 2)),
                  "yarn slow turns*2": both(yarn=dataclasses.replace(yarn, slow=yarn.slow * 2))}
    if any(spec.unrotated):
        wrong["rope in all layers"] = dict(unrotated=[False] * spec.n_layers)
    return wrong


def spoiled(spec):
    """Name -> a wrong reading of the file, for each thing that this network has to get right."""
    # Layers without rope are global ones: the local ones have it then.
    wrong = spoiled_rope(spec) | {"query scale*1.1": dict(attn_scale=spec.attn_scale * 1.1)}
    if not (spec.experts and spec.experts.swiglu):
        wrong["activation"] = dict(gelu=not spec.gelu)
    if 0 < spec.window < WINDOW_SEEN:
        wrong |= {"window+1": dict(window=spec.window + 1), "window-1": dict(window=spec.window - 1),
                  "local layers": dict(local=[not x for x in spec.local])}
        if spec.rope_local != spec.rope:
            wrong["local rope"] = dict(rope_local=spec.rope)
    if spec.attn_softcap:
        wrong["no attention softcap"] = dict(attn_softcap=0.0)
    if spec.final_softcap:
        wrong["no final softcap"] = dict(final_softcap=0.0)
    if spec.embedding_scale != 1.0:
        wrong["no embedding scale"] = dict(embedding_scale=1.0)
    if spec.sinks:
        wrong["no sinks"] = dict(sinks=False)
    if spec.unit_qk:
        wrong["no norm of q and k"] = dict(unit_qk=False)
    if spec.temperature and spec.temperature.period < WINDOW_SEEN:
        wrong["no temperature"] = dict(temperature=None)
    wrong |= {name: dict(experts=e) for name, e in (spoiled_experts(spec.experts) if spec.experts else {}).items()}
    return {name: dataclasses.replace(spec, **changes) for name, changes in wrong.items()}


def row_of(a, path, folder):
    ids = tiny_models.token_ids(a.tokens)
    # llama.cpp rounds its context up to a multiple of 256: say what it gets, so that LongRoPE picks the same factors.
    oracle = Oracle(path, n_ctx=a.n_ctx)
    if oracle.spec.vocab < tiny_models.VOCAB:
        ids %= oracle.spec.vocab
    trace = []
    reference = oracle.logits(ids, trace=trace)
    spec, peer_spec = oracle.spec, with_rounded_yarn(oracle.spec)
    peer_reference = reference
    if peer_spec:
        oracle.spec = peer_spec
        peer_reference = oracle.logits(ids)
    p = np.exp(kl.log_softmax(reference))
    row = {"model": Path(path).stem, "entropy": f"{float(-(p * np.log(p)).sum(axis=1).mean()):.2f}"}
    mean = {}

    def measure(column, write, reference):
        out = os.path.join(folder, "logits.npy")
        write(out)
        y = np.array(kl.open_logits(out, *reference.shape))
        figures = kl.compare(reference, y)
        mean[column] = figures["mean"]
        row[column] = f"{figures['mean']:.2e}"
        return y, figures

    if a.peer:
        peer = lambda extra: (lambda out: engines.peer_logits(path, ids, 0, out, extra=extra, n_ctx=a.n_ctx))
        measure("llama.cpp", peer([]), peer_reference)
        exact, figures = measure("llama.cpp f32 KV", peer(PEER_EXACT), peer_reference)
        row["top-1"] = f"{figures['top1']:.3f}"
    if a.quern:
        own, figures = measure("quern", lambda out: engines.quern_logits(a.quern, path, ids, 0, out),
                               reference)
        row["quern top-1"] = f"{figures['top1']:.3f}"
        if a.peer and peer_spec:
            row["quern to peer"] = "-"
        elif a.peer:
            row["quern to peer"] = f"{kl.compare(exact, own)['mean']:.2e}"
            mean["quern to peer"] = float(row["quern to peer"])
    row["readings"] = f"{kl.compare(reference, peer_reference)['mean']:.1e}" if peer_spec else "-"
    row["turned"] = f"{moe.stability(trace, ROUTER_NOISE)[0]:.4f}" if trace else "-"
    controls = {}
    for name, oracle.spec in spoiled(spec).items():
        controls[name] = kl.compare(reference, oracle.logits(ids))["mean"]
    least = min(controls, key=controls.get)
    mean["control"] = controls[least]
    row["least control"] = f"{controls[least]:.1e} ({least})"
    floats = all(t.tensor_type.name == "F32" for t in oracle.file.reader.tensors)
    return row, verdict(a, mean, floats)


def verdict(a, mean, floats):
    """Problems with a model's figures, as text; empty if none."""
    bad = []
    if not (a.files or a.synth) and mean["control"] < 10 * FLOAT_LIMIT:  # about the text and weights here, not about an engine
        bad.append("the least control is hardly seen")
    if floats:
        bad += [f"{c} {v:.1e}" for c, v in mean.items() if c != "control" and not v < FLOAT_LIMIT]
    elif a.quern and a.peer and not mean["quern"] <= 1.25 * mean["llama.cpp"] + FLOAT_LIMIT:
        bad.append(f"quern {mean['quern']:.1e} against llama.cpp's {mean['llama.cpp']:.1e}")
    return bad


def synthetic(tool, presets, folder):
    """Writes the files and yields their paths."""
    for preset in presets:
        for name, extra in ((f"{preset}-f32", ["--quant", "F32"]), (preset, [])):
            path = os.path.join(folder, f"{name}.gguf")
            engines.run([sys.executable, tool, preset, path, "--tiny", *extra])
            yield path


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("names", nargs="*", help="only the tiny models whose names start so")
    ap.add_argument("--files", nargs="+", default=[], help="compare on these files instead")
    ap.add_argument("--synth", metavar="TOOL", help="compare on the files that this program writes instead")
    ap.add_argument("--peer", action="store_true")
    ap.add_argument("--quern", metavar="BIN")
    ap.add_argument("--gate", action="store_true")
    ap.add_argument("--tokens", type=int, default=800)
    ap.add_argument("--n-ctx", type=int, default=1024)
    a = ap.parse_args()
    rows, problems = [], []
    if a.synth and a.files:
        ap.error("--synth and --files exclude each other")
    with tempfile.TemporaryDirectory() as folder:
        files = a.files
        if a.synth:
            files = list(synthetic(a.synth, a.names or SYNTH, folder))
        if not files:
            for name in tiny_models.select(a.names):
                files.append(os.path.join(folder, f"{name}.gguf"))
                tiny_models.write(name, files[-1])
        for path in files:
            row, bad = row_of(a, path, folder)
            rows.append(row)
            problems += [f"{row['model']}: {b}" for b in bad]
    kl.print_rows(list(rows[0]), [list(r.values()) for r in rows])
    print("\n".join(problems) or "all within their limits")
    sys.exit(1 if problems and a.gate else 0)


if __name__ == "__main__":
    main()
