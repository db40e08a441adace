#!/usr/bin/env python3
"""The commands that run a model, on tiny random models: run, chat, plan, logits, embed, bench, eval."""
import json
import math
import os
import random
import resource
import signal
import struct
import subprocess
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from harness import CHATML, QUERN, STATS, Program, Terminal, tiny_model, with_template  # noqa: E402


def read_npy(path):
    """Rows of an f32 .npy, as tuples."""
    data = Path(path).read_bytes()
    assert data[:6] == b"\x93NUMPY"
    n = struct.unpack_from("<H", data, 8)[0]
    header = eval(data[10:10 + n].decode())  # a literal that our own program wrote
    assert header["descr"] == "<f4" and not header["fortran_order"], header
    rows, columns = header["shape"]
    return [struct.unpack_from(f"<{columns}f", data, 10 + n + 4 * columns * r) for r in range(rows)]


class Run(Program):
    def run_raw(self, *args, **more):
        return self.quern("run", "-m", tiny_model(), "--raw", "-n", "12", "--temp", "0", *args, **more)

    def test_answer_on_stdout_statistics_on_stderr(self):
        done = self.run_raw("-p", "Once upon a time")
        self.assertTrue(done.stdout.endswith("\n") and len(done.stdout) > 1)
        match = STATS.search(done.stderr)
        self.assertTrue(match, done.stderr)
        self.assertEqual(int(match[2]), 12)
        self.assertNotIn("\r", done.stderr)

    def test_the_same_however_it_is_asked_and_computed(self):
        first = self.run_raw("-p", "Once upon a time").stdout
        self.assertEqual(self.run_raw("Once", "upon", "a", "time").stdout, first)
        self.assertEqual(self.run_raw("-", stdin="Once upon a time").stdout, first)
        self.assertEqual(self.run_raw(stdin="Once upon a time").stdout, first)
        for more in (["-t", "1"], ["-t", "2"], ["--chunk", "1"], ["--chunk", "3"], ["--no-fuse", "all"]):
            self.assertEqual(self.run_raw("-p", "Once upon a time", *more).stdout, first, more)

    def test_seed(self):
        sampled = [self.quern("run", "-m", tiny_model(), "--raw", "-n", "24", "--temp", "1.5", "--seed", s, "hello").stdout for s in ("1", "1", "2")]
        self.assertEqual(sampled[0], sampled[1])
        self.assertNotEqual(sampled[0], sampled[2])

    def test_no_template_is_said_and_raw_done(self):
        plain = self.quern("run", "-m", tiny_model(), "-n", "8", "--temp", "0", "hello")
        self.assertIn("no chat template", plain.stderr)
        self.assertEqual(plain.stdout, self.quern("run", "-m", tiny_model(), "--raw", "-n", "8", "--temp", "0", "hello").stdout)

    def test_a_template_is_applied_unless_raw(self):
        path = with_template(tiny_model(), self.folder / "t.gguf", CHATML)
        prompt = "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n"
        chat = self.quern("run", "-m", path, "-n", "8", "--temp", "0", "--system", "Be brief.", "hello")
        self.assertNotIn("no chat template", chat.stderr)
        raw = self.quern("run", "-m", path, "--raw", "-n", "8", "--temp", "0", "-p", prompt)
        self.assertEqual(chat.stdout, raw.stdout)

    def test_no_tokens_asked(self):
        done = self.quern("run", "-m", tiny_model(), "--raw", "-n", "0", "hello")
        self.assertEqual(done.stdout, "\n")
        self.assertEqual(int(STATS.search(done.stderr)[2]), 0)

    def test_a_prompt_that_does_not_fit_names_both_numbers(self):
        error = self.error("run", "-m", tiny_model(), "--raw", "-c", "8", "-p", "word " * 50)
        self.assertRegex(error, r"\b8\b")

    def test_ctrl_c_stops_and_reports(self):
        process = subprocess.Popen([QUERN, "run", "-m", tiny_model(), "--raw", "-n", "100000000", "-c", "1000000", "--temp", "0", "hello"], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, env=self.env, text=True)
        self.assertTrue(process.stdout.read(1))
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, -signal.SIGINT)
        self.assertTrue(STATS.search(err), err)
        self.assertTrue(out.endswith("\n"))

    def test_a_reader_that_leaves_ends_the_answer(self):
        process = subprocess.Popen([QUERN, "run", "-m", tiny_model(), "--raw", "-n", "100000000", "-c", "1000000", "--temp", "0", "hello"], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, env=self.env)
        process.stdout.read(1)
        process.stdout.close()
        self.assertEqual(process.wait(timeout=60), 0, process.stderr.read())
        process.stderr.close()

    def test_a_broken_model_is_one_line(self):
        path = self.folder / "cut.gguf"
        path.write_bytes(Path(tiny_model()).read_bytes()[:-64])
        self.assertIn("cut.gguf", self.error("run", "-m", path, "hello"))


