#!/usr/bin/env python3
"""Engines against the float reference on the mixed text: KL, top-1 agreement, perplexity, as a table.

    parity.py MODEL.gguf --ids ids/NAME.txt --peer                     llama.cpp's default
    parity.py MODEL.gguf --ids ids/NAME.txt --peer all                 and its variants
    parity.py MODEL.gguf --ids ids/NAME.txt --peer --quern BIN --gate  exits 1 if quern is further away than llama.cpp

--ids random:N takes N fixed random ids: for synthetic files, where text means nothing.
Of a gpt-oss file llama.cpp has a reading of its own (docs/ACCURACY.md): a second row compares it with the reference read
so, and --gate uses that one, since the difference is no rounding.
Logits are written to a scratch folder, one engine at a time (4.4 GB for a 262,144-entry vocabulary).
"""
import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "oracle"), str(HERE.parent / "synth")]

import engines  # noqa: E402
import kl  # noqa: E402
import tiny_models  # noqa: E402
from oracle import Oracle, show_progress  # noqa: E402
from spec import with_rounded_yarn  # noqa: E402

PEER_READING = ", its own reading"


def arguments():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("model")
    ap.add_argument("--ids", required=True)
    ap.add_argument("--window", type=int, default=1024)
    ap.add_argument("--limit", type=int, help="use only the first LIMIT ids")
    ap.add_argument("--peer", nargs="?", const="default", choices=("default", "all"))
    ap.add_argument("--quern", metavar="BIN")
    ap.add_argument("--gate", action="store_true", help="exit 1 unless quern is as close as llama.cpp's default")
    ap.add_argument("--logits", action="append", default=[], metavar="NPY", help="also compare these logits")
    ap.add_argument("-t", "--threads", type=int, default=2)
    ap.add_argument("--scratch", default=tempfile.gettempdir())
    a = ap.parse_args()
    if a.gate and not (a.peer and a.quern):
        ap.error("--gate needs --peer and --quern")
    return a


def runs(a, ids):
    """Name -> a function that writes that engine's logits."""
    peers = list(engines.PEER_VARIANTS.items())[:None if a.peer == "all" else 1] if a.peer else []
    out = {name: (lambda path, extra=extra: engines.peer_logits(a.model, ids, a.window, path, a.threads, extra))
           for name, extra in peers}
    if a.quern:
        out["quern"] = lambda path: engines.quern_logits(a.quern, a.model, ids, a.window, path, a.threads)
    return out


def main():
    a = arguments()
    oracle = Oracle(a.model)
    if a.ids.startswith("random:"):
        ids = tiny_models.token_ids(int(a.ids[7:]), vocab=oracle.spec.vocab)
    else:
        ids = kl.read_ids(a.ids)[:a.limit]
    start = time.time()
    hidden = oracle.hidden(ids, a.window, show_progress("layer"))
    peer_spec = with_rounded_yarn(oracle.spec) if a.peer else None
    if peer_spec:
        oracle.spec = peer_spec
        peer_hidden = oracle.hidden(ids, a.window, show_progress("layer"))
    print(f"reference: {len(ids)} tokens in windows of {a.window}, {time.time() - start:.0f} s", file=sys.stderr)
    done = {}

    def compare(name, path, hidden=hidden):
        table = kl.Comparison(name, ids, a.window)
        other = kl.open_logits(path, len(ids), oracle.spec.vocab)
        for at, y in oracle.logits_blocks(hidden):
            table.add(at, y, other[at:at + len(y)])
        done[name] = table

    for path in a.logits:
        compare(path, path)
    with tempfile.TemporaryDirectory(dir=a.scratch) as folder:
        for name, write in runs(a, ids).items():
            path = os.path.join(folder, "logits.npy")
            start = time.time()
            write(path)
            print(f"{name}: {time.time() - start:.0f} s", file=sys.stderr)
            compare(name, path)
            if peer_spec and name != "quern":
                compare(name + PEER_READING, path, peer_hidden)
            os.remove(path)
    kl.print_table(list(done.values()))
    if a.gate:
        q, p = done["quern"].figures(), done["llama.cpp default" + (PEER_READING if peer_spec else "")].figures()
        good = q["mean"] <= p["mean"] and q["top1"] >= p["top1"]
        print(f"quern is {'at least as close as' if good else 'further away than'} llama.cpp: mean KL {q['mean']:.5f} "
              f"against {p['mean']:.5f}, same top-1 {q['top1']:.4f} against {p['top1']:.4f}")
        sys.exit(not good)


if __name__ == "__main__":
    main()
