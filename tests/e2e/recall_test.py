"""What left the window comes back when it is asked for, and only then; and a client can look for
it, see what was done, and take it away.
"""

import json

import pytest

from harness import content, read_log, run

FACT = "The harbour code of Lisbon is 4711, please keep it."
QUESTION = "What is the harbour code of Lisbon?"
FILLERS = 60
THINGS = ["bread", "rain", "chess", "tulips", "violins", "glass", "salt", "owls", "paint", "soup"]
FLAGS = {
    # A token of the fake model is a byte, so its window is larger.
    "fake": {"model": None, "engine_flags": ["-c", "6144", "--window", "4096", "-np", "2"]},
    "real": {"engine_flags": ["-c", "1536", "--window", "1024", "-np", "2", "-t", "2"]},
}
BOTH = pytest.mark.parametrize("executor", ["fake", "real"])
NO_TURN = "01HZZZZZZZZZZZZZZZZZZZZZZZ"


def items():
    """One fact, then talk about other things, long past the window."""
    yield {"role": "user", "content": FACT, "id": "m-fact", "time": "2024-05-03T12:30:00Z"}
    yield {"role": "assistant", "content": "I will."}
    for n in range(FILLERS):
        thing, other = THINGS[n % 10], THINGS[(n * 7 + 3) % 10]
        text = f"Tell me something about {thing} and {other}, story number {n}. " * 2
        yield {"role": "user", "content": text}
        yield {"role": "assistant", "content": f"Here is one on {thing}: it was long ago. " * 2}


def import_items(server, session, lines):
    body = "".join(json.dumps(line) + "\n" for line in lines).encode()
    answer = server.post(f"/v1/sessions/{session}/import", body)
    assert answer.status == 200, answer


def turns_of(server, session):
    return server.get(f"/v1/sessions/{session}/turns?limit=1000").json["data"]


@pytest.fixture
def told(new_server):
    """told(executor): a server with session `s` that was told the fact, and the fact's turn."""

    def make(executor):
        server = new_server(**FLAGS[executor])
        import_items(server, "s", items())
        return server, turns_of(server, "s")[0]["id"]

    return make


def recall_of(answer):
    return answer["tenuto"]["recall"]


def injected(answer):
    return [c["turn"] for c in recall_of(answer)["candidates"] if c["injected"]]


def explain(server, turn, session="s"):
    answer = server.get(f"/v1/sessions/{session}/turns/{turn}/explain")
    assert answer.status == 200, answer
    return answer.json


def quoted(explanation):
    return [q for span in explanation["spans"] if span["kind"] == "recall" for q in span["quoted"]]


def search(server, query, **fields):
    where = {} if "scope" in fields else {"session_id": "s"}
    answer = server.post("/v1/memory/search", {"query": query, **where, **fields})
    assert answer.status == 200, answer
    return answer.json


def found(server, query, **fields):
    return [hit["turn"] for hit in search(server, query, **fields)["data"]]


def change(server, turn, **fields):
    answer = server.request("PATCH", f"/v1/sessions/s/turns/{turn}", fields)
    assert answer.status == 200, answer
    return answer.json


def delete(server, turn):
    return server.request("DELETE", f"/v1/sessions/s/turns/{turn}")


def replay(server, turn, body=None):
    answer = server.post(f"/v1/sessions/s/turns/{turn}/replay", body)
    assert answer.status == 200, answer
    return answer.json


