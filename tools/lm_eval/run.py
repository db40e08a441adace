#!/usr/bin/env python3
"""Runs lm-evaluation-harness end to end: an own small task through its model `local-completions` and quern serve, each
likelihood compared with the sum that `quern logits` gives, each text with `quern run`.

usage: run.py [--quern build/release/quern] [--model smollm2-135m] [--kind smollm] [--work build/lm_eval]
The harness goes into a virtual environment of its own below --work (a gigabyte; the first run downloads it). Nothing is
read from a model hub. The exit status is 1 where a figure differs.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
# A likelihood travels as f32 for each token: what sums of a few of them may differ by.
TOLERANCE = 2e-5


def environment(work):
    """The Python of the environment, made where absent."""
    python, stamp, wanted = work / "venv/bin/python", work / "venv/.requirements", (HERE / "requirements.txt").read_text()
    if not stamp.exists() or stamp.read_text() != wanted:
        print(f"lm-evaluation-harness into {work / 'venv'}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", str(work / "venv")], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "-r", HERE / "requirements.txt"], check=True)
        stamp.write_text(wanted)
    return python


class Server:
    def __init__(self, quern, model):
        self.process = subprocess.Popen([quern, "serve", "-m", model, "--port", "0"], stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            if found := re.search(r"listening on (http://\S+)", line):
                self.url = found[1]
                return
        raise SystemExit("quern serve did not start")

    def stop(self):
        self.process.terminate()
        self.process.stderr.read()
        if self.process.wait(60) != 0:
            raise SystemExit("quern serve ended with an error")


def read_npy(path):
    """A two-dimensional f32 array, by rows, as `quern logits` writes it; without numpy."""
    import array
    data = path.read_bytes()
    size = int.from_bytes(data[8:10], "little")
    n, width = (int(x) for x in re.search(rb"'shape': \((\d+), (\d+)\)", data[10:10 + size]).groups())
    values = array.array("f")
    values.frombytes(data[10 + size:])
    return [values[i * width:(i + 1) * width] for i in range(n)]


def log_probs(logits, ids):
    """Of each token behind the first: its log-likelihood, and whether none is likelier."""
    import math
    out = []
    for row, token in zip(logits, ids[1:]):
        top = max(row)
        total = math.fsum(math.exp(x - top) for x in row)
        out.append((row[token] - top - math.log(total), row[token] == top))
    return out


def references(quern, model, cases, work):
    """(log-likelihood, greedy) of each case by quern logits."""
    out = []
    with tempfile.TemporaryDirectory(dir=work) as folder:
        path = Path(folder) / "logits.npy"
        for case in cases:
            subprocess.run([quern, "logits", "-m", model, "--tokens", ",".join(map(str, case["ids"])), "-o", path], check=True, capture_output=True)
            scored = log_probs(read_npy(path), case["ids"])[case["n_context"] - 1:]
            out.append((sum(p for p, _ in scored), all(greedy for _, greedy in scored)))
    return out


def greedy_text(quern, model, prompt):
    done = subprocess.run([quern, "run", "-m", model, "--raw", "--temp", "0", "-n", "12", "-p", prompt], check=True, capture_output=True, text=True)
    return done.stdout.split("\n")[0]


def compare(found, wanted, texts):
    """The ways in which something differs, as lines; and the largest difference of a likelihood."""
    problems, largest = [], 0.0
    for way, got in found.items():
        for case, (log_likelihood, greedy) in zip(got["choices"], wanted, strict=True):
            difference = abs(case["log_likelihood"] - log_likelihood)
            largest = max(largest, difference)
            if difference > TOLERANCE or case["greedy"] != greedy:
                problems.append(f"{way}: {case['log_likelihood']} greedy {case['greedy']}, not {log_likelihood} greedy {greedy}")
        for case in got["texts"]:
            if case["text"] != texts[case["prompt"]]:
                problems.append(f"{way}: {case['prompt']!r} goes on {case['text']!r}, not {texts[case['prompt']]!r}")
    return problems, largest


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quern", default=ROOT / "build/release/quern", type=Path)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--kind", default="smollm")
    parser.add_argument("--work", default=ROOT / "build/lm_eval", type=Path)
    args = parser.parse_args()
    quern, work = args.quern.resolve(), args.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    python = environment(work)
    model = args.model if Path(args.model).exists() else subprocess.run([quern, "models", "get", args.model], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    out = work / "found.json"
    offline = {"HF_HOME": str(work / "hf"), "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "OPENAI_API_KEY": "none"}
    server = Server(quern, model)
    try:
        subprocess.run([python, HERE / "evaluate.py", Path(model).resolve(), args.kind, server.url, work, out], check=True, cwd=HERE / "tasks", env={**os.environ, **offline})
    finally:
        server.stop()
    found = json.loads(out.read_text())
    cases = next(iter(found.values()))["choices"]
    if not all([c["ids"] for c in got["choices"]] == [c["ids"] for c in cases] for got in found.values()):
        raise SystemExit("the ways do not score the same tokens")
    wanted = references(quern, model, cases, work)
    texts = {case["prompt"]: greedy_text(quern, model, case["prompt"]) for case in next(iter(found.values()))["texts"]}
    problems, largest = compare(found, wanted, texts)
    # A control: one token more to the context must show.
    shifted = references(quern, model, [{**cases[0], "n_context": cases[0]["n_context"] - 1}], work)
    if not compare({"control": {"choices": cases[:1], "texts": []}}, shifted, {})[0]:
        problems.append("the control finds no difference")
    for line in problems:
        print(line)
    for way, got in found.items():
        print(f"{way}: {json.dumps(got['figures'])}")
    print(f"{len(cases)} likelihoods and {len(texts)} texts, {len(found)} ways; largest difference {largest:.2e} nats; {len(problems)} differ")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
