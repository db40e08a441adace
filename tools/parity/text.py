#!/usr/bin/env python3
"""The token ids of the mixed text (mixed.txt: prose, code and other languages) for one model.

    text.py MODEL.gguf -o ids/NAME.txt --peer           tokenized by llama.cpp
    text.py MODEL.gguf -o ids/NAME.txt --quern BIN      tokenized by quern
    text.py MODEL.gguf -o ids/NAME.txt --quern BIN --check    exits 1 unless the file holds those ids already

Windows of W ids are independent sequences. Each starts with the model's start token where its file says to add one,
and holds W - 1 or W ids of the text. All of the text is used; the last window is shorter. The ids of the models
reported on are kept in ids/, so that a comparison needs no tokenizer.
"""
import argparse
import json
import sys
from pathlib import Path

import numpy as np

import engines
import kl

HERE = Path(__file__).resolve().parent
TEXT = HERE / "mixed.txt"


def in_windows(ids, window, bos):
    """bos: the start token's id, or -1 for none."""
    head = [bos] if bos >= 0 else []
    step = window - len(head)
    return np.array([i for a in range(0, len(ids), step) for i in head + list(ids[a:a + step])])


def start_token(model):
    from gguf import GGUFReader
    fields = GGUFReader(model).fields
    value = lambda key, default: fields[key].contents() if key in fields else default
    # SentencePiece vocabularies add the start token unless told otherwise; byte-level ones only if told to.
    add = value("tokenizer.ggml.add_bos_token", value("tokenizer.ggml.model", "") == "llama")
    return int(value("tokenizer.ggml.bos_token_id", -1)) if add else -1


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("model")
    ap.add_argument("-o", "--out", required=True)
    ap.add_argument("--window", type=int, default=1024)
    ap.add_argument("--check", action="store_true", help="compare with the file instead of writing it")
    who = ap.add_mutually_exclusive_group(required=True)
    who.add_argument("--peer", action="store_true")
    who.add_argument("--quern", metavar="BIN")
    a = ap.parse_args()
    if a.peer:
        ids = [int(t) for t in engines.run([HERE / "peer_logits.sh", a.model, "--tokenize", TEXT]).split()]
    else:
        ids = json.loads(engines.run([a.quern, "tokenize", "-m", a.model, "-"], TEXT.read_text()))
    bos = start_token(a.model)
    ids = in_windows(ids, a.window, bos)
    if a.check:
        same = np.array_equal(ids, kl.read_ids(a.out))
        print("equal" if same else "the ids differ")
        sys.exit(not same)
    kl.write_ids(a.out, ids, f"{TEXT.name} in windows of {a.window}" + (f", each from {bos}" if bos >= 0 else ""),
                 a.window)
    print(f"{len(ids)} ids")


if __name__ == "__main__":
    main()
