"""A tenant that floods the server and others whose turns still come through; each limit's refusal.
What counts is the order in which turns were committed, never how long they took.
"""

import json
import re
import threading

import pytest

from harness import Stream, read_log, wait_for

CHAT = "/v1/chat/completions"
ONE_PLACE = ["-c", "300000", "--window", "200000", "-np", "1", "-t", "1"]


def sample(server, name):
    """A metric's value, over all of its labels."""
    text = server.get("/metrics").body.decode()
    return sum(map(int, re.findall(rf"^{name}(?:{{[^}}]*}})? (\d+)$", text, re.M)))


def body(session, **fields):
    """A short greedy turn."""
    turn = {"session_id": session, "messages": [{"role": "user", "content": "Hello."}]}
    return {**turn, "temperature": 0, "max_tokens": 4, **fields}


class Busy:
    """Holds the only place in the engine until released."""

    def __init__(self, server):
        self.server = server
        endless = {**body("busy::u::a::s", max_tokens=190000), "ignore_eos": True}
        self.stream = Stream(server, CHAT, {**endless, "stream": True})
        # Reads on, so that it is not cut off as too slow.
        self.reader = threading.Thread(target=self._read)
        self.reader.start()
        wait_for("the turn to run", lambda: sample(server, "tenuto_turns_running") == 1)

    def _read(self):
        try:
            for _ in self.stream:
                pass
        except (OSError, ValueError, AttributeError):
            pass  # dropped

    def release(self):
        assert sample(self.server, "tenuto_turns_running") == 1, "it ended too soon"
        self.stream.drop()
        self.reader.join()


class Turns:
    """Turns that were sent, each in its own thread."""

    def __init__(self, server):
        self.server, self.threads, self.answers = server, [], {}

    def send(self, session, **fields):
        """Returns when the server counts it as waiting."""
        before = sample(self.server, "tenuto_turns_queued")

        def ask():
            self.answers[session] = self.server.post(CHAT, body(session, **fields))

        self.threads.append(threading.Thread(target=ask))
        self.threads[-1].start()
        waits = lambda: sample(self.server, "tenuto_turns_queued") == before + 1
        wait_for(f"{session} to wait", waits)

    def join(self):
        for thread in self.threads:
            thread.join()
        return self.answers


def committed(server):
    """Tenants and sessions in the order in which their turns were committed."""
    rows = read_log(
        server,
        "SELECT tenant, sessions.session FROM turns JOIN sessions ON sessions.id = turns.session"
        " WHERE tenant != 'busy' ORDER BY turns.rowid",
    )
    return [f"{tenant}/{session}" for tenant, session in rows]


def assert_idle(server):
    wait_for("nothing to wait", lambda: sample(server, "tenuto_turns_queued") == 0)
    wait_for("nothing to run", lambda: sample(server, "tenuto_turns_running") == 0)


def refusal(answer, limit):
    """Checks a 429; its Retry-After."""
    assert answer.status == 429, answer
    error = answer.json["error"]
    assert error["param"] == limit and error["type"] == "rate_limit_error", answer
    seconds = int(answer.headers["Retry-After"])
    assert seconds >= 1 and f"{seconds} s" in error["message"], answer
    return seconds


def test_another_tenants_turns_come_through_a_flood(new_server):
    server = new_server(model=None, engine_flags=ONE_PLACE)
    busy, turns = Busy(server), Turns(server)
    for number in range(20):
        turns.send(f"flood::u{number % 3}::a::s{number}")
    for number in range(3):
        turns.send(f"other::u::a::s{number}")
    busy.release()
    assert {answer.status for answer in turns.join().values()} == {200}
    order = committed(server)
    assert len(order) == 23
    # One of the flood's between each two of the other's; which tenant is first does not matter.
    others = [at for at, name in enumerate(order) if name.startswith("other/")]
    assert others[0] <= 1 and others[2] <= 5, order
    assert_idle(server)


def test_users_and_sessions_take_turns(new_server):
    server = new_server(model=None, engine_flags=ONE_PLACE)
    busy, turns = Busy(server), Turns(server)
    for number in range(10):
        turns.send(f"t::loud::a::loud{number}")
    turns.send("t::calm::a::calm0")
    turns.send("t::calm::a::calm1")
    busy.release()
    turns.join()
    order = committed(server)
    calm = [at for at, name in enumerate(order) if name.startswith("t/calm")]
    assert calm[0] <= 1 and calm[1] <= 3, order


