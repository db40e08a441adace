#!/usr/bin/env python3
"""Many clients at one quern serve, well and badly behaved: hang-ups, broken and oversize requests, slow writers, streams.

    stress.py [--quern PROGRAM] [--clients 64] [--requests 200] [--seed 1] [--cases 160]

First every request of a table is asked alone, one after another, of a server that runs one at a time. Then the clients
ask at once, of another. It must hold that every whole answer is the one given alone, whether it comes whole or as a
stream; that what is no request gets the status it should or a closed connection; and at the end that nothing runs, no
connection, thread or page is left over, the program ends well, and it said nothing on standard error (a sanitizer's
report is there too). Controls show that each of these checks sees what it is for.
For builds with sanitizers: ASAN_OPTIONS=detect_leaks=1, TSAN_OPTIONS=halt_on_error=1.
"""
import argparse
import asyncio
import collections
import json
import os
import random
import re
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE), str(HERE.parent / "apps")]
from stress_cases import Case, Wrong, differences, long_body, make_cases, whole_completion  # noqa: E402
from stress_client import GONE, Connection, bad_body, events_of, garbage, hang_up, post, send_garbage  # noqa: E402

BUSY = ("requests_queued", "requests_prompt", "requests_generating")
PATIENCE = 300  # seconds for one exchange; a server that hangs is found by it


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quern", default=os.environ.get("QUERN_BINARY", str(ROOT / "build/release/quern")))
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--requests", type=int, default=200, help="of each client")
    parser.add_argument("--cases", type=int, default=160, help="different requests")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    os.environ["QUERN_BINARY"] = args.quern
    os.environ.setdefault("QUERN_SOURCE_DIR", str(ROOT))
    os.environ.setdefault("QUERN_TEST_DATA", str(ROOT / "build/testdata"))
    return args


def model_arguments(folder):
    from harness import CHATML, with_template
    from server import scripted, tiny
    text = with_template(tiny("llama"), Path(folder) / "text.gguf", CHATML)
    return [a for model in ("text=" + text, "window=" + tiny("gemma3"), "think=" + scripted("think"), "call=" + scripted("harmony-tools"), "tags=" + scripted("tagged-tools")) for a in ("-m", model)]


# ---- the checks of the end; each gives lines that say what is wrong

def idle_problems(stats):
    problems = []
    for model in stats["models"]:
        name, figures = model["id"], {b: model[b] for b in BUSY if model.get(b)}
        if figures:
            problems.append(f"{name}: still at work: {figures}")
        if model["leases"] > 0:
            problems.append(f"{name}: {model['leases']} requests hold it")
    return problems


def count_problems(stats):
    problems = []
    for m in stats["models"]:
        ended = m["requests_finished_total"] + m["requests_cancelled_total"] + m["requests_failed_total"]
        if m["requests_total"] != ended:
            problems.append(f"{m['id']}: {m['requests_total']} requests were taken and {ended} ended")
        if m["requests_failed_total"] > 0:
            problems.append(f"{m['id']}: {m['requests_failed_total']} requests failed")
        if m["kv_bytes"] > m["kv_bytes_budget"]:
            problems.append(f"{m['id']}: {m['kv_bytes']} bytes of keys and values, and the budget is {m['kv_bytes_budget']}")
        if m["kv_pages"] > 0 and m["prefix_timelines"] == 0:
            problems.append(f"{m['id']}: {m['kv_pages']} pages of keys and values, and no timeline is kept")
    return problems


def log_problems(lines):
    """Anything that the program says beside what it always does; sanitizers report there, and pages left over."""
    return ["standard error: " + line.rstrip()[:300] for line in lines if not re.search(r"listening on https?://|stopping; \d+ answers go on", line)]


def held_by(server):
    """Open descriptors and threads of the process."""
    proc = Path(f"/proc/{server.process.pid}")
    threads = re.search(r"^Threads:\s+(\d+)", (proc / "status").read_text(), re.MULTILINE)
    return len(list((proc / "fd").iterdir())), int(threads[1])


# ---- one exchange with a whole answer

