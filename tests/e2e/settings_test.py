"""Settings, time to live and quotas of sessions, on the binary with the fake executor."""

import json

import pytest

from harness import wait_for

SMALL = ["-c", "1536", "--window", "512", "-np", "2", "-t", "2"]


def ask(server, session, text="hello there", **fields):
    body = {
        "messages": [{"role": "user", "content": text}],
        "session_id": session,
        "max_tokens": 8,
        "temperature": 0,
        **fields,
    }
    return server.post("/v1/chat/completions", body)


def patch(server, session, changes):
    answer = server.request("PATCH", f"/v1/sessions/{session}", changes)
    assert answer.status == 200, answer
    return answer.json["settings"]


def refused(answer, quota):
    error = answer.json["error"]
    assert answer.status == 429 and error["type"] == "insufficient_quota", answer
    assert error["param"] == f"quota.{quota}" and "at most" in error["message"], answer
    assert answer.headers["X-Should-Retry"] == "false" and not answer.headers["Retry-After"]
    return True


def items(pairs):
    lines = []
    for number in range(pairs):
        lines.append({"role": "user", "content": f"question {number}"})
        lines.append({"role": "assistant", "content": "answer"})
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


def metric(server, name):
    for line in server.get("/metrics").body.decode().splitlines():
        if line.startswith(name + " "):
            return float(line.split()[1])
    return None


def test_settings_hold_from_the_next_turn_and_through_a_death(new_server):
    server = new_server(model=None, engine_flags=SMALL)
    for number in range(6):
        assert ask(server, "ada::s", f"number {number}: tell me").status == 200
    window = ask(server, "ada::s").json["tenuto"]["window"]
    assert window["limit_tokens"] == 512 and window["archived_turns"] == 0, window
    wanted = {"window": {"tokens": 160, "low": 40}, "recall": {"mode": "off"}, "ttl_s": 86400}
    assert patch(server, "ada::s", wanted) == wanted
    cut = ask(server, "ada::s").json["tenuto"]
    assert cut["window"]["limit_tokens"] == 160 and cut["window"]["trimmed_turns"] > 0, cut
    assert cut["window"]["tokens"] <= 160 and cut["recall"]["decision"] == "off", cut
    server.kill9()
    server.start()
    assert server.session("ada::s")["settings"] == wanted
    assert ask(server, "ada::s").json["tenuto"]["window"]["limit_tokens"] == 160
    assert patch(server, "ada::s", {"window": None, "ttl_s": None}) == {"recall": {"mode": "off"}}
    assert ask(server, "ada::s").json["tenuto"]["window"]["limit_tokens"] == 512
    too_much = server.request("PATCH", "/v1/sessions/ada::s", {"window": {"tokens": 513}})
    assert too_much.status == 400 and too_much.json["error"]["param"] == "window.tokens", too_much
    assert "64 to 512" in too_much.json["error"]["message"], too_much
    assert server.request("PATCH", "/v1/sessions/ada::none", wanted).status == 404


def test_a_server_that_gives_less_now_is_the_limit(new_server):
    server = new_server(model=None, engine_flags=SMALL)
    assert ask(server, "s").status == 200
    patch(server, "s", {"window": {"tokens": 400}})
    server.stop()
    smaller = new_server(
        model=None, store=server.store, engine_flags=["-c", "768", "--window", "256", "-t", "2"]
    )
    assert ask(smaller, "s").json["tenuto"]["window"]["limit_tokens"] == 256


def test_time_to_live(new_server):
    server = new_server("--session-ttl", "3600", model=None)
    for name in ("short", "long"):
        assert ask(server, name).status == 200
    too_long = server.request("PATCH", "/v1/sessions/long", {"ttl_s": 3601})
    assert too_long.status == 400 and "3600" in too_long.json["error"]["message"], too_long
    patch(server, "short", {"ttl_s": 1})
    wait_for("the end of the short one", lambda: server.session("short") is None, 30)
    assert server.session("long")["turns"] == 1
    assert metric(server, "tenuto_sessions_expired_total") == 1
    assert '"session.expired"' in server.log
    # Its name is free; what was in it is not there.
    assert ask(server, "short").json["tenuto"]["window"]["turns"] == 1
    assert server.session("short")["settings"] == {}
    patch(server, "short", {"ttl_s": 2})
    server.kill9()
    server.start()  # it learns of their times again
    wait_for("the end of the short one", lambda: server.session("short") is None, 30)
    assert server.session("long")["turns"] == 1


@pytest.mark.parametrize("flag, quota", [("turns", "turns_max"), ("bytes", "bytes_max")])
def test_quotas_of_sessions(new_server, flag, quota):
    most = {"turns": 3, "bytes": 700}[flag]
    server = new_server(f"--session-{flag}-max", str(most), model=None)
    answers = 0
    while ask(server, "s").status == 200:
        answers += 1
        assert answers < 20
    assert answers >= 1 and refused(ask(server, "s"), quota)
    with_stream = ask(server, "s", stream=True)
    assert refused(with_stream, quota)
    turns = server.session("s")["turns"]
    assert turns == answers and (flag != "turns" or turns == 3)
    assert refused(server.post("/v1/sessions/s/import", items(1)), quota)
    assert refused(server.post("/v1/sessions/new/import", items(40)), quota)
    assert server.session("new") is None
    server.kill9()
    server.start()
    assert refused(ask(server, "s"), quota)
    assert ask(server, "other").status == 200
    assert metric(server, "tenuto_quota_refusals_total") == 1
    assert server.request("DELETE", "/v1/sessions/s").status == 200
    assert ask(server, "s").status == 200


def test_quota_of_a_tenant(new_server):
    server = new_server("--tenant-turns-max", "10", model=None)
    assert server.post("/v1/sessions/a/import", items(8)).status == 200
    assert refused(server.post("/v1/sessions/ada::b/import", items(3)), "tenant_turns_max")
    assert server.post("/v1/sessions/ada::b/import", items(2)).status == 200
    assert refused(ask(server, "bob::c"), "tenant_turns_max")
    assert ask(server, "corp::bob::default::c").status == 200
    assert ask(server, None).status == 200  # leaves nothing
    assert server.request("DELETE", "/v1/sessions/a").status == 200
    assert ask(server, "bob::c").status == 200