@BOTH
def test_a_fact_from_long_ago_comes_back_and_stays(told, executor):
    server, fact = told(executor)
    answer = server.chat("s", QUESTION)
    recall = recall_of(answer)
    assert recall["decision"] == "injected" and recall["tokens"] > 0, answer
    assert fact in injected(answer), recall
    best = next(c for c in recall["candidates"] if c["turn"] == fact)
    assert best["terms"] and best["score"] > 0 and best["why"] == "matches", best
    assert answer["tenuto"]["window"]["archived_turns"] > FILLERS // 2, answer

    turn = answer["tenuto"]["turn"]
    explanation = explain(server, turn)
    assert fact in quoted(explanation) and explanation["same_prompt"], explanation
    assert explanation["line"] == FILLERS + 2
    tokens = sum(span["tokens"] for span in explanation["spans"])
    assert tokens == explanation["prompt_tokens"] == answer["usage"]["prompt_tokens"]
    assert explanation["recall"]["tokens"] == recall["tokens"], explanation
    # It is no turn: nobody sees it as one.
    last = turns_of(server, "s")[-1]
    assert [i["content"] for i in last["items"]] == [QUESTION, content(answer)]

    server.kill9()
    server.start()
    assert explain(server, turn) == explanation
    later = server.chat("s", "Say that again.", recall="off")
    assert recall_of(later)["decision"] == "off"
    # The quotation of the turn before is still there.
    assert fact in quoted(explain(server, later["tenuto"]["turn"]))
    assert server.session("s")["turns"] == FILLERS + 3
    exported = run("sessions", "export", "s", "--store", server.store).stdout
    assert exported.count("4711") == 1 + content(answer).count("4711") + content(later).count(
        "4711"
    )


@BOTH
def test_a_stream_says_it_too(told, executor):
    server, fact = told(executor)
    body = {
        "messages": [{"role": "user", "content": QUESTION}],
        "session_id": "s",
        "max_tokens": 4,
        "temperature": 0,
    }
    events = list(server.stream("/v1/chat/completions", body))
    assert fact in injected(events[-1]), events[-1]
    assert all("tenuto" not in event for event in events[:-1])


@BOTH
def test_nothing_comes_back_unasked(told, executor):
    server, _ = told(executor)
    off = recall_of(server.chat("s", QUESTION, 4, recall="off"))
    assert off == {"decision": "off", "tokens": 0, "candidates": []}
    for text in ("thanks!", "ok", "\U0001f44d", "?!"):
        recall = recall_of(server.chat("s", text, 4))
        assert recall["decision"] in ("gated", "empty") and recall["tokens"] == 0, (text, recall)
    assert recall_of(server.chat(None, QUESTION, 4))["decision"] == "off"
    assert recall_of(server.chat("new", QUESTION, 4))["decision"] == "empty"
    params = [turn["params"].get("recall") for turn in turns_of(server, "s")[-5:]]
    assert params == ["off", None, None, None, None]


@BOTH
def test_search(told, executor):
    server, fact = told(executor)
    answer = search(server, "harbour code Lisbon", limit=3)
    hit = answer["data"][0]
    assert hit["turn"] == fact and hit["session"] == "s" and hit["client_id"] == "m-fact", answer
    assert hit["time"].startswith("2024-05-03T12:30:00") and FACT in hit["text"], hit
    assert "I will." in hit["text"] and answer["decision"] == "injected"
    assert hit["text"] == f"user: {FACT}\nassistant: I will." and hit["excerpt"] is False, hit
    assert len(answer["data"]) <= 3
    assert len(found(server, "story about bread", limit=100)) > 3

    import_items(server, "ann::theirs", [{"role": "user", "content": FACT}])
    mine = search(server, "harbour code Lisbon", scope="mine")["data"]
    assert {hit["session"] for hit in mine} == {"s"}, mine
    theirs = search(server, "harbour code Lisbon", scope="mine", user="ann")["data"]
    assert {hit["session"] for hit in theirs} == {"ann::theirs"}, theirs
    assert search(server, "harbour", scope="mine", user="bob") == {
        "object": "list",
        "data": [],
        "decision": "empty",
    }
    server.kill9()
    server.start()
    assert found(server, "harbour code Lisbon")[0] == fact


@BOTH
def test_a_turn_can_be_kept_from_coming_back(told, executor):
    server, fact = told(executor)
    state = change(server, fact, recall=False)
    assert state["recall"] is False and state["pinned"] is False
    assert state["superseded_by"] is None and state["id"] == fact, state
    server.kill9()
    server.start()
    for text in (QUESTION, f"{QUESTION} Please."):
        assert fact not in injected(server.chat("s", text, 4, recall="force"))
    change(server, fact, recall=True)
    assert fact in injected(server.chat("s", QUESTION, 4))