def normal(case, status, body, streamed):
    """An answer as it is compared."""
    if status != 200 or case.whole is None:
        return {"status": status, "json": json.loads(body)}
    if not streamed:
        return case.whole(json.loads(body))
    events = events_of(body)
    if not events or (isinstance(events[-1], dict) and "error" in events[-1]):
        raise Wrong(f"the stream ends in an error: {events[-1:]}")
    return case.streamed(events)


class Clients:
    def __init__(self, port, cases, expected, args):
        self.port, self.cases, self.expected, self.args = port, cases, expected, args
        self.tally, self.problems = collections.Counter(), []

    def request_of(self, rng, case):
        streamed = case.streamed is not None and rng.random() < 0.6
        body = dict(case.body)
        if streamed:
            body["stream"] = True
            if case.path.endswith("completions") and rng.random() < 0.5:
                body["stream_options"] = {"include_usage": True}
        fillers = [f"X-Filler-{i}: {'y' * 40}" for i in range(rng.choice([0, 0, 0, 3, 200]))]
        return post(case.path, json.dumps(body).encode(), fillers), streamed

    async def ask(self, rng, kept, index, case):
        """Asks until the queue has room, and compares. Gives back the connection where it can be used again."""
        data, streamed = self.request_of(rng, case)
        while True:
            connection = kept or await Connection.open(self.port)
            try:
                if rng.random() < 0.15:
                    self.tally["slow writers"] += 1
                    await connection.send_slowly(rng, data)
                else:
                    await connection.send(data)
                status, fields, body = await connection.answer()
            except GONE:
                await connection.close()
                if kept is None:
                    raise Wrong(f"no answer to {data[:200]!r}") from None
                kept = None  # the server may close a connection between two requests
                continue
            if status in (429, 503):
                if int(fields.get("retry-after", 0)) < 1:
                    raise Wrong(f"{status} without Retry-After")
                self.tally["full queues"] += 1
                kept = connection
                await asyncio.sleep(0.01 + 0.05 * rng.random())
                continue
            break
        lines = differences(self.expected[index], normal(case, status, body, streamed))
        if lines:
            raise Wrong(f"another answer than alone, {case.path} {json.dumps(case.body)[:500]}\n  " + "\n  ".join(lines))
        self.tally["answers, streamed" if streamed else "answers, whole"] += 1
        if fields.get("connection", "").lower() == "close" or rng.random() < 0.4:
            await connection.close()
            return None
        return connection

    async def one(self, rng, kept):
        index = rng.randrange(len(self.cases))
        what = rng.random()
        if what < 0.6:
            return await self.ask(rng, kept, index, self.cases[index])
        if what < 0.8:
            short = self.request_of(rng, self.cases[index])[0]
            stage = await hang_up(rng, self.port, short if rng.random() < 0.4 else post("/v1/completions", json.dumps(long_body(rng)).encode()))
            self.tally["hang-ups: " + stage] += 1
        elif what < 0.9:
            path, body = bad_body(rng)
            await send_garbage(rng, self.port, post(path, body), [400])
            self.tally["bodies that are no request"] += 1
        else:
            await send_garbage(rng, self.port, *garbage(rng))
            self.tally["bytes that are no request"] += 1
        return kept

    async def client(self, number):
        rng, kept = random.Random(self.args.seed * 100003 + number), None
        for _ in range(self.args.requests):
            try:
                kept = await asyncio.wait_for(self.one(rng, kept), PATIENCE)
            except (Wrong, OSError, ValueError, KeyError, TypeError, TimeoutError) as error:
                self.problems.append(f"client {number}: {type(error).__name__}: {error}")
                kept = None
                if len(self.problems) > 20:
                    return
        if kept is not None:
            await kept.close()

    async def run(self):
        await asyncio.gather(*(self.client(i) for i in range(self.args.clients)))


# ---- the parts of the program

def ask_alone(server, cases):
    """The answer to each request when nothing else runs."""
    answers = []
    for case in cases:
        status, _, body = server.ask("POST", case.path, case.body)
        if status not in (200, 400, 404):
            raise SystemExit(f"stress: {case.path} {case.body} alone gives {status}: {body[:500]}")
        answers.append(normal(case, status, body.encode(), False))
    return answers


