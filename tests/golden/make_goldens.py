#!/usr/bin/env python3
"""Goldens: what the float reference says about each tiny model, for tests that have no Python at hand.

    make_goldens.py                    writes NAME.json beside this file for every tiny model
    make_goldens.py --check            exits 1 unless the files are what the reference says now
    make_goldens.py --quern BIN        measures an engine against the files, as the C++ test does

A golden holds, for 96 fixed ids evaluated as one sequence, the 8 largest logits of each position with their token ids,
and logsumexp over the vocabulary. From these a test forms a lower bound of KL(reference || engine) per position:
    p_i = exp(logit_i - logsumexp), the same for the engine's q_i at the same 8 ids, and the rest as a ninth outcome;
    sum p_i (log p_i - log q_i) + (1 - sum p) (log(1 - sum p) - log(1 - sum q)).
Its mean over positions must stay under "limit". "least_control" is what the smallest misreading of the file (window,
rope, softcap, activation, ...) scores here: the limits of float models lie far below it, so none passes. "digest" names
the weights: see tools/synth/tiny_models.py.
"embeddings" are the vectors of all 96 ids, by pooling, of length 1: of hidden states as the output matrix reads them.
1 - cosine must stay under "embedding_limit"; "least_embedding_control" is to it what "least_control" is to "limit".
The models themselves are not kept; tiny_models.py writes them again, equal to the last bit.
"""
import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
TOOLS = HERE.parents[1] / "tools"
sys.path[:0] = [str(TOOLS / d) for d in ("oracle", "parity", "synth")]

import engines  # noqa: E402
import kl  # noqa: E402
import moe  # noqa: E402
import tiny_models  # noqa: E402
from oracle import Oracle, top_rows  # noqa: E402
from spec import with_rounded_yarn  # noqa: E402
from tiny import spoiled  # noqa: E402

N_TOKENS, TOP = 96, 8
# Mean KL allowed. Float models: as in the parity table, and far below the least control. Quantized ones: twice what
# llama.cpp shows here, which is the noise of 8-bit activations (F16 and BF16: of activations rounded so); these guard
# the formats, where an error is gross, and leave the small misreadings to the float models.
LIMITS = {"F32": 1e-4, "llama-q-f16": 1e-4, "qwen3-q-bf16": 2.5e-4, "llama-q-q4_0": 2.3e-3, "llama-q-q4_1": 3e-3,
          "llama-q-q2_k": 8.5e-3, "qwen2-q-q5": 1.4e-3, "qwen3-q-q4_k": 2.4e-3, "gemma2-q-q5_k": 1.8e-3,
          "gemma3-q-mix": 6e-3, "phi3-q-iq4": 5.6e-3, "phi3-q-mxfp4": 1.5e-2, "gpt-oss-q-mxfp4": 1.9e-3,
          "llama4-q-q8_0": 1.8e-3,
          # Here one position whose choice of experts turns over adds up to 6e-4 to the mean of all.
          **{f"qwen3moe-q-{f}": 1e-3 for f in ("q8_0", "q5_1", "q4_0", "q4_k", "q5_k", "q6_k")}}
EMBEDDING_LIMIT = 1e-5  # of float models; those with a limit of their own have the same here
TURNED, ROUTER_NOISE = 0.03, 0.01  # share of routers' choices that may hang on 1 % of their input


def bucketed_kl(golden, logits):
    """[n]: the lower bound described above, in double."""
    y = logits.astype(np.float64)
    lse = np.array(golden["logsumexp"])
    log_p = np.array(golden["logits"]) - lse[:, None]
    log_q = np.take_along_axis(y, np.array(golden["ids"]), axis=1) - kl.log_sum_exp(logits)[:, None]
    p, q = np.exp(log_p), np.exp(log_q)
    rest_p, rest_q = np.maximum(1 - p.sum(1), 1e-9), np.maximum(1 - q.sum(1), 1e-9)
    return (p * (log_p - log_q)).sum(1) + rest_p * (np.log(rest_p) - np.log(rest_q))


POOLS = {"mean": lambda h: h.mean(axis=0), "cls": lambda h: h[0], "last": lambda h: h[-1]}


def embeddings(hidden):
    """Pooling -> f64 [dim] of length 1."""
    vectors = {name: pool(hidden.astype(np.float64)) for name, pool in POOLS.items()}
    return {name: v / np.linalg.norm(v) for name, v in vectors.items()}


def embedding_distance(vectors, others):
    """The largest 1 - cosine of all poolings."""
    return max(float(1 - vectors[name] @ others[name]) for name in POOLS)


def logits_of(oracle, hidden):
    return np.concatenate([y for _, y in oracle.logits_blocks(hidden)])


def routing_problem(name, oracle, trace):
    """What is wrong with a model's routers for use as a golden, as text; empty if nothing."""
    turned, fewest = moe.stability(trace, ROUTER_NOISE)
    if turned > TURNED:
        return f"{name}: {turned:.3f} of the choices of experts are near ties"
    return f"{name}: only {fewest} experts are ever chosen" if fewest < oracle.spec.experts.n else ""