class Plan(Program):
    def test_plan_shows_fusions_and_refuses_unknown_ones(self):
        plan = self.out("plan", tiny_model())
        self.assertIn("matmul", plan)
        self.assertNotEqual(self.out("plan", tiny_model(), "--no-fuse", "all"), plan)
        self.assertEqual(self.out("plan", "-m", tiny_model()), plan)
        self.assertIn("nonsense", self.error("plan", tiny_model(), "--no-fuse", "nonsense"))
        self.assertNotEqual(self.out("plan", tiny_model(), "--isa", "generic"), "")


class Tune(Program):
    """What is measured differs from run to run; what is written, kept and ignored does not."""

    MODEL = "qwen3-q-q4_k"

    def tune(self, *more):
        return self.quern("tune", "-m", tiny_model(self.MODEL), "-t", "1", "--seconds", "1", *more)

    def sidecars(self):
        return sorted((self.folder / "cache" / "tune").glob("*.json"))

    def test_a_dry_run_writes_nothing(self):
        done = self.tune("--dry-run", "--json")
        found = json.loads(done.stdout)
        self.assertEqual(found["schema"], 1)
        self.assertGreater(len(found["entries"]), 15)
        for entry in found["entries"]:
            self.assertEqual(entry["threads"], 1)
            self.assertIn(entry["winner"], [entry["default"], *(t["kernel"] for t in entry["tried"])])
        self.assertRegex(done.stderr, r"decode: \d+ queries, up to \d+ kernels each, 1 rows")
        self.assertEqual(self.sidecars(), [])
        self.assertEqual(self.json("doctor", "--json")["tuning"]["state"], "none")

    def test_the_file_is_kept_used_and_shown(self):
        plan = self.out("plan", "-t", "1", tiny_model(self.MODEL))
        answer = self.out("run", "-m", tiny_model(self.MODEL), "--raw", "-n", "12", "--temp", "0", "-t", "1", "hello")
        self.assertIn("queries tuned", self.tune().stdout)
        path, = self.sidecars()
        found = self.json("doctor", "--json")["tuning"]
        self.assertEqual((found["state"], found["file"]), ("valid", str(path)))
        # Whatever won: let another kernel of each query be the winner.
        sidecar = json.loads(path.read_text())
        for entry in sidecar["entries"]:
            entry["winner"] = entry["tried"][-1]["kernel"]
        path.write_text(json.dumps(sidecar))
        tuned = self.quern("plan", "-t", "1", tiny_model(self.MODEL))
        self.assertEqual(tuned.stderr, "")
        self.assertIn(f"tuned by {path}", tuned.stdout)
        self.assertGreater(tuned.stdout.count("(tuned)\n"), 20)
        self.assertEqual(self.out("plan", "-t", "1", "--tune", "off", tiny_model(self.MODEL)), plan)
        self.assertEqual(self.out("plan", "-t", "2", tiny_model(self.MODEL)), self.out("plan", "-t", "2", "--tune", "off", tiny_model(self.MODEL)))
        self.assertEqual(self.out("run", "-m", tiny_model(self.MODEL), "--raw", "-n", "12", "--temp", "0", "-t", "1", "hello"), answer)
        # Another model adds its queries to the same file.
        self.quern("tune", "-m", tiny_model(), "-t", "1", "--seconds", "1")
        self.assertEqual(self.sidecars(), [path])
        self.assertGreater(len(json.loads(path.read_text())["entries"]), len(sidecar["entries"]))

    def test_a_file_that_does_not_hold_is_named_and_ignored(self):
        self.tune()
        path, = self.sidecars()
        good = json.loads(path.read_text())
        plan = self.out("plan", "-t", "1", "--tune", "off", tiny_model(self.MODEL))
        for text, reason in ((path.read_text()[:-40], "damaged"),
                             (json.dumps({**good, "engine": {**good["engine"], "version": "0.0.0"}}), "measured with Quern 0.0.0"),
                             (json.dumps({**good, "machine": {**good["machine"], "cpu": "Abacus"}}), "another processor (Abacus")):
            path.write_text(text)
            done = self.quern("plan", "-t", "1", tiny_model(self.MODEL))
            self.assertEqual(done.stdout, plan)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
            self.assertIn(str(path), done.stderr)
            self.assertIn(reason, done.stderr)
            self.assertEqual(self.quern("plan", "-t", "1", "--tune", "off", tiny_model(self.MODEL)).stderr, "")
            found = self.json("doctor", "--json")["tuning"]
            self.assertEqual(found["state"], "ignored")
            self.assertIn(reason, found["problem"])
        self.assertIn("written anew", self.tune().stderr)
        self.assertEqual(self.json("doctor", "--json")["tuning"]["state"], "valid")


