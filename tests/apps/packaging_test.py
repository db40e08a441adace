#!/usr/bin/env python3
"""What an installation has beside the program: completion scripts, manual page, systemd unit, Dockerfile. Each check has a
control that it must refuse. Tools that are not installed (none after ./test has set up) are skipped by name."""
import ctypes
import os
import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from harness import QUERN, SOURCE, Program, tiny_model  # noqa: E402

BUILD = Path(QUERN).parent
UNIT = SOURCE / "packaging/quern.service.in"
DOCKERFILE = SOURCE / "packaging/Dockerfile"
# What a service may need to be left out of systemd-analyze's list: the network is what it serves.
MOST_EXPOSED = 2.0


def needs(tool):
    return unittest.skipUnless(shutil.which(tool), f"{tool} is not installed")


class Completion(Program):
    def bash(self, line, script=None):
        """What bash offers at the end of a line."""
        words = line.split(" ")
        # bash takes "=" for a word of its own.
        words = [part for word in words for part in re.split(r"(=)", word) if part or not word]
        quoted = " ".join("'" + w + "'" for w in words)
        (self.folder / "quern.bash").write_text(script or self.out("help", "--completion", "bash"))
        done = subprocess.run(["bash", "--norc", "-c", f"source quern.bash; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _quern; printf '%s\\n' \"${{COMPREPLY[@]}}\""],
                              capture_output=True, text=True, cwd=self.folder, env=self.env, check=True)
        self.assertEqual(done.stderr, "")
        return sorted(filter(None, done.stdout.split("\n")))

    def test_bash_commands_and_options(self):
        self.assertIn("serve", self.bash("quern "))
        self.assertEqual(self.bash("quern se"), ["serve"])
        self.assertEqual(self.bash("quern serve --conf"), ["--config"])
        self.assertEqual(self.bash("quern serve --prompt"), [], "an option of another command")
        self.assertIn("--prompt", self.bash("quern run --"))
        self.assertIn("-m", self.bash("quern run -"))

    def test_bash_values(self):
        self.assertEqual(self.bash("quern run --isa a"), ["auto", "avx2", "avx512"])
        self.assertEqual(self.bash("quern run --isa=ne"), ["neon"])
        self.assertEqual(self.bash("quern run --isa="), ["auto", "avx2", "avx512", "generic", "neon"])
        self.assertEqual(self.bash("quern help --completion "), ["bash", "fish", "zsh"])
        self.assertEqual(self.bash("quern run --temp "), [], "a number is the user's")
        (self.folder / "a b.gguf").touch()
        (self.folder / "sub").mkdir()
        self.assertIn("a b.gguf", self.bash("quern run -m a"))
        self.assertIn("gemma3-270m", self.bash("quern run --model ge"))
        self.assertEqual(self.bash("quern run --cache su"), ["sub"])
        self.assertEqual(self.bash("quern run --cache a"), [], "a file is no folder")

    def test_bash_arguments(self):
        (self.folder / "x.gguf").touch()
        self.assertEqual(self.bash("quern info x"), ["x.gguf"])
        self.assertEqual(self.bash("quern models "), ["get", "list", "path", "remove"])
        self.assertIn("tokenize", self.bash("quern help to"))

    def test_every_option_of_every_command(self):
        listed = re.findall(r"^  (\w+)  ", self.out("help"), re.M)
        self.assertGreater(len(listed), 10)
        fish = self.out("help", "--completion", "fish")
        zsh = self.out("help", "--completion", "zsh")
        for command in listed:
            options = re.findall(r"^  .{4}--([\w-]+)", self.out("help", command), re.M)
            self.assertEqual([o for o in self.bash(f"quern {command} --")], sorted("--" + o for o in options), command)
            for option in options:
                self.assertRegex(fish, rf"__quern_has {command}' -l {option}[ \n]")
                self.assertIn(f"--{option}", zsh)

    @needs("fish")
    def test_fish(self):
        (self.folder / "quern.fish").write_text(self.out("help", "--completion", "fish"))

        def ask(line):
            done = subprocess.run(["fish", "--no-config", "-c", f"source quern.fish; complete -C '{line}'"], capture_output=True, text=True,
                                  cwd=self.folder, env=self.env, check=True)
            self.assertEqual(done.stderr, "")
            return [entry.split("\t")[0] for entry in done.stdout.splitlines()]
        self.assertIn("serve", ask("quern se"))
        self.assertEqual(ask("quern serve --conf"), ["--config"])
        self.assertEqual(sorted(ask("quern run --isa a")), ["auto", "avx2", "avx512"])
        self.assertIn("remove", ask("quern models r"))
        self.assertNotIn("--prompt", ask("quern serve --p"))

    @needs("zsh")
    def test_zsh_reads_its_script(self):
        script = self.out("help", "--completion", "zsh")
        self.assertTrue(script.startswith("#compdef quern\n"))
        for text, good in ((script, True), (script.replace("esac", "", 1), False)):
            (self.folder / "_quern").write_text(text)
            done = subprocess.run(["zsh", "-f", "-n", "_quern"], capture_output=True, text=True, cwd=self.folder)
            self.assertEqual(done.returncode == 0 and done.stderr == "", good, done.stderr)
        # Its options, as zsh's own machinery takes them apart.
        ask = ("_arguments() { for spec in \"$@\"; do print -r -- \"$spec\"; done }; "
               "_describe() { print -l -- ${(P)2}; }; words=(quern run ''); CURRENT=3; source ./_quern")
        (self.folder / "_quern").write_text(script)
        done = subprocess.run(["zsh", "-f", "-c", ask], capture_output=True, text=True, cwd=self.folder, env=self.env)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        specs = done.stdout.splitlines()
        self.assertTrue(any(s.startswith("(-m --model)--model=[a GGUF file") for s in specs), specs)
        self.assertTrue(any(s.startswith("*--no-fuse=[") for s in specs), specs)

    def test_unknown_shells_are_refused(self):
        self.assertIn("give one of bash, zsh, fish", self.error("help", "--completion", "csh", code=2))


