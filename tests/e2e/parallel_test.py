"""Many at once: the same answers as alone, and more sessions than fit."""

from harness import content, in_parallel, text_of

QUESTIONS = [
    f"Tell me {number} facts about the {thing}."
    for number, thing in enumerate(
        ["sea", "moon", "bees", "rain", "bread", "iron", "snow", "birds"], 2
    )
]


def read_stream(server, session, question, tokens):
    body = {
        "session_id": session,
        "max_tokens": tokens,
        "temperature": 0,
        "messages": [{"role": "user", "content": question}],
    }
    stream = server.stream("/v1/chat/completions", body)
    text = "".join(map(text_of, stream))
    assert stream.done
    return text


def test_eight_streams_equal_the_same_alone(new_server):
    """With the fake executor, whose numbers do not depend on what shares a step."""
    server = new_server(model=None)
    alone = [read_stream(server, f"alone-{n}", q, 16) for n, q in enumerate(QUESTIONS)]
    together = in_parallel(
        [
            lambda n=n, q=q: read_stream(server, f"together-{n}", q, 16)
            for n, q in enumerate(QUESTIONS)
        ]
    )
    assert together == alone


def test_eight_streams_of_the_real_model(new_server):
    """A real model rounds differently in larger batches, so that close calls go the other way, but
    most answers begin as they do alone.
    """
    server = new_server()
    alone = [read_stream(server, f"alone-{n}", q, 16) for n, q in enumerate(QUESTIONS)]
    together = in_parallel(
        [
            lambda n=n, q=q: read_stream(server, f"together-{n}", q, 16)
            for n, q in enumerate(QUESTIONS)
        ]
    )
    same = sum(a.split()[:2] == b.split()[:2] for a, b in zip(alone, together))
    assert same >= 6, (alone, together)


def test_the_oldest_is_swapped_out_first(new_server):
    """Four sessions fill the cells; one is used again; two more come: the two that were used least
    recently make room.
    """
    server = new_server(model=None, engine_flags=["-c", "600", "--window", "300", "-np", "2"])

    def live():
        return {
            entry["id"].split("::")[-1]
            for entry in server.get("/v1/sessions").json["data"]
            if entry["kv"]["live_tokens"] > 0
        }

    for name in "abcd":
        server.chat(f"o::{name}", "words " * 12 + name, 8)
        server.wait_stored(f"o::{name}")
    assert live() == set("abcd")
    server.chat("o::a", "touch", 4)
    server.wait_stored("o::a")
    for name in "ef":
        server.chat(f"o::{name}", "words " * 25, 8)
        server.wait_stored(f"o::{name}")
    assert live() == set("adef")


def test_one_session_two_requests_at_once(new_server):
    """One turn at a time: the second waits, none is lost."""
    server = new_server(model=None)
    answers = in_parallel([lambda n=n: server.chat("same", f"Number {n}.", 8) for n in range(6)])
    assert sorted(a["tenuto"]["window"]["turns"] for a in answers) == [1, 2, 3, 4, 5, 6]
    assert len({a["tenuto"]["turn"] for a in answers}) == 6


def test_more_sessions_than_cells(new_server):
    """Six sessions of about 200 tokens in 768 cells: each goes on from what was swapped out."""
    server = new_server(engine_flags=["-c", "768", "--window", "512", "-np", "2", "-t", "2"])
    names = [f"swap-{n}" for n in range(6)]
    facts = {name: f"{name} likes the number {n + 11}. " * 12 for n, name in enumerate(names)}
    first = {name: server.chat(name, facts[name] + "Say yes.", 4) for name in names}
    restored = 0
    for name in names:
        second = server.chat(name, "Which number was it?", 8)
        kv = second["tenuto"]["kv"]
        assert second["tenuto"]["window"]["turns"] == 2
        assert kv["reused"] + kv["restored"] >= first[name]["usage"]["prompt_tokens"] - 1, second
        restored += kv["restored"]
    assert restored > 0, "nothing was ever swapped out: the test proves nothing"


def test_more_running_sessions_than_cells(new_server):
    """Turns that do not fit together run one after the other; all end well, and as they would
    alone.
    """
    flags = ["-c", "512", "--window", "320", "-np", "8"]
    server = new_server(model=None, engine_flags=flags)
    prompts = {f"tight-{n}": f"{n} " + "word " * 20 for n in range(8)}
    together = in_parallel(
        [lambda s=s, p=p: content(server.chat(s, p, 40)) for s, p in prompts.items()]
    )
    alone = new_server(model=None, engine_flags=flags)
    assert together == [content(alone.chat(s, p, 40)) for s, p in prompts.items()]


def test_a_short_turn_is_not_stuck_behind_a_long_prompt(new_server):
    server = new_server()
    order = []

    def ask(name, text, tokens):
        server.chat(name, text, tokens)
        order.append(name)

    in_parallel(
        [lambda: ask("long", "a great many words " * 200, 4), lambda: ask("short", "Hi.", 2)]
    )
    assert order == ["short", "long"]