class Convert(Program):
    def images(self):
        folder = self.folder / "cache" / "images"
        return sorted(folder.iterdir()) if folder.exists() else []

    def answer(self, *more):
        return self.quern("run", "-m", tiny_model("llama-q-q4_1"), "--raw", "-n", "12", "--temp", "0", "Once upon a time", *more)

    def test_the_first_run_leaves_an_image_and_the_answer_stays(self):
        without = self.answer("--image", "off").stdout
        self.assertEqual(self.images(), [])
        self.assertEqual(self.answer().stdout, without)
        self.assertEqual(len(self.images()), 1)
        self.assertRegex(self.images()[0].name, r"^llama-q-q4_1-[0-9a-f]{16}\.quern$")
        mapped = self.answer()
        self.assertEqual(mapped.stdout, without)
        self.assertNotIn("warning", mapped.stderr)
        self.assertEqual(self.answer("--image", "map").stdout, without)

    def test_convert_list_verify_clean(self):
        path = self.out("convert", "-m", tiny_model("llama-q-q4_1")).strip()
        self.assertEqual([str(p) for p in self.images()], [path])
        first = self.images()[0].read_bytes()
        self.assertIn("already", self.quern("convert", tiny_model("llama-q-q4_1")).stderr)
        self.assertRegex(self.out("convert", "--list"), r"ready .*llama-q-q4_1.* of .*llama-q-q4_1\.gguf")
        self.assertIn("intact", self.out("convert", "--verify"))
        self.assertEqual(self.out("convert", "--clean"), "")
        damaged = bytearray(first)
        damaged[len(damaged) // 2] ^= 1
        self.images()[0].write_bytes(damaged)
        self.assertIn("damaged", self.quern("convert", "--verify", code=1).stderr)
        (self.folder / "cache" / "images" / "old-0123456789abcdef.quern").write_bytes(b"nothing")
        (self.folder / "cache" / "images" / "x.quern.tmp1-0").write_bytes(b"nothing")
        self.assertIn("unusable", self.out("convert", "--list"))
        self.assertIn("old-0123456789abcdef.quern", self.out("convert", "--clean"))
        self.assertEqual([str(p) for p in self.images()], [path])
        self.assertIn(path, self.out("convert", "--clean", "--all"))
        self.assertEqual(self.images(), [])
        self.assertEqual(self.out("convert", "--list"), "")
        self.assertEqual(self.out("convert", "-m", tiny_model("llama-q-q4_1")).strip(), path)
        self.assertEqual(self.images()[0].read_bytes(), first)

    def test_wrong_use(self):
        self.error("convert", "--list", "--clean", code=2)
        self.error("convert", "--all", code=2)
        self.assertIn("nowhere.gguf", self.error("convert", "-m", "nowhere.gguf"))

    def test_two_processes_at_once(self):
        args = [QUERN, "run", "-m", tiny_model("llama-q-q4_1"), "--raw", "-n", "12", "--temp", "0", "Once upon a time"]
        both = [subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.env, text=True) for _ in range(3)]
        results = [process.communicate(timeout=120) for process in both]
        self.assertEqual({out for out, _ in results}, {self.answer("--image", "off").stdout})
        self.assertFalse([err for _, err in results if "warning" in err], results)
        self.assertEqual(len(self.images()), 1)
        self.assertIn("intact", self.out("convert", "--verify"))

    def test_a_folder_that_cannot_be_written_costs_a_warning(self):
        (self.folder / "cache" / "models").mkdir(parents=True)
        (self.folder / "cache" / "images").write_text("in the way")
        done = self.answer()
        self.assertEqual(done.stdout, self.answer("--image", "off").stdout)
        self.assertEqual(done.stderr.count("warning"), 1, done.stderr)

    def test_a_full_disk_costs_a_warning(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))
        args = [QUERN, "run", "-m", tiny_model("llama-q-q4_1"), "--raw", "-n", "12", "--temp", "0", "Once upon a time"]
        done = subprocess.run(args, capture_output=True, env=self.env, text=True, preexec_fn=limit)
        self.assertEqual((done.returncode, done.stdout), (0, self.answer("--image", "off").stdout))
        self.assertEqual(done.stderr.count("warning"), 1, done.stderr)
        self.assertEqual(self.images(), [])
        done = subprocess.run([QUERN, "convert", "-m", tiny_model("llama-q-q4_1")], capture_output=True, env=self.env, text=True, preexec_fn=limit)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"quern convert: \S+/images/llama-q-q4_1-[0-9a-f]{16}\.quern: cannot write: File too large")
        self.assertEqual(self.images(), [])

    def test_info_and_doctor_name_images(self):
        self.assertEqual(self.json("info", "--json", tiny_model("llama-q-q4_1"))["images"], [])
        self.assertEqual(self.json("doctor", "--json")["images"], [])
        path = self.out("convert", "-m", tiny_model("llama-q-q4_1")).strip()
        size = os.path.getsize(path)
        self.assertEqual(self.json("info", "--json", tiny_model("llama-q-q4_1"))["images"], [{"path": path, "bytes": size}])
        self.assertIn(f"image       {path} (", self.out("info", tiny_model("llama-q-q4_1")))
        (found,) = self.json("doctor", "--json")["images"]
        self.assertEqual((found["path"], found["bytes"], found["why_not"]), (path, size, ""))
        self.assertRegex(self.out("doctor"), r"\nimages +1 prepared, ")

    def test_info_and_doctor_say_what_fits(self):
        model = self.json("info", "--json", tiny_model())["model"]
        self.assertEqual(model["memory"]["verdict"], "fits")
        self.assertIsNone(model["experts"])
        self.assertRegex(self.out("info", tiny_model()), r"\nmodel\n  parameters +\d+\.\d M\n(.*\n)+  memory +.*: fits\n")
        self.assertIsNone(self.json("doctor", "--json")["model"])
        found = self.json("doctor", "--json", "-m", tiny_model())["model"]
        self.assertEqual((found["path"], found["weight_bytes"]), (tiny_model(), model["weight_bytes"]))
        self.assertRegex(self.out("doctor", "-m", tiny_model()), r"\nmodel +\S+llama\.gguf: .* available: fits\n")
        self.assertIn("no-such.gguf", self.error("doctor", "-m", "no-such.gguf"))

    def test_a_model_that_is_removed_takes_its_image_along(self):
        model = self.json("models", "list", "--json")[0]
        Path(model["path"]).write_bytes(Path(tiny_model("llama-q-q4_1")).read_bytes())
        other = self.out("convert", "-m", tiny_model("llama-q-q4_0")).strip()
        self.out("convert", "-m", model["path"])
        self.assertEqual(len(self.images()), 2)
        self.out("models", "remove", model["name"])
        self.assertEqual([str(p) for p in self.images()], [other])

    def test_a_writer_that_was_killed_leaves_nothing_that_counts(self):
        process = subprocess.Popen([QUERN, "convert", "-m", tiny_model("llama-q-q4_1")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.env)
        process.kill()
        process.communicate()
        self.answer()
        self.answer()
        self.assertEqual([p.suffix for p in self.images()], [".quern"])


class Logits(Program):
    def logits(self, tokens, *more):
        path = self.folder / "out.npy"
        self.assertEqual(self.out("logits", "-m", tiny_model(), "--tokens", tokens, "-o", path, *more), "")
        return read_npy(path)

    def test_rows_and_ways_to_give_tokens(self):
        rows = self.logits("5,6,7,8")
        self.assertEqual(len(rows), 4)
        self.assertTrue(all(math.isfinite(x) for row in rows for x in row))
        (self.folder / "ids.json").write_text("[5, 6, 7, 8]")
        self.assertEqual(self.logits(f"@{self.folder}/ids.json"), rows)
        header = "{'descr': '<i4', 'fortran_order': False, 'shape': (4,), }".ljust(117) + "\n"
        (self.folder / "ids.npy").write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + struct.pack("<4i", 5, 6, 7, 8))
        self.assertEqual(self.logits(f"@{self.folder}/ids.npy"), rows)
        self.assertEqual(self.logits("5,6")[1], rows[1])  # causal: what follows does not matter
        self.assertEqual(self.logits("5,6,7,8", "-t", "2", "--chunk", "2", "--no-fuse", "all"), rows)

    def test_errors(self):
        out = self.folder / "out.npy"
        self.error("logits", "-m", tiny_model(), "--tokens", "1,999999", "-o", out)
        self.error("logits", "-m", tiny_model(), "--tokens", "1,x", "-o", out)
        self.error("logits", "-m", tiny_model(), "--tokens", "@missing.json", "-o", out)
        self.error("logits", "-m", tiny_model(), "--tokens", "1,2", "-o", "/nowhere/out.npy")
        self.assertFalse(out.exists())


