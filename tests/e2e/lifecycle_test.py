"""Clients that leave, servers that stop, requests that come twice."""

import json
import threading

from harness import content, run, text_of, wait_for

LONG = {
    "max_tokens": 400,
    "temperature": 0,
    "messages": [{"role": "user", "content": "Write a very long story about a lighthouse."}],
}


def test_client_gone_in_mid_stream(new_server):
    server = new_server()
    stream = server.stream("/v1/chat/completions", {**LONG, "session_id": "gone"})
    seen = ""
    for event in stream:
        seen += text_of(event)
        if len(seen) > 40:
            break
    stream.drop()
    info = wait_for(
        "the turn to be committed",
        lambda: (s := server.session("gone")) and not s["running"] and s["turns"] == 1 and s,
    )
    assert info["tokens"] < 300, "it went on without its client"
    assert server.get("/health").status == 200
    # What was generated is the head now: the next turn goes on from it.
    again = server.chat("gone", "Go on.", 8)
    assert again["tenuto"]["window"]["turns"] == 2
    assert again["usage"]["prompt_tokens"] > info["tokens"]


def test_client_gone_before_the_first_token(new_server):
    server = new_server()
    long_prompt = {
        "max_tokens": 50,
        "session_id": "early",
        "messages": [{"role": "user", "content": "words and words " * 300}],
    }
    connection = server.connect()
    connection.request(
        "POST",
        "/v1/chat/completions",
        json.dumps(long_prompt).encode(),
        {"Content-Type": "application/json"},
    )
    connection.sock.close()
    connection.close()
    wait_for("the server to be idle", lambda: not (server.session("early") or {}).get("running"))
    assert content(server.chat("early-2", "Say hello.", 4))
    assert server.stop() == 0


def test_discarded_when_asked(new_server):
    server = new_server("--on-disconnect", "discard")
    stream = server.stream("/v1/chat/completions", {**LONG, "session_id": "gone"})
    next(iter(stream))
    stream.drop()
    wait_for("the turn to end", lambda: not (server.session("gone") or {}).get("running"))
    assert (server.session("gone") or {"turns": 0})["turns"] == 0
    assert server.chat("gone", "Say hello.", 4)["tenuto"]["window"]["turns"] == 1


def test_sigterm_in_mid_stream(new_server):
    server = new_server()
    server.chat("term", "Say hello.", 4)
    stream = server.stream("/v1/chat/completions", {**LONG, "session_id": "term"})
    events = []
    started = threading.Event()

    def read():
        for event in stream:
            events.append(event)
            if len(events) > 5:
                started.set()

    reader = threading.Thread(target=read)
    reader.start()
    assert started.wait(60)
    assert server.stop() == 0
    reader.join(10)
    assert stream.done, "the stream was cut instead of being ended"
    finish = [e["choices"][0]["finish_reason"] for e in events if e.get("choices")][-1]
    assert finish is not None
    text = "".join(map(text_of, events))

    server.start()
    assert server.session("term")["turns"] == 2
    server.stop()
    shown = run("sessions", "export", "term", "--store", server.store)
    assert shown.returncode == 0, shown
    messages = [json.loads(line) for line in shown.stdout.splitlines()]
    assert [m["role"] for m in messages] == ["user", "assistant", "user", "assistant"]
    assert messages[-1]["content"] == text


def test_sigterm_when_idle_and_twice(new_server):
    server = new_server()
    assert server.stop() == 0
    server.start()
    process = server.process
    process.terminate()
    process.terminate()
    assert process.wait(30) == 0
    server.process = None


def test_idempotency_key(new_server):
    server = new_server()
    key = {"Idempotency-Key": "order-66"}
    first = server.chat("twice", "Pick a number.", 12, headers=key, seed=5, top_k=5)
    retry = server.chat("twice", "Pick a number.", 12, headers=key, seed=5, top_k=5)
    assert retry["tenuto"]["turn"] == first["tenuto"]["turn"]
    assert content(retry) == content(first)
    assert server.session("twice")["turns"] == 1
    server.kill9()
    server.start()
    late = server.chat("twice", "Pick a number.", 12, headers=key, seed=5, top_k=5)
    assert late["tenuto"]["turn"] == first["tenuto"]["turn"]
    assert content(late) == content(first)
    other = server.chat("twice", "Pick a number.", 12, headers={"Idempotency-Key": "order-67"})
    assert other["tenuto"]["turn"] != first["tenuto"]["turn"]
    assert server.session("twice")["turns"] == 2


def test_no_text_in_the_log(new_server):
    server = new_server("--log-level", "debug")
    answer = server.chat("quiet", "The password is xyzzyplugh.", 12, user="ada")
    assert server.stop() == 0
    assert "xyzzyplugh" not in server.log
    words = content(answer).strip()
    assert len(words) < 8 or words not in server.log
