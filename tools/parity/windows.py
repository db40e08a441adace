#!/usr/bin/env python3
"""Windows and sinks: a position's logits must not depend on what comes after it, nor on how long the prompt is.

    windows.py MODEL.gguf --quern BIN [--long 10000] [--oracle 1024] [--arg=--no-fuse --arg=all]
    windows.py --tiny gemma3 gpt-oss --quern BIN      the same on tiny models (tools/synth/tiny_models.py)

With the file's sliding window w: prompts of w - 1, w, w + 1, 2 w and LONG tokens, each a prefix of the longest. Prints
per prompt the largest difference, over its positions, of the likelihood of the next token from what the longest prompt
gave there, whether all logits are the same bits, and for prompts of up to --oracle tokens the KL from the float
reference. Then two long prompts that differ from their first token are evaluated in turn, twice each, and so is the
longest with other chunk sizes and one thread. Exits 1 where bits differ or a KL is above --limit.
A file without a window is tested with w = 128. Needs room for LONG times the vocabulary in f32, several times.
"""
import argparse
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

ROWS = 256  # of logits, looked at together
HEADINGS = ["prompt", "tokens", "largest difference of a likelihood", "same bits", "mean KL to the reference", "max KL"]


def prompt_ids(n, vocab, seed):
    """Tokens with runs repeated from 40, and from 3/4 of the way, before: something for attention to find."""
    ids = (tiny_models.hashed(seed, n) >> np.uint64(20)).astype(np.int64) % (vocab - 4) + 3
    for at in range(64, n - 16, 80):
        back = 40 if at % 160 else at * 3 // 4
        ids[at:at + 12] = ids[at - back:at - back + 12]
    return ids


def difference(one, other, ids):
    """Largest difference of the likelihood of the next of ids, and whether all logits have the same bits."""
    worst, same = 0.0, True
    for at in range(0, len(one), ROWS):
        a, b = np.array(one[at:at + ROWS]), np.array(other[at:at + ROWS])
        same = same and a.tobytes() == b.tobytes()
        follows = ids[at + 1:at + 1 + len(a)]
        rows = np.arange(len(follows))
        p, q = (kl.log_softmax(y)[rows, follows] for y in (a, b))
        worst = max(worst, float(np.abs(p - q).max(initial=0.0)))
    return worst, same


class Run:
    """One model and the prompts evaluated on it."""

    def __init__(self, a, path, folder):
        self.a, self.path, self.folder, self.count = a, path, folder, 0
        self.oracle = Oracle(path)
        self.window = self.oracle.spec.window or 128
        self.rows, self.problems = [], []

    def logits(self, ids, *extra, threads=0):
        self.count += 1
        out = os.path.join(self.folder, f"{self.count}.npy")
        args = ["-c", self.a.long + 64, "--cache", self.folder, *self.a.arg, *extra]
        engines.quern_logits(self.a.quern, self.path, ids, 0, out, threads=threads or self.a.threads, extra=args)
        return kl.open_logits(out, len(ids), self.oracle.spec.vocab)

    def row(self, name, ids, other, one):
        """One row: `one`, logits of ids, against the first rows of `other`."""
        worst, same = difference(one, other[:len(ids)], ids)
        figures = kl.compare(self.oracle.logits(ids), one) if len(ids) <= self.a.oracle else None
        self.rows.append([name, len(ids), f"{worst:.2g}", "yes" if same else "NO",
                          *((f"{figures['mean']:.2e}", f"{figures['max']:.2e}") if figures else ("-", "-"))])
        if not same:
            self.problems.append(f"{name}: other bits")
        if figures and not figures["mean"] < self.a.limit:
            self.problems.append(f"{name}: KL {figures['mean']:.1e} to the reference")

    def all(self):
        w, vocab = self.window, self.oracle.spec.vocab
        ids, others = prompt_ids(self.a.long, vocab, 11), prompt_ids(self.a.long, vocab, 12)
        longest, other = self.logits(ids), self.logits(others)
        for n, name in ((w - 1, "window - 1"), (w, "window"), (w + 1, "window + 1"), (2 * w, "2 windows")):
            if n < self.a.long:
                self.row(name, ids[:n], longest, self.logits(ids[:n]))
        self.row("longest, again", ids, longest, self.logits(ids))
        self.row("the other, again", others, other, self.logits(others))
        for extra in (["--chunk", "1"], ["--chunk", str(w + 1)], ["--chunk", "100"]):
            n = min(len(ids), 2 * w + 300) if extra[1] == "1" else len(ids)
            self.row(" ".join(extra), ids[:n], longest, self.logits(ids[:n], *extra))
        self.row("one thread", ids, longest, self.logits(ids, threads=1))


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("model", nargs="*", help="files; with --tiny, names of tiny models")
    ap.add_argument("--tiny", action="store_true")
    ap.add_argument("--quern", metavar="BIN", required=True)
    ap.add_argument("--arg", action="append", default=[], help="passed to quern logits")
    ap.add_argument("--long", type=int, default=10000)
    ap.add_argument("--oracle", type=int, default=1024, help="longest prompt to compare with the reference")
    ap.add_argument("--limit", type=float, default=1e-4, help="mean KL to the reference allowed (quantized files: more)")
    ap.add_argument("-t", "--threads", type=int, default=2)
    ap.add_argument("--scratch", default=tempfile.gettempdir())
    a = ap.parse_args()
    problems = []
    for name in tiny_models.select(a.model) if a.tiny else a.model:
        with tempfile.TemporaryDirectory(dir=a.scratch) as folder:
            path = name
            if a.tiny:
                path = os.path.join(folder, f"{name}.gguf")
                tiny_models.write(name, path)
            run = Run(a, path, folder)
            run.all()
            print(f"{Path(path).stem}: window {run.window}\n")
            kl.print_rows(HEADINGS, run.rows)
            print()
            problems += [f"{Path(path).stem}, {p}" for p in run.problems]
    print("\n".join(problems) or "all the same")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
