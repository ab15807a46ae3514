"""The main job: a conversation goes on after kill -9 as if nothing had happened."""

import pytest

from harness import content, reason_codes

TURNS = [
    "My name is Ada and I keep bees. Say hello in one sentence.",
    "What do bees make? Answer briefly.",
    "What is my name, and what do I keep?",
    "Tell me one more thing about them.",
]
ANSWER_TOKENS = 24


# What the sampler counts is of the whole window: after a restart it has to be counted again.
PENALISED = {
    "temperature": 0.9,
    "seed": 3,
    "repeat_penalty": 1.4,
    "repeat_last_n": -1,
    "frequency_penalty": 0.7,
    "presence_penalty": 0.3,
    "logit_bias": {"504": -5},
}


@pytest.mark.parametrize(
    "sampling",
    [{"temperature": 0}, {"temperature": 0.9, "seed": 11}, PENALISED],
    ids=["greedy", "seeded", "penalised"],
)
def test_goes_on_after_kill_9(new_server, sampling):
    """Two servers, the same turns, one of them killed: the same answers, to the last token. Same
    batches and same cells give the same bits.
    """
    steady = new_server()
    expected = [
        content(steady.chat("ada::bees", turn, ANSWER_TOKENS, **sampling)) for turn in TURNS
    ]
    steady.kill9()

    server = new_server()
    for turn, answer in zip(TURNS[:2], expected):
        assert content(server.chat("ada::bees", turn, ANSWER_TOKENS, **sampling)) == answer
    before = server.wait_stored("ada::bees")
    server.kill9()
    server.start()

    third = server.chat("ada::bees", TURNS[2], ANSWER_TOKENS, **sampling)
    kv = third["tenuto"]["kv"]
    assert kv["restored"] >= before["tokens"] - 1, third
    assert kv["reused"] == 0, third
    # Only the new turn's own tokens and the one token that no state holds are computed.
    assert kv["recomputed"] == third["usage"]["prompt_tokens"] - kv["restored"]
    assert kv["recomputed"] < 40, third
    assert reason_codes(third) <= {"new", "tail"}, third
    assert content(third) == expected[2]

    fourth = server.chat("ada::bees", TURNS[3], ANSWER_TOKENS, **sampling)
    assert fourth["tenuto"]["kv"]["reused"] > kv["restored"], fourth
    assert content(fourth) == expected[3]
    assert server.stop() == 0


@pytest.mark.parametrize("executor", ["real", "fake"])
def test_killed_before_the_kv_was_written(new_server, executor):
    """The log alone is enough: what is not on disk is computed again. The answer is the same with
    the fake executor; a real model rounds differently when a history is computed in one piece.
    """
    options = {"model": None} if executor == "fake" else {}
    server = new_server("--no-kv-store", **options)
    answers = [content(server.chat("s", turn, ANSWER_TOKENS)) for turn in TURNS[:3]]
    server.kill9()
    again = new_server("--no-kv-store", **options)
    assert content(again.chat("s", TURNS[0], ANSWER_TOKENS)) == answers[0]
    assert content(again.chat("s", TURNS[1], ANSWER_TOKENS)) == answers[1]
    again.kill9()
    again.start()
    third = again.chat("s", TURNS[2], ANSWER_TOKENS)
    if executor == "fake":
        assert content(third) == answers[2]
    assert third["tenuto"]["kv"]["restored"] == 0
    assert third["tenuto"]["kv"]["recomputed"] == third["usage"]["prompt_tokens"]
    assert "policy" in reason_codes(third), third


def test_many_deaths(new_server):
    """Killed after each turn, at once after the answer: every acknowledged turn is there."""
    server = new_server()
    seen = []
    for number in range(4):
        answer = server.chat("loop", f"Turn {number}: say a word.", 6)
        seen.append(answer["tenuto"]["turn"])
        server.kill9()
        server.start()
        info = server.session("loop")
        assert info["turns"] == number + 1, info
    assert len(set(seen)) == 4


def test_usage_adds_up(new_server):
    server = new_server()
    first = server.chat("sum", "Count to three.", 8)
    second = server.chat("sum", "And backwards.", 8)
    for answer in (first, second):
        usage, kv = answer["usage"], answer["tenuto"]["kv"]
        assert kv["reused"] + kv["restored"] + kv["recomputed"] == usage["prompt_tokens"], answer
        assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
        assert usage["prompt_tokens_details"]["cached_tokens"] == kv["reused"] + kv["restored"]
        assert sum(reason["tokens"] for reason in kv["reasons"]) == kv["recomputed"], answer
    assert second["usage"]["prompt_tokens"] > first["usage"]["total_tokens"]
    window = second["tenuto"]["window"]
    assert window["turns"] == 2 and window["limit_tokens"] == 2048, window