class Embed(Program):
    def embed(self, *args, model="llama", **more):
        return json.loads(self.out("embed", "-m", tiny_model(model), *args, **more))

    def test_the_vector_of_a_text(self):
        vector = self.embed("hello world")
        self.assertAlmostEqual(sum(x * x for x in vector), 1, places=5)
        self.assertEqual(self.embed("hello", "world"), vector)
        self.assertEqual(self.embed("-", stdin="hello world"), vector)
        self.assertEqual(self.embed("--pooling", "last", "-t", "2", "--chunk", "2", "--no-fuse", "all", "hello world"), vector)
        ids = self.json("tokenize", "-m", tiny_model(), "--special", "hello world")
        self.assertEqual(self.embed("--tokens", json.dumps(ids)), vector)
        poolings = [self.embed("--pooling", p, "hello world") for p in ("mean", "cls", "last")]
        self.assertEqual(len({tuple(v) for v in poolings}), 3)
        self.assertNotEqual(self.embed("hello worlds"), vector)

    def test_errors(self):
        self.error("embed", "-m", tiny_model(), "")
        self.error("embed", "-m", tiny_model(), "--tokens", "1,999999")
        self.assertIn("20", self.error("embed", "-m", tiny_model(), "-c", "20", "--tokens", json.dumps([5] * 21)))
        self.error("embed", "-m", tiny_model(), code=2)
        self.error("embed", "-m", tiny_model(), "--tokens", "1", "text", code=2)


