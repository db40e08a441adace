#!/usr/bin/env python3
"""quern serve --config: what a file's values do, per-model overrides, who wins over whom, refusals; and what the service
manager is told."""
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from server import QUERN, Server, scripted, tiny, wait_until  # noqa: E402

HELLO = [{"role": "user", "content": "hello"}]
LONG = {"prompt": "a b c d " * 400, "max_tokens": 1}


class Config(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="quern-config-")
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name) / "q.toml"

    def start(self, toml, *args, env=None):
        self.path.write_text(toml)
        server = Server("--config", str(self.path), *args, env=env)
        self.addCleanup(server.stop)
        return server

    def run_quern(self, toml, *args, code, env=None):
        self.path.write_text(toml)
        keep = {k: v for k, v in os.environ.items() if not k.startswith("QUERN_")}
        done = subprocess.run([QUERN, "serve", "--config", str(self.path), *args], capture_output=True, text=True, timeout=60,
                              env={**keep, "HOME": str(self.path.parent), "QUERN_CACHE": str(self.path.parent), **(env or {})})
        self.assertEqual(done.returncode, code, done.stderr + done.stdout)
        return done

    def states(self, server):
        return {m["id"]: m["state"] for m in server.get("/v1/models")["data"]}

    def n_ctx(self, server, model):
        """The context of a model, as the refusal of a prompt that does not fit says it."""
        return server.post("/v1/completions", {**LONG, "model": model}, 400)["error"]["n_ctx"]


class Models(Config):
    def test_tables(self):
        server = self.start(f"""
            ctx = 256
            api-key = ["one", "two"]
            [[model]]
            path = "{tiny()}"
            [[model]]
            path = "{tiny("gemma3")}"
            id = "other"
            ctx = 512
            preload = true
            [[model]]
            path = "{scripted("think")}"
            """)
        self.assertEqual(server.ask("GET", "/v1/models")[0], 401)
        ask = {"Authorization": "Bearer two"}
        models = json.loads(server.ask("GET", "/v1/models", headers=ask)[2])["data"]
        self.assertEqual([(m["id"], m["state"]) for m in models], [("llama", "loaded"), ("other", "loaded"), ("think", "unloaded")])
        for model, n in (("llama", 256), ("other", 512), ("think", 256)):
            error = json.loads(server.ask("POST", "/v1/completions", {**LONG, "model": model}, ask)[2])["error"]
            self.assertEqual(error["n_ctx"], n, model)

    def test_the_first_waits_where_it_shall(self):
        server = self.start(f'[[model]]\npath = "{tiny()}"\npreload = false\n[[model]]\npath = "{tiny("gemma3")}"\n')
        self.assertEqual(self.states(server), {"llama": "unloaded", "gemma3": "unloaded"})
        self.assertEqual(server.post("/v1/completions", {"prompt": "a", "max_tokens": 1})["model"], "llama")
        self.assertEqual(self.states(server), {"llama": "loaded", "gemma3": "unloaded"})

    def test_an_idle_model_goes_and_the_other_stays(self):
        server = self.start(f'[[model]]\npath = "{tiny()}"\nidle-unload = 1\n[[model]]\npath = "{tiny("gemma3")}"\npreload = true\n')
        self.assertTrue(wait_until(lambda: self.states(server) == {"llama": "unloaded", "gemma3": "loaded"}, 30), server.log)

    def test_sampling_of_each_model(self):
        server = self.start(f'temp = 5.0\n[[model]]\npath = "{tiny()}"\nid = "wild"\n[[model]]\npath = "{tiny()}"\nid = "calm"\ntemp = 0\n')

        def texts(**more):
            body = {"prompt": "abc", "max_tokens": 16, "ignore_eos": True, **more}
            return {server.post("/v1/completions", {**body, "seed": seed})["choices"][0]["text"] for seed in range(4)}
        self.assertGreater(len(texts(model="wild")), 1)
        self.assertGreater(len(texts()), 1, "no model named: the first one's")
        self.assertEqual(len(texts(model="calm")), 1)
        self.assertEqual(len(texts(model="wild", temperature=0)), 1, "a request's own word counts")

    def test_reasoning_of_each_model(self):
        server = self.start(f'[[model]]\npath = "{scripted("think")}"\n[[model]]\npath = "{scripted("think")}"\nid = "quiet"\nthinking = "off"\n'
                            f'[[model]]\npath = "{scripted("harmony")}"\nreasoning-effort = "high"\nthinking = "off"\n')

        def reasons(**more):
            return "reasoning_content" in server.post("/v1/chat/completions", {"messages": HELLO, **more})["choices"][0]["message"]
        self.assertTrue(reasons(model="think"))
        self.assertFalse(reasons(model="quiet"))
        self.assertTrue(reasons(model="quiet", enable_thinking=True))
        prompt = server.post("/apply-template", {"messages": HELLO, "model": "harmony"})["prompt"]
        self.assertIn("Reasoning: high", prompt, "and a template that has no thinking to turn off is no error")
        low = server.post("/apply-template", {"messages": HELLO, "model": "harmony", "reasoning_effort": "low"})["prompt"]
        self.assertIn("Reasoning: low", low)


