#!/usr/bin/env python3
"""Writes the generated inputs and expected outputs of the tests into build/testdata/<section>/.

Each section is one function, listed in SECTIONS at the end; it gets its own empty folder and nothing else. Sections are
deterministic (fixed seeds), independent of each other, and import what they need themselves. Tests find the folder
through QUERN_TEST_DATA and fail, naming this script, when it is missing.

    tools/make_testdata.py [--out DIR] [--only NAME ...] [--list]
"""

import argparse
import pathlib
import shutil
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent


# ---- format: packed blocks and what the `gguf` package makes of them -------------------------------------------------

# Name -> byte offsets of the f16 scales in a block (nothing: the format has none).
F16_SCALES = {
    "Q8_0": (0,), "Q4_0": (0,), "Q4_1": (0, 2), "Q5_0": (0,), "Q5_1": (0, 2), "Q2_K": (80, 82), "Q3_K": (108,),
    "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,), "IQ4_NL": (0,), "IQ4_XS": (0,), "MXFP4": (),
}
# Zeros, denormals, the smallest and largest normals, ones; each also negative.
EDGE_F16 = [b | s for b in (0x0000, 0x0001, 0x03FF, 0x0400, 0x3C00, 0x7BFF) for s in (0x0000, 0x8000)]
NONFINITE_F16 = [0x7C00, 0xFC00, 0x7E00, 0x7C01]
N_RANDOM_BLOCKS = 160


def random_blocks(rng, n, size):
    import numpy as np
    return rng.integers(0, 256, (n, size), dtype=np.uint8)


def set_f16(blocks, offset, bits):
    """Writes 16-bit patterns (one per block, or one for all) at a byte offset of every block."""
    import numpy as np
    bits = np.broadcast_to(np.asarray(bits, dtype="<u2"), (len(blocks),))
    blocks[:, offset:offset + 2] = np.ascontiguousarray(bits).view(np.uint8).reshape(-1, 2)


def finite_f16(rng, n):
    import numpy as np
    bits = rng.integers(0, 0x7C00, n, dtype=np.uint16)
    return bits | (rng.integers(0, 2, n, dtype=np.uint16) << 15)


def edge_blocks(rng, size, offsets, values):
    """Every combination of the given scale bits, over random, all-zero and all-one code bytes."""
    import itertools
    import numpy as np
    combos = list(itertools.product(values, repeat=len(offsets)))
    fills = [random_blocks(rng, len(combos), size), np.zeros((len(combos), size), np.uint8),
             np.full((len(combos), size), 255, np.uint8)]
    for blocks in fills:
        for k, offset in enumerate(offsets):
            set_f16(blocks, offset, [combo[k] for combo in combos])
    return np.concatenate(fills)


def write_dequantized(path, name, blocks):
    import gguf
    import numpy as np
    with np.errstate(all="ignore"):
        weights = gguf.quants.dequantize(np.ascontiguousarray(blocks), gguf.GGMLQuantizationType[name])
    blocks.tofile(path.parent / f"{path.name}.bin")
    weights.astype("<f4").tofile(path.parent / f"{path.name}.f32")


def format_blocks(out, rng):
    import gguf
    import numpy as np
    for name, offsets in F16_SCALES.items():
        size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name]][1]
        blocks = random_blocks(rng, N_RANDOM_BLOCKS, size)
        for offset in offsets:
            set_f16(blocks, offset, finite_f16(rng, len(blocks)))
        if not offsets:  # MXFP4: byte 0 is the exponent; all 256
            blocks = random_blocks(rng, 512, size)
            blocks[:, 0] = np.arange(512) % 256
        write_dequantized(out / name, name, np.concatenate([blocks, edge_blocks(rng, size, offsets, EDGE_F16)]))
        if offsets:
            values = NONFINITE_F16 + [0x0000, 0x3C00]
            write_dequantized(out / f"{name}_nonfinite", name, edge_blocks(rng, size, offsets, values))
    every = np.arange(65536, dtype="<u2").view(np.uint8).reshape(1, -1)
    write_dequantized(out / "F16", "F16", every)
    write_dequantized(out / "BF16", "BF16", every)


def format_halves(out, rng):
    """f32 -> f16 and bf16: every f16, its neighbours' midpoints (the ties), one f32 step around them, and random bits."""
    import gguf
    import numpy as np
    halves = np.arange(65536, dtype=np.uint16).view(np.float16).astype(np.float32)
    halves = halves[np.isfinite(halves)]
    with np.errstate(all="ignore"):
        ties = np.concatenate([(halves + np.nextafter(halves.astype(np.float16), np.float16(s)).astype(np.float32)) / 2
                               for s in (np.inf, -np.inf)])
    ties = ties[np.isfinite(ties)]
    upper = np.arange(0, 65536, 7, dtype=np.uint32) << 16  # around bf16 values and their ties
    around = np.concatenate([upper | low for low in (0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF)]).astype(np.uint32)
    special = np.array([65504, 65519.996, 65520, 65536, np.inf, np.nan, 0, 1e-8, 2.0**-25, 2.0**-24], np.float32)
    x = np.concatenate([halves, ties, np.nextafter(ties, np.float32(np.inf)), np.nextafter(ties, np.float32(-np.inf)),
                        around.view(np.float32), special, -special,
                        rng.integers(0, 2**32, 200000, dtype=np.uint32).view(np.float32)]).astype("<f4")
    x.tofile(out / "half_in.f32")
    with np.errstate(all="ignore"):
        x.astype("<f2").tofile(out / "half_f16.bin")
    gguf.quants.quantize(x, gguf.GGMLQuantizationType.BF16).tofile(out / "half_bf16.bin")


