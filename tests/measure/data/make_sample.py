#!/usr/bin/env python3
"""Writes the records that the board's tests draw. Every number is invented: nothing here was measured."""
import json
from pathlib import Path

NOTE = "invented for tests; not a measurement"


def wobble(middle, n, spread, seed):
    """n values around middle, the same each time."""
    return [round(middle * (1 + spread * (((i * 7 + seed * 5) % 11) / 5 - 1)), 3) for i in range(n)]


def model(name, kind, params, size):
    return {"name": name, "type": kind, "file": name.lower().replace(" ", "-") + ".gguf", "sha256": (name.encode().hex() + "0" * 64)[:64],
            "bytes": size, "weight_bytes": int(size * 0.92), "n_params": params}


def side(name, version, commit, command, samples):
    result = {"version": version, "command": command, "samples": samples, "median": sorted(samples)[len(samples) // 2]}
    return {**result, **({"commit": commit} if name is None else {"name": name})}


def run(date, commit, test, file, ours, peer=None, theirs=0.0, setting="", unit="t/s", steal=0.004, spread=0.03, n=5, dram=None, decode=None):
    mine = wobble(ours, n, spread, len(test) + len(commit + date))
    record = {"date": date, "test": test, "unit": unit, "threads": 2, "model": file,
              "quern": side(None, "0.0.0-invented", commit, f"quern bench -m {file['file']} -p 512 -n 0 -t 2 -r 1", mine),
              "peer": None, "ratio": None, "steal": steal, "dram_gb_s": dram, "decode_gb_s": decode, "note": NOTE}
    if peer:
        other = wobble(theirs, n, spread, len(test) + 3)
        record["peer"] = side(peer, "invented", None, f"llama-bench -m {file['file']} -p 512 -n 0 -t 2 -r 1 -o json {setting}".strip(), other)
        middle = theirs / ours if unit == "ms" else ours / theirs
        record["ratio"] = {"middle": float(f"{middle:.5g}"), "low": float(f"{middle * (1 - spread):.5g}"), "high": float(f"{middle * (1 + spread):.5g}")}
    return record


def bucket(name, seconds, gb, gmac):
    return {"name": name, "seconds": seconds, "bytes": gb * 1e9, "macs": gmac * 1e9}


def profile(name, phase, tokens, buckets):
    return {"date": "2001-02-03T10:00:00Z", "model": name, "commit": "c0ffee3", "threads": 2, "phase": phase, "tokens": tokens, "buckets": buckets, "note": NOTE}


def sample_box():
    small, large = model("Sample 135M", "Q4_1", 134515008, 98000000), model("Sample 1B", "Q4_K", 1235814400, 807000000)
    runs = []
    for date, commit, speed in (("2001-02-01T09:00:00Z", "c0ffee1", 0.6), ("2001-02-02T09:00:00Z", "c0ffee2", 0.82), ("2001-02-03T09:00:00Z", "c0ffee3", 1.0)):
        for test, ours, llama, ik in (("pp512", 5200, 560, 2700), ("tg128", 480, 205, 331)):
            memory = {"dram": 41.5, "decode": ours * speed * 0.09} if test == "tg128" else {}
            runs.append(run(date, commit, test, small, ours * speed, "llama.cpp", llama, **memory))
            runs.append(run(date, commit, test, small, ours * speed, "ik_llama.cpp", ik, "-rtr 1", **memory))
    last = ("2001-02-03T09:00:00Z", "c0ffee3")
    runs.append(run(*last, "pp512", small, 5200, "llama.cpp", 610, "--repack 0", spread=0.12, steal=0.051))
    runs.append(run(*last, "pp512 @ d4096", small, 4300, "llama.cpp", 330))
    runs.append(run(*last, "tg128 b4", small, 1210, "llama.cpp", 520))
    runs.append(run(*last, "ttft turn 2", small, 31, "llama.cpp", 84, unit="ms"))
    runs.append(run(*last, "pp512", large, 640, "llama.cpp", 150))
    runs.append(run(*last, "tg128", large, 47.1, "llama.cpp", 46.2, spread=0.05, dram=41.5, decode=37.9))
    runs.append(run(*last, "tg128", large, 47.1, n=3))
    prefill = [bucket("matmul q4_1", 0.0514, 0.31, 54.2), bucket("attention", 0.0211, 0.041, 6.1), bucket("quantize", 0.0094, 0.36, 0), bucket("norm", 0.0040, 0.24, 0.12),
               bucket("rope + kv", 0.0031, 0.19, 0.05), bucket("activation", 0.0047, 0.29, 0.1), bucket("head", 0.0006, 0.031, 0.028), bucket("wait", 0.0042, 0, 0)]
    decode = [bucket("matmul q4_1", 0.0911, 5.1, 8.5), bucket("attention", 0.0093, 0.21, 0.2), bucket("quantize", 0.0021, 0.021, 0), bucket("norm", 0.0013, 0.019, 0.009),
              bucket("rope + kv", 0.0009, 0.01, 0.004), bucket("activation", 0.0011, 0.012, 0.005), bucket("head", 0.0301, 1.9, 1.81), bucket("wait", 0.0054, 0, 0)]
    return {"schema": 1, "box": {"name": "sample box (invented)", "cpu": "Invented Processor 9000", "isa": "avx512", "cores": 2, "memory_bytes": 25769803776,
                                 "os": "Debian GNU/Linux 12 (bookworm)", "l2_bytes": 1048576, "l3_bytes": 33554432},
            "rooflines": [{"date": "2001-02-03T08:00:00Z", "isa": "avx512", "threads": 2, "dram_gb_s": 41.5, "dram_1_gb_s": 28.1, "l2_gb_s": 410, "l3_gb_s": 120,
                           "int8_gmac_s": 1080, "f32_gmac_s": 205}],
            "runs": runs, "profiles": [profile("Sample 135M", "prefill", 512, prefill), profile("Sample 135M", "decode", 64, decode)]}


def bare_box():
    """Nothing optional."""
    return {"schema": 1, "box": {"name": "bare box (invented)"},
            "runs": [{"test": "pp512", "model": {"name": "Sample 135M"}, "quern": {"samples": [100, 104, 98]}},
                     {"test": "tg128", "model": {"name": "Sample 135M"}, "quern": {"median": 12.5}}],
            "profiles": [{"model": "another model", "phase": "decode", "buckets": [{"name": "everything", "seconds": 1}]}]}


def hostile_box():
    """Text that tries to leave its place, and numbers far apart."""
    evil = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
    quote = "\" onmouseover=\"document.title='owned'\" x='</style></title></svg>--><!--"
    long = "w" * 300
    file = {"name": evil, "type": quote, "file": "../../" + long, "sha256": "\u202e" + "f" * 63, "bytes": 1e18, "weight_bytes": 1, "n_params": 3}
    runs = [run("2001-02-03T09:00:00Z", quote, evil, file, 1e9, "llama.cpp", 2, evil), run(quote, evil, "pp512", file, 0.002, quote, 900000, long, spread=0.4),
            run("2001-02-04", long, "pp512", file, 0.004, quote, 900000, long, spread=0.4, n=2), run("x", "&lt;\u0001\u0000", "tg0", file, 3, long, 2.9, n=1)]
    runs[1]["note"] = evil + quote
    runs[0]["ratio"] = {"middle": 1e6, "low": 1e-3, "high": 1e9}
    buckets = [bucket(f"{quote}{i}", 10.0 ** -i, 10.0 ** (3 - i), 10.0 ** (i - 4)) for i in range(12)] + [bucket("crowd %d" % i, 0.01, 1 + i / 50, 2) for i in range(9)]
    return {"schema": 1, "box": {"name": "hostile box (invented) " + evil + long, "cpu": quote, "isa": evil, "os": long, "cores": 1, "memory_bytes": 1},
            "rooflines": [{"date": evil, "dram_gb_s": 0.5, "l2_gb_s": 0.52, "l3_gb_s": 0.51, "int8_gmac_s": 100, "f32_gmac_s": 99}], "runs": runs,
            "profiles": [profile(evil, "prefill", 1, buckets), profile(evil, quote, 7, buckets[:2]), profile(evil, "decode", 3, [])]}


if __name__ == "__main__":
    folder = Path(__file__).resolve().parent / "records"
    folder.mkdir(exist_ok=True)
    for name, box in (("sample", sample_box()), ("bare", bare_box()), ("hostile", hostile_box())):
        (folder / f"{name}.json").write_text(json.dumps(box, indent=1) + "\n")
