"""A door between the browser and a real quern serve: everything goes through unchanged, but a test can hold the events of
streamed answers and let them go one by one, put events of its own in place of a model's, and see what was asked.
Standard library only."""
import http.client
import json
import select
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CHAT = "/v1/chat/completions"


class Valve:
    def __init__(self, port):
        self.upstream = port
        self.asked = []  # (method, path, body as JSON or None, headers), in order
        self.canned = None  # texts of deltas, as (field, text), instead of the model's
        self.model = "canned"  # which model a canned answer names
        self.broken = False  # cut the connection after the next event
        self.n_hung_up = 0  # answers that the browser did not want any more
        self._room = threading.Condition()
        self._held, self._left = False, 0
        valve = self

        class Handler(Door):
            door = valve

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def hold(self):
        with self._room:
            self._held, self._left = True, 0

    def let(self, n=1):
        with self._room:
            self._left += n
            self._room.notify_all()

    def release(self):
        with self._room:
            self._held = False
            self._room.notify_all()

    def wait(self, gone):
        """Until an event may go; False where the client has gone."""
        with self._room:
            while self._held and self._left == 0:
                if gone():
                    return False
                self._room.wait(0.05)
            if self._held:
                self._left -= 1
        return not gone()

    def chats(self):
        return [body for method, path, body, _ in self.asked if (method, path) == ("POST", CHAT)]

    def close(self):
        self.release()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join(5)


class Door(BaseHTTPRequestHandler):
    door = None

    def do_GET(self):
        self.forward(None)

    def do_POST(self):
        self.forward(self.rfile.read(int(self.headers.get("Content-Length", 0))))

    def forward(self, body):
        door = self.door
        path = self.path.split("?")[0]
        door.asked.append((self.command, path, json.loads(body) if body else None, dict(self.headers)))
        if path == CHAT and door.canned is not None:
            return self.stream(canned_events(door.canned, door.model))
        upstream = http.client.HTTPConnection("127.0.0.1", door.upstream, timeout=60)
        try:
            upstream.request(self.command, self.path, body, {k: v for k, v in self.headers.items() if k.lower() != "connection"})
            answer = upstream.getresponse()
            if answer.getheader("Content-Type") == "text/event-stream":
                self.stream(events_of(answer))
            else:
                self.whole(answer)
        except OSError:
            pass  # the browser has gone
        finally:
            upstream.close()  # the server sees a client that hangs up

    def whole(self, answer):
        data = answer.read()
        self.send_response_only(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("connection", "content-length", "transfer-encoding"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def stream(self, events):
        self.send_response_only(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for event in events:
            if not event.startswith(b":") and not self.door.wait(self.gone):
                self.door.n_hung_up += 1
                return
            self.wfile.write(event)
            self.wfile.flush()
            if self.door.broken and not event.startswith(b":"):
                return

    def gone(self):
        readable, _, _ = select.select([self.connection], [], [], 0)
        return bool(readable)  # a browser sends nothing more: it has closed

    def log_message(self, *_):
        pass


def events_of(answer):
    event = b""
    for line in answer:
        event += line
        if line == b"\n":
            yield event
            event = b""


def canned_events(deltas, model):
    head = {"id": "chatcmpl-canned", "object": "chat.completion.chunk", "created": 0, "model": model}

    def event(choices, **more):
        return b"data: " + json.dumps({**head, "choices": choices, **more}).encode() + b"\n\n"

    for field, text in deltas:
        yield event([{"index": 0, "delta": {field: text}, "finish_reason": None}])
    yield event([{"index": 0, "delta": {}, "finish_reason": "stop"}])
    yield event([], usage={"prompt_tokens": 5, "completion_tokens": len(deltas), "total_tokens": 5 + len(deltas)})
    yield b"data: [DONE]\n\n"
