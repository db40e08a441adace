#!/usr/bin/env python3
"""Quern's bench against llama.cpp's llama-bench, in alternation within one run: ratios with their spread.

    versus.py MODEL.gguf [MODEL.gguf ...] --quern build/release/quern --peer LLAMA_BENCH [-t 2] [-p 512] [-n 128] [--rounds 5]

Each round runs both programs once (quern first in even rounds, the peer first in odd ones), each with its own warm-up.
A ratio is quern / peer of the same round; printed are the median of the rounds and the least and largest. Beside decode
stands what a read of 256 MB from memory reached just before, since decode is bound by it and shared machines vary.
"""
import argparse
import json
import statistics
import subprocess
import sys
import time

import numpy as np


def bench(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    rows = json.loads(done.stdout)
    return {("pp" if r["n_prompt"] else "tg"): r["avg_ts"] for r in rows}


def memory_gbs(buffer):
    start = time.perf_counter()
    buffer.sum()
    return buffer.nbytes / (time.perf_counter() - start) / 1e9


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("models", nargs="+")
    ap.add_argument("--quern", default="build/release/quern")
    ap.add_argument("--peer", required=True, help="path of llama-bench")
    ap.add_argument("--peer-args", default="", help="more arguments for the peer, e.g. '--repack 0'")
    ap.add_argument("-t", "--threads", type=int, default=2)
    ap.add_argument("-p", type=int, default=512)
    ap.add_argument("-n", type=int, default=128)
    ap.add_argument("--rounds", type=int, default=5)
    ap.add_argument("--gate", type=float, help="exit 1 if a median ratio is below this")
    a = ap.parse_args()
    buffer = np.ones(32 << 20)
    failed = False
    print(f"| model | test | quern t/s | peer t/s | ratio | least | largest | memory GB/s |")
    print("|---|---|---|---|---|---|---|---|")
    for model in a.models:
        common = ["-m", model, "-t", str(a.threads), "-p", str(a.p), "-n", str(a.n), "-r", "2", "-o", "json"]
        ours, theirs, memory = [], [], []
        for i in range(a.rounds):
            memory.append(memory_gbs(buffer))
            pair = [(ours, [a.quern, "bench", *common]), (theirs, [a.peer, *common, *a.peer_args.split()])]
            for results, command in pair if i % 2 == 0 else reversed(pair):
                results.append(bench(command))
        for test, label in (("pp", f"pp{a.p}"), ("tg", f"tg{a.n}")):
            ratios = [o[test] / t[test] for o, t in zip(ours, theirs)]
            ratio = statistics.median(ratios)
            failed |= a.gate is not None and ratio < a.gate
            print(f"| {model.rsplit('/', 1)[-1]} | {label} | {statistics.median(o[test] for o in ours):.1f} | "
                  f"{statistics.median(t[test] for t in theirs):.1f} | {ratio:.2f} | {min(ratios):.2f} | {max(ratios):.2f} | "
                  f"{statistics.median(memory):.0f} |", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