def test_what_superseded_it_comes_along(told):
    server, fact = told("fake")
    news = [
        {"role": "user", "content": "Pier nine opens with 9920 now."},
        {"role": "assistant", "content": "Good to know."},
    ]
    import_items(server, "s", [*news, *list(items())[2:]])
    correction = turns_of(server, "s")[FILLERS + 1]["id"]
    assert injected(server.chat("s", QUESTION, 4)) == [fact]
    assert change(server, fact, superseded_by=correction)["superseded_by"] == correction
    import_items(server, "s", list(items())[2:])
    answer = server.chat("s", QUESTION, 4)
    assert set(injected(answer)) == {fact, correction}, recall_of(answer)
    assert change(server, fact, superseded_by=None)["superseded_by"] is None
    refused = server.request("PATCH", f"/v1/sessions/s/turns/{fact}", {"superseded_by": NO_TURN})
    assert refused.status == 400, refused
    assert refused.json["error"]["param"] == "superseded_by", refused
    path = f"/v1/sessions/s/turns/{correction}"
    refused = server.request("PATCH", path, {"superseded_by": fact})
    assert refused.status == 400, refused
    error = refused.json["error"]
    assert error["param"] == "superseded_by" and "later" in error["message"], refused


@BOTH
def test_a_pinned_turn_stays_when_the_window_is_cut(told, executor):
    server, _ = told(executor)
    pin = server.chat("s", "Remember the word marmalade.", 4, recall="off")["tenuto"]["turn"]
    assert change(server, pin, pinned=True)["pinned"] is True
    long_text = "Tell me of bread. " * (40 if executor == "fake" else 20)

    def spans_of(answer):
        return explain(server, answer["tenuto"]["turn"])["spans"]

    def kinds(answer):
        return {span["kind"] for span in spans_of(answer) if span["turn"] == pin}

    for number in range(60):
        answer = server.chat("s", f"{number}. {long_text}", 4, recall="off")
        assert kinds(answer) in ({"turn"}, {"pinned"}), spans_of(answer)
        if number > 1 and kinds(answer) == {"pinned"}:
            break
    assert kinds(answer) == {"pinned"}
    server.kill9()
    server.start()
    answer = server.chat("s", "Hello again.", 4, recall="off")
    assert kinds(answer) == {"pinned"}, spans_of(answer)
    tokens = sum(span["tokens"] for span in spans_of(answer))
    assert tokens == answer["usage"]["prompt_tokens"]
    assert replay(server, answer["tenuto"]["turn"])["equal"]


@BOTH
def test_a_deleted_turn_is_gone(told, executor):
    server, fact = told(executor)
    asked = server.chat("s", QUESTION, 4)
    assert fact in injected(asked)
    turn = asked["tenuto"]["turn"]
    gone = delete(server, fact)
    assert gone.status == 200 and gone.json == {
        "object": "session.turn.deleted",
        "id": fact,
        "deleted": True,
        "used_by": [turn],
    }

    def check():
        assert fact not in found(server, "harbour code Lisbon 4711", limit=100)
        assert fact not in found(server, "harbour code Lisbon 4711", scope="mine")
        turns = turns_of(server, "s")
        assert turns[0]["id"] == fact and turns[0]["deleted"] and not turns[0]["items"]
        assert FACT not in json.dumps(turns)
        assert FACT not in run("sessions", "export", "s", "--store", server.store).stdout
        explanation = explain(server, turn)
        assert explanation["same_prompt"] is False and fact not in quoted(explanation)
        answer = server.chat("s", QUESTION, 4, recall="force")
        assert fact not in injected(answer), answer
        assert fact not in quoted(explain(server, answer["tenuto"]["turn"]))
        assert delete(server, fact).status == 404
        assert server.get(f"/v1/sessions/s/turns/{fact}/explain").status == 404

    check()
    server.kill9()
    server.start()
    check()
    assert not read_log(server, "SELECT 1 FROM items WHERE items_json LIKE '%4711, please%'")