class ManPage(Program):
    def warnings(self, page):
        (self.folder / "quern.1").write_text(page)
        done = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", "quern.1"], stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True, cwd=self.folder, env={**self.env, "LC_ALL": "C.UTF-8", "MANWIDTH": "80"})
        return done.stderr

    @needs("man")
    def test_it_has_no_fault(self):
        page = self.out("help", "--man")
        self.assertEqual(self.warnings(page), "")
        self.assertNotEqual(self.warnings(page + ".XY nothing\n"), "", "the control: no such request")

    @needs("man")
    def test_what_it_shows(self):
        (self.folder / "quern.1").write_text(self.out("help", "--man"))
        shown = subprocess.run(["man", "-E", "UTF-8", "-l", "-P", "cat", "quern.1"], capture_output=True, text=True, cwd=self.folder,
                               env={**self.env, "LC_ALL": "C.UTF-8", "MANWIDTH": "80", "MAN_KEEP_FORMATTING": ""}, check=True).stdout
        shown = re.sub(r".\x08", "", re.sub(r"\x1b\[[0-9;]*m", "", shown))
        for part in ("NAME\n", "quern serve\n", "--idle-unload SECONDS", "CONFIGURATION FILE", "preload", "QUERN_API_KEY", "EXIT STATUS",
                     "\n         quern serve -m model.gguf\n"):
            self.assertIn(part, shown)


