"""One `tenuto serve` and a client light enough not to disturb what it measures: the stream is
read as raw bytes with a time for each read, and understood only after its end.
"""

import bisect
import http.client
import json
import pathlib
import selectors
import signal
import socket
import subprocess
import time

from kit.machine import BenchError, free_port, need

START_SECONDS = 120
ANSWER_SECONDS = 900


class Http:
    """Plain requests to a server that listens, whoever started it."""

    def __init__(self, host, port, api_key=""):
        self.host, self.port = host, port
        self.headers = {"Content-Type": "application/json"}
        if api_key:
            self.headers["Authorization"] = f"Bearer {api_key}"

    def connect(self):
        return http.client.HTTPConnection(self.host, self.port, timeout=ANSWER_SECONDS)

    def request(self, method, path, body=None):
        connection = self.connect()
        try:
            data = None if body is None else json.dumps(body)
            connection.request(method, path, data, self.headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read() or b"null")
        finally:
            connection.close()

    def call(self, method, path, body=None):
        status, answer = self.request(method, path, body)
        need(status == 200, f"{method} {path}: {status} {answer}")
        return answer

    def healthy(self):
        try:
            return self.request("GET", "/health")[0] == 200
        except OSError:
            return False

    def tokenize(self, text):
        return self.call("POST", "/tokenize", {"content": text})["tokens"]

    def wait_stored(self, session, seconds=60):
        """Until the KV of all but the session's last token is on disk; it is written after the
        answer.
        """
        end = time.monotonic() + seconds
        while True:
            info = self.call("GET", f"/v1/sessions/{session}")
            if not info["running"] and info["kv"]["stored_tokens"] >= info["window"]["tokens"] - 1:
                return info
            need(time.monotonic() < end, f"the KV of {session} was not stored: {info}")
            time.sleep(0.02)

    def bytes_of(self, path, body):
        """A streamed POST as it goes over the wire, one connection each."""
        data = json.dumps(body).encode()
        headers = {**self.headers, "Content-Length": len(data), "Connection": "close"}
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        host = f"Host: {self.host}:{self.port}\r\n"
        return f"POST {path} HTTP/1.1\r\n{host}{lines}\r\n".encode() + data


class Server(Http):
    """Over one store folder. Ends only the process that it started."""

    def __init__(self, setup, store, flags=()):
        super().__init__("127.0.0.1", free_port())
        self.store = pathlib.Path(store)
        self.log_path = setup.temp / "server.log"
        source = ("-m", str(setup.model)) if setup.model else ("--fake-executor",)
        self.command = [
            *(str(setup.tenuto), "serve", *source, "--store", str(store)),
            *("--port", str(self.port), "--log-level", "warn", *setup.serve_flags, *flags),
        ]
        self.process = None

    def __enter__(self):
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        end = time.monotonic() + START_SECONDS
        while not self.healthy():
            if self.process.poll() is not None or time.monotonic() > end:
                self.kill9()
                log = self.log_path.read_text(errors="replace")
                raise BenchError(f"the server did not start:\n{log[-1000:]}")
            time.sleep(0.01)
        return self

    def __exit__(self, *_):
        self.kill9()

    @property
    def pid(self):
        return self.process.pid

    def kill9(self):
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()