def test_a_turn_is_not_deleted_under_another(told):
    server, fact = told("real")
    body = {
        "messages": [{"role": "user", "content": "Tell a long story."}],
        "session_id": "s",
        "max_tokens": 100,
        "ignore_eos": True,
    }
    stream = iter(server.stream("/v1/chat/completions", body))
    next(stream)
    refused = delete(server, fact)
    assert refused.status == 409, refused
    assert change(server, fact, recall=False)["recall"] is False
    assert fact in found(server, "harbour code Lisbon")
    assert list(stream)[-1]["tenuto"]["turn"]
    assert delete(server, fact).status == 200


@BOTH
def test_a_replay_is_the_answer_again(told, executor):
    server, fact = told(executor)
    answer = server.chat("s", QUESTION, 12)
    turn = answer["tenuto"]["turn"]
    again = replay(server, turn)
    assert again["equal"] and again["text"] == again["stored_text"] == content(answer), again
    assert again["prompt_tokens"] == answer["usage"]["prompt_tokens"]
    assert again["completion_tokens"] == answer["usage"]["completion_tokens"]
    short = replay(server, turn, {"max_tokens": 2})
    assert short["equal"] and short["completion_tokens"] == 2, short
    without = replay(server, turn, {"without": fact})
    assert without["without"] == fact, without
    assert without["prompt_tokens"] < again["prompt_tokens"]
    assert server.session("s")["turns"] == FILLERS + 2
    assert len(server.get("/v1/sessions").json["data"]) == 1
    server.kill9()
    server.start()
    assert replay(server, turn)["equal"]
    # What was imported, no model said: it runs all the same.
    assert replay(server, fact)["stored_text"] == "I will."


QUERIES = {
    "stop words": "the of and is it a to",
    "punctuation": "?!... -- ;;",
    "blank": " \t\n ",
    "near": "NEAR(harbour code, 5)",
    "column": "sid:s OR turn:1",
    "quotes": '"harbour code" \'Lisbon\' ""',
    "star": "harb* * ** ^harbour -code +lisbon",
    "sql": "'; DROP TABLE turns; --",
    "zero width": "har\u200bbour \u200d\ufeff\u00ad code",
    "bidi": "\u202eharbour\u202c \u2066code\u2069 \u200f",
    "controls": "\x00\x01\x1b[2J harbour",
    "emoji": "\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f1f5\U0001f1f9",
    "marks": "e" + "\u0301" * 5000,
    "one long word": "x" * 100_000,
    "many words": " ".join(f"w{n}" for n in range(16_000)),
    "one word again and again": "harbour " * 12_000,
    "brackets": "(" * 100_000,
    "digits": "4711 " * 20_000,
    "a script without spaces": "\u6e2f\u53e3\u4ee3\u7801" * 8_000,
}


def test_no_query_does_harm(told):
    server, fact = told("fake")
    for name, query in QUERIES.items():
        answer = search(server, query)
        assert answer["decision"] in ("injected", "gated", "empty"), name
        if name in ("stop words", "punctuation", "blank"):
            assert answer["data"] == [], (name, answer)
    for name, query in QUERIES.items():
        body = {"messages": [{"role": "user", "content": query[:1000]}], "session_id": "s"}
        answer = server.post("/v1/chat/completions", {**body, "max_tokens": 1})
        assert answer.status == 200, (name, answer)
    assert found(server, "har\u200bbour \u202ecode\u202c of Lisbon")[0] == fact
    assert found(server, "HARBOUR  code, (Lisbon)?")[0] == fact
    assert server.alive()


