#!/usr/bin/env python3
"""bench from outside: its tests, alternation with a peer (a script that plays llama-bench), records. No speed is asserted."""
import json
import os
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from harness import QUERN, Program, tiny_model  # noqa: E402

# Notes each call, and answers as llama-bench would: half of what the environment's PACE says, and a little more each time.
PEER = f"""#!{sys.executable}
import json, os, sys
args = sys.argv[1:]
if args == ["--help"]:
    print("--n-prompt --n-gen --repetitions", os.environ.get("PEER_HELP", "--n-depth"))
    sys.exit(0)
with open(os.environ["PEER_LOG"], "a") as log:
    log.write(os.path.basename(sys.argv[0]) + " " + " ".join(args) + "\\n")
mode = os.environ.get("PEER_MODE", "")
print("loading model", file=sys.stderr)
if mode == "fails":
    print("out of cheese", file=sys.stderr)
    sys.exit(3)
if mode == "garbage":
    print("llama_model_load: [oops")
    sys.exit(0)
value = lambda name, otherwise: int(args[args.index(name) + 1]) if name in args else otherwise
row = {{"build_commit": "f00d", "build_number": 9, "n_prompt": value("-p", 0), "n_gen": value("-n", 0), "n_depth": value("-d", 0),
       "samples_ts": [100.0] * value("-r", 1)}}
if "-gp" in args:
    row["n_prompt"], row["n_gen"] = map(int, args[args.index("-gp") + 1].split(","))
    del row["n_depth"]
if mode == "other": row["n_gen"] += 1
print(json.dumps([row]))
"""