class Bench(Program):
    ARGS = ("-p", "16,32", "-n", "4", "-r", "2", "-d", "0,8")

    def test_json_has_the_fields_of_llama_bench(self):
        rows = self.json("bench", "-m", tiny_model(), *self.ARGS, "-o", "json", "-t", "1,2")
        self.assertEqual(len(rows), 2 * 2 * 3)
        for row in rows:
            for field in ("build_commit", "build_number", "cpu_info", "gpu_info", "backends", "model_filename", "model_type", "model_size", "model_n_params",
                          "n_batch", "n_ubatch", "n_threads", "type_k", "type_v", "n_prompt", "n_gen", "n_depth", "test_time", "avg_ns", "stddev_ns", "avg_ts",
                          "stddev_ts", "samples_ns", "samples_ts"):
                self.assertIn(field, row)
            self.assertEqual((len(row["samples_ns"]), len(row["samples_ts"])), (2, 2))
            n = row["n_prompt"] + row["n_gen"]
            for ns, ts in zip(row["samples_ns"], row["samples_ts"]):
                self.assertAlmostEqual(ts, n * 1e9 / ns, delta=ts * 0.01)
            self.assertAlmostEqual(row["avg_ts"], sum(row["samples_ts"]) / 2, delta=row["avg_ts"] * 1e-6)
        self.assertEqual([r["n_threads"] for r in rows], [1] * 6 + [2] * 6)

    def test_other_forms(self):
        lines = self.out("bench", "-m", tiny_model(), *self.ARGS, "-o", "jsonl").splitlines()
        self.assertEqual([json.loads(line)["n_prompt"] for line in lines], [16, 32, 0, 16, 32, 0])
        csv = self.out("bench", "-m", tiny_model(), *self.ARGS, "-o", "csv").splitlines()
        self.assertEqual(len(csv), 7)
        self.assertEqual(csv[0].count(","), csv[1].count('","'))
        table = self.out("bench", "-m", tiny_model(), *self.ARGS).splitlines()
        self.assertEqual([row.split("|")[6].strip() for row in table[2:8]], ["pp16", "pp32", "tg4", "pp16 @ d8", "pp32 @ d8", "tg4 @ d8"])
        self.assertRegex(table[2].split("|")[7], r"[\d.]+ ± [\d.]+")