class Precedence(Config):
    def test_command_line_over_environment_over_file_over_default(self):
        toml = f'ctx = 300\n[[model]]\npath = "{tiny()}"\n'
        for args, env, n in (((), {}, 300), ((), {"QUERN_CTX": "400"}, 400), (("-c", "500"), {"QUERN_CTX": "400"}, 500)):
            self.assertEqual(self.n_ctx(self.start(toml, *args, env=env), "llama"), n)
        # A model's table is part of the file: it wins over the file's top level only.
        toml += "ctx = 350\n"
        for args, n in (((), 350), (("-c", "500"), 500)):
            self.assertEqual(self.n_ctx(self.start(toml, *args), "llama"), n)

    def test_models_of_the_command_line_replace_those_of_the_file(self):
        server = self.start(f'ctx = 300\n[[model]]\npath = "{tiny("gemma3")}"\n', "-m", f"mine={tiny()}")
        self.assertEqual(list(self.states(server)), ["mine"])
        self.assertEqual(self.n_ctx(server, "mine"), 300)
        self.assertIn("its models are left out", "".join(server.log))

    def test_models_as_texts(self):
        server = self.start(f'model = ["a={tiny()}", "b={tiny("gemma3")}"]\n')
        self.assertEqual(self.states(server), {"a": "loaded", "b": "unloaded"})

    def test_the_file_by_the_environment(self):
        self.path.write_text(f'[[model]]\npath = "{tiny()}"\nid = "mine"\n')
        server = Server(env={"QUERN_CONFIG": str(self.path)})
        self.addCleanup(server.stop)
        self.assertEqual(list(self.states(server)), ["mine"])


