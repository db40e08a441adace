#!/usr/bin/env python3
"""Checks that objects compiled for one instruction-set tier define no weak symbol outside of the tier's namespace.

The linker keeps one definition of a weak symbol (an inline function or a template instance). If one compiled with, say,
AVX-512 flags is also defined elsewhere, it may be kept, and then runs on processors without AVX-512.

  check_isa_symbols.py [--nm NM] --isa avx512 OBJECT...

A symbol belongs to the tier when `quern::...::<isa>::` is in its name, as scope or template argument.
"""
import argparse
import re
import subprocess
import sys

WEAK = {"W"}  # weak functions; weak data (V, u) has no instructions, and a sanitizer makes some of every constant
HARMLESS = re.compile(r"^DW\.ref\.")  # pointers to the exception personality, the same in every object


def weak_symbols(nm, path):
    out = subprocess.run([nm, "-C", "--defined-only", path], check=True, capture_output=True, text=True).stdout
    rows = 0
    found = []
    for line in out.splitlines():
        match = re.match(r"^[0-9a-fA-F]*\s+([A-Za-z])\s+(.*)$", line)
        if not match:
            continue
        rows += 1
        if match[1] in WEAK and not HARMLESS.match(match[2]):
            found.append(match[2])
    if rows == 0:
        sys.exit(f"{path}: no symbols; is it an object file?")
    return rows, found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nm", default="nm")
    parser.add_argument("--isa", required=True)
    parser.add_argument("objects", nargs="+")
    args = parser.parse_args()
    inside = re.compile(rf"quern::(?:\w+::)*{re.escape(args.isa)}::")
    bad = total = 0
    for path in args.objects:
        rows, found = weak_symbols(args.nm, path)
        total += rows
        for name in found:
            if not inside.search(name):
                bad += 1
                print(f"{path}: weak symbol {name} is outside of the {args.isa} namespace")
    print(f"{len(args.objects)} objects, {total} symbols, {bad} leaking")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
