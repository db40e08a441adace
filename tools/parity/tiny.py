#!/usr/bin/env python3
"""Engines against the float reference on tiny random models of every architecture: one row per model.

    tiny.py --peer                       llama.cpp, as it comes and with f32 KV
    tiny.py --peer --quern BIN --gate    also quern; exits 1 where a float model's KL to either is 1e-4 or more, or a
                                         quantized model's KL to the reference is over 1.25 times llama.cpp's + 1e-4
    tiny.py --peer --files A.gguf B.gguf ...   the same for files of your own

Float models (F32) leave no quantization noise, so what remains is rounding: KV in f16, GELU tables, order of sums.
The control column is the reference against itself with one thing misread (window, rope, softcap, activation, ...): the
least of these figures and which it was. A comparison that does not show it proves nothing.
"quern to peer" is their mutual mean KL.
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
import tiny_models  # noqa: E402
from oracle import Oracle  # noqa: E402

FLOAT_LIMIT = 1e-4
PEER_EXACT = ["--fa", "off", "--kv", "f32"]


def spoiled(spec):
    """Name -> a wrong reading of the file, for each thing that this network has to get right."""
    def rope(**changes):
        return dict(rope=dataclasses.replace(spec.rope, **changes),
                    rope_local=dataclasses.replace(spec.rope_local, **changes))

    wrong = {"rope base*2": dict(rope=dataclasses.replace(spec.rope, base=spec.rope.base * 2)),
             "rope pairs": dict(neox=not spec.neox), "activation": dict(gelu=not spec.gelu),
             "query scale*1.1": dict(attn_scale=spec.attn_scale * 1.1)}
    if spec.window:
        wrong |= {"window+1": dict(window=spec.window + 1), "window-1": dict(window=spec.window - 1),
                  "local layers": dict(local=[not x for x in spec.local])}
        if spec.rope_local != spec.rope:
            wrong["local rope"] = dict(rope_local=spec.rope)
    if spec.attn_softcap:
        wrong["no attention softcap"] = dict(attn_softcap=0.0)
    if spec.final_softcap:
        wrong["no final softcap"] = dict(final_softcap=0.0)
    if spec.rope.scale != 1.0:
        wrong["no rope scale"] = rope(scale=1.0)
    if spec.rope.magnitude != 1.0:
        wrong["no rope magnitude"] = rope(magnitude=1.0)
    if spec.rope.factors is not None:
        wrong["no rope factors"] = rope(factors=None)
    if spec.embedding_scale != 1.0:
        wrong["no embedding scale"] = dict(embedding_scale=1.0)
    return {name: dataclasses.replace(spec, **changes) for name, changes in wrong.items()}


def row_of(a, path, folder):
    ids = tiny_models.token_ids(a.tokens)
    # llama.cpp rounds its context up to a multiple of 256: say what it gets, so that LongRoPE picks the same factors.
    oracle = Oracle(path, n_ctx=a.n_ctx)
    if oracle.spec.vocab < tiny_models.VOCAB:
        ids %= oracle.spec.vocab
    reference = oracle.logits(ids)
    p = np.exp(kl.log_softmax(reference))
    row = {"model": Path(path).stem, "entropy": f"{float(-(p * np.log(p)).sum(axis=1).mean()):.2f}"}
    mean = {}

    def measure(column, write):
        out = os.path.join(folder, "logits.npy")
        write(out)
        y = np.array(kl.open_logits(out, *reference.shape))
        figures = kl.compare(reference, y)
        mean[column] = figures["mean"]
        row[column] = f"{figures['mean']:.2e}"
        return y, figures

    if a.peer:
        peer = lambda extra: (lambda out: engines.peer_logits(path, ids, 0, out, extra=extra, n_ctx=a.n_ctx))
        measure("llama.cpp", peer([]))
        exact, figures = measure("llama.cpp f32 KV", peer(PEER_EXACT))
        row["top-1"] = f"{figures['top1']:.3f}"
    if a.quern:
        own, figures = measure("quern", lambda out: engines.quern_logits(a.quern, path, ids, 0, out))
        row["quern top-1"] = f"{figures['top1']:.3f}"
        if a.peer:
            row["quern to peer"] = f"{kl.compare(exact, own)['mean']:.2e}"
            mean["quern to peer"] = float(row["quern to peer"])
    spec, controls = oracle.spec, {}
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
    if not a.files and mean["control"] < 10 * FLOAT_LIMIT:  # about the text and weights here, not about an engine
        bad.append("the least control is hardly seen")
    if floats:
        bad += [f"{c} {v:.1e}" for c, v in mean.items() if c != "control" and not v < FLOAT_LIMIT]
    elif a.quern and a.peer and not mean["quern"] <= 1.25 * mean["llama.cpp"] + FLOAT_LIMIT:
        bad.append(f"quern {mean['quern']:.1e} against llama.cpp's {mean['llama.cpp']:.1e}")
    return bad


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("names", nargs="*", help="only the tiny models whose names start so")
    ap.add_argument("--files", nargs="+", default=[], help="compare on these files instead")
    ap.add_argument("--peer", action="store_true")
    ap.add_argument("--quern", metavar="BIN")
    ap.add_argument("--gate", action="store_true")
    ap.add_argument("--tokens", type=int, default=200)
    ap.add_argument("--n-ctx", type=int, default=1024)
    a = ap.parse_args()
    rows, problems = [], []
    with tempfile.TemporaryDirectory() as folder:
        files = a.files
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
