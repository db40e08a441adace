"""The engines that can be asked for logits, as one function each: ids in windows -> an .npy of f32 [n, vocab].

Owns the command lines of llama.cpp (through peer_logits.sh) and of quern. Leaves the comparison to kl.py.
"""
import subprocess
import tempfile
from pathlib import Path

import numpy as np

import kl

HERE = Path(__file__).resolve().parent

# The peer's settings: its default first, which is the figure to compare with.
PEER_VARIANTS = {
    "llama.cpp default": [],
    "llama.cpp fa on": ["--fa", "on"],
    "llama.cpp fa off": ["--fa", "off"],
    "llama.cpp no repack": ["--no-repack"],
    "llama.cpp fa off, no repack": ["--fa", "off", "--no-repack"],
    "llama.cpp fa off, f32 KV": ["--fa", "off", "--kv", "f32"],
}


def run(command, text=None):
    """Standard output; text: what it reads from standard input."""
    done = subprocess.run([str(c) for c in command], input=text, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise SystemExit(f"failed ({done.returncode}): {' '.join(str(c) for c in command)}\n{done.stderr[-2000:]}")
    return done.stdout


def peer_logits(model, ids, window, out, threads=2, extra=(), n_ctx=0):
    with tempfile.TemporaryDirectory() as folder:
        list_file = Path(folder) / "ids.txt"
        kl.write_ids(list_file, ids)
        run([HERE / "peer_logits.sh", model, "--tokens", list_file, "--window", window, "-t", threads, "-o", out,
             "--n-ctx", n_ctx, *extra])


def quern_logits(binary, model, ids, window, out, threads=2, extra=()):
    """quern evaluates one sequence per call, so each window is a call and the parts are joined."""
    step = window or len(ids)
    joined = None
    with tempfile.TemporaryDirectory(dir=Path(out).parent) as folder:
        list_file, part_file = Path(folder) / "ids.npy", Path(folder) / "part.npy"
        for at in range(0, len(ids), step):
            np.save(list_file, np.asarray(ids[at:at + step], np.int32))
            run([binary, "logits", "-m", model, "--tokens", f"@{list_file}", "-t", threads, "-o", part_file, *extra])
            part = kl.open_logits(part_file)
            if joined is None:
                joined = np.lib.format.open_memmap(out, "w+", np.float32, (len(ids), part.shape[1]))
            joined[at:at + len(part)] = part