class Bench(Program):
    def setUp(self):
        super().setUp()
        self.log = self.folder / "peer.log"
        self.env["PEER_LOG"] = str(self.log)
        self.peer = self.make_peer("llama-bench")

    def make_peer(self, name):
        path = self.folder / name
        path.write_text(PEER)
        path.chmod(0o755)
        return path

    def bench(self, *args, **more):
        return self.json("bench", "-m", tiny_model(), "-t", 1, "-r", 2, "-o", "json", *args, **more)

    def against(self, *args, **more):
        return self.bench("--against", self.peer, "--rounds", 2, "--cool-down", 0, *args, **more)

    def calls(self):
        return self.log.read_text().splitlines() if self.log.exists() else []

    def test_batches_depths_and_turns(self):
        rows = self.bench("-p", 8, "-n", 4, "-b", "1,3", "-d", "0,16", "--turns", 3, "--turn-tokens", 10)
        self.assertEqual([r["test"] for r in rows], ["pp8", "tg4", "tg4 b3", "pp8 @ d16", "tg4 @ d16", "tg4 b3 @ d16",
                                                     "ttft turn 1", "ttft turn 2", "ttft turn 3"])
        self.assertEqual([(r["n_prompt"], r["n_gen"], r["n_depth"], r["n_sequences"], r["turn"]) for r in rows[5:8]],
                         [(0, 4, 16, 3, 0), (10, 0, 0, 1, 1), (10, 0, 10, 1, 2)])
        for r in rows:
            self.assertEqual(len(r["samples_ts"]), 2)
            self.assertEqual("samples_ms" in r, r["turn"] > 0)
        one, three = rows[1]["step_bytes"], rows[2]["step_bytes"]
        self.assertTrue(0 < one < three < 2 * one, "a step reads the weights once, keys and values of each sequence")
        self.assertEqual(rows[0]["step_bytes"], 0)
        for r in rows[2:3]:  # tokens of all sequences count
            self.assertAlmostEqual(r["samples_ts"][0] * r["samples_ns"][0] / 1e9, 12, delta=0.01)
        text = self.out("bench", "-m", tiny_model(), "-t", 1, "-r", 1, "-p", 0, "-n", 0, "--turns", 2, "--turn-tokens", 4)
        self.assertRegex(text, r"ttft turn 2 \| +[\d.]+ ± [\d.]+ ms")

    def test_wrong_use(self):
        self.assertIn("nothing to measure", self.error("bench", "-p", 0, "-n", 0, code=2))
        self.assertIn("-o csv does not go with --against", self.error("bench", "--against", self.peer, "-o", "csv", code=2))
        self.assertIn("1 to 64", self.error("bench", "-b", 0, code=2))

    def test_turns_alternate_and_ratios_pair(self):
        done = self.quern("bench", "-m", tiny_model(), "-t", 1, "-r", 2, "-o", "json", "-p", 8, "-n", 4, "-v",
                          "--against", self.peer, "--rounds", 4, "--cool-down", 0)
        runs = json.loads(done.stdout)
        self.assertEqual([r["test"] for r in runs], ["pp8", "tg4"])
        order = [line.split(": ")[2] for line in done.stderr.splitlines() if ": round " in line]
        self.assertEqual(order, 2 * ["quern", "llama.cpp", "llama.cpp", "quern", "quern", "llama.cpp", "llama.cpp", "quern"])
        self.assertEqual(len(self.calls()), 8)
        self.assertEqual(self.calls()[0], f"llama-bench -m {tiny_model()} -t 1 -p 8 -n 0 -r 2 -o json")
        for r in runs:
            self.assertEqual(len(r["quern"]["samples"]), 8)
            self.assertEqual(r["peer"]["samples"], [100.0] * 8)
            self.assertEqual((r["peer"]["name"], r["peer"]["version"], r["peer"]["median"]), ("llama.cpp", "f00d (9)", 100))
            medians = [sum(r["quern"]["samples"][i:i + 2]) / 2 for i in range(0, 8, 2)]
            product = medians[0] * medians[1] * medians[2] * medians[3]
            self.assertAlmostEqual(r["ratio"]["middle"] / (product ** 0.25 / 100), 1, places=9)
            self.assertLessEqual(r["ratio"]["low"], r["ratio"]["middle"])
            self.assertLessEqual(r["ratio"]["middle"], r["ratio"]["high"])
            self.assertNotIn("/", r["quern"]["command"] + r["peer"]["command"])
            self.assertEqual(r["quern"]["command"].split()[:2], [os.path.basename(QUERN), "bench"])
            self.assertTrue(0 <= r["steal"] <= 1)
        self.assertIsNone(runs[0]["dram_gb_s"])
        self.assertIsNone(runs[0]["decode_gb_s"])
        self.assertGreater(runs[1]["dram_gb_s"], 0)
        self.assertGreater(runs[1]["decode_gb_s"], 0)

    def test_several_peers_each_with_its_own_options(self):
        ik = self.make_peer("ik-bench")
        self.env["PEER_HELP"] = "--run-time-repack"
        runs = self.bench("--against", self.peer, "--against", f"version=b2 '{ik}' -rtr 1", "--rounds", 2, "--cool-down", 0,
                          "-p", 8, "-n", 4, "-d", 16)
        # Neither has -d here: prompts at a depth have no peer, generation has -gp.
        self.assertEqual([(r["test"], r["peer"] and r["peer"]["command"].split()[0]) for r in runs],
                         [("pp8 @ d16", None), ("tg4 @ d16", "llama-bench"), ("tg4 @ d16", "ik-bench")])
        self.assertEqual([c.split()[0] for c in self.calls()], ["llama-bench", "ik-bench", "ik-bench", "llama-bench"])
        self.assertIn("ik-bench -rtr 1 -m ", self.calls()[1])
        self.assertIn("-n 0 -gp 16,4", self.calls()[1])
        self.assertEqual([(r["peer"]["name"], r["peer"]["version"]) for r in runs[1:]], [("ik_llama.cpp", "f00d (9)"), ("ik_llama.cpp", "b2")])

    def test_the_table_and_its_notes(self):
        text = self.out("bench", "-m", tiny_model(), "-t", 1, "-r", 1, "-p", 8, "-n", 4, "-b", 2, "--against", f"{self.peer} --repack 0",
                        "--rounds", 1, "--cool-down", 0)
        self.assertRegex(text, r"(?m)^\| pp8 +\| +1 \| +[\d.]+ \| llama.cpp --repack 0 +\| +100.00 \|")
        self.assertIn("note: pp8 against llama.cpp --repack 0: one round gives no interval", text)
        self.assertIn("note: tg4 b2: llama.cpp has no such test", text)

    def test_a_peer_that_fails_is_named(self):
        for mode, message in (("fails", "failed with status 3: out of cheese"), ("garbage", "printed no JSON list"),
                              ("other", "printed no result for tg4")):
            with self.subTest(mode):
                error = self.error("bench", "-m", tiny_model(), "-t", 1, "-r", 1, "-p", 0, "-n", 4, "--cool-down", 0,
                                   "--against", self.peer, env={"PEER_MODE": mode})
                self.assertIn(str(self.peer), error)
                self.assertIn(message, error)

    def test_what_is_no_peer_is_refused_at_once(self):
        bench = ("bench", "-m", tiny_model(), "--against")
        self.assertIn("/nowhere/llama-bench: cannot start: No such file", self.error(*bench, "/nowhere/llama-bench"))
        self.assertIn("not a llama-bench", self.error(*bench, "/bin/true"))
        self.assertIn("a quote is not closed", self.error(*bench, "'x"))
        self.assertIn(str(self.folder), self.error(*bench, self.folder))
        self.assertEqual(self.calls(), [])

    def test_records(self):
        for note in ("first", "second"):
            self.against("-p", 0, "-n", 4, "--turns", 2, "--turn-tokens", 4, "--record", "records", "--note", note)
        files = list((self.folder / "records").iterdir())
        self.assertEqual(len(files), 1, files)
        records = json.loads(files[0].read_text())
        self.assertEqual(records["schema"], 1)
        self.assertEqual(files[0].name, records["box"]["name"] + ".json")
        self.assertEqual([(r["test"], r["unit"], r["note"], r["peer"] is None) for r in records["runs"]],
                         [(test, unit, note, alone) for note in ("first", "second")
                          for test, unit, alone in (("tg4", "t/s", False), ("ttft turn 1", "ms", True), ("ttft turn 2", "ms", True))])
        model = records["runs"][0]["model"]
        self.assertEqual((model["file"], model["bytes"]), (Path(tiny_model()).name, os.path.getsize(tiny_model())))
        self.assertRegex(model["sha256"], "^[0-9a-f]{64}$")
        self.assertGreater(model["n_params"], 0)
        self.assertNotIn(str(self.folder), files[0].read_text())
        self.assertNotIn(os.uname().nodename + '"', files[0].read_text())

    def test_records_without_a_peer_take_one_round(self):
        runs = self.bench("-p", 8, "-n", 0, "--record", "x.json")
        self.assertEqual(json.loads((self.folder / "x.json").read_text())["runs"][0]["quern"], runs[0]["quern"])
        self.assertEqual(len(runs[0]["quern"]["samples"]), 2)
        self.assertEqual((runs[0]["peer"], runs[0]["ratio"]), (None, None))

    def test_a_record_that_cannot_be_added_to_stops_before_measuring(self):
        (self.folder / "x.json").write_text('{"schema": 2}')
        for command in (("bench", "--against", self.peer), ("profile",)):
            error = self.error(*command, "-m", tiny_model(), "-p", 8, "-n", 0, "--record", "x.json")
            self.assertIn("x.json: records of schema 2", error)
        self.assertEqual((self.folder / "x.json").read_text(), '{"schema": 2}')
        self.assertEqual(self.calls(), [])

    def test_what_was_measured_before_a_failure_is_kept(self):
        other = self.make_peer("late")
        other.write_text(PEER.replace('if mode == "fails":', 'if value("-n", 0) > 0:').replace("value = lambda", "_ = lambda")
                         .replace("args = sys.argv[1:]", "args = sys.argv[1:]\nvalue = lambda name, otherwise: int(args[args.index(name) + 1]) if name in args else otherwise"))
        done = self.quern("bench", "-m", tiny_model(), "-t", 1, "-r", 1, "-o", "jsonl", "-p", 8, "-n", 4, "--rounds", 1, "--cool-down", 0,
                          "--against", other, "--record", "x.json", code=1)
        self.assertIn("out of cheese", done.stderr)
        self.assertEqual([r["test"] for r in json.loads((self.folder / "x.json").read_text())["runs"]], ["pp8"])

    def test_profile_records(self):
        self.quern("profile", "-m", tiny_model(), "-t", 1, "-p", 8, "-n", 2, "-r", 1, "--record", "records", "--note", "n")
        records = json.loads(next((self.folder / "records").iterdir()).read_text())
        self.assertEqual([(p["phase"], p["tokens"], p["model"], p["note"]) for p in records["profiles"]],
                         [("prefill", 8, Path(tiny_model()).name, "n"), ("decode", 2, Path(tiny_model()).name, "n")])
        self.assertGreater(records["rooflines"][0]["int8_gmac_s"], 0)
        names = {b["name"] for b in records["profiles"][0]["buckets"]}
        self.assertIn("attention", names)
        self.assertIn("wait", names)


