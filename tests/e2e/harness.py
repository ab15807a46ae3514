"""Starts the real binary and talks to it. Only the standard library, so that nothing stands
between test and wire.
"""

import hashlib
import http.client
import json
import os
import pathlib
import signal
import socket
import sqlite3
import subprocess
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BINARY = pathlib.Path(os.environ.get("TENUTO_BINARY", ROOT / "build/release/tenuto"))
MODEL = ROOT / ".deps/models/SmolLM2-135M-Instruct.Q4_1.gguf"
# Sanitizers and slow machines stretch every wait, never a result.
SLOWER = float(os.environ.get("TENUTO_SLOWER", "1"))
ENGINE_FLAGS = ["-c", "4096", "--window", "2048", "-np", "8", "-t", "2"]


def wait_for(what, condition, seconds=60.0):
    """Polls until condition() is truthy and returns it. Fails by name after `seconds` (times
    SLOWER).
    """
    end = time.monotonic() + seconds * SLOWER
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, f"waited in vain for: {what}"
        time.sleep(0.02)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Response:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"<{self.status} {self.body[:400]!r}>"


class Server:
    """One `tenuto serve` over one store folder. Can die and come back; ends only the process it
    started.
    """

    def __init__(self, store, log, flags=(), model=MODEL, engine_flags=None, prefix=()):
        self.store, self.log_path = pathlib.Path(store), pathlib.Path(log)
        self.port = free_port()
        self.process = None
        self.prefix = list(prefix)
        engine = ENGINE_FLAGS if engine_flags is None else engine_flags
        source = ["--fake-executor"] if model is None else ["-m", str(model)]
        self.flags = [*source, "--store", str(store), "--port", str(self.port), *engine, *flags]

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    @property
    def command(self):
        return [*self.prefix, str(BINARY), "serve", *self.flags]

    def start(self):
        assert self.process is None
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        wait_for("the server's /health", self._healthy, 60)
        return self

    def _healthy(self):
        assert (
            self.process.poll() is None
        ), f"the server ended with {self.process.returncode}:\n{self.log}"
        try:
            return self.get("/health").status == 200
        except OSError:
            return False

    @property
    def log(self):
        return self.log_path.read_text(errors="replace")

    def kill9(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process = None

    def stop(self):
        """SIGTERM; returns the exit status."""
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(timeout=60 * SLOWER)
        self.process = None
        return status

    def alive(self):
        return (
            self.process is not None
            and self.process.poll() is None
            and self.get("/health").status == 200
        )

    def connect(self, timeout=120):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout * SLOWER)

    def request(self, method, path, body=None, headers=None):
        connection = self.connect()
        try:
            if body is not None and not isinstance(body, (bytes, bytearray)):
                body = json.dumps(body).encode()
            headers = {"Content-Type": "application/json", **(headers or {})}
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return Response(answer.status, answer.headers, answer.read())
        finally:
            connection.close()

    def get(self, path, headers=None):
        return self.request("GET", path, None, headers)

    def post(self, path, body, headers=None):
        return self.request("POST", path, body, headers)

    def chat(self, session, text, max_tokens=16, headers=None, **fields):
        """One greedy turn; returns the parsed answer."""
        messages = text if isinstance(text, list) else [{"role": "user", "content": text}]
        body = {"messages": messages, "max_tokens": max_tokens, "temperature": 0, **fields}
        if session is not None:
            body["session_id"] = session
        answer = self.post("/v1/chat/completions", body, headers)
        assert answer.status == 200, answer
        return answer.json

    def session(self, name):
        answer = self.get(f"/v1/sessions/{name}")
        return answer.json if answer.status == 200 else None

    def wait_stored(self, name):
        """Waits until the KV of all but the last token of the session is on disk (it is written
        after the answer).
        """
        return wait_for(f"{name}'s KV on disk", lambda: self._stored(name), 30)

    def _stored(self, name):
        info = self.session(name)
        return (
            info
            and not info["running"]
            and info["kv"]["stored_tokens"] >= info["window"]["tokens"] - 1
            and info
        )

    def stream(self, path, body, headers=None):
        return Stream(self, path, {**body, "stream": True}, headers)


