"""HTTP as the stress program speaks it, good and bad: whole exchanges, slow ones, ones that are given up half way, and
bytes that are no request. Raw sockets by asyncio; standard library only."""
import asyncio
import json
import socket
import struct

from stress_cases import Wrong

GONE = (ConnectionError, asyncio.IncompleteReadError, BrokenPipeError)


def head(method, path, length=None, headers=()):
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", *headers]
    if length is not None:
        lines.append(f"Content-Length: {length}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def post(path, body, headers=()):
    return head("POST", path, len(body), headers) + body


class Connection:
    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer

    @staticmethod
    async def open(port):
        return Connection(*await asyncio.open_connection("127.0.0.1", port, limit=1 << 24))

    async def send(self, data):
        self.writer.write(data)
        await self.writer.drain()

    async def send_slowly(self, rng, data):
        at, n_pieces = 0, rng.randint(2, 12)
        while at < len(data):
            n = rng.randint(1, max(1, 2 * len(data) // n_pieces))
            await self.send(data[at:at + n])
            at += n
            await asyncio.sleep(rng.random() * 0.01)

    async def status(self):
        """(status, header fields by small name)"""
        text = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        fields = dict(line.split(": ", 1) for line in text[1:] if ": " in line)
        return int(text[0].split(" ")[1]), {k.lower(): v for k, v in fields.items()}

    async def body(self, fields):
        if fields.get("transfer-encoding", "") == "chunked":
            out = b""
            while size := int(await self.reader.readuntil(b"\r\n"), 16):
                out += await self.reader.readexactly(size)
                await self.reader.readexactly(2)
            await self.reader.readexactly(2)
            return out
        if "content-length" in fields:
            return await self.reader.readexactly(int(fields["content-length"]))
        return await self.reader.read()

    async def answer(self):
        """(status, header fields, body)"""
        status, fields = await self.status()
        return status, fields, await self.body(fields)

    async def close(self, rng=None):
        """With a generator: as a client may go, by closing, by a reset, or by closing its side first."""
        how = rng.choice(["close", "reset", "half"]) if rng else "close"
        try:
            if how == "reset":
                self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            if how == "half" and self.writer.can_write_eof():
                self.writer.write_eof()
                await asyncio.wait_for(self.reader.read(), 60)  # whatever still comes, and then the end
            self.writer.close()
            await self.writer.wait_closed()
        except TimeoutError:
            raise Wrong("a connection whose client has closed its side stays open") from None
        except OSError:
            pass  # the server was quicker


def events_of(body):
    """The data of each event of a stream; comments left out."""
    out = []
    for block in body.decode().split("\n\n"):
        if not block or block.startswith(":"):
            continue
        data = [line[6:] for line in block.split("\n") if line.startswith("data: ")]
        if len(data) != 1:
            raise Wrong(f"an event without one line of data: {block[:300]!r}")
        out.append(data[0] if data[0] == "[DONE]" else json.loads(data[0]))
    return out


async def hang_up(rng, port, request):
    """Begins a request and goes: before the header, in it, in the body, before the answer, or in it."""
    connection = await Connection.open(port)
    try:
        end_of_head = request.index(b"\r\n\r\n") + 4
        stage = rng.choice(["nothing", "head", "body", "sent", "answer", "answer", "answer"])
        if stage == "head":
            await connection.send(request[:rng.randint(1, end_of_head - 1)])
        elif stage == "body":
            await connection.send(request[:rng.randint(end_of_head, len(request) - 1)])
        elif stage != "nothing":
            await connection.send(request)
        if stage == "answer":
            await asyncio.wait_for(connection.reader.read(rng.randint(1, 3000)), 120)
        if rng.random() < 0.5:
            await asyncio.sleep(rng.random() * 0.03)
    except GONE:
        pass
    await connection.close(rng)
    return stage


# ---- what is no request

def bad_body(rng):
    chat = "/v1/chat/completions"
    user = b'{"model": "text", "messages": [{"role": "user", "content": "%s"}]}'
    nested = rng.choice([100, 5000, 200000])
    return rng.choice([
        (chat, b""), (chat, b"{"), (chat, b"[]"), (chat, b"null"), (chat, b"\xef\xbb\xbf{"), (chat, b'{"a": 1} x'),
        (chat, user % b"\xc3\x28"), (chat, user % b"\xc4\xe3\xba\xc3"), (chat, user % b"\\ud800"), (chat, user % b"\xed\xa0\x80"),
        (chat, user % b"\xff"), (chat, user % b"a\nb"), (chat, user[:rng.randint(1, 60)]), (chat, b'{"model": "text", "model": "text"}'),
        (chat, b'{"a":' * nested), (chat, b'{"model": ' + b"[" * nested + b"]" * nested + b"}"),
        (chat, json.dumps({"model": "text", "messages": [{"role": "user", "content": "a"}] * 5000}).encode()),
        (chat, json.dumps({"model": "text", "messages": [{"role": "tool", "content": "a", "tool_call_id": "x"}]}).encode()),
        ("/v1/completions", b'{"prompt": [-1]}'), ("/v1/completions", b'{"prompt": [1000000000]}'), ("/v1/completions", b'{"prompt": [1e300]}'),
        ("/v1/completions", b'{"prompt": "a", "n_discard": -1}'), ("/v1/completions", b'{"prompt": "a", "n": 1000000}'),
        ("/v1/completions", b'{"model": "text", "prompt": [' + b"7, " * 300000 + b"7]}"),
        ("/v1/completions", bytes(rng.randrange(256) for _ in range(rng.randint(1, 400)))),
        ("/v1/messages", b'{"model": "text", "max_tokens": 1, "messages": []}'), ("/v1/responses", b'{"input": []}'),
        ("/tokenize", b'{"content": 1}'), ("/detokenize", b'{"tokens": "a"}'), ("/v1/embeddings", b'{"input": []}'),
    ])


def garbage(rng):
    """Bytes, and the statuses that an answer may have; it may always be none, and the connection closed."""
    ok = b'{"model": "text", "prompt": "a", "max_tokens": 1}'
    anything = range(400, 506)
    return rng.choice([
        (bytes(rng.randrange(256) for _ in range(200)) + b"\r\n\r\n", anything),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200) + b"\r\n\r\n", anything),
        (b"GET / HTTP/1.1\r\n\r\n", [400]), (b"GET /health HTTP/9.9\r\nHost: localhost\r\n\r\n", anything),
        (b"GET /health HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", [400]),
        (b"GET /health HTTP/1.1\r\nHost: evil.example\r\n\r\n", [403]),
        (post("/v1/completions", ok, ["Origin: http://evil.example"]), [403]),
        (head("POST", "/v1/completions", 30 << 20), [413]), (head("POST", "/v1/completions", 10**30), anything),
        (head("POST", "/v1/completions", -1) + ok, anything), (head("POST", "/v1/completions", "7x") + ok, anything),
        (head("POST", "/v1/completions", 30 << 20, ["Expect: 100-continue"]), [413]),
        (head("POST", "/v1/completions", None, ["Transfer-Encoding: chunked"]) + b"zz\r\nabc\r\n0\r\n\r\n", anything),
        (head("POST", "/v1/completions", None, ["Transfer-Encoding: chunked"]) + (b"8000\r\n" + b"x" * 0x8000 + b"\r\n") * 40, anything),
        (head("GET", "/health", None, [f"X-{i}: y" for i in range(6000)]), anything),
        (head("GET", "/health", None, ["X-Long: " + "y" * 80000]), anything),
        (head("GET", "/" + "a" * 80000), anything), (head("GET", "/v1/" + "%00" * 20), anything),
        (head("GET", rng.choice(["/../etc/passwd", "/%2e%2e/x", "//", "/v1/models/none"])), [404]), (head("GET", "/v1/completions"), [405]),
        (head("BREW", "/health"), anything), (head("POST", "/v1/requests/cmpl-none/end_thinking", 0), [404]),
    ])


async def send_garbage(rng, port, data, allowed):
    """Sends it and reads an answer; raises where its status is not one of those allowed."""
    connection = await Connection.open(port)
    try:
        await connection.send(data)
        status, _ = await asyncio.wait_for(connection.status(), 120)
        if status not in allowed:
            raise Wrong(f"status {status} for {data[:120]!r}")
    except GONE:
        pass
    finally:
        await connection.close(rng)
