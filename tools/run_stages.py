#!/usr/bin/env python3
"""Runs the stages of ./test and sums up.   usage: run_stages.py [--quick] [--list] [STAGE...]

Each stage writes build/logs/STAGE.log; a failed one shows its end. A stage counts as one result, and so does each ctest
test in it. The last line is "N passed, N failed" (what continuous integration reads), the exit status 1 if anything
failed.
"""
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
LOGS = BUILD / "logs"
JOBS = max(1, len(os.sched_getaffinity(0)))
TIDY_SECONDS = 240
FUZZ_SECONDS = 12
CPP = {".h", ".cpp", ".hpp", ".c", ".inl"}


class Failed(Exception):
    pass


class Stage:
    """What a stage's function gets: it runs commands, logs, and collects ctest results."""

    def __init__(self, name):
        self.name = name
        self.log = open(LOGS / f"{name}.log", "w", encoding="utf-8", errors="replace")
        self.passed, self.failed, self.skipped, self.notes = 0, [], [], []

    def run(self, *command, timeout=1500, env=None, check=True, cwd=ROOT):
        command = [str(c) for c in command]
        self.log.write("$ " + " ".join(command) + "\n")
        self.log.flush()
        try:
            done = subprocess.run(command, cwd=cwd, stdout=self.log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                  timeout=timeout, env={**os.environ, **(env or {})})
        except subprocess.TimeoutExpired as error:
            raise Failed(f"{command[0]} took more than {timeout} s") from error
        except FileNotFoundError as error:
            raise Failed(f"{command[0]} is not installed") from error
        if check and done.returncode != 0:
            raise Failed(f"{' '.join(command[:4])} ... exited with {done.returncode}")
        return done.returncode

    def configure(self, preset, *more):
        self.run("cmake", "--preset", preset, *more)

    def ninja(self, preset, *targets):
        self.run("ninja", "-C", BUILD / preset, f"-j{JOBS}", *targets)

    def ctest(self, preset, *more, env=None):
        report = LOGS / f"{self.name}.xml"
        report.unlink(missing_ok=True)
        status = self.run("ctest", "--test-dir", BUILD / preset, "--output-on-failure", "--no-tests=error", f"-j{JOBS}",
                          "--output-junit", report, *more, env=env, check=False)
        if not report.exists():
            raise Failed("ctest wrote no report")
        for case in ElementTree.parse(report).getroot().iter("testcase"):
            self.take_case(case)
        if status != 0 and not self.failed:
            raise Failed(f"ctest exited with {status}")
        if self.failed:
            raise Failed("failed: " + ", ".join(self.failed))

    def take_case(self, case):
        name, output = case.get("name"), case.findtext("system-out") or ""
        # GoogleTest's own skips are inside one ctest test; name them too.
        self.skipped += [f"{name}: {s}" for s in sorted(set(re.findall(r"\[  SKIPPED \] ([\w/.]+)", output)))]
        if case.find("failure") is not None or case.get("status") == "fail":
            self.failed.append(name)
        elif case.find("skipped") is not None or case.get("status") in ("notrun", "disabled"):
            self.skipped.append(name)
        else:
            self.passed += 1


