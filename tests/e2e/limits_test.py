"""Signals, small limits and impolite clients: the server ends in order or goes on."""

import re
import signal
import socket
import subprocess
import time

import pytest

from harness import BINARY, ENGINE_FLAGS, MODEL, SLOWER, free_port, in_parallel, wait_for


def limited(*words):
    """Runs the server under `ulimit WORDS`."""
    return ["sh", "-c", f'ulimit {" ".join(words)} && exec "$@"', "sh"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_end_it_in_order(new_server, number):
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # this may run under nohup
    server = new_server(model=None)
    signal.signal(signal.SIGHUP, before)
    server.chat("kept", "Hello.", 4)
    process, server.process = server.process, None
    process.send_signal(number)
    assert process.wait(timeout=60 * SLOWER) == 0
    assert "serve.stopped" in server.log


@pytest.mark.parametrize("delay", [0.02, 0.1, 0.3])
def test_a_signal_ends_a_start(tmp_path, delay):
    flags = ["-m", MODEL, "--store", tmp_path / "s", "--port", free_port(), *ENGINE_FLAGS]
    process = subprocess.Popen(
        [str(BINARY), "serve", *map(str, flags)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    time.sleep(delay)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=30 * SLOWER) in (0, -signal.SIGTERM)


def test_a_limit_on_file_sizes_is_a_full_disk(new_server):
    server = new_server(model=None, prefix=limited("-f", "400"))
    statuses = []
    for number in range(400):
        body = {
            "session_id": f"s{number}",
            "messages": [{"role": "user", "content": "word " * 100}],
            "max_tokens": 1,
        }
        statuses.append(server.post("/v1/chat/completions", body).status)
        if statuses[-1] != 200:
            break
    assert statuses[0] == 200 and statuses[-1] >= 500, statuses
    assert server.alive()


def test_few_descriptors_are_left_to_the_store(new_server):
    server = new_server(model=None, prefix=limited("-n", "128"))
    assert "http.connections_capped" in server.log
    crowd = [socket.create_connection(("127.0.0.1", server.port), timeout=30) for _ in range(120)]
    try:
        refused = 0
        for s in crowd[-40:]:
            refused += s.recv(64).startswith(b"HTTP/1.1 503")
        assert refused == 40
        crowd[0].sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert crowd[0].recv(64).startswith(b"HTTP/1.1 200")
    finally:
        for s in crowd:
            s.close()
    wait_for("a free connection", lambda: server.get("/health").status == 200, 30)
    server.chat("after", "Hello.", 4)
    assert "http.accept_failed" not in server.log


def test_tokenizing_cannot_be_flooded(server):
    too_much = server.post("/tokenize", {"content": "a" * (1 << 20) + "a"})
    assert too_much.status == 400 and "1048577" in too_much.json["error"]["message"], too_much
    body = b'{"content": "' + b"word " * 200_000 + b'"}'
    head = b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body)
    for _ in range(40):
        with socket.create_connection(("127.0.0.1", server.port)) as s:
            s.sendall(head + body)
    started = time.monotonic()
    assert server.post("/tokenize", {"content": "Hi."}).status == 200
    assert time.monotonic() - started < 20 * SLOWER


def test_stopping_with_a_full_tokenizer_is_quick(new_server):
    """Each text takes a good part of a second; all of them would take half a minute."""
    server = new_server()
    body = {"content": "word " * 200_000, "with_pieces": True}
    statuses = []

    def ask():
        try:
            statuses.append(server.post("/tokenize", body).status)
        except OSError:
            statuses.append(None)  # the connection was closed

    def stop():
        time.sleep(1)
        started = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - started < 10 * SLOWER

    in_parallel([ask] * 60 + [stop])
    assert len(statuses) == 60


def running(server):
    text = server.get("/metrics").body.decode()
    return int(re.search(r"^tenuto_turns_running (\d+)$", text, re.MULTILINE)[1])


def test_leaving_behind_pipelined_bytes_ends_the_turn(server):
    request = (
        b'{"session_id": "left", "messages": [{"role": "user", "content": "Tell me all."}],'
        b' "max_tokens": 1500, "ignore_eos": true}'
    )
    with socket.create_connection(("127.0.0.1", server.port)) as s:
        s.sendall(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Length: %d\r\n\r\n" % len(request) + request + b"x" * 150_000
        )
        wait_for("the turn", lambda: running(server) == 1, 30)
    started = time.monotonic()
    wait_for("the end of the turn", lambda: running(server) == 0, 30)
    assert time.monotonic() - started < 10 * SLOWER
    turns = wait_for("the turn", lambda: server.get("/v1/sessions/left/turns").json["data"], 10)
    assert turns[-1]["incomplete"], turns


def test_nohup_is_respected(new_server):
    server = new_server(model=None, prefix=["nohup"])
    server.process.send_signal(signal.SIGHUP)
    time.sleep(0.5)
    assert server.alive()
    assert server.stop() == 0