def controls(server):
    """Whether the checks see a different answer, a row that runs on, and lines on standard error."""
    from server import wait_until
    body = {"model": "text", "prompt": "abc", "max_tokens": 20, "temperature": 1.7, "ignore_eos": True}
    first, same, other = ask_alone(server, [Case("/v1/completions", body | {"seed": seed}, whole_completion) for seed in (1, 1, 2)])
    missed = [] if differences(first, other) and not differences(first, same) else ["an answer that differs"]
    for _ in range(20):  # the answer may be through before anybody looks
        connection = server.connect()
        connection.request("POST", "/v1/completions", json.dumps({"model": "text", "prompt": ["abc"] * 16, "max_tokens": 900, "ignore_eos": True, "stream": True}))
        connection.getresponse().read(1)
        seen = idle_problems(server.get("/v1/stats"))
        connection.close()
        if len(seen) >= 2:  # rows, and a lease
            break
    else:
        missed.append("a row that runs on")
    if not wait_until(lambda: not idle_problems(server.get("/v1/stats")), 60):
        missed.append("the end of a row whose client has gone")
    for line in ("warning: 3 pages of keys and values were not given back", "==7==ERROR: AddressSanitizer: heap-use-after-free", "WARNING: ThreadSanitizer: data race (pid=7)"):
        if not log_problems([line]):
            missed.append(line)
    if log_problems(["quern: listening on http://127.0.0.1:1\n"]):
        missed.append("a start without a fault")
    return [f"the checks do not see {m}" for m in missed]


def end_problems(server, cases, expected, baseline):
    from server import wait_until
    problems = []
    if not wait_until(lambda: not idle_problems(server.get("/v1/stats")), 60):
        problems += idle_problems(server.get("/v1/stats"))
    if server.get("/health")["status"] != "ok":
        problems.append("not healthy")
    for case, wanted, got in zip(cases, expected, ask_alone(server, cases), strict=True):
        lines = differences(wanted, got)
        problems += [f"after it all, {case.path} {json.dumps(case.body)[:300]}: {line}" for line in lines]
    problems += count_problems(server.get("/v1/stats"))
    if not wait_until(lambda: all(now <= before for now, before in zip(held_by(server), baseline)), 60):
        problems.append(f"descriptors and threads: {held_by(server)}, and {baseline} before")
    return problems


def settled(server):
    """What the process holds once no connection is left."""
    least = held_by(server)
    for _ in range(20):
        time.sleep(0.1)
        least = tuple(min(pair) for pair in zip(least, held_by(server)))
    return least


def main():
    args = arguments()
    from server import Server
    cases = make_cases(random.Random(args.seed), args.cases)
    common = ["-c", "1024", "--max-body", "1", "--ping", "0.05"]
    with tempfile.TemporaryDirectory(prefix="quern-stress-") as folder:
        models = model_arguments(folder)
        alone = Server(*models, *common, "--parallel", "1")
        expected = ask_alone(alone, cases)
        problems = [f"alone: {p}" for p in (["exit status"] if alone.stop() != 0 else []) + log_problems(alone.log)]
        server = Server(*models, *common, "--parallel", "8", "--queue", "16")
        for case in cases:  # loads all models
            server.ask("POST", case.path, case.body)
        problems += controls(server)
        baseline = settled(server)
        begin = time.monotonic()
        clients = Clients(server.port, cases, expected, args)
        asyncio.run(clients.run())
        seconds = time.monotonic() - begin
        problems += clients.problems + end_problems(server, cases, expected, baseline)
        figures = server.get("/v1/stats")["models"]
        code = server.stop(timeout=120)
        problems += [f"exit status {code}"] if code != 0 else []
        problems += log_problems(server.log)
    print(f"{args.clients} clients x {args.requests} requests, {len(cases)} different ones, in {seconds:.0f} s")
    for name, n in sorted(clients.tally.items()):
        print(f"  {n:6} {name}")
    for m in figures:
        print(f"  {m['id']}: {m['requests_total']:.0f} taken, {m['requests_cancelled_total']:.0f} cancelled, {m['requests_refused_total']:.0f} refused, "
              f"{m['generated_tokens_total']:.0f} tokens, {m['cached_tokens_total']:.0f} of {m['prompt_tokens_total']:.0f} prompt tokens cached, {m['kv_pages']:.0f} pages kept")
    for problem in problems:
        print("PROBLEM " + problem)
    print(f"{len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
