"""A conversation that is longer than the model's window."""

import json

import pytest

from harness import content, reason_codes, run, wait_for

SMALL = ["-c", "768", "--window", "512", "-np", "2", "-t", "2"]
SYSTEM = {"role": "system", "content": "You are a terse pirate."}


def ask(server, number, tokens=16):
    messages = [{"role": "user", "content": f"Turn {number}: tell me about the sea."}]
    return server.chat("long", [SYSTEM, *messages] if number == 0 else messages, tokens)


def check(answer, number, archived):
    window = answer["tenuto"]["window"]
    kv = answer["tenuto"]["kv"]
    assert window["turns"] + window["archived_turns"] == number + 1, answer
    assert window["archived_turns"] == archived + window["trimmed_turns"], answer
    assert window["tokens"] <= window["limit_tokens"] == 512, answer
    assert kv["reused"] + kv["restored"] + kv["recomputed"] == answer["usage"]["prompt_tokens"]
    return window["archived_turns"]


@pytest.mark.parametrize("executor", ["fake", "real"])
def test_goes_on_past_its_window_and_through_deaths(new_server, executor):
    turns = 120 if executor == "fake" else 24
    options = {"engine_flags": SMALL, **({"model": None} if executor == "fake" else {})}
    steady, server = new_server(**options), new_server(**options)
    archived, cuts = 0, 0
    for number in range(turns):
        answer = ask(server, number)
        archived = check(answer, number, archived)
        cuts += answer["tenuto"]["window"]["trimmed_turns"] > 0
        if executor == "fake":
            assert content(answer) == content(ask(steady, number))
        if number % 7 == 3:
            server.kill9()
            server.start()
    assert cuts >= 2 and archived > turns // 3, (cuts, archived)
    exported = run("sessions", "export", "long", "--store", server.store)
    assert exported.returncode == 0 and len(exported.stdout.splitlines()) == 1 + 2 * turns
    assert server.session("long")["turns"] == turns


def test_a_cut_that_was_computed_ahead_costs_nothing(new_server):
    server = new_server(engine_flags=SMALL)
    cuts = 0
    for number in range(20):
        answer = ask(server, number)
        if answer["tenuto"]["window"]["trimmed_turns"] > 0:
            cuts += 1
            assert reason_codes(answer) <= {"new", "tail"}, answer
            assert answer["tenuto"]["kv"]["recomputed"] < 60, answer
        server.wait_stored("long")
        wait_for(
            "idle time",
            lambda: b"\ntenuto_cuts_ahead 0\n" in server.get("/metrics").body,
        )
    assert cuts >= 1


def test_what_cannot_fit_is_refused_with_the_numbers(new_server):
    server = new_server(engine_flags=SMALL)
    ask(server, 0)
    message = {"messages": [{"role": "user", "content": "sea " * 600}], "session_id": "long"}
    refused = server.post("/v1/chat/completions", message)
    assert refused.status == 400 and "512" in refused.json["error"]["message"], refused
    head = [
        {"role": "system", "content": "sea " * 300},
        {"role": "user", "content": "Hello."},
    ]
    refused = server.post("/v1/chat/completions", {"messages": head, "session_id": "heavy"})
    assert refused.status == 400 and "40 %" in refused.json["error"]["message"], refused
    head[0]["content"] = "sea " * 3000
    lines = b"".join(json.dumps(item).encode() + b"\n" for item in head)
    for refused in (
        server.post("/v1/chat/completions", {"messages": head, "session_id": "heavy"}),
        server.post("/v1/sessions/heavy/import", lines),
    ):
        assert refused.status == 400 and "40 %" in refused.json["error"]["message"], refused
    assert ask(server, 1)["tenuto"]["window"]["turns"] == 2
