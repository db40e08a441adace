#!/usr/bin/env python3
"""Says which include breaks the folder order, and where the environment is read outside its one file.

The compiler enforces the order already (cmake/quern.cmake gives each target only the include roots it lists); this check
explains, and also covers what CMake files could get wrong.   usage: check_layers.py [--self-test] [ROOT]
"""
import re
import sys
import tempfile
from pathlib import Path

ORDER = ["base", "lattice", "format", "file", "model", "kernels", "plan", "exec", "token", "grammar", "engine", "serve", "api", "measure"]
# Folders that may use less than everything above them.
ONLY = {"token": {"base", "file"}, "grammar": {"base", "token"}, "lattice": set(), "format": {"base"}, "kernels": {"base", "lattice", "format"}}
# What programs may include of a folder that keeps its other headers to itself.
PUBLIC_HEADERS = {"engine": {"engine/engine.h", "engine/images.h", "engine/tuning.h", "engine/prompt.h"},
                  "serve": {"serve/serve.h", "serve/scheduler.h", "serve/model_pool.h", "serve/grammar_mask.h"},
                  "api": {"api/http.h", "api/service.h", "api/access.h", "api/files.h"}}
GETENV_HOME = "src/base/options.cpp"

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
GETENV = re.compile(r"\b(secure_)?getenv\s*\(")
SOURCES = {".h", ".cpp", ".inc", ".inl", ".cu", ".cuh", ".hpp", ".c"}


def allowed(folder):
    if folder in ONLY:
        return ONLY[folder] | {folder}
    return set(ORDER[: ORDER.index(folder) + 1])


def strip_comments(text):
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)


def check_file(path, relative, problems):
    text = strip_comments(path.read_text(encoding="utf-8", errors="replace"))
    top = relative.parts[0]
    if top == "src" and len(relative.parts) > 2:
        folder = relative.parts[1]
        if folder not in ORDER:
            problems.append(f"{relative}: src/{folder} is not in the folder order")
            return
        for include in INCLUDE.findall(text):
            target = include.split("/")[0]
            if target in ORDER and "/" in include and target not in allowed(folder):
                problems.append(f"{relative}: {folder} may not include {include} (it may use: {', '.join(sorted(allowed(folder)))})")
            if target == "apps":
                problems.append(f"{relative}: src/ may not include {include}")
    if top in ("apps", "examples"):
        for include in INCLUDE.findall(text):
            target = include.split("/")[0]
            if target in PUBLIC_HEADERS and include not in PUBLIC_HEADERS[target]:
                problems.append(f"{relative}: programs may not include {include} (internals of {target})")
    if top in ("src", "apps") and str(relative) != GETENV_HOME and GETENV.search(text):
        problems.append(f"{relative}: reads the environment; only {GETENV_HOME} may (quern::environment)")


def check(root):
    problems = []
    n = 0
    for top in ("src", "apps", "examples", "include"):
        for path in sorted((root / top).rglob("*")):
            if path.suffix in SOURCES and path.is_file():
                check_file(path, path.relative_to(root), problems)
                n += 1
    return n, problems


def self_test():
    """Each rule must reject a file that breaks it and accept one that does not."""
    cases = [
        ("src/base/a.cpp", '#include "file/gguf.h"\n', 1),
        ("src/file/a.cpp", '#include "base/result.h"\n#include "format/format.h"\n', 0),
        ("src/token/a.cpp", '#include "model/spec.h"\n', 1),
        ("src/grammar/a.cpp", '#include "token/tokenizer.h"\n', 0),
        ("src/grammar/a.cpp", '#include "engine/engine.h"\n', 1),
        ("src/kernels/cpu/a.cpp", '#include "lattice/lattice.h"\n', 0),
        ("src/kernels/cpu/a.cpp", '#include "model/spec.h"\n', 1),
        ("src/plan/a.cpp", '// #include "engine/engine.h"\n', 0),
        ("src/engine/a.cpp", '#include "apps/quern/command.h"\n', 1),
        ("src/serve/a.cpp", '#include "api/api.h"\n', 1),
        ("src/api/a.cpp", '#include "serve/serve.h"\n', 0),
        ("apps/quern/a.cpp", '#include "api/write.h"\n', 1),
        ("src/other/a.cpp", "\n", 1),
        ("apps/quern/a.cpp", '#include "engine/engine.h"\n', 0),
        ("apps/quern/a.cpp", '#include "engine/state.h"\n', 1),
        ("apps/quern/a.cpp", '#include "serve/batch.h"\n', 1),
        ("src/serve/a.cpp", '#include "engine/engine.h"\n', 0),
        ("src/engine/a.cpp", '#include "serve/scheduler.h"\n', 1),
        ("apps/quern/a.cpp", 'auto x = std::getenv("HOME");\n', 1),
        ("src/base/options.cpp", 'auto x = std::getenv("HOME");\n', 0),
    ]
    bad = 0
    for name, text, expected in cases:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / name
            path.parent.mkdir(parents=True)
            path.write_text(text)
            found = check(Path(folder))[1]
            if len(found) != expected:
                print(f"self-test: {name} with {text!r}: expected {expected} problems, got {found}")
                bad += 1
    return bad


def main():
    args = [a for a in sys.argv[1:] if a != "--self-test"]
    if "--self-test" in sys.argv and self_test():
        return 1
    root = Path(args[0]) if args else Path(__file__).resolve().parent.parent
    n, problems = check(root)
    for problem in problems:
        print(problem)
    print(f"check_layers: {n} files, {len(problems)} problems")
    return 1 if problems or n == 0 else 0


sys.exit(main())