class Unit(Program):
    def unit(self, **changes):
        text = UNIT.read_text().replace("@CMAKE_INSTALL_FULL_BINDIR@/quern", QUERN)
        for old, new in changes.items():
            self.assertIn(old, text)
            text = text.replace(old, new)
        path = self.folder / "quern.service"
        path.write_text(text)
        return path

    def analyze(self, *args):
        done = subprocess.run(["systemd-analyze", *args], capture_output=True, text=True, env={**self.env, "SYSTEMD_COLORS": "0", "SYSTEMD_PAGER": ""}, timeout=120)
        return done.returncode, done.stdout + done.stderr

    @needs("systemd-analyze")
    def test_verify(self):
        def complaints(path):
            _, said = self.analyze("verify", "--man=no", str(path))
            return [line for line in said.splitlines() if "quern.service" in line]
        self.assertEqual(complaints(self.unit()), [])
        self.assertNotEqual(complaints(self.unit(ProtectSystem="ProtectSytem")), [])

    @needs("systemd-analyze")
    def test_security(self):
        def exposure(path):
            code, said = self.analyze("security", "--offline=true", "--no-pager", str(path))
            found = re.search(r"Overall exposure level for quern.service: ([\d.]+)", said)
            self.assertTrue(found, said)
            return float(found[1])
        self.assertLessEqual(exposure(self.unit()), MOST_EXPOSED)
        self.assertGreater(exposure(self.unit(**{"ProtectSystem=strict": "", "CapabilityBoundingSet=": "", "PrivateDevices=yes": "", "RestrictNamespaces=yes": "",
                                                 "SystemCallFilter=@system-service": ""})), MOST_EXPOSED)

    def test_the_program_runs_without_memory_that_is_written_and_executed(self):
        """What MemoryDenyWriteExecute asks, where the kernel can be asked for it alone (PR_SET_MDWE, Linux 6.3)."""
        libc = ctypes.CDLL(None, use_errno=True)

        def refuse():
            if libc.prctl(65, 1, 0, 0, 0) != 0:
                os._exit(77)
        probe = "import mmap; mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)"
        control = subprocess.run([sys.executable, "-c", probe], preexec_fn=refuse, capture_output=True, text=True)
        if control.returncode == 77:
            self.skipTest("the kernel has no PR_SET_MDWE")
        self.assertIn("PermissionError", control.stderr)
        done = subprocess.run([QUERN, "run", "-m", tiny_model(), "--raw", "-n", "4", "--image", "off", "-p", "abc"], preexec_fn=refuse, capture_output=True,
                              text=True, env=self.env, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)


