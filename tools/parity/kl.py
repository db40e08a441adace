#!/usr/bin/env python3
"""How far other logits are from reference logits over the same tokens.

    kl.py REFERENCE.npy OTHER.npy... [--tokens IDS --window W]

Each .npy is f32 [n, vocab] and is read in row blocks. Prints, per OTHER: KL(reference || other) in nats as mean (with
its standard error), 99th percentile and maximum; the share of positions with the same largest logit; and, with
--tokens, both perplexities over the tokens that follow inside each window. All sums are in double.
Needs: numpy.
"""
import argparse
import sys
from pathlib import Path

import numpy as np

ROW_BLOCK_VALUES = 1 << 23


def read_ids(text):
    """int64 [n] from "1,2,3", or from the file named (an @ may stand before it): .npy, or numbers as text or as a JSON
    list, with comments from # to the end of a line."""
    name = text.removeprefix("@")
    if not text.startswith("@") and all(c in "0123456789, " for c in text):
        ids = [int(t) for t in text.replace(",", " ").split()]
    elif name.endswith(".npy"):
        ids = np.load(name)
    else:
        lines = [line.split("#")[0] for line in Path(name).read_text().splitlines()]
        ids = [int(t) for t in " ".join(lines).translate(str.maketrans("[],", "   ")).split()]
    ids = np.asarray(ids, np.int64).reshape(-1)
    if not len(ids):
        raise SystemExit("no token ids given")
    return ids


def write_ids(path, ids, comment="", window=0):
    """As text, one window a line."""
    step = window or len(ids)
    lines = [f"# {c}" for c in comment.splitlines()]
    lines += [" ".join(str(i) for i in ids[a:a + step]) for a in range(0, len(ids), step)]
    Path(path).write_text("\n".join(lines) + "\n")


def open_logits(name, n=None, vocab=None):
    y = np.load(name, mmap_mode="r")
    if y.ndim != 2 or y.dtype != np.float32:
        raise SystemExit(f"{name}: logits must be float32 [n, vocab], not {y.dtype} {list(y.shape)}")
    if n is not None and y.shape != (n, vocab):
        raise SystemExit(f"{name}: has shape {list(y.shape)}, the reference has {[n, vocab]}")
    return y


def log_softmax(y):
    """f64 [rows, vocab]"""
    z = y.astype(np.float64)
    z -= z.max(axis=1, keepdims=True)
    z -= np.log(np.exp(z).sum(axis=1, keepdims=True))
    return z


def log_sum_exp(y):
    """f64 [rows]"""
    z = y.astype(np.float64)
    top = z.max(axis=1)
    return top + np.log(np.exp(z - top[:, None]).sum(axis=1))


class Comparison:
    """Figures of one pair, fed in row blocks."""

    def __init__(self, name, ids=None, window=0):
        self.name = name
        self.kl, self.same, self.nll_ref, self.nll_other = [], [], [], []
        self.next = None
        if ids is not None:
            follows = np.roll(ids, -1)
            follows[-1] = -1
            if window:
                follows[window - 1::window] = -1
            self.next = follows

    def add(self, at, reference, other):
        if not np.isfinite(other).all():
            row = at + int(np.argmax(~np.isfinite(other).all(axis=1)))
            raise SystemExit(f"{self.name}: the logits at position {row} are not all finite")
        p, q = reference.astype(np.float64), other.astype(np.float64)
        p -= p.max(axis=1, keepdims=True)
        q -= q.max(axis=1, keepdims=True)
        weight = np.exp(p)
        sum_p, sum_q = weight.sum(axis=1), np.exp(q).sum(axis=1)
        # sum p (log p - log q), with the normalizers taken out: no third pass of exp over the vocabulary
        self.kl.append(np.einsum("ij,ij->i", weight, p - q) / sum_p - np.log(sum_p) + np.log(sum_q))
        self.same.append(reference.argmax(axis=1) == other.argmax(axis=1))
        if self.next is not None:
            follows = self.next[at:at + len(p)]
            rows = np.flatnonzero(follows >= 0)
            self.nll_ref.append(np.log(sum_p[rows]) - p[rows, follows[rows]])
            self.nll_other.append(np.log(sum_q[rows]) - q[rows, follows[rows]])

    def figures(self):
        kl = np.concatenate(self.kl)
        out = {"name": self.name, "n": len(kl), "mean": float(kl.mean()),
               "error": float(kl.std(ddof=1) / np.sqrt(len(kl))) if len(kl) > 1 else 0.0,
               "p99": float(np.percentile(kl, 99)), "max": float(kl.max()),
               "top1": float(np.concatenate(self.same).mean())}
        if self.next is not None:
            out["ppl_ref"] = float(np.exp(np.concatenate(self.nll_ref).mean()))
            out["ppl_other"] = float(np.exp(np.concatenate(self.nll_other).mean()))
        return out


HEADINGS = (("name", "other", "{}"), ("n", "tokens", "{}"), ("mean", "mean KL", "{:.3g}"),
            ("error", "± s.e.", "{:.1g}"), ("p99", "p99 KL", "{:.3g}"), ("max", "max KL", "{:.3g}"),
            ("top1", "same top-1", "{:.4f}"), ("ppl_ref", "ppl reference", "{:.4f}"), ("ppl_other", "ppl other", "{:.4f}"))


def print_rows(headings, rows):
    """A Markdown table, aligned."""
    cells = [[h for h in headings]] + [[str(c) for c in r] for r in rows]
    widths = [max(len(r[i]) for r in cells) for i in range(len(headings))]
    for k, r in enumerate(cells):
        print("| " + " | ".join(c.ljust(w) for c, w in zip(r, widths)) + " |")
        if k == 0:
            print("|" + "|".join("-" * (w + 2) for w in widths) + "|")


def print_table(comparisons):
    figures = [c.figures() for c in comparisons]
    columns = [h for h in HEADINGS if all(h[0] in f for f in figures)]
    print_rows([h[1] for h in columns], [[h[2].format(f[h[0]]) for h in columns] for f in figures])


def compare(reference, other, name="", ids=None, window=0):
    """reference, other: [n, vocab] arrays -> the figures as a dict."""
    c = Comparison(name, ids, window)
    step = max(1, ROW_BLOCK_VALUES // reference.shape[1])
    for at in range(0, len(reference), step):
        c.add(at, reference[at:at + step], other[at:at + step])
    return c.figures()


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("reference")
    ap.add_argument("others", nargs="+")
    ap.add_argument("--tokens", help="1,2,3 or a file (.npy or text), for perplexities")
    ap.add_argument("--window", type=int, default=0, help="tokens per independent window (default: one window)")
    a = ap.parse_args()
    reference = open_logits(a.reference)
    ids = read_ids(a.tokens) if a.tokens else None
    if ids is not None and len(ids) != len(reference):
        raise SystemExit(f"{len(ids)} tokens for {len(reference)} rows of logits")
    others = [open_logits(o, *reference.shape) for o in a.others]
    tables = [Comparison(o, ids, a.window) for o in a.others]
    step = max(1, ROW_BLOCK_VALUES // reference.shape[1])
    for at in range(0, len(reference), step):
        for table, other in zip(tables, others):
            table.add(at, reference[at:at + step], other[at:at + step])
    print_table(tables)


if __name__ == "__main__":
    main()
