"""A quern serve of a test's own on a free port of 127.0.0.1, and plain HTTP to it. Standard library only."""
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import unittest
from pathlib import Path

QUERN = os.environ["QUERN_BINARY"]
MODELS = Path(os.environ["QUERN_TEST_DATA"])


def scripted(name):
    return str(MODELS / "scripted" / f"{name}.gguf")


def tiny(name="llama"):
    return str(MODELS / "tiny" / f"{name}.gguf")


class Server:
    def __init__(self, *args, env=None):
        self.folder = tempfile.mkdtemp(prefix="quern-serve-")
        keep = {k: v for k, v in os.environ.items() if not k.startswith("QUERN_")}
        self.process = subprocess.Popen([QUERN, "serve", "--port", "0", "--threads", "1", "--image", "off", "--tune", "off", *args], stderr=subprocess.PIPE, text=True,
                                        env={**keep, "HOME": self.folder, "QUERN_CACHE": self.folder, **(env or {})})
        self.log = []
        self.port = None
        started = threading.Event()

        def read():
            for line in self.process.stderr:
                self.log.append(line)
                found = re.search(r"listening on https?://\S+:(\d+)$", line)
                if found:
                    self.port = int(found[1])
                    started.set()
            started.set()

        self.reader = threading.Thread(target=read, daemon=True)
        self.reader.start()
        started.wait(60)
        if self.port is None:
            self.process.kill()
            raise AssertionError(f"quern serve did not start: {self.log}")

    def connect(self, timeout=30):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def ask(self, method, path, body=None, headers=None):
        """(status, headers, body as text)"""
        connection = self.connect()
        try:
            data = json.dumps(body).encode() if isinstance(body, (dict, list)) else body
            connection.request(method, path, data, headers or {})
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read().decode()
        finally:
            connection.close()

    def post(self, path, body, status=200, **headers):
        got, _, text = self.ask("POST", path, body, headers)
        if got != status:
            raise AssertionError(f"{path} gave {got}, not {status}: {text}")
        return json.loads(text)

    def get(self, path, status=200):
        got, _, text = self.ask("GET", path)
        if got != status:
            raise AssertionError(f"{path} gave {got}, not {status}: {text}")
        return json.loads(text)

    def events(self, path, body):
        """The data of each event of a stream; comments apart."""
        connection = self.connect()
        try:
            connection.request("POST", path, json.dumps({**body, "stream": True}).encode())
            answer = connection.getresponse()
            text = answer.read().decode()
            if answer.status != 200:
                raise AssertionError(f"{path} gave {answer.status}: {text}")
            blocks = [b for b in text.split("\n\n") if b and not b.startswith(":")]
            out = []
            for block in blocks:
                data = [line[6:] for line in block.split("\n") if line.startswith("data: ")]
                assert len(data) == 1, block
                out.append(data[0] if data[0] == "[DONE]" else json.loads(data[0]))
            return out
        finally:
            connection.close()

    def stop(self, number=signal.SIGTERM, timeout=40):
        if self.process.poll() is None:
            self.process.send_signal(number)
            try:
                self.process.wait(timeout)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise AssertionError(f"quern serve did not stop: {self.log}") from None
        self.reader.join(5)
        self.process.stderr.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        return self.process.returncode


class ServerTest(unittest.TestCase):
    """One server for the tests of a class; ARGS are its arguments."""
    ARGS = ()

    @classmethod
    def setUpClass(cls):
        cls.server = Server(*cls.ARGS)

    @classmethod
    def tearDownClass(cls):
        code = cls.server.stop()
        if code != 0:
            raise AssertionError(f"quern serve ended with {code}: {cls.server.log}")

    def refused(self, path, body, field, status=400):
        error = self.server.post(path, body, status)["error"]
        self.assertEqual(error["param"], field, error)
        return error


def wait_until(what, seconds=10):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if what():
            return True
        time.sleep(0.02)
    return False