def make(name, path, controls, bad=None, as_peer=False):
    """as_peer: with llama.cpp's reading of a gpt-oss file (docs/ACCURACY.md)."""
    oracle = Oracle(path)
    if as_peer:
        oracle.spec = with_rounded_yarn(oracle.spec) or oracle.spec
    ids, trace = tiny_models.token_ids(N_TOKENS), []
    hidden = oracle.hidden(ids, trace=trace)
    reference, vectors = logits_of(oracle, hidden), embeddings(hidden)
    problem = routing_problem(name, oracle, trace) if trace and bad is not None else ""
    if problem:
        bad.append(problem)
    top_ids, top_logits, lse = top_rows(reference, TOP)
    golden = {"model": name, "digest": tiny_models.digest(name), "limit": LIMITS.get(name, LIMITS["F32"]),
              "embedding_limit": LIMITS.get(name, EMBEDDING_LIMIT), "tokens": ids.tolist(), "ids": top_ids.tolist(), "logits": np.round(top_logits.astype(float), 5).tolist(),
              "logsumexp": np.round(lse, 5).tolist(),
              "embeddings": {name: np.round(v, 5).tolist() for name, v in vectors.items()}}
    least = least_embedding = np.inf
    for oracle.spec in spoiled(oracle.spec).values() if controls else ():
        hidden = oracle.hidden(ids)
        least = min(least, float(bucketed_kl(golden, logits_of(oracle, hidden)).mean()))
        distance = embedding_distance(vectors, embeddings(hidden))
        if distance > 1e-12:  # the final softcap changes logits only
            least_embedding = min(least_embedding, distance)
    if controls:
        golden["least_control"] = float(f"{least:.2g}")
        golden["least_embedding_control"] = float(f"{least_embedding:.2g}")
    return golden


def dump(golden):
    """JSON with one position a line, so that a change reads as a diff."""
    head = {k: v for k, v in golden.items() if k not in ("ids", "logits", "logsumexp", "embeddings")}
    text = ",\n".join(f'"{k}": {json.dumps(v)}' for k, v in head.items())
    for key in ("ids", "logits"):
        text += f',\n"{key}": [\n' + ",\n".join(json.dumps(r, separators=(",", ":")) for r in golden[key]) + "\n]"
    text += f',\n"logsumexp": {json.dumps(golden["logsumexp"])}'
    vectors = ",\n".join(f'"{k}": {json.dumps(v, separators=(",", ":"))}' for k, v in golden["embeddings"].items())
    return "{\n" + text + f',\n"embeddings": {{\n{vectors}\n}}\n}}\n'


def differences(golden, old):
    """What is wrong with a golden file, as text; empty if nothing."""
    if old["digest"] != golden["digest"]:
        return "the tiny model's weights have changed"
    if (old["tokens"], old["limit"]) != (golden["tokens"], golden["limit"]):
        return "the ids or the limit have changed"
    # The logits compare by value, not by text: another BLAS rounds the last digits otherwise, and may swap near ties.
    worst = max(np.abs(np.array(golden[k]) - np.array(old[k])).max() for k in ("logits", "logsumexp"))
    if worst > 1e-3:
        return f"logits differ by {worst:.2g}"
    apart = embedding_distance(*({k: np.array(v) for k, v in g["embeddings"].items()} for g in (golden, old)))
    return f"embeddings differ by {apart:.2g}" if apart > 1e-6 else ""


def measure(a, golden, path, folder):
    out = os.path.join(folder, "logits.npy")
    ids = np.array(golden["tokens"])
    if a.quern:
        engines.quern_logits(a.quern, path, ids, 0, out)
    else:
        engines.peer_logits(path, ids, 0, out, n_ctx=1024)
        golden = make(golden["model"], path, controls=False, as_peer=True)
    mean = float(bucketed_kl(golden, np.array(kl.open_logits(out))).mean())
    return mean, not mean <= golden["limit"]


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("names", nargs="*", help="only the tiny models whose names start so")
    ap.add_argument("--check", action="store_true")
    ap.add_argument("--quern", metavar="BIN")
    ap.add_argument("--peer", action="store_true", help="measure llama.cpp against the files")
    a = ap.parse_args()
    rows, bad = [], []
    with tempfile.TemporaryDirectory() as folder:
        for name in tiny_models.select(a.names):
            path, file = os.path.join(folder, f"{name}.gguf"), HERE / f"{name}.json"
            tiny_models.write(name, path)
            if a.quern or a.peer:
                golden = json.loads(file.read_text())
                mean, over = measure(a, golden, path, folder)
                rows.append([name, f"{mean:.2e}", f"{golden['limit']:.1e}", f"{golden['least_control']:.1e}"])
                bad += [f"{name}: {mean:.2e} is over the limit"] if over else []
                continue
            golden = make(name, path, not a.check, bad)
            if not a.check and name not in LIMITS and golden["least_control"] < 10 * golden["limit"]:
                bad.append(f"{name}: a misreading of the file scores only {golden['least_control']:.1e}")
            if not a.check and name not in LIMITS and golden["least_embedding_control"] < 10 * golden["embedding_limit"]:
                bad.append(f"{name}: a misreading moves embeddings by {golden['least_embedding_control']:.1e} only")
            if a.check:
                wrong = differences(golden, json.loads(file.read_text())) if file.exists() else "no file"
                bad += [f"{name}: {wrong}"] if wrong else []
            else:
                file.write_text(dump(golden))
    if rows:
        kl.print_rows(["model", "mean KL (bound)", "limit", "least control"], rows)
    print("\n".join(bad) or "all good")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
