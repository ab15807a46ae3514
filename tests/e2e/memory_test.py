"""How much of a turn comes back, who had it in the prompt, and that all answers agree on it."""

import pytest

from recall_test import (
    BOTH,
    FLAGS,
    QUESTION,
    delete,
    explain,
    import_items,
    injected,
    items,
    quoted,
    recall_of,
    replay,
    told,
    turns_of,
)

__all__ = ["told"]  # a fixture

WALK = "The gardener walked along the quiet river and thought of the old mill in the valley. "
# What was said and what is asked.
LONG_AGO = {
    "words": (
        f"{WALK * 4}My dentist in Uppsala is Dr. Quistgaard. {WALK * 4}",
        "Who is my dentist in Uppsala?",
    ),
    "Chinese": (
        "\u6211\u59b9\u59b9\u7684\u72d7\u53eb\u997c\u5e72\uff0c\u5979\u4f4f\u5728\u4e0a\u6d77\u6d66"
        "\u4e1c\u65b0\u533a\u4e16\u7eaa\u5927\u9053\u7684\u4e00\u680b\u9ad8\u697c\u91cc\uff0c\u6bcf"
        "\u5929\u65e9\u4e0a\u90fd\u5e26\u72d7\u53bb\u516c\u56ed\u6563\u6b65\u3002",
        "\u6211\u59b9\u59b9\u7684\u72d7\u53eb\u4ec0\u4e48\u540d\u5b57\uff1f",
    ),
}


@pytest.mark.parametrize("language", LONG_AGO)
def test_in_a_small_room_a_part_is_quoted(new_server, language):
    server = new_server(**FLAGS["real"])  # 15 % of 1024 tokens
    said, question = LONG_AGO[language]
    told = [{"role": "user", "content": said}, {"role": "assistant", "content": WALK * 4}]
    import_items(server, "s", [*told, *list(items())[2:]])
    answer = server.chat("s", question, 1)
    assert injected(answer) == [turns_of(server, "s")[0]["id"]], answer
    assert 0 < recall_of(answer)["tokens"] <= 153, answer
    assert explain(server, answer["tenuto"]["turn"])["same_prompt"]


def test_a_search_gives_parts_of_long_turns(told):
    server, _ = told("fake")
    walk = "We walked along the river and talked about the old mill again. " * 8_000
    text = f"{walk}The zeppelin hangar of Ulm holds 93 baboons. {walk}"
    turns = [{"role": "user", "content": f"Day {n}. {text}"} for n in range(3)]
    import_items(server, "long", turns)
    answer = server.post(
        "/v1/memory/search", {"session_id": "long", "query": "zeppelin baboons", "limit": 100}
    )
    assert answer.status == 200 and len(answer.body) < 20_000, len(answer.body)
    for hit in answer.json["data"]:
        assert hit["excerpt"] and "zeppelin hangar of Ulm holds 93 baboons." in hit["text"], hit
    assert answer.json["data"]


@BOTH
def test_who_had_a_turn_in_the_prompt(told, executor):
    server, fact = told(executor)
    asked = server.chat("s", QUESTION, 4)["tenuto"]["turn"]
    # The quotation is still there: for an answer, for a replay, and for the list of a deletion.
    for recall in ("auto", "force"):
        again = server.chat("s", QUESTION, 4, recall=recall)
        named = [c for c in recall_of(again)["candidates"] if c["turn"] == fact]
        assert named and named[0]["why"] == "in_window" and not named[0]["injected"], again
    turns = [asked, turns_of(server, "s")[-2]["id"], again["tenuto"]["turn"]]
    for turn in turns:
        assert fact in quoted(explain(server, turn))
        whole = replay(server, turn)
        assert whole["same_prompt"] is True and "why" not in whole, whole
        without = replay(server, turn, {"without": fact})
        assert without["same_prompt"] is False and without["why"] == "without", without
        assert without["prompt_tokens"] < whole["prompt_tokens"]
    assert replay(server, turns[2], {"without": turns[1]})["why"] == "without"
    assert delete(server, fact).json["used_by"] == turns
    for turn in turns:
        after = replay(server, turn)
        assert after["same_prompt"] is False and after["why"] == "deleted", after
    last = server.chat("s", "Go on.", 4, recall="off")["tenuto"]["turn"]
    assert replay(server, last)["same_prompt"] is True
    assert delete(server, turns[2]).json["used_by"] == [last]