class Received:
    """The bytes of an answer with the time of each read, understood after its end."""

    def __init__(self):
        self.reads = []  # (seconds, bytes)
        self.sent = 0.0

    def _raw(self):
        return b"".join(data for _, data in self.reads)

    def head(self):
        """(status, {lower-case name: value}); status 0 where not even a head came."""
        head, end, _ = self._raw().partition(b"\r\n\r\n")
        if not end:
            return 0, {}
        first, *lines = head.decode("latin-1").split("\r\n")
        fields = (line.partition(":") for line in lines)
        return int(first.split()[1]), {name.lower(): value.strip() for name, _, value in fields}

    def body(self, whole=True):
        """(seconds, bytes) of the body's parts, chunked framing removed. Of an answer that was cut
        what is there, where it need not be `whole`.
        """
        status, headers = self.head()
        need(status or not whole, "no answer came")
        if not status:
            return []
        raw, ends, total = self._raw(), [], 0
        for now, data in self.reads:
            total += len(data)
            ends.append(total)
        at = raw.find(b"\r\n\r\n") + 4
        if "chunked" not in headers.get("transfer-encoding", ""):
            return [(self.reads[-1][0], raw[at:])]
        parts = []
        while True:
            line_end = raw.find(b"\r\n", at)
            size = int(raw[at:line_end].split(b";")[0], 16) if line_end > 0 else -1
            cut = size < 0 or line_end + 2 + size > len(raw)
            need(not (cut and whole), "a stream was cut")
            if cut or size == 0:
                return parts
            at = line_end + 2 + size
            now = self.reads[bisect.bisect_left(ends, at)][0]
            parts.append((now, raw[line_end + 2 : at]))
            at += 2

    def events(self, whole=True):
        """(seconds, object or "[DONE]") of a stream."""
        found, rest = [], b""
        for now, data in self.body(whole):
            *events, rest = (rest + data).split(b"\n\n")
            for event in events:
                if event.startswith(b"data: "):
                    text = event[6:].decode()
                    found.append((now, text if text == "[DONE]" else json.loads(text)))
        return found


class Timed(Received):
    """A request sent over a socket of its own, and what came back."""

    def __init__(self, server, path, body):
        super().__init__()
        self.out = server.bytes_of(path, body)
        self.socket = socket.create_connection((server.host, server.port), timeout=ANSWER_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self):
        self.sent = time.perf_counter()
        self.socket.sendall(self.out)

    def receive(self):
        """One read; False at the end."""
        data = self.socket.recv(65536)
        now = time.perf_counter()
        if data:
            self.reads.append((now, data))
        return bool(data)


class Answer:
    """A stream that has ended: when its parts came, in seconds, and its last object."""

    def __init__(self, timed):
        self.sent = timed.sent
        status, _ = timed.head()
        need(status == 200, f"an answer was {status} {timed.body(whole=False)!r:.600}")
        events = timed.events()
        for _, event in events:
            need(event == "[DONE]" or "error" not in event, f"the stream says {event}")
        # With tokens[] where the route gives them, by text elsewhere.
        self.parts = [(now, tokens) for now, event in events if (tokens := tokens_of(event))]
        need(self.parts, f"no content in the stream: {events[-2:]}")
        self.last = [event for _, event in events if event != "[DONE]" and "tenuto" in event][-1]
        self.end = events[-1][0]
        self.kv = self.last["tenuto"]["kv"]

    @property
    def first_ms(self):
        return (self.parts[0][0] - self.sent) * 1e3

    @property
    def tail_ms(self):
        return (self.end - self.parts[-1][0]) * 1e3


def tokens_of(event):
    """How many tokens an event brought, as far as it tells; 0 for one without content."""
    if event == "[DONE]":
        return 0
    if "tokens" in event and not event.get("stop"):
        return len(event["tokens"])
    choice = (event.get("choices") or [{}])[0]
    return 1 if (choice.get("delta") or {}).get("content") else 0


def stream(server, path, body):
    return streams(server, path, [body])[0]


def streams(server, path, bodies):
    """Sends all at once, reads them from one loop."""
    timed = [Timed(server, path, {**body, "stream": True}) for body in bodies]
    with selectors.DefaultSelector() as selector:
        for one in timed:
            selector.register(one.socket, selectors.EVENT_READ, one)
        for one in timed:
            one.send()
        left = len(timed)
        while left:
            ready = selector.select(ANSWER_SECONDS)
            need(ready, "no stream said anything for too long")
            for key, _ in ready:
                if key.data.receive():
                    continue
                selector.unregister(key.fileobj)
                key.data.socket.close()
                left -= 1
    return [Answer(one) for one in timed]
