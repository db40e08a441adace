#!/usr/bin/env python3
"""What 8-bit activations alone cost: the float reference with only the matrices' inputs rounded, against itself.

    activation_noise.py MODEL.gguf --ids ids/NAME.txt [--limit N]

Rows of the table: the block one scale serves (32 values, or 256 for K-quants), whether the scale is kept in f16 or
f32, and whether the input of the output matrix is rounded too. An integer engine without any other error scores about its
row.
"""
import argparse
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "oracle")]

import numpy as np  # noqa: E402

import forward  # noqa: E402
import kl  # noqa: E402
from oracle import Oracle, blocks  # noqa: E402


def rounded(x, block, f16_scale):
    """x: [rows, n] f32 -> the same through int8 codes with one scale per block; n must be whole blocks."""
    y = x.reshape(-1, block)
    d = np.abs(y).max(axis=1, keepdims=True) / np.float32(127)
    codes = np.rint(y / np.where(d > 0, d, 1))
    if f16_scale:
        d = d.astype(np.float16).astype(np.float32)
    return (codes * d).reshape(x.shape)


def study(oracle, ids, reference, window, wide, f16_scale, head_too):
    """wide: 256-value blocks for K-quants; reference: hidden states [n, dim]."""
    kinds = {t.name: t.tensor_type.name for t in oracle.file.reader.tensors}
    plain = forward.Layer.multiply

    def multiply(layer, name, x, weight):
        block = 256 if wide and kinds[f"{layer.prefix}{name}.weight"].endswith("_K") else 32
        return plain(layer, name, rounded(x, block, f16_scale), weight)

    forward.Layer.multiply = multiply
    hidden = oracle.hidden(ids, window)
    forward.Layer.multiply = plain
    name = f"{'32 or 256' if wide else '32'}, {'f16' if f16_scale else 'f32'} scale, output {'too' if head_too else 'not'}"
    table, head = kl.Comparison(name, ids, window), forward.Head(oracle.file, oracle.spec)
    for a, b in blocks(len(ids), oracle.spec.vocab):
        h = rounded(hidden[a:b], 32, f16_scale) if head_too else hidden[a:b]
        table.add(a, head.logits(reference[a:b]), head.logits(h))
    return table


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("model")
    ap.add_argument("--ids", required=True)
    ap.add_argument("--window", type=int, default=1024)
    ap.add_argument("--limit", type=int, help="use only the first LIMIT ids")
    a = ap.parse_args()
    ids, oracle = kl.read_ids(a.ids)[:a.limit], Oracle(a.model)
    reference = oracle.hidden(ids, a.window)
    cases = ((True, True, True), (True, False, True), (False, False, True), (False, False, False))
    kl.print_table([study(oracle, ids, reference, a.window, *c) for c in cases])


if __name__ == "__main__":
    main()
