"""Whatever a client sends, the answer is a 4xx in OpenAI's error shape that names the field, and
the server lives on.
"""

import json

import pytest

from harness import content

CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"
LLAMA = "/completion"


def chat(**fields):
    return {"messages": [{"role": "user", "content": "x"}], "max_tokens": 1, **fields}


def message(**fields):
    return {"messages": [{"role": "user", "content": "x", **fields}], "max_tokens": 1}


NESTED = b"[" * 200_000
BAD_UTF8 = b'{"messages": [{"role": "user", "content": "\xff\xfe"}]}'
HUGE = (
    b'{"max_tokens": 1, "messages": [{"role": "user", "content": "' + b"word " * 2_000_000 + b'"}]}'
)
LONE_SURROGATE = b'{"max_tokens": 1, "messages": [{"role": "user", "content": "\\ud800"}]}'
TWICE = b'{"messages": [{"role": "user", "content": "x"}], "max_tokens": 1, "max_tokens": 2}'

# name: (path, body, the field named by the error; None where the body as a whole is at fault)
ROWS = {
    "not json": (CHAT, b"{not json", None),
    "empty body": (CHAT, b"", None),
    "cut json": (CHAT, b'{"messages": [{"role": "user", "con', None),
    "an array": (CHAT, b"[]", None),
    "a number": (CHAT, b"5", None),
    "200,000 brackets": (CHAT, NESTED, None),
    "200,000 brackets in a field": (CHAT, b'{"messages": ' + NESTED, "messages"),
    "bad utf-8": (CHAT, BAD_UTF8, "messages[0].content"),
    "half a surrogate": (CHAT, LONE_SURROGATE, "messages[0].content"),
    "a field twice": (CHAT, TWICE, "max_tokens"),
    "bytes behind": (CHAT, json.dumps(chat()).encode() + b"x", None),
    "1e999": (
        CHAT,
        b'{"messages": [{"role": "user", "content": "x"}], "temperature": 1e999}',
        "temperature",
    ),
    "NaN": (CHAT, b'{"messages": [{"role": "user", "content": "x"}], "temperature": NaN}', None),
    "no messages": (CHAT, {"max_tokens": 1}, "messages"),
    "messages empty": (CHAT, {"messages": []}, "messages"),
    "messages a string": (CHAT, {"messages": "hello"}, "messages"),
    "message a number": (CHAT, {"messages": [5]}, "messages"),
    "content missing": (CHAT, {"messages": [{"role": "user"}]}, "messages"),
    "content a number": (CHAT, message(content=5), "messages"),
    "content empty": (CHAT, message(content=""), "messages"),
    "content an image": (
        CHAT,
        message(content=[{"type": "image_url", "image_url": {"url": "x"}}]),
        "messages",
    ),
    "content part without text": (CHAT, message(content=[{"type": "text"}]), "messages"),
    "role missing": (CHAT, {"messages": [{"content": "x"}]}, "messages"),
    "role a number": (CHAT, message(role=1), "messages"),
    "role unknown": (CHAT, message(role="wizard"), "messages"),
    "role tool": (CHAT, message(role="tool"), "messages"),
    "10 MB message": (CHAT, HUGE, "messages"),
    "max_tokens -1": (CHAT, chat(max_tokens=-1), "max_tokens"),
    "max_tokens 2^31": (CHAT, chat(max_tokens=2**31), "max_tokens"),
    "max_tokens 2^64": (CHAT, chat(max_tokens=2**64), "max_tokens"),
    "max_tokens text": (CHAT, chat(max_tokens="10"), "max_tokens"),
    "max_tokens 1.5": (CHAT, chat(max_tokens=1.5), "max_tokens"),
    "max_completion_tokens -1": (CHAT, chat(max_completion_tokens=-1), "max_completion_tokens"),
    "temperature text": (CHAT, chat(temperature="hot"), "temperature"),
    "top_p 2": (CHAT, chat(top_p=2), "top_p"),
    "top_k text": (CHAT, chat(top_k="x"), "top_k"),
    "seed text": (CHAT, chat(seed="x"), "seed"),
    "stream text": (CHAT, chat(stream="yes"), "stream"),
    "stream_options number": (CHAT, chat(stream=True, stream_options=1), "stream_options"),
    "stop a number": (CHAT, chat(stop=5), "stop"),
    "stop of numbers": (CHAT, chat(stop=[1]), "stop"),
    "stop empty": (CHAT, chat(stop=""), "stop"),
    "stop: 100": (CHAT, chat(stop=["x"] * 100), "stop"),
    "logit_bias array": (CHAT, chat(logit_bias=[1]), "logit_bias"),
    "logit_bias not a token": (CHAT, chat(logit_bias={"x": 1}), "logit_bias"),
    "logit_bias out of range": (CHAT, chat(logit_bias={"99999999": 1}), "logit_bias"),
    "n 2": (CHAT, chat(n=2), "n"),
    "logprobs": (CHAT, chat(logprobs=True), "logprobs"),
    "tools": (CHAT, chat(tools=[{"type": "function", "function": {"name": "f"}}]), "tools"),
    "response_format": (CHAT, chat(response_format={"type": "json_object"}), "response_format"),
    "audio": (CHAT, chat(modalities=["audio"]), "modalities"),
    "session with slash": (CHAT, chat(session_id="a/b"), "session_id"),
    "session ..": (CHAT, chat(session_id=".."), "session_id"),
    "session a..b": (CHAT, chat(session_id="a..b"), "session_id"),
    "session hidden": (CHAT, chat(session_id=".a"), "session_id"),
    "session with NUL": (CHAT, chat(session_id="a\0b"), "session_id"),
    "session of 10 KB": (CHAT, chat(session_id="a" * 10240), "session_id"),
    "session of three parts": (CHAT, chat(session_id="a::b::c"), "session_id"),
    "session of five parts": (CHAT, chat(session_id="a::b::c::d::e"), "session_id"),
    "session empty": (CHAT, chat(session_id=""), "session_id"),
    "session half empty": (CHAT, chat(session_id="a::"), "session_id"),
    "session one colon": (CHAT, chat(session_id="a:b"), "session_id"),
    "session with space": (CHAT, chat(session_id="a b"), "session_id"),
    "session not ascii": (CHAT, chat(session_id="\u00e9"), "session_id"),
    "session a number": (CHAT, chat(session_id=5), "session_id"),
    "prompt missing": (TEXT, {"max_tokens": 1}, "prompt"),
    "prompt an object": (TEXT, {"prompt": {}}, "prompt"),
    "prompt empty": (TEXT, {"prompt": ""}, "prompt"),
    "tokens empty": (TEXT, {"prompt": []}, "prompt"),
    "token too big": (TEXT, {"prompt": [1, 49152]}, "prompt"),
    "token 2^31": (TEXT, {"prompt": [2**31]}, "prompt"),
    "token negative": (TEXT, {"prompt": [1, -1]}, "prompt"),
    "token a fraction": (TEXT, {"prompt": [1, 1.5]}, "prompt"),
    "prompts mixed": (TEXT, {"prompt": [1, "x"]}, "prompt"),
    "text best_of": (TEXT, {"prompt": "x", "best_of": 2}, "best_of"),
    "text echo": (TEXT, {"prompt": "x", "echo": True}, "echo"),
    "text suffix": (TEXT, {"prompt": "x", "suffix": "y"}, "suffix"),
    "llama grammar": (LLAMA, {"prompt": "x", "grammar": "root ::= [a-z]"}, "grammar"),
    "llama json_schema": (LLAMA, {"prompt": "x", "json_schema": {"type": "object"}}, "json_schema"),
    "llama n_predict text": (LLAMA, {"prompt": "x", "n_predict": "x"}, "n_predict"),
    "llama n_probs": (LLAMA, {"prompt": "x", "n_probs": 5}, "n_probs"),
    "tokenize a number": ("/tokenize", {"content": 5}, "content"),
    "detokenize text": ("/detokenize", {"tokens": "x"}, "tokens"),
    "detokenize out of range": ("/detokenize", {"tokens": [99999999]}, "tokens"),
}