class Refusals(Config):
    def refused(self, toml, *args, code=1):
        done = self.run_quern(toml, *args, code=code)
        self.assertEqual((done.stdout, done.stderr.strip().count("\n")), ("", 0), done.stderr)
        return done.stderr.replace(str(self.path), "q.toml")

    def test_each_names_its_place(self):
        model = f'[[model]]\npath = "{tiny()}"\n'
        for toml, said in (
                ("port = 70000\n" + model, "q.toml:1: port: '70000' is not allowed; give a whole number from 0 to 65535"),
                ("prot = 1\n" + model, "q.toml:1: unknown key prot; did you mean port?"),
                (model + "ctx = -1\n", "q.toml:3: ctx: '-1' is not allowed"),
                (model + "port = 1\n", "q.toml:3: unknown key port in [[model]]"),
                ("[[model]]\nid = \"x\"\n", "q.toml:1: a [[model]] needs either path"),
                (model + "name = \"smollm2-135m\"\n", "q.toml:1: a [[model]] needs either path"),
                ("[[model]]\npath = \"nowhere.gguf\"\n", "q.toml:1: there is no file nowhere.gguf"),
                ("[[model]]\nname = \"nothing\"\n", "q.toml:1: "),
                (model + model, "each model needs an id of its own; 'llama'"),
                ("host = \"0.0.0.0\"\n" + model, "give --api-key")):
            self.assertIn(said, self.refused(toml, code=2 if "api-key" in said else 1), toml)

    def test_what_loses_is_checked_too(self):
        self.assertIn("q.toml:1: port: '70000'", self.refused("port = 70000\n", "--port", "0"))

    def test_a_file_that_is_not_there(self):
        done = subprocess.run([QUERN, "serve", "--config", "/nowhere/q.toml"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 1)
        self.assertIn("/nowhere/q.toml", done.stderr)


class Check(Config):
    def test_it_says_what_would_be_served_and_ends(self):
        toml = f'[[model]]\npath = "{tiny()}"\n[[model]]\npath = "{tiny("gemma3")}"\nid = "b"\n'
        self.assertEqual(self.run_quern(toml, "--check-config", code=0).stdout, f"llama = {tiny()} (loaded at the start)\nb = {tiny('gemma3')}\n")
        self.assertIn("did you mean ctx?", self.run_quern(toml + "cxt = 1\n", "--check-config", code=1).stderr)

    def test_the_packaged_file_holds(self):
        text = (Path(os.environ["QUERN_SOURCE_DIR"]) / "packaging/quern.toml").read_text()
        self.assertIn('name = "smollm2-135m"', text)
        local = text.replace('name = "smollm2-135m"', f'path = "{tiny()}"')
        self.run_quern(local, "--check-config", code=0)
        # What it shows as comments holds as well.
        shown = "".join(line.removeprefix("# ") + "\n" if line.startswith(("# [[", "# path", "# id", "# ctx", "# temp", "# idle")) else line + "\n"
                        for line in local.splitlines()).replace("/srv/models/large.gguf", tiny("gemma3"))
        self.assertIn("large = ", self.run_quern(shown, "--check-config", code=0).stdout)


class Prefixes(Config):
    def test_they_outlive_the_server(self):
        folder = self.path.parent / "prefixes"
        toml = f'prefix-cache-dir = "{folder}"\n[[model]]\npath = "{tiny()}"\n'
        body = {"prompt": "a b c d " * 60, "max_tokens": 8, "temperature": 0, "logprobs": 1, "ignore_eos": True}

        def ask():
            server = Server("--config", str(self.path))
            try:
                return server.post("/v1/completions", body), server.get("/v1/stats")["models"][0]["prefix_restored_total"]
            finally:
                self.assertEqual(server.stop(), 0)
        self.path.write_text(toml)
        (first, none), (second, one) = ask(), ask()
        self.assertEqual((none, one), (0, 1))
        self.assertEqual(first["usage"]["prompt_tokens_details"]["cached_tokens"], 0)
        self.assertGreaterEqual(second["usage"]["prompt_tokens_details"]["cached_tokens"], 64)
        self.assertEqual(first["choices"], second["choices"])
        self.assertEqual(len(list(folder.iterdir())), 1)


class ServiceManager(unittest.TestCase):
    def test_it_is_told_of_the_start_and_the_end(self):
        with tempfile.TemporaryDirectory(prefix="quern-notify-") as folder:
            for name, bound in ((f"{folder}/socket", f"{folder}/socket"), (f"@quern-{os.getpid()}", f"\0quern-{os.getpid()}")):
                with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
                    told.bind(bound)
                    told.settimeout(60)
                    server = Server("-m", tiny(), env={"NOTIFY_SOCKET": name})
                    self.assertEqual(told.recv(100), b"READY=1")
                    self.assertEqual(server.get("/health")["status"], "ok")
                    server.process.send_signal(signal.SIGTERM)
                    self.assertEqual(told.recv(100), b"STOPPING=1")
                    self.assertEqual(server.stop(), 0)

    def test_one_that_is_not_there_is_a_warning(self):
        server = Server("-m", tiny(), env={"NOTIFY_SOCKET": "/nowhere/socket"})
        self.assertEqual(server.stop(), 0)
        self.assertIn("service manager at /nowhere/socket", "".join(server.log))


if __name__ == "__main__":
    unittest.main()
