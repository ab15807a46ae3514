"""What the routes promise, one by one."""

import re
import time

from harness import content, reason_codes, text_of

CHAT = "/v1/chat/completions"


def test_system_messages_belong_to_the_first_turn(server):
    system = {"role": "system", "content": "You answer in one word."}
    user = {"role": "user", "content": "What colour is snow?"}
    first = server.chat("sys", [system, user], 6)
    assert first["tenuto"]["window"]["turns"] == 1
    same = server.chat("sys", [system, user], 6)
    assert same["tenuto"]["window"]["turns"] == 2
    assert server.chat("sys", [user], 6)["tenuto"]["window"]["turns"] == 3
    other = server.post(
        CHAT, {"session_id": "sys", "messages": [{**system, "content": "Be rude."}, user]}
    )
    assert other.status == 400, other
    assert other.json["error"]["param"].startswith("messages"), other
    assert server.session("sys")["turns"] == 3
    developer = server.chat("dev", [{**system, "role": "developer"}, user], 6)
    assert content(developer) == content(first)


def test_turns_are_appended_never_rendered_again(server):
    first = server.chat("grow", "One.", 4)
    second = server.chat("grow", "Two.", 4)
    # All of the first turn is there, and the suffix adds only the new message's own tokens.
    added = second["usage"]["prompt_tokens"] - first["usage"]["total_tokens"]
    assert 0 < added < 16, (first["usage"], second["usage"])
    assert second["tenuto"]["kv"]["reused"] >= first["usage"]["total_tokens"] - 2


def test_token_ids_as_prompt(server):
    text = "The quick brown fox"
    tokens = server.post("/tokenize", {"content": text}).json["tokens"]
    assert all(isinstance(token, int) for token in tokens)
    by_text = server.post(
        "/v1/completions", {"prompt": text, "max_tokens": 8, "temperature": 0}
    ).json
    by_tokens = server.post(
        "/v1/completions", {"prompt": tokens, "max_tokens": 8, "temperature": 0}
    ).json
    assert by_tokens["choices"][0]["text"] == by_text["choices"][0]["text"]
    assert by_tokens["usage"]["prompt_tokens"] == len(tokens)


def test_tokenize_round_trip(server):
    for text in (
        "Hello, world!",
        " two  spaces ",
        "caf\u00e9 \u2603 \U0001f41d",
        "a\nb\tc",
        "<|im_end|>",
    ):
        tokens = server.post("/tokenize", {"content": text}).json["tokens"]
        assert tokens
        assert server.post("/detokenize", {"tokens": tokens}).json["content"] == text
    assert server.post("/tokenize", {"content": ""}).json["tokens"] == []


def test_llama_server_completion(server):
    body = {"prompt": "Two plus two is", "n_predict": 6, "temperature": 0, "session_id": "llama::s"}
    first = server.post("/completion", body)
    assert first.status == 200, first
    answer = first.json
    assert isinstance(answer["content"], str) and answer["content"]
    assert answer["stop"] is True
    assert answer["tokens_predicted"] == 6
    timings = answer["timings"]
    assert timings["predicted_n"] == 6 and timings["prompt_n"] > 0
    assert timings["predicted_ms"] > 0 and timings["predicted_per_second"] > 0
    second = server.post("/completion", {**body, "prompt": " and three plus three is"}).json
    assert second["tenuto"]["kv"]["reused"] > 0
    assert second["timings"]["cache_n"] == second["tenuto"]["kv"]["reused"]
    text, last = "", None
    for event in server.stream("/completion", {**body, "session_id": "llama::t"}):
        text += event["content"]
        last = event
    assert text == answer["content"]
    assert last["stop"] is True and last["timings"]["predicted_n"] == 6


def test_n_predict_0_only_prefills(server):
    warm = server.post("/completion", {"prompt": "A long enough prompt to see", "n_predict": 0})
    assert warm.status == 200, warm
    assert warm.json["content"] == ""


def test_stream_has_the_documented_parts(server):
    events = list(
        server.stream(
            CHAT,
            {
                "session_id": "parts",
                "max_tokens": 6,
                "temperature": 0,
                "stream_options": {"include_usage": True},
                "messages": [{"role": "user", "content": "Count."}],
            },
        )
    )
    assert all(event["object"] == "chat.completion.chunk" for event in events)
    assert len({event["id"] for event in events}) == 1
    assert events[0]["choices"][0]["delta"]["role"] == "assistant"
    assert "".join(map(text_of, events))
    last = events[-1]
    assert last["choices"] == [] and last["usage"]["completion_tokens"] <= 6
    tenuto = last["tenuto"]
    assert re.fullmatch(r"[0-9A-HJKMNP-TV-Z]{26}", tenuto["turn"])
    assert set(tenuto["timing_ms"]) == {"queue", "restore", "prefill", "decode", "commit"}
    assert set(tenuto["kv"]) >= {"reused", "restored", "recomputed", "reasons"}
    assert set(tenuto["window"]) == {
        "turns",
        "tokens",
        "limit_tokens",
        "archived_turns",
        "trimmed_turns",
    }
    assert tenuto["recall"]["decision"] == "empty"