def format_types(out):
    """The package's table of type numbers: number, name, bytes and weights of a block."""
    import gguf
    rows = [f"{int(t)} {t.name} {gguf.GGML_QUANT_SIZES[t][1]} {gguf.GGML_QUANT_SIZES[t][0]}"
            for t in gguf.GGMLQuantizationType]
    (out / "types.txt").write_text("\n".join(rows) + "\n")


def format_quantized(out, rng):
    """Weight-like floats, and the package's own quantization of them where it has one, to compare errors with."""
    import gguf
    import numpy as np
    x = np.concatenate([rng.normal(0, 0.04, 32 * 256), rng.uniform(-1, 1, 16 * 256),
                        rng.standard_t(4, 16 * 256) * 0.1]).astype("<f4").reshape(1, -1)
    x.tofile(out / "quantize_in.f32")
    for name in ("Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "MXFP4"):
        gguf.quants.quantize(x, gguf.GGMLQuantizationType[name]).tofile(out / f"quantize_{name}.bin")


def quantize_activation(x, block, sum_width):
    """The rule of src/format/activation.h in numpy, one f32 operation at a time."""
    import numpy as np
    x = x.reshape(-1, block)
    amax = (x.view(np.uint32) & np.uint32(0x7FFFFFFF)).max(axis=1, keepdims=True).view(np.float32)
    usable = np.isfinite(amax) & (amax >= np.float32(2.0**-100))
    with np.errstate(all="ignore"):
        errors = []
        for m in (127, 126, 125, 124):
            scaled = x * (np.float32(m) / amax)
            squares = (scaled - np.rint(scaled)) ** 2
            partial = np.zeros((len(x), 16), np.float32)
            for i in range(0, block, 16):
                partial = partial + squares[:, i:i + 16]
            for half in (8, 4, 2, 1):
                partial = partial[:, :half] + partial[:, half:2 * half]
            weight = np.float32(127) / np.float32(m)
            errors.append(partial[:, 0] * (weight * weight))
        best = (np.float32(127) - np.argmin(np.nan_to_num(np.stack(errors, 1), nan=np.inf), 1)[:, None]).astype(np.float32)
        q = np.where(usable, np.rint(x * (best / amax)), 0).astype(np.int8)
        d = np.where(usable, amax / best, np.where(np.isfinite(amax), 0, np.nan)).astype("<f4")
    return q, d, q.reshape(-1, sum_width).sum(axis=1, dtype=np.int32).astype("<i4")


def format_activations(out, rng):
    import numpy as np
    n = 256
    rows = [rng.normal(0, s, n) for s in (1, 1e-3, 1e4, 1e30, 1e-30)] + [rng.standard_t(2, n) for _ in range(40)]
    rows += [np.zeros(n), np.full(n, -0.0), np.full(n, 3.4e38), np.full(n, -1e-40), np.full(n, 2.0**-100),
             np.full(n, np.nextafter(np.float32(2.0**-100), np.float32(0)))]
    ties = np.arange(n) % 254 - 126.5  # with amax 127 every code is a tie
    ties[[0, 40, 80, 120, 130, 170, 200, 250]] = 127
    rows += [ties, -ties, ties * 2.0**20]
    for bad in (np.nan, np.inf, -np.inf, -np.nan):
        row = rng.normal(0, 1, n)
        row[rng.integers(0, n)] = bad
        rows.append(row)
    x = np.concatenate(rows).astype("<f4")
    x.tofile(out / "activation_in.f32")
    for name, block, sum_width in (("q8_32", 32, 32), ("q8_256", 256, 16)):
        q, d, sums = quantize_activation(x, block, sum_width)
        q.tofile(out / f"activation_{name}.codes")
        d.tofile(out / f"activation_{name}.d")
        sums.tofile(out / f"activation_{name}.sums")


def make_format(out):
    import numpy as np
    rng = np.random.default_rng(20240607)
    format_blocks(out, rng)
    format_halves(out, rng)
    format_types(out)
    format_quantized(out, rng)
    format_activations(out, rng)


# ---- the table ---------------------------------------------------------------------------------------------------------

# Name (also the folder's) -> function(out folder).
def make_tiny(folder):
    """Tiny random models of every architecture (tools/synth/tiny_models.py)."""
    import subprocess
    subprocess.run([sys.executable, str(ROOT / "tools" / "synth" / "tiny_models.py"), str(folder)], check=True, stdout=subprocess.DEVNULL)


def make_scripted(folder):
    """Tiny models that say one fixed reply each (tools/synth/scripted.py)."""
    import subprocess
    subprocess.run([sys.executable, str(ROOT / "tools" / "synth" / "scripted.py"), str(folder)], check=True, stdout=subprocess.DEVNULL)


SECTIONS = {
    "format": make_format,
    "tiny": make_tiny,
    "scripted": make_scripted,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build" / "testdata", help="default: build/testdata")
    parser.add_argument("--only", action="append", choices=sorted(SECTIONS), help="only this section; may be repeated")
    parser.add_argument("--list", action="store_true", help="print the sections and stop")
    args = parser.parse_args()
    if args.list:
        print("\n".join(SECTIONS))
        return 0
    for name in args.only or SECTIONS:
        start = time.monotonic()
        folder = args.out / name
        fresh = args.out / f".{name}.new"  # replaced whole, so that no test reads half of it
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(parents=True)
        SECTIONS[name](fresh)
        shutil.rmtree(folder, ignore_errors=True)
        fresh.rename(folder)
        size = sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())
        print(f"{name}: {size / 1e6:.1f} MB in {time.monotonic() - start:.1f} s", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