def expect_refusal(server, answer, field):
    assert 400 <= answer.status < 500, answer
    error = answer.json["error"]
    assert set(error) >= {"message", "type", "param", "code"}, error
    assert len(error["message"]) > 10, error
    if field is not None:
        # Where the body can't be read as JSON, the sentence names the field.
        named = error["param"] or error["message"].partition("'")[2]
        assert named.startswith(field), error
    assert server.process.poll() is None


@pytest.mark.parametrize("name", ROWS)
def test_refused(server, name):
    path, body, field = ROWS[name]
    expect_refusal(server, server.post(path, body), field)


def test_longer_than_the_window_names_the_numbers(server):
    answer = server.post(CHAT, message(content="many words " * 2500))
    expect_refusal(server, answer, "messages")
    text = answer.json["error"]["message"]
    assert "2048" in text, text


def test_session_by_header(server):
    expect_refusal(server, server.post(CHAT, chat(), {"X-Session-ID": "a/b"}), None)
    both = server.post(CHAT, chat(session_id="one"), {"X-Session-ID": "two"})
    expect_refusal(server, both, "session_id")
    good = server.post(CHAT, chat(), {"X-Session-ID": "me::by-header"})
    assert good.json["tenuto"]["session"] == "by-header"


def test_paths_and_methods(server):
    expect_refusal(server, server.get("/no/such/path"), None)
    assert server.get("/no/such/path").status == 404
    assert server.get(CHAT).status == 405
    assert server.request("DELETE", "/v1/models").status == 405
    assert server.get("/v1/sessions/never-was").status == 404
    assert server.request("DELETE", "/v1/sessions/never-was").status == 404
    for name in ("a%2Fb", "..%2f..%2fetc", "%00", "a::b::c", "%zz", "x" * 5000):
        assert 400 <= server.get(f"/v1/sessions/{name}").status < 500, name
    assert server.alive()


def test_idempotency_key_too_long(server):
    answer = server.post(CHAT, chat(session_id="key"), {"Idempotency-Key": "k" * 300})
    expect_refusal(server, answer, None)


def test_unknown_fields_are_named_not_refused(server):
    answer = server.chat("unknown", "hi", 1, wizardry=True, user="ada")
    assert answer["tenuto"]["ignored"] == ["wizardry"]


def test_unknown_fields_when_strict(new_server):
    strict = new_server("--strict")
    expect_refusal(strict, strict.post(CHAT, chat(wizardry=True)), "wizardry")


def test_fields_that_ask_for_nothing_are_fine(server):
    answer = server.chat(
        "nothing",
        "hi",
        1,
        n=1,
        logprobs=False,
        tools=[],
        stop=None,
        logit_bias={},
        response_format={"type": "text"},
        presence_penalty=0,
    )
    assert answer["object"] == "chat.completion"


def test_still_answers(server):
    """Last in the file: after all of the above."""
    assert content(server.chat("after", "Say hello.", 8))
    assert (
        len(server.get("/v1/sessions").json["data"]) < 10
    ), "a refused request left a session behind"
