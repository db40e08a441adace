#!/usr/bin/env python3
"""The numpy oracle against transformers (torch, CPU, float32) loading the same GGUF file: checks the oracle itself.

    check_transformers.py MODEL.gguf --tokens ids.txt [--window 1024] [--limit 1024]

transformers reads the file with its own loader (configuration from the metadata, weights dequantized) and runs its own
model code; only the token ids are shared. Needs: numpy, gguf, torch, transformers (5.x).
"""
import argparse
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "parity")]

import numpy as np  # noqa: E402

import kl  # noqa: E402
from oracle import Oracle  # noqa: E402


def transformers_logits(path, ids, window):
    """Yields f32 [rows, vocab] per window."""
    import torch
    from transformers import AutoModelForCausalLM
    path = Path(path).resolve()
    model = AutoModelForCausalLM.from_pretrained(str(path.parent), gguf_file=path.name, dtype=torch.float32,
                                                 attn_implementation="eager")
    model.eval()
    print(f"transformers: {type(model).__name__}", file=sys.stderr)
    with torch.no_grad():
        for at in range(0, len(ids), window):
            yield model(torch.tensor(ids[None, at:at + window])).logits[0].float().numpy()


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("model")
    ap.add_argument("--tokens", required=True)
    ap.add_argument("--window", type=int, default=1024)
    ap.add_argument("--limit", type=int, help="use only the first LIMIT ids")
    a = ap.parse_args()
    ids = kl.read_ids(a.tokens)[:a.limit]
    oracle = Oracle(a.model)
    hidden = oracle.hidden(ids, a.window)
    table, at, worst = kl.Comparison("transformers", ids, a.window), 0, 0.0
    for other in transformers_logits(a.model, ids, a.window):
        for first, y in oracle.logits_blocks(hidden[at:at + len(other)]):
            theirs = np.ascontiguousarray(other[first:first + len(y)])
            table.add(at + first, y, theirs)
            worst = max(worst, float(np.abs(y - theirs).max()))
        at += len(other)
    kl.print_table([table])
    print(f"largest difference of a logit: {worst:.2g}")


if __name__ == "__main__":
    main()