class Refused(AssertionError):
    """A stream that was answered with an error: status, body."""


class Stream:
    """A server-sent event stream, read event by event."""

    def __init__(self, server, path, body, headers=None):
        self.connection = server.connect()
        self.connection.request(
            "POST",
            path,
            json.dumps(body).encode(),
            {"Content-Type": "application/json", **(headers or {})},
        )
        self.answer = self.connection.getresponse()
        if self.answer.status != 200:
            raise Refused(self.answer.status, self.answer.read().decode())
        assert self.answer.headers["Content-Type"].startswith("text/event-stream")

    def __iter__(self):
        """Yields each event's JSON; ends after [DONE] or when the server closes."""
        for line in self.answer:
            line = line.decode().rstrip("\r\n")
            if not line.startswith("data:"):
                continue  # blank lines and comments that keep the connection alive
            data = line[5:].strip()
            if data == "[DONE]":
                self.done = True
                return
            yield json.loads(data)

    done = False

    def drop(self):
        """Goes away without a word: closes the socket under the stream."""
        sock = self.connection.sock or self.answer.fp.raw._sock
        sock.shutdown(socket.SHUT_RDWR)
        self.answer.close()
        self.connection.close()


def read_log(server, query, *values):
    """Rows of a stopped or running server's token log; any SQLite reads it."""
    database = sqlite3.connect(f"file:{server.store}/log.db?mode=ro", uri=True)
    try:
        return database.execute(query, values).fetchall()
    finally:
        database.close()


def edit_log(server, *statements):
    """Changes a stopped server's token log and seals its pages again (docs/formats/tokenlog.md)."""
    path = server.store / "log.db"
    database = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        (
            database.execute(*statement)
            if isinstance(statement, tuple)
            else database.execute(statement)
        )
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()
    data = bytearray(path.read_bytes())
    for index in range(len(data) // 4096):
        page = data[index * 4096 : index * 4096 + 4080]
        seal = hashlib.sha256(index.to_bytes(8, "little") + page).digest()[:16]
        data[index * 4096 + 4080 : (index + 1) * 4096] = seal
    path.write_bytes(data)


def pieces_of(server, session):
    """[(segment file, offset, bytes)] of a session's pieces, in order."""
    rows = read_log(
        server,
        "SELECT file, offset, pieces.bytes FROM pieces"
        " JOIN sessions ON sessions.id = pieces.session"
        " WHERE user || '::' || sessions.session = ? ORDER BY range_begin",
        session,
    )
    places = []
    for number, offset, size in rows:
        name = f"{number & (1 << 64) - 1:016x}.seg"
        places.append((next((server.store / "kv").rglob(name)), offset, size))
    return places


def text_of(event):
    """The answer's text in one event of a chat stream."""
    choices = event.get("choices") or [{}]
    return (choices[0].get("delta") or {}).get("content") or ""


def content(answer):
    return answer["choices"][0]["message"]["content"]


def reason_codes(answer):
    return {reason["code"] for reason in answer["tenuto"]["kv"]["reasons"]}


def in_parallel(calls):
    """Runs the calls in threads; returns their results in order, or raises what one of them
    raised.
    """
    results = [None] * len(calls)

    def work(index):
        try:
            results[index] = (True, calls[index]())
        except BaseException as error:  # pylint: disable=broad-except
            results[index] = (False, error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for good, value in results:
        if not good:
            raise value
    return [value for _, value in results]


def run(*arguments, stdin="", timeout=120, prefix=(), environment=None):
    """Runs `tenuto ARGUMENTS` to its end; returns the finished process with text output."""
    return subprocess.run(
        [*prefix, str(BINARY), *map(str, arguments)],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=timeout * SLOWER,
        check=False,
        env={**os.environ, **(environment or {})},
    )


def plain_lines(text):
    """The lines meant for people: all that are not log objects."""
    return [line for line in text.splitlines() if line.strip() and not line.startswith("{")]
