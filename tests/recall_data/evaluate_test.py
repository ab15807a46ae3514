"""The evaluator: figures of known answers, the baseline against chance, the protocol."""

import argparse
import json
import shlex
import sys

import asked_again
import evaluate
import generate
import metrics
import pytest
import rankers

ECHO = """
import json, sys
turns = []
for line in sys.stdin:
    message = json.loads(line)
    if message["op"] == "reset":
        turns = []
    elif message["op"] == "add":
        turns.append(message["turn"])
    else:
        asked = message["question"]
        words = set(asked["text"].lower().split())
        scored = [(len(words & set(t["user"].lower().split())), t["turn"]) for t in turns
                  if t["turn"] < message["window_from"]]
        best = sorted(scored, reverse=True)[:message["limit"]]
        print(json.dumps({"ranked": [{"turn": t, "score": s, "terms": []} for s, t in best],
                          "decision": "injected" if best else "empty",
                          "injected": [t for _, t in best], "us": 1}), flush=True)
"""


def answer(*turns, injected=None):
    ranked = [{"turn": turn, "score": 1.0, "terms": []} for turn in turns]
    injected = list(turns) if injected is None else injected
    return {
        "ranked": ranked,
        "injected": injected,
        "us": 2.0,
        "decision": "injected" if injected else "gated",
    }


def arguments(**changes):
    values = {
        "set": "dev",
        "seed": 1,
        "sizes": [300],
        "archives": 2,
        "story": None,
        "ranker": ["fts5", "chance"],
        "no_recalled": False,
        "quiet": True,
    }
    return argparse.Namespace(**{**values, **changes})


def test_judge():
    question = {"gold": [3, 4], "stale": [2]}
    lengths = {turn: 10 * turn for turn in range(9)}
    found = metrics.judge(question, answer(7, 3, 4, injected=[3, 7]), answer(2), lengths)
    assert (found["top1"], found["top5"], found["all5"]) == (0, 1, 1)
    assert (found["in1"], found["in5"], found["all_in5"]) == (0, 1, 0)
    assert (found["stale_alone"], found["stale_alone1"]) == (0, 1)
    assert (found["injected"], found["wasted"], found["wasted_characters"]) == (2, 1, 70)
    nothing = metrics.judge(question, answer(injected=[]), answer(injected=[]), lengths)
    assert nothing["fired"] == nothing["top5"] == nothing["stale_alone"] == 0


def test_judge_of_a_negative_has_no_evidence():
    found = metrics.judge({"gold": [], "stale": []}, answer(1), answer(1), {1: 5})
    assert found["all5"] == found["all_in5"] == found["top5"] == 0
    assert found["fired"] == 1


def test_interval_holds_the_mean_and_needs_three_conversations():
    records = [{"conversation": at % 10, "x": float(at % 10 < 5)} for at in range(200)]
    low, high = metrics.interval(records, lambda record: record["x"])
    assert low < 0.5 < high and low > 0.05
    assert metrics.interval(records[:2], lambda record: record["x"]) is None
    same = [{"conversation": at % 5, "x": 1.0} for at in range(50)]
    assert metrics.interval(same, lambda record: record["x"]) == (1.0, 1.0)


def test_per_hundred():
    records = [
        {"kind": "own_words", "injected": 1.0},
        {"kind": "chitchat", "injected": 0.0},
        {"kind": "unanswerable", "injected": 5.0},
        {"kind": "single", "injected": 2.0},
    ]
    assert metrics.per_hundred(records, "injected") == pytest.approx(60 * 0.5 + 40 * 2)


def test_fts5_beats_chance_on_both_sets():
    for name in ("dev", "test"):
        records = evaluate.evaluate(arguments(set=name, archives=1))
        for stratum in ("2", "3+"):
            got = {
                ranker: metrics.mean(
                    [
                        r
                        for r in records
                        if (r["ranker"], r["kind"], r["stratum"]) == (ranker, "single", stratum)
                    ],
                    "top5",
                )
                for ranker in ("fts5", "chance")
            }
            assert got["fts5"] > got["chance"] + 0.3


def test_bigrams_find_what_has_no_spaces():
    for set_name, at, language in (("dev", 2, "zh"), ("test", 2, "ja"), ("test", 3, "th")):
        made = generate.archive(set_name, 1, 300, at)
        assert made["language"] == language
        found = {}
        for spec in ("fts5", "fts5-bigram"):
            records = evaluate.run_conversation(rankers.make(spec), made)
            found[spec] = metrics.mean([r for r in records if r["kind"] == "single"], "top5")
        assert found["fts5-bigram"] > found["fts5"] + 0.2


def test_search_syntax_is_only_text():
    ranker = rankers.Fts5(settings={"threshold": 0.0})
    ranker.reset()
    ranker.add([{"turn": 1, "user": "the otter NEAR the jetty", "assistant": "user: nothing"}])
    hostile = ('otter"', "user:otter OR *", "NEAR(otter jetty)", "'; --", "", "the of", "\0otter")
    for text in hostile:
        reply = ranker.ask({"text": text}, 5, 2)
        assert reply["decision"] == ("injected" if "otter" in text else "empty")


def test_command_speaks_the_protocol(tmp_path):
    path = tmp_path / "echo.py"
    path.write_text(ECHO)
    command = shlex.join([sys.executable, str(path)])
    records = evaluate.evaluate(arguments(sizes=[30], ranker=["chance", command], archives=3))
    assert len(records) == 2 * 3 * 18
    report = metrics.report(records)
    assert "### Points of" in report and "| single | 3+ |" in report
    assert len({cell["ranker"] for cell in metrics.cells(records)}) == 2
    assert json.loads(json.dumps(metrics.cells(records)))[0]["n"] > 0


def test_command_that_breaks_the_protocol_is_an_error(tmp_path):
    path = tmp_path / "bad.py"
    path.write_text(ECHO.replace('t["turn"] < message["window_from"]', "True"))
    with pytest.raises(RuntimeError, match="window"):
        evaluate.evaluate(arguments(sizes=[30], ranker=[shlex.join([sys.executable, str(path)])]))
    path.write_text("import sys\nsys.stdin.readline()\n")
    with pytest.raises((RuntimeError, BrokenPipeError)):
        evaluate.evaluate(arguments(sizes=[30], ranker=[shlex.join([sys.executable, str(path)])]))


def test_questions_are_kept_as_turns():
    made = asked_again.build("dev", 1, turns=600, facts=20)
    seen = []

    class Watch(rankers.Chance):
        def add(self, turns):
            seen.append(turns)

        def ask(self, question, limit, window_from):
            seen.append(window_from)
            return super().ask(question, limit, window_from)

    records = evaluate.run_conversation(Watch(), made)
    added = [item[0] for item in seen[1:] if isinstance(item, list)]
    assert len(records) == 20 and [turn["turn"] for turn in added] == list(range(601, 621))
    assert all("recalled" in turn for turn in added)
    assert seen[1] == made["window_from"] and max(n for n in seen if isinstance(n, int)) == 600
    bare = evaluate.turns_of(made, recalled=False)
    assert not any("recalled" in turn for turn in bare)