def sources():
    listed = subprocess.run(["git", "ls-files", "-z", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True).stdout
    return [p for p in listed.decode().split("\0") if p and Path(p).suffix in CPP and (ROOT / p).is_file()]


def stage_checks(stage):
    stage.run(sys.executable, "tools/check_layers.py", "--self-test")
    stage.run(sys.executable, "tools/check_size.py", "--self-test")
    stage.run(sys.executable, "tools/jinja_compare.py", "--check")
    # The format check must notice a badly laid out file, or it checks nothing.
    bad = LOGS / "bad_format.cpp"
    bad.write_text("int  f( ){return 1 ;}\n")
    stage.log.write("-- a control: clang-format must refuse this file\n")
    style = f"--style=file:{ROOT / '.clang-format'}"
    if stage.run("clang-format", "--dry-run", "-Werror", style, bad, check=False) == 0:
        raise Failed("clang-format accepts a badly laid out file")
    stage.log.write("-- the control is done; now the sources\n")
    stage.run("clang-format", "--dry-run", "-Werror", style, *sources())


def stage_data(stage):
    stage.run(sys.executable, "tools/make_testdata.py")


def stage_release(stage):
    stage.configure("release", "-DQUERN_TESTS=ON")
    stage.ninja("release")
    stage.ctest("release")


def stage_asan(stage):
    stage.configure("asan")
    stage.ninja("asan")
    stage.ctest("asan", env={"ASAN_OPTIONS": "detect_leaks=1:strict_string_checks=1", "UBSAN_OPTIONS": "print_stacktrace=1",
                             "LSAN_OPTIONS": f"suppressions={ROOT / 'tools' / 'lsan.supp'}:print_suppressions=0"})


def stage_tsan(stage):
    stage.configure("tsan")
    listing = subprocess.run(["ctest", "--test-dir", str(BUILD / "tsan"), "-N", "-L", "threads"], capture_output=True, text=True, check=True).stdout
    names = re.findall(r"Test\s+#\d+: (\S+)", listing)
    if not names:
        raise Failed("no test has the label 'threads'")
    stage.ninja("tsan", *names)  # a test's target has the test's name
    # One model of each weight family: threads meet the same way in all.
    models = "Team.*:Matcher.Threads*:Image.*:BadImage.*:Http.*:Served.*:Scheduler.*:ModelPool.*:Scheduler/*:*/llama:*/gemma3_q_mix:*/phi3_q_iq4:*/qwen3_q_bf16"
    stage.ctest("tsan", "-L", "threads", env={"TSAN_OPTIONS": "halt_on_error=1", "GTEST_FILTER": models})


def stage_aarch64(stage):
    stage.configure("aarch64")
    stage.ninja("aarch64")
    stage.ctest("aarch64")


def fuzz_one(target, seconds):
    corpus = ROOT / "fuzz" / "corpus" / target.name.removeprefix("fuzz_")
    scratch = BUILD / "fuzz" / "work" / target.name
    scratch.mkdir(parents=True, exist_ok=True)
    command = [str(target), f"-max_total_time={seconds}", "-timeout=10", "-rss_limit_mb=2048", "-print_final_stats=1", f"-artifact_prefix={scratch}/", str(scratch)]
    if corpus.is_dir():
        command.append(str(corpus))
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, timeout=seconds + 120)
    return target.name, done.returncode, done.stdout.decode(errors="replace")


def stage_fuzz(stage):
    names = ["fuzz_" + p.name.removesuffix("_fuzz.cpp") for p in sorted((ROOT / "fuzz").glob("*_fuzz.cpp"))]
    if not names:
        raise Failed("fuzz/ has no target")
    stage.configure("fuzz")
    stage.ninja("fuzz", *names)  # a source that no target builds is an error here
    targets = [BUILD / "fuzz" / "fuzz" / name for name in names]
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        for name, status, output in pool.map(lambda t: fuzz_one(t, FUZZ_SECONDS), targets):
            stage.log.write(f"== {name}: exit {status}\n{output}\n")
            units = re.search(r"stat::number_of_executed_units: (\d+)", output)
            stage.notes.append(f"{name} {units.group(1) if units else '?'} runs")
            if status == 0 and units and int(units.group(1)) > 0:
                stage.passed += 1
            else:
                stage.failed.append(name)
    if stage.failed:
        raise Failed("crashed: " + ", ".join(stage.failed))


def changed_first(paths):
    """What differs from the main branch first: the time bound cuts the rest."""
    base = subprocess.run(["git", "merge-base", "HEAD", "origin/main"], cwd=ROOT, capture_output=True, text=True).stdout.strip() or "HEAD~1"
    diff = subprocess.run(["git", "diff", "--name-only", base], cwd=ROOT, capture_output=True, text=True).stdout.split()
    return sorted(paths, key=lambda p: (p not in diff, p))


