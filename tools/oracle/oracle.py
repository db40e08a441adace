#!/usr/bin/env python3
"""The float reference: logits of a GGUF file's network in numpy float32, on the file's dequantized weights.

    oracle.py MODEL.gguf --tokens 1,2,3 -o logits.npy
    oracle.py MODEL.gguf --tokens ids.npy --window 1024 --against other.npy
    oracle.py MODEL.gguf --tokens ids.txt --top 8 -o top.npz

--tokens takes numbers with commas, or a file: .npy, or numbers as text (# starts a comment).
--against compares without ever writing the reference, which is 4 GB for 4,000 tokens of a 262,144-entry vocabulary.
Needs: numpy, gguf. What the network is: spec.py; the mathematics: forward.py, moe.py; the comparison: ../parity/kl.py.
"""
import argparse
import sys
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "parity")]

import forward  # noqa: E402
import kl  # noqa: E402
import spec as spec_module  # noqa: E402

ROW_BLOCK_VALUES = 1 << 24  # logits computed at once


def show_progress(what):
    if not sys.stderr.isatty():
        return None
    return lambda i, n: print(f"\r{what} {i}/{n}" + ("\n" if i == n else ""), end="", file=sys.stderr, flush=True)


def blocks(n_rows, vocab):
    step = max(1, ROW_BLOCK_VALUES // vocab)
    return [(a, min(n_rows, a + step)) for a in range(0, n_rows, step)]


def top_rows(logits, k):
    """ids and values of the k largest logits per row, largest first (the smaller id where equal), and logsumexp."""
    part = np.argpartition(-logits, k - 1, axis=1)[:, :k]
    values = np.take_along_axis(logits, part, axis=1)
    order = np.lexsort((part, -values), axis=1)
    return (np.take_along_axis(part, order, 1).astype(np.int32), np.take_along_axis(values, order, 1),
            kl.log_sum_exp(logits))


class Oracle:
    """A file opened for evaluation; for use from other scripts."""

    def __init__(self, path, n_ctx=None, dtype=np.float32):
        self.file = spec_module.File(path)
        context = int(self.file.own("context_length"))
        self.spec = spec_module.read_spec(self.file, n_ctx or context)
        self.dtype = dtype

    def hidden(self, ids, window=0, progress=None, trace=None):
        return forward.hidden_states(self.file, self.spec, ids, window or len(ids), self.dtype, progress, trace)

    def logits_blocks(self, hidden):
        """Yields (first row, f32 logits [rows, vocab])."""
        head = forward.Head(self.file, self.spec, self.dtype)
        for a, b in blocks(len(hidden), self.spec.vocab):
            yield a, head.logits(hidden[a:b]).astype(np.float32, copy=False)

    def logits(self, ids, window=0, trace=None):
        return np.concatenate([y for _, y in self.logits_blocks(self.hidden(ids, window, trace=trace))])


def arguments():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("model")
    ap.add_argument("--tokens", required=True, help="1,2,3 or a file (.npy or text)")
    ap.add_argument("--window", type=int, default=0, help="tokens per independent window (default: one window)")
    ap.add_argument("--n-ctx", type=int, help="context the compared engine is made for, which picks LongRoPE's factors "
                    "(default: the file's context length)")
    ap.add_argument("-o", "--out", help="logits .npy f32 [n, vocab], or .npz with --top")
    ap.add_argument("--top", type=int, help="write only the K largest logits and logsumexp per position")
    ap.add_argument("--against", action="append", default=[], metavar="NPY", help="compare with these logits")
    ap.add_argument("--rounded-yarn", action="store_true",
                    help="gpt-oss: round the ends of YaRN's ramp, as llama.cpp does")
    ap.add_argument("--double", action="store_true", help="compute in float64, to see float32's own rounding")
    a = ap.parse_args()
    if not (a.out or a.against):
        ap.error("nothing to do: give -o or --against")
    return a


def main():
    a = arguments()
    ids = kl.read_ids(a.tokens)
    oracle = Oracle(a.model, a.n_ctx, np.float64 if a.double else np.float32)
    if a.rounded_yarn:
        oracle.spec = spec_module.with_rounded_yarn(oracle.spec) or oracle.spec
    start = time.time()
    hidden = oracle.hidden(ids, a.window, show_progress("layer"))
    others = [(name, kl.open_logits(name, len(ids), oracle.spec.vocab)) for name in a.against]
    tables = [kl.Comparison(name, ids, a.window) for name, _ in others]
    out = None
    if a.out and not a.top:
        out = np.lib.format.open_memmap(a.out, "w+", np.float32, (len(ids), oracle.spec.vocab))
    tops = []
    for at, y in oracle.logits_blocks(hidden):
        if out is not None:
            out[at:at + len(y)] = y
        if a.top:
            tops.append(top_rows(y, a.top))
        for table, (_, other) in zip(tables, others):
            table.add(at, y, other[at:at + len(y)])
    if a.top:
        names = ("ids", "logits", "logsumexp")
        np.savez_compressed(a.out, **{n: np.concatenate(v) for n, v in zip(names, zip(*tops))})
    print(f"{len(ids)} tokens, {oracle.spec.arch}, {time.time() - start:.1f} s", file=sys.stderr)
    if tables:
        kl.print_table(tables)


if __name__ == "__main__":
    main()