def dockerfile_faults(text):
    """What is wrong with the Dockerfile; no docker is needed."""
    faults = []
    lines = [re.sub(r"\s+", " ", line).strip() for line in re.sub(r"\\\n", " ", text).splitlines()]
    steps = [line.split(" ", 1) for line in lines if line and not line.startswith("#")]
    last = max((i for i, step in enumerate(steps) if step[0] == "FROM"), default=0)
    final = steps[last:]
    known = {"FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "VOLUME", "EXPOSE", "HEALTHCHECK", "STOPSIGNAL", "ENTRYPOINT", "CMD", "ARG", "LABEL"}
    faults += [f"unknown instruction {step[0]}" for step in steps if step[0] not in known]
    if sum(step[0] == "FROM" for step in steps) < 2:
        faults.append("one stage only: the compiler would be shipped")
    faults += [f"FROM without a version: {step[1]}" for step in steps if step[0] == "FROM" and (":" not in step[1] or step[1].endswith(":latest"))]
    users = [step[1] for step in final if step[0] == "USER"]
    if not users or users[-1] in ("root", "0"):
        faults.append("runs as root")
    if not any(step[0] == "HEALTHCHECK" and "/health" in step[1] for step in final):
        faults.append("no HEALTHCHECK of /health")
    entries = [step[1] for step in final if step[0] == "ENTRYPOINT"]
    if len(entries) != 1 or not entries[0].startswith("["):
        faults.append("ENTRYPOINT must be one, as a list: a shell would swallow SIGTERM")
    for step in steps:
        if step[0] == "RUN" and "apt-get install" in step[1] and ("--no-install-recommends" not in step[1] or "rm -rf /var/lib/apt/lists" not in step[1]):
            faults.append("apt-get install leaves its lists or brings what is not needed")
        if step[0] in ("ENV", "ARG") and "KEY" in step[1]:
            faults.append("a secret in the image")
    for step in steps:
        if step[0] == "COPY" and not step[1].startswith("--from"):
            faults += [f"COPY of {source}, which is not there" for source in step[1].split()[:-1] if not (SOURCE / source).exists()]
    return faults


class Dockerfile(Program):
    def test_it_has_no_fault(self):
        text = DOCKERFILE.read_text()
        self.assertEqual(dockerfile_faults(text), [])
        for old, new in (("USER quern", "USER root"), ("HEALTHCHECK", "# HEALTHCHECK"), ("debian:12-slim", "debian"), ('ENTRYPOINT ["/usr/bin/quern", ', "ENTRYPOINT quern #"),
                         ("ENV QUERN_CACHE", "ENV QUERN_API_KEY=x QUERN_CACHE"), ("rm -rf", "ls"), ("COPY tools/setup.sh", "COPY tools/nothing.sh"), ("EXPOSE", "EXPOZE")):
            self.assertIn(old, text)
            self.assertNotEqual(dockerfile_faults(text.replace(old, new)), [], f"the control: {new}")

    def test_its_libraries_are_those_that_the_program_is_linked_with(self):
        if not shutil.which("dpkg-query"):
            self.skipTest("dpkg is not installed")
        wanted = set()
        needed = re.findall(r"NEEDED\s+(\S+)", subprocess.run(["objdump", "-p", QUERN], capture_output=True, text=True, check=True).stdout)
        paths = dict(re.findall(r"(\S+) => (\S+)", subprocess.run(["ldd", QUERN], capture_output=True, text=True, check=True).stdout))
        for name in needed:
            path = paths.get(name, "")
            if re.match(r"lib(asan|ubsan|tsan)", name) or not path:
                continue  # of test builds; the loader
            for form in (path, os.path.realpath(path), path.removeprefix("/usr"), "/usr" + path):
                owner = subprocess.run(["dpkg-query", "-S", form], capture_output=True, text=True).stdout
                if owner:
                    wanted.add(owner.split(":")[0])
                    break
            else:
                self.fail(f"no package has {path}")
        wanted -= {"libc6", "libstdc++6", "libgcc-s1"}  # of the base image
        self.assertGreater(len(wanted), 4, "the control: something was found")
        listed = set(DOCKERFILE.read_text().split())
        self.assertEqual({w for w in wanted if w not in listed}, set())

    def test_what_it_starts_is_a_command_line_of_ours(self):
        entry = re.search(r"^ENTRYPOINT \[(.*)\]$", DOCKERFILE.read_text(), re.M)[1]
        args = re.findall(r'"([^"]*)"', entry)
        self.assertEqual(args[0], "/usr/bin/quern")
        # Without a key it says what to do; with one all is well (the check loads nothing).
        self.assertIn("give --api-key", self.error(*args[1:], "-m", tiny_model(), code=2))
        self.out(*args[1:], "-m", tiny_model(), "--check-config", env={"QUERN_API_KEY": "secret"})


class Install(Program):
    def test_what_goes_where(self):
        if not (BUILD / "CMakeCache.txt").exists() or not (BUILD / "apps/quern/written/quern.1").exists():
            self.skipTest("the build tree has no pages: ninja builds them with everything else")
        prefix = self.folder / "prefix"
        subprocess.run(["cmake", "--install", str(BUILD), "--component", "quern", "--prefix", str(prefix)], check=True, capture_output=True)
        files = {str(p.relative_to(prefix)) for p in prefix.rglob("*") if p.is_file()}
        self.assertEqual(files, {"bin/quern", "share/man/man1/quern.1", "share/bash-completion/completions/quern", "share/zsh/site-functions/_quern",
                                 "share/fish/vendor_completions.d/quern.fish", "lib/systemd/system/quern.service", "share/doc/quern/quern.toml"})
        self.assertEqual((prefix / "share/man/man1/quern.1").read_text(), self.out("help", "--man"))
        self.assertEqual((prefix / "share/bash-completion/completions/quern").read_text(), self.out("help", "--completion", "bash"))
        self.assertNotIn("@", (prefix / "lib/systemd/system/quern.service").read_text().replace("@system-service", "").replace("@privileged", "").replace("@resources", ""))


if __name__ == "__main__":
    unittest.main()