class Eval(Program):
    WINDOW = 32

    def setUp(self):
        super().setUp()
        words = random.Random(7)
        self.text = self.folder / "text.txt"
        self.text.write_text(" ".join(words.choice(["the", "mill", "grinds", "corn", "naïve", "12", "{}", "\n"]) for _ in range(120)))

    def eval(self, *more, **kinds):
        return self.json("eval", "-m", tiny_model(), "-f", self.text, "-c", self.WINDOW, "--json", *more, **kinds)

    def test_perplexity_is_what_the_definition_gives(self):
        found = self.eval("--chunks", "2")
        ids = self.json("tokenize", "-m", tiny_model(), "--special", "-", stdin=self.text.read_text())
        bos = self.json("tokenize", "-m", tiny_model(), "--special", "")
        nll, n = 0.0, 0
        for w in range(2):
            window = ids[w * self.WINDOW:(w + 1) * self.WINDOW]
            if bos:
                window[0] = bos[0]
            path = self.folder / "w.npy"
            self.quern("logits", "-m", tiny_model(), "--tokens", json.dumps(window), "-o", path)
            rows = read_npy(path)
            for i in range(self.WINDOW // 2, self.WINDOW - 1):
                top = max(rows[i])
                nll += top + math.log(sum(math.exp(x - top) for x in rows[i])) - rows[i][window[i + 1]]
                n += 1
        self.assertEqual(found["scored"], n)
        self.assertAlmostEqual(found["perplexity"], math.exp(nll / n), delta=1e-6 * found["perplexity"])

    def test_a_model_does_not_diverge_from_itself(self):
        saved = self.folder / "saved.npy"
        first = self.eval("--save-logits", saved)
        again = self.eval("--against-logits", saved, "-t", "2", "--chunk", "5")
        self.assertEqual(again["perplexity"], first["perplexity"])
        self.assertEqual((again["kl_mean"], again["kl_max"], again["top1_agreement"]), (0, 0, 1))
        self.assertEqual(len(read_npy(saved)), first["scored"])

    def test_another_model_does(self):
        saved = self.folder / "saved.npy"
        self.eval("--save-logits", saved)
        other = self.json("eval", "-m", tiny_model("llama-linear"), "-f", self.text, "-c", self.WINDOW, "--json", "--against-logits", saved)
        self.assertGreater(other["kl_mean"], 0)
        self.assertLess(other["top1_agreement"], 1)
        self.assertLessEqual(other["kl_median"], other["kl_p99"])
        self.assertLessEqual(other["kl_p99"], other["kl_max"])

    def test_logits_of_something_else_are_refused(self):
        saved = self.folder / "saved.npy"
        self.eval("--save-logits", saved)
        self.assertIn("this evaluation has", self.error("eval", "-m", tiny_model(), "-f", self.text, "-c", "16", "--against-logits", saved))
        self.text.write_text(self.text.read_text().replace("mill", "hill"))
        error = self.error("eval", "-m", tiny_model(), "-f", self.text, "-c", self.WINDOW, "--against-logits", saved)
        self.assertRegex(error, "other tokens|this evaluation has")

    def test_a_short_text(self):
        self.text.write_text("short")
        self.assertIn("do not fill one window", self.error("eval", "-m", tiny_model(), "-f", self.text))


class Chat(Program):
    def setUp(self):
        super().setUp()
        self.model = with_template(tiny_model(), self.folder / "chat.gguf", CHATML)

    def chat(self, *lines, more=()):
        return self.quern("chat", "-m", self.model, "-n", "6", "--temp", "0", *more, stdin="\n".join(lines) + "\n")

    def test_piped_lines_are_messages_and_commands(self):
        done = self.chat("/help", "hello", "/stats", "/undo", "/undo", "/nothing", "/set temp 0.5", "/set temp hot", "/set nothing 1", "/retry", "/quit", "not reached")
        for word in ("/multiline", "[2 turns,", "[last question taken back]", "[nothing to take back]", "[no command /nothing; /help lists them]",
                     "[set]", "'hot' is not allowed", "[/set OPTION VALUE", "[nothing to answer again]"):
            self.assertIn(word, done.stderr)
        self.assertTrue(done.stdout.endswith("\n"))

    def test_turns_build_on_each_other(self):
        both = self.chat("hello", "and then?", f"/save {self.folder}/c.json")
        turns = json.loads((self.folder / "c.json").read_text())["messages"]
        self.assertEqual([t["role"] for t in turns], ["user", "assistant"] * 2)
        self.assertIn("[saved]", both.stderr)
        # Going on from a saved conversation is the same as having had it.
        self.chat("hello", f"/save {self.folder}/one.json")
        self.chat(f"/load {self.folder}/one.json", "and then?", f"/save {self.folder}/d.json")
        self.assertEqual(json.loads((self.folder / "d.json").read_text())["messages"], turns)

    def test_system_clear_retry_multiline(self):
        self.chat("/system Be brief.", "hello", "/clear", "/multiline", "two", "lines", ".", f"/save {self.folder}/c.json", more=())
        turns = json.loads((self.folder / "c.json").read_text())["messages"]
        self.assertEqual([t["role"] for t in turns], ["system", "user", "assistant"])
        self.assertEqual(turns[1]["content"], "two\nlines")
        self.chat("one \\", "message", f"/save {self.folder}/c.json")
        self.assertEqual(json.loads((self.folder / "c.json").read_text())["messages"][0]["content"], "one \nmessage")

    def test_bad_files_are_named(self):
        (self.folder / "bad.json").write_text("{}")
        done = self.chat(f"/load {self.folder}/bad.json", f"/load {self.folder}/none.json", "/save /nowhere/x", "/save")
        self.assertEqual(done.stderr.count("not a saved conversation"), 1)
        self.assertIn("none.json", done.stderr)
        self.assertIn("/nowhere/x", done.stderr)

    def test_a_question_that_does_not_fit_is_taken_back(self):
        done = self.chat("word " * 200, "hi", f"/save {self.folder}/c.json", more=("-c", "96"))
        self.assertIn("the question is taken back", done.stderr)
        self.assertEqual(json.loads((self.folder / "c.json").read_text())["messages"][0]["content"], "hi")

    def terminal(self, *more):
        return Terminal(["chat", "-m", self.model, "--temp", "0", *more], self.env, self.folder)

    def test_ctrl_c_stops_the_answer_and_not_the_program(self):
        chat = self.terminal("-n", "100000000", "-c", "1000000")
        chat.wait_for_prompt()
        chat.type("hello\r")
        chat.wait_for("hello")
        time.sleep(0.5)
        chat.type("\x03")
        chat.wait_for(r"\[stopped\]")
        chat.wait_for_prompt()
        chat.type("half a line\x03")  # gives the line up
        chat.wait_for("> ")
        for _ in range(30):  # at once behind the prompt: some fall before the line editor has taken the keys over
            chat.type("\x03")
            chat.wait_for("> ", timeout=10)
        chat.type("/stats\r")
        chat.wait_for(r"\[2 turns")
        chat.wait_for_prompt()  # what is typed while the terminal changes its mode is lost
        chat.type("\x04")
        self.assertEqual(chat.end(), 0)

    def test_history_is_kept(self):
        chat = self.terminal("-n", "2")
        chat.wait_for_prompt()
        chat.type("/set temp 0.25\r")
        chat.wait_for(r"\[set\]")
        chat.wait_for_prompt()  # what is typed while the terminal changes its mode is lost
        chat.type("/quit\r")
        self.assertEqual(chat.end(), 0)
        self.assertIn("temp", (self.folder / "cache/chat_history").read_text())
        chat = self.terminal("-n", "2")
        chat.wait_for_prompt()
        chat.type("\x1b[A\x1b[A\r")  # up, up: the line before the last
        chat.wait_for(r"\[set\]")
        chat.wait_for_prompt()  # what is typed while the terminal changes its mode is lost
        chat.type("\x04")
        self.assertEqual(chat.end(), 0)

    def test_attributes_only_where_they_are_wanted(self):
        for env, bold in (({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)):
            chat = Terminal(["chat", "-m", self.model], {**self.env, **env}, self.folder)
            chat.wait_for_prompt()
            chat.type("/quit\r")
            self.assertEqual(chat.end(), 0)
            self.assertEqual("\x1b[1m" in chat.all, bold, env)


class Examples(Program):
    """The programs of examples/, which use nothing but the public headers."""

    def example(self, name, *args):
        return subprocess.run([Path(os.environ["QUERN_EXAMPLES"]) / name, *args], capture_output=True, text=True, timeout=120, env=self.env)

    def test_c_and_cpp_answer_alike(self):
        model = with_template(tiny_model(), self.folder / "chat.gguf", CHATML)
        answers = [self.example(name, model, "hello") for name in ("hello", "hello_cpp")]
        self.assertEqual([a.returncode for a in answers], [0, 0], answers[0].stderr)
        self.assertEqual(answers[0].stdout, answers[1].stdout)
        self.assertRegex(answers[0].stdout, r"(?s).+\n\[\d+ tokens\]\n$")
        asked = self.quern("run", "-m", model, "--temp", "0", "-n", "64", "hello")
        self.assertEqual(answers[0].stdout.rsplit("\n[", 1)[0], asked.stdout.removesuffix("\n"))

    def test_failures_are_said(self):
        for name in ("hello", "hello_cpp"):
            self.assertEqual(self.example(name).returncode, 2)
            failed = self.example(name, "/nowhere.gguf")
            self.assertEqual(failed.returncode, 1)
            self.assertIn("/nowhere.gguf", failed.stderr)


if __name__ == "__main__":
    unittest.main()