class Profile(Program):
    def test_trace_and_fusions(self):
        profile = self.json("profile", "-m", tiny_model(), "-t", 2, "-p", 8, "-n", 2, "-r", 1, "-o", "json", "--trace", "t.json")
        self.assertEqual([p["name"] for p in profile["phases"]], ["prefill", "decode"])
        events = json.loads((self.folder / "t.json").read_text())["traceEvents"]
        self.assertEqual({e["tid"] for e in events if e["ph"] == "X"}, {0, 1})
        count = lambda p: sum(c["name"] == "wait" for c in p["phases"][-1]["calls"])  # noqa: E731
        apart = self.json("profile", "-m", tiny_model(), "-t", 1, "-p", 0, "-n", 2, "-r", 1, "-o", "json", "--no-fuse", "all")
        self.assertEqual([p["name"] for p in apart["phases"]], ["decode"])
        self.assertGreater(count(apart), count(profile), "without fusions there are more steps")
        self.assertIn("nonsense", self.error("profile", "-m", tiny_model(), "--no-fuse", "nonsense"))
        self.assertIn("nothing to measure", self.error("profile", "-p", 0, "-n", 0, code=2))
        self.assertIn("/nowhere/t.json", self.error("profile", "-m", tiny_model(), "-p", 2, "-n", 0, "-r", 1, "--trace", "/nowhere/t.json"))


if __name__ == "__main__":
    unittest.main(verbosity=1)