def test_without_a_session_nothing_is_kept(new_server):
    server = new_server()
    shared = "This is a long preamble that two requests share, word for word. " * 6
    first = server.chat(None, shared + "First?", 4)
    second = server.chat(None, shared + "Second?", 4)
    assert second["tenuto"]["kv"]["reused"] > 40, second
    assert first["tenuto"].get("session") is None
    assert server.get("/v1/sessions").json["data"] == []
    assert list((server.store / "kv").rglob("*.seg")) == []
    server.kill9()
    server.start()
    third = server.chat(None, shared + "Third?", 4)
    assert third["tenuto"]["kv"]["restored"] == 0
    assert third["tenuto"]["kv"]["recomputed"] == third["usage"]["prompt_tokens"]


def test_without_a_session_no_file_changes(new_server):
    server = new_server(model=None)
    canary = "canaryXYZZY plugh "

    def files():
        return {path: path.stat().st_size for path in server.store.rglob("*") if path.is_file()}

    def holders():
        return [path for path in files() if b"XYZZY" in path.read_bytes()]

    before = files()
    server.chat(None, canary * 20, 8)
    assert server.post("/v1/completions", {"prompt": canary, "max_tokens": 3}).status == 200
    message = {"role": "user", "content": canary}
    assert list(server.stream(CHAT, {"messages": [message], "max_tokens": 5}))
    time.sleep(1)  # for what would be written off the response path
    assert files() == before
    assert holders() == []
    assert "XYZZY" not in server.log
    # The search finds it where a session keeps it.
    server.chat("kept", canary, 4)
    assert holders() != []


def test_sessions_list_get_delete(new_server):
    server = new_server()
    for name in ("b::2", "a::1", "c"):
        server.chat(name, "Hi.", 2)
    listed = server.get("/v1/sessions").json
    assert {entry["id"] for entry in listed["data"]} == {"a::1", "b::2", "c"}, listed
    info = server.session("b::2")
    assert info["turns"] == 1 and info["tokens"] > 0, info
    server.wait_stored("b::2")
    assert server.request("DELETE", "/v1/sessions/b::2").status == 200
    assert server.get("/v1/sessions/b::2").status == 404
    assert server.chat("b::2", "Hi.", 2)["tenuto"]["window"]["turns"] == 1
    server.kill9()
    server.start()
    assert server.session("a::1")["turns"] == 1


def test_deleted_session_leaves_no_file(new_server):
    server = new_server()
    server.chat("gone", "Hello there.", 8)
    server.wait_stored("gone")
    assert list((server.store / "kv").rglob("*.seg"))
    assert server.request("DELETE", "/v1/sessions/gone").status == 200
    assert list((server.store / "kv").rglob("*.seg")) == []


def test_models_and_health(server):
    assert server.get("/health").json["status"] == "ok"
    models = server.get("/v1/models").json
    assert models["object"] == "list" and len(models["data"]) == 1


def test_metrics(server):
    def read():
        answer = server.get("/metrics")
        assert answer.headers["Content-Type"].startswith("text/plain")
        values = {}
        for line in answer.body.decode().splitlines():
            if line and not line.startswith("#"):
                assert re.fullmatch(r"[a-zA-Z_:][\w:]*(\{.*\})? [-+.\deInfNa]+", line), line
                name, value = line.rsplit(" ", 1)
                values[name] = float(value)
        return values

    before = read()
    server.chat("metric", "Hi.", 3)
    after = read()
    grown = [
        name for name in after if name.startswith("tenuto_") and after[name] > before.get(name, 0)
    ]
    assert any("turn" in name for name in grown), grown
    assert any("token" in name for name in grown), grown


def test_reasons_of_a_new_session(server):
    first = server.chat("fresh", "Hello.", 2)
    assert reason_codes(first) == {"new"}, first
    assert first["tenuto"]["kv"]["recomputed"] == first["usage"]["prompt_tokens"]


def test_logit_bias_bans_a_token(server):
    free = server.chat("bias-1", "What is the capital of France?", 8)
    tokens = server.post("/tokenize", {"content": content(free)}).json["tokens"]
    banned = server.chat(
        "bias-2", "What is the capital of France?", 8, logit_bias={str(tokens[0]): -100}
    )
    assert content(banned) != content(free)
