#!/usr/bin/env python3
"""Servers side by side, under the same load, in alternation: total tokens per second and time to the first token.

    serve_bench.py --model M.gguf --clients 1,8 --server "quern=build/release/quern serve -m {model} --port {port} -t 2 --parallel 8" \
        --server "llama.cpp=llama-server -m {model} --port {port} -t 2 -np 8 -c 8192"
    serve_bench.py ... --bench "build/release/quern bench -m {model} -t 2 -p 0 -n {tokens} -r 3 -o json"

Each round starts every server anew, in the order A B, B A, ...; {model} and {port} are filled in. A client sends its next
request when its last answer is whole: streamed text completions of --tokens tokens, greedy, each with a prompt of its own.
Reported per number of clients: tokens per second of all answers (from the first request to the last token), of one
answer after its first token, and the time to the first token; the ratio of the first server to each other is that of the
same round, with its 95 % interval. --bench is run beside and compared with one answer's tokens per second.
One thread, raw sockets: the client itself takes little of the machine. Standard library only. --record FILE appends JSON.
"""
import argparse
import json
import math
import random
import selectors
import shlex
import socket
import statistics
import subprocess
import sys
import time

WORDS = "stone river lamp cloud paper seven walk green under house light water song early north".split()
T95 = [math.nan, 12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26]


class Answer:
    """One streamed request on a socket of its own."""

    def __init__(self, port, body):
        self.socket = socket.create_connection(("127.0.0.1", port))
        data = json.dumps(body).encode()
        self.start = time.perf_counter()
        self.socket.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n"
                            b"Content-Length: %d\r\n\r\n" % len(data) + data)
        self.socket.setblocking(False)
        self.times, self.rest, self.head = [], b"", None

    def read(self):
        """True at the end."""
        data = self.socket.recv(65536)
        now = time.perf_counter()
        self.rest += data
        if self.head is None and b"\r\n\r\n" in self.rest:
            self.head, self.rest = self.rest.split(b"\r\n\r\n", 1)
            if b" 200 " not in self.head.split(b"\r\n")[0]:
                raise SystemExit(f"refused: {self.head!r} {self.rest!r}")
        if self.head is not None:
            n = self.rest.count(b'"text":')
            self.times += [now] * n
            cut = self.rest.rfind(b"\n\n")
            if cut >= 0:
                self.rest = self.rest[cut:]
        return not data or b"data: [DONE]" in data


def load(port, clients, requests, tokens, prompt_words, seed):
    rng = random.Random(seed)
    bodies = [{"model": "m", "prompt": " ".join(rng.choice(WORDS) for _ in range(prompt_words)), "max_tokens": tokens, "temperature": 0,
               "ignore_eos": True, "stream": True} for _ in range(requests)]
    selector = selectors.DefaultSelector()
    done, begin = [], time.perf_counter()

    def start():
        if bodies:
            answer = Answer(port, bodies.pop())
            selector.register(answer.socket, selectors.EVENT_READ, answer)
    for _ in range(clients):
        start()
    while selector.get_map():
        for key, _ in selector.select():
            answer = key.data
            if answer.read():
                selector.unregister(answer.socket)
                answer.socket.close()
                done.append(answer)
                start()
    wall = max(a.times[-1] for a in done) - begin
    # A server may put several tokens into one event; the request says how many there are.
    return {"total": requests * tokens / wall,
            "one": statistics.median((tokens - 1) / (a.times[-1] - a.times[0]) for a in done),
            "first": 1000 * statistics.median(a.times[0] - a.start for a in done),
            "events": statistics.median(len(a.times) for a in done)}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    def __init__(self, command, model):
        self.port = free_port()
        self.process = subprocess.Popen(shlex.split(command.format(model=model, port=self.port)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + 120
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise SystemExit(f"it did not start: {command}")
            try:
                with socket.create_connection(("127.0.0.1", self.port), 1) as s:
                    s.sendall(b"GET /health HTTP/1.0\r\nHost: localhost\r\n\r\n")
                    if b" 200 " in s.recv(4096).split(b"\r\n")[0]:
                        return
            except OSError:
                pass
            time.sleep(0.1)
        raise SystemExit(f"it did not become ready: {command}")

    def stop(self):
        self.process.terminate()
        self.process.wait(30)


def interval(ratios):
    logs = [math.log(r) for r in ratios]
    mean = statistics.fmean(logs)
    if len(logs) < 2:
        return math.exp(mean), math.nan, math.nan
    half = T95[min(len(logs) - 1, len(T95) - 1)] * statistics.stdev(logs) / math.sqrt(len(logs))
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


def bench_rate(command, model, tokens):
    out = subprocess.run(shlex.split(command.format(model=model, tokens=tokens)), capture_output=True, text=True, check=True).stdout
    rows = json.loads(out)
    return [r for r in rows if r.get("n_gen")][0]["avg_ts"]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", required=True)
    p.add_argument("--server", action="append", required=True, metavar="NAME=COMMAND")
    p.add_argument("--bench", metavar="COMMAND")
    p.add_argument("--clients", default="1,8")
    p.add_argument("--requests", type=int, default=3, help="of each client")
    p.add_argument("--tokens", type=int, default=128)
    p.add_argument("--prompt-words", type=int, default=64)
    p.add_argument("--rounds", type=int, default=4)
    p.add_argument("--record")
    a = p.parse_args()
    servers = [s.split("=", 1) for s in a.server]
    counts = [int(c) for c in a.clients.split(",")]
    rows = {name: {c: [] for c in counts} for name, _ in servers}
    benched = []
    for round_ in range(a.rounds):
        for name, command in servers if round_ % 2 == 0 else servers[::-1]:
            server = Server(command, a.model)
            try:
                load(server.port, max(counts), max(counts), 8, a.prompt_words, -1)  # warm
                for c in counts:
                    rows[name][c].append(load(server.port, c, c * a.requests, a.tokens, a.prompt_words, round_))
            finally:
                server.stop()
        if a.bench:
            benched.append(bench_rate(a.bench, a.model, a.tokens))
        print(f"round {round_ + 1} of {a.rounds}", file=sys.stderr)
    ours = servers[0][0]
    print("| clients | server | tokens/s of all | one answer's | first token ms | ratio of all (95 %) | ratio of first tokens (95 %) |\n|---|---|---|---|---|---|---|")
    for c in counts:
        for name, _ in servers:
            median = {k: statistics.median(r[k] for r in rows[name][c]) for k in ("total", "one", "first")}
            ratios = ["", ""]
            if name != ours:
                for i, k in enumerate(("total", "first")):
                    ratios[i] = "%.2f (%.2f to %.2f)" % interval([x[k] / y[k] for x, y in zip(rows[ours][c], rows[name][c])])
            print(f"| {c} | {name} | {median['total']:.1f} | {median['one']:.1f} | {median['first']:.1f} | {ratios[0]} | {ratios[1]} |")
    if benched:
        print("one client against bench: %.3f (%.3f to %.3f)" % interval([x["one"] / b for x, b in zip(rows[ours][counts[0]], benched)]))
    if a.record:
        with open(a.record, "a") as f:
            f.write(json.dumps({"date": time.strftime("%Y-%m-%d"), "model": a.model.split("/")[-1], "servers": [n for n, _ in servers], "tokens": a.tokens, "rows": rows, "bench": benched}) + "\n")


if __name__ == "__main__":
    main()