def stage_tidy(stage):
    database = BUILD / "release" / "compile_commands.json"
    if not database.exists():
        stage.configure("release", "-DQUERN_TESTS=ON")
    compiled = database.read_text()
    files = [p for p in changed_first(sources()) if p.endswith(".cpp") and f'"{ROOT / p}"' in compiled]
    deadline = time.monotonic() + TIDY_SECONDS

    def one(path):
        if time.monotonic() > deadline:
            return path, None, ""
        done = subprocess.run(["clang-tidy", "-quiet", "--extra-arg=-Wno-unknown-warning-option", "-p", str(database.parent), path], cwd=ROOT, capture_output=True, text=True)
        return path, done.returncode, done.stdout

    checked = 0
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        for path, status, output in pool.map(one, files):
            if status is None:
                continue
            checked += 1
            if status != 0:
                stage.log.write(f"== {path}\n{output}\n")
                stage.failed.append(path)
    stage.notes.append(f"{checked} of {len(files)} files" + ("" if checked == len(files) else " (time bound)"))
    if stage.failed:
        raise Failed("findings in " + ", ".join(stage.failed))


# name -> (function, part of --quick, what it does). In this order; later ones need nothing of earlier ones but `data`.
STAGES = {
    "checks": (stage_checks, True, "folder order, sizes, clang-format"),
    "data": (stage_data, True, "test data and small models"),
    "release": (stage_release, True, "release build, all tests"),
    "asan": (stage_asan, False, "all tests under AddressSanitizer and UBSan"),
    "tsan": (stage_tsan, False, "threaded tests under ThreadSanitizer"),
    "aarch64": (stage_aarch64, False, "kernel tests cross-compiled, under qemu"),
    "fuzz": (stage_fuzz, False, "each fuzz target for some seconds"),
    "tidy": (stage_tidy, False, "clang-tidy, changed files first, bounded time"),
}


def tail(path, lines=60):
    return "".join(path.read_text(errors="replace").splitlines(keepends=True)[-lines:])


def run_stage(name):
    stage = Stage(name)
    print(f"== {name}: {STAGES[name][2]}", flush=True)
    start, problem = time.monotonic(), None
    try:
        STAGES[name][0](stage)
    except Failed as error:
        problem = str(error)
    except (OSError, subprocess.SubprocessError, ElementTree.ParseError) as error:  # a tool that is missing or hangs
        problem = f"{type(error).__name__}: {error}"
    stage.log.close()
    seconds = time.monotonic() - start
    details = [f"{stage.passed} tests"] if stage.passed or stage.failed else []
    details += [f"{len(stage.skipped)} SKIPPED"] if stage.skipped else []
    details += stage.notes
    print(f"   {'FAILED' if problem else 'ok'} in {seconds:.0f} s{' (' + ', '.join(details) + ')' if details else ''}", flush=True)
    for skipped in stage.skipped:
        print(f"   SKIPPED {skipped}")
    if problem:
        print(f"   {problem}\n--- end of build/logs/{name}.log\n{tail(LOGS / (name + '.log'))}---", flush=True)
    return stage, problem


def main():
    args = sys.argv[1:]
    if "--list" in args:
        for name, (_, quick, what) in STAGES.items():
            print(f"{name:10}{what}{' (also with --quick)' if quick else ''}")
        return 0
    names = [a for a in args if not a.startswith("--")]
    unknown = [a for a in args if a.startswith("--") and a != "--quick"] + [n for n in names if n not in STAGES]
    if unknown:
        print(f"test: unknown {', '.join(unknown)}; stages: {', '.join(STAGES)}; options: --quick --list", file=sys.stderr)
        return 2
    if not names:
        names = [n for n, (_, quick, _) in STAGES.items() if quick or "--quick" not in args]
    LOGS.mkdir(parents=True, exist_ok=True)
    if shutil.which("ninja") is None:
        print("test: ninja is not installed; run ./test, which sets up", file=sys.stderr)
        return 2
    passed, failed, problems = 0, 0, []
    start = time.monotonic()
    for name in names:
        stage, problem = run_stage(name)
        passed += stage.passed + (0 if problem else 1)
        failed += len(stage.failed) + (1 if problem else 0)
        if problem:
            problems.append(f"{name}: {problem}")
    print(f"\n{time.monotonic() - start:.0f} s in all")
    for problem in problems:
        print(f"FAILED {problem}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
