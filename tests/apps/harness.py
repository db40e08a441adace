"""Running the quern program as a user does: helpers of the black-box tests. Standard library only."""
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import tempfile
import termios
import time
import unittest
from pathlib import Path

QUERN = os.environ["QUERN_BINARY"]
SOURCE = Path(os.environ["QUERN_SOURCE_DIR"])
MODELS = Path(os.environ["QUERN_TEST_DATA"]) / "tiny"
STATS = re.compile(r"\[prompt (\d+) tok(?: \(\d+ reused\))?, [\d.]+ tok/s \| answer (\d+) tok, [\d.]+ tok/s\]")
CHATML = ("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
          "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")


def tiny_model(name="llama"):
    path = MODELS / f"{name}.gguf"
    if not path.exists():
        raise AssertionError(f"{path} is missing: tools/make_testdata.py makes it")
    return str(path)


def gguf_string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def gguf_key(key, text):
    return gguf_string(key) + struct.pack("<I", 8) + gguf_string(text)


def with_template(source, target, template):
    """A copy of a GGUF file with a chat template put before its other keys; the data keeps its alignment."""
    data = Path(source).read_bytes()
    magic, version, n_tensors, n_keys = struct.unpack_from("<4sIQQ", data)
    assert magic == b"GGUF" and version == 3
    extra = gguf_key("tokenizer.chat_template", template)
    room = -(len(extra) + len(gguf_key("test.pad", ""))) % 32
    extra += gguf_key("test.pad", "x" * room)
    Path(target).write_bytes(struct.pack("<4sIQQ", magic, version, n_tensors, n_keys + 2) + extra + data[24:])
    return str(target)


class Program(unittest.TestCase):
    """Each test has a folder of its own, which is also its cache and its home."""

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="quern-cli-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        keep = {k: v for k, v in os.environ.items() if not k.startswith("QUERN_") and k not in ("XDG_CACHE_HOME", "NO_COLOR")}
        self.env = {**keep, "HOME": str(self.folder), "QUERN_CACHE": str(self.folder / "cache"), "TERM": "xterm", "LC_ALL": "C.UTF-8"}

    def quern(self, *args, stdin="", code=0, env=None, timeout=120, text=True):
        done = subprocess.run([QUERN, *map(str, args)], input=stdin if text else stdin.encode(), capture_output=True, text=text, timeout=timeout,
                              env={**self.env, **(env or {})}, cwd=self.folder)
        self.assertEqual(done.returncode, code, f"{args}\nstdout: {done.stdout[-2000:]}\nstderr: {done.stderr[-2000:]}")
        return done

    def out(self, *args, **more):
        return self.quern(*args, **more).stdout

    def json(self, *args, **more):
        return json.loads(self.out(*args, **more))

    def error(self, *args, code=1, **more):
        done = self.quern(*args, code=code, **more)
        self.assertEqual(done.stdout, "", "data on standard output besides an error")
        self.assertEqual(done.stderr.strip().count("\n"), 0, f"more than one line: {done.stderr}")
        return done.stderr

    def fake_python(self, script):
        """A python3 first on PATH that plays pip."""
        folder = self.folder / "bin"
        folder.mkdir(exist_ok=True)
        path = folder / "python3"
        path.write_text("#!/bin/sh\n" + script + "\n")
        path.chmod(0o755)
        self.env["PATH"] = f"{folder}:{os.environ['PATH']}"


class Terminal:
    """The program on a pseudo-terminal."""

    def __init__(self, args, env, cwd):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(cwd)
            os.execve(QUERN, [QUERN, *map(str, args)], env)
        self.seen = self.all = ""

    def wait_for(self, pattern, timeout=60):
        """Reads until the pattern is in what came since the last match; returns the match."""
        end = time.monotonic() + timeout
        while True:
            match = re.search(pattern, self.seen)
            if match:
                self.seen = self.seen[match.end():]
                return match
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.fd], [], [], left)[0]:
                raise AssertionError(f"no {pattern!r} in {self.seen!r}")
            try:
                data = os.read(self.fd, 65536)
            except OSError:
                data = b""
            if not data:
                raise AssertionError(f"ended before {pattern!r}: {self.seen!r}")
            self.seen += data.decode(errors="replace")
            self.all += data.decode(errors="replace")

    def wait_for_prompt(self):
        """A prompt, and the line editor ready behind it (it shows the prompt a moment before it takes the keys over)."""
        self.wait_for("> ")
        end = time.monotonic() + 30
        while termios.tcgetattr(self.fd)[3] & termios.ICANON:
            if time.monotonic() > end:
                raise AssertionError("the line editor does not take over")
            time.sleep(0.01)

    def type(self, text):
        os.write(self.fd, text.encode())

    def end(self, timeout=30):
        """The exit status, -signal where one ended it."""
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            if select.select([self.fd], [], [], 0.05)[0]:
                try:
                    os.read(self.fd, 65536)
                except OSError:
                    pass
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                os.close(self.fd)
                return os.waitstatus_to_exitcode(status)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        raise AssertionError("the program does not end")