SEARCH = "/v1/memory/search"
TURN = "/v1/sessions/s/turns/{fact}"
# name: (method, path, body, status, the field that the error names)
REFUSED = {
    "nowhere": ("POST", SEARCH, {"query": "x"}, 400, "session_id"),
    "two places": (
        "POST",
        SEARCH,
        {"query": "x", "session_id": "s", "scope": "mine"},
        400,
        "scope",
    ),
    "another scope": ("POST", SEARCH, {"query": "x", "scope": "all"}, 400, "scope"),
    "a bad user": ("POST", SEARCH, {"query": "x", "scope": "mine", "user": "a/b"}, 400, "user"),
    "no query": ("POST", SEARCH, {"session_id": "s"}, 400, "query"),
    "empty query": ("POST", SEARCH, {"session_id": "s", "query": ""}, 400, "query"),
    "query a number": ("POST", SEARCH, {"session_id": "s", "query": 7}, 400, "query"),
    "query a list": ("POST", SEARCH, {"session_id": "s", "query": ["x"]}, 400, "query"),
    "query too long": ("POST", SEARCH, {"session_id": "s", "query": "x" * 102_401}, 400, "query"),
    "limit 0": ("POST", SEARCH, {"session_id": "s", "query": "x", "limit": 0}, 400, "limit"),
    "limit 101": ("POST", SEARCH, {"session_id": "s", "query": "x", "limit": 101}, 400, "limit"),
    "limit text": ("POST", SEARCH, {"session_id": "s", "query": "x", "limit": "9"}, 400, "limit"),
    "unknown session": ("POST", SEARCH, {"session_id": "nobody", "query": "x"}, 404, None),
    "bad session": ("POST", SEARCH, {"session_id": "a/b", "query": "x"}, 400, "session_id"),
    "not json": ("POST", SEARCH, b"{", 400, None),
    "half a surrogate": (
        "POST",
        SEARCH,
        b'{"session_id": "s", "query": "\\ud800"}',
        400,
        None,
    ),
    "pinned text": ("PATCH", TURN, {"pinned": "yes"}, 400, "pinned"),
    "recall text": ("PATCH", TURN, {"recall": "off"}, 400, "recall"),
    "superseded by a number": ("PATCH", TURN, {"superseded_by": 7}, 400, "superseded_by"),
    "superseded by itself": ("PATCH", TURN, {"superseded_by": "{fact}"}, 400, "superseded_by"),
    "superseded by no id": ("PATCH", TURN, {"superseded_by": "../x"}, 400, "superseded_by"),
    "no change": ("PATCH", TURN, {}, 400, None),
    "a misspelt change": ("PATCH", TURN, {"pined": True}, 400, None),
    "a list": ("PATCH", TURN, b"[]", 400, None),
    "without a number": ("POST", TURN + "/replay", {"without": 7}, 400, "without"),
    "without what was not quoted": (
        "POST",
        TURN + "/replay",
        {"without": NO_TURN},
        400,
        "without",
    ),
    "max_tokens -1": ("POST", TURN + "/replay", {"max_tokens": -1}, 400, "max_tokens"),
    "get of a turn": ("GET", TURN, None, 405, None),
}


def test_what_cannot_be_is_refused_by_name(told):
    server, fact = told("fake")
    for name, (method, path, body, status, field) in REFUSED.items():
        if isinstance(body, dict):
            body = {k: fact if v == "{fact}" else v for k, v in body.items()}
        answer = server.request(method, path.replace("{fact}", fact), body)
        assert answer.status == status, (name, answer)
        if field is not None:
            assert answer.json["error"]["param"] == field, (name, answer)
    for turn in (NO_TURN, "x", "%00", "%e2%80%ae", "..", "a" * 5000, "'%20OR%201=1"):
        path = f"/v1/sessions/s/turns/{turn}"
        for answer in (
            server.get(path + "/explain"),
            server.post(path + "/replay", {}),
            server.request("PATCH", path, {"recall": False}),
            server.request("DELETE", path),
        ):
            assert answer.status in (400, 404), (turn, answer)
    for recall in ("on", "", True, 1, [], {}):
        body = {"messages": [{"role": "user", "content": "x"}], "session_id": "s", "recall": recall}
        answer = server.post("/v1/chat/completions", body)
        assert answer.status == 400 and answer.json["error"]["param"] == "recall", answer
    for path, prompt in (("/v1/completions", "x"), ("/completion", "x")):
        for session in ({}, {"session_id": "s"}):
            answer = server.post(path, {"prompt": prompt, "recall": "force", **session})
            assert answer.status == 400 and answer.json["error"]["param"] == "recall", answer
        assert server.post(path, {"prompt": prompt, "recall": "off", "max_tokens": 1}).status == 200
    assert server.session("s")["turns"] == FILLERS + 1
    assert found(server, QUESTION)[0] == fact
    assert server.alive()