def test_batch_waits_for_interactive_turns(new_server):
    server = new_server(model=None, engine_flags=ONE_PLACE)
    busy, turns = Busy(server), Turns(server)
    for number in range(3):
        turns.send(f"t::u::a::batch{number}", priority="batch")
    for number in range(3):
        turns.send(f"t::u::a::now{number}", priority="interactive")
    metrics = server.get("/metrics").body.decode()
    assert 'tenuto_turns_queued{priority="batch"} 3' in metrics
    assert 'tenuto_turns_queued{priority="interactive"} 3' in metrics
    busy.release()
    turns.join()
    assert [name[2:-1] for name in committed(server)] == ["now"] * 3 + ["batch"] * 3
    answer = server.post(CHAT, body("t::u::a::x", priority="urgent"))
    assert answer.status == 400 and answer.json["error"]["param"] == "priority"


def test_weights_of_tenants(new_server):
    server = new_server("--tenant-weights", "big=3", model=None, engine_flags=ONE_PLACE)
    busy, turns = Busy(server), Turns(server)
    for number in range(8):
        turns.send(f"small::u::a::s{number}")
        turns.send(f"big::u::a::s{number}")
    busy.release()
    turns.join()
    first = committed(server)[:8]
    assert sum(name.startswith("big/") for name in first) == 6, first


def test_a_tenant_can_not_fill_the_queue(new_server):
    server = new_server("--turns-queued", "4", model=None, engine_flags=ONE_PLACE)
    busy, turns = Busy(server), Turns(server)
    turns.send("many::u::a::s0")
    turns.send("many::u::a::s1")
    refusal(server.post(CHAT, body("many::u::a::s2")), "limit.tenant_turns_queued")
    turns.send("few::u::a::s0")
    turns.send("few::u::a::s1")
    refusal(server.post(CHAT, body("third::u::a::s0")), "queue")
    refused = server.get("/metrics").body.decode()
    assert 'tenuto_turns_refused_total{limit="queue"} 1' in refused
    assert 'tenuto_turns_refused_total{limit="tenant_turns_queued"} 1' in refused
    busy.release()
    assert {answer.status for answer in turns.join().values()} == {200}
    assert_idle(server)


def test_tokens_per_minute(new_server):
    server = new_server("--tenant-tokens-per-minute", "30", model=None)
    server.chat("t::u::a::s", "x" * 80)
    seconds = refusal(server.post(CHAT, body("t::u::a::s")), "limit.tenant_tokens_per_minute")
    assert seconds > 60, "two tokens in a second, and more than 110 to pay back"
    server.chat("other::u::a::s", "Hello.")
    # What was answered once is given again for its key.
    server.chat("third::u::a::s", "x" * 80, headers={"Idempotency-Key": "k"})
    again = server.chat("third::u::a::s", "x" * 80, headers={"Idempotency-Key": "k"})
    assert again["tenuto"]["turn"]
    keyed = server.post(CHAT, body("third::u::a::s"), headers={"Idempotency-Key": "new"})
    refusal(keyed, "limit.tenant_tokens_per_minute")


def test_a_turn_that_waits_too_long(new_server):
    server = new_server("--queue-timeout", "1", model=None, engine_flags=ONE_PLACE)
    busy = Busy(server)
    assert refusal(server.post(CHAT, body("t::u::a::s")), "limit.queue_timeout") >= 1
    busy.release()
    assert_idle(server)
    server.chat("t::u::a::s", "goes on")


def test_a_tenant_at_its_limit_lets_others_pass(new_server):
    flags = ["--tenant-turns-running", "1"]
    server = new_server(*flags, model=None, engine_flags=[*ONE_PLACE[:5], "2", "-t", "1"])
    busy, turns = Busy(server), Turns(server)
    turns.send("busy::u::a::behind")
    assert server.post(CHAT, body("other::u::a::s")).status == 200
    assert sample(server, "tenuto_turns_queued") == 1
    busy.release()
    assert turns.join()["busy::u::a::behind"].status == 200
    assert_idle(server)


@pytest.mark.parametrize("session", ["t::u::a::s", "busy::u::a::s"])
def test_a_client_that_leaves_while_it_waits(new_server, session):
    server = new_server(model=None, engine_flags=ONE_PLACE)
    busy = Busy(server)
    connection = server.connect()
    connection.request(
        "POST", CHAT, json.dumps(body(session)), {"Content-Type": "application/json"}
    )
    wait_for("it to wait", lambda: sample(server, "tenuto_turns_queued") == 1)
    connection.close()
    wait_for("it to be gone", lambda: sample(server, "tenuto_turns_queued") == 0)
    busy.release()
    assert_idle(server)
    assert committed(server) == []
