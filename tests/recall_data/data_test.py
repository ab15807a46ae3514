"""What the generated data promises: the same from the same seed, two sets without a word in common,
strata as counted, one answer for each question.
"""

import collections
import datetime
import itertools
import json
import re

import asked_again
import dates
import facts
import generate
import negatives
import pytest
import questions
import weather
import words

SETS = sorted(words.LANGUAGES)
ALL = [(name, at) for name in SETS for at in range(len(words.LANGUAGES[name]))]


def talk_of(set_name, at, turns=2000, seed="t"):
    return generate.Talk(set_name, words.load(set_name)[at], turns, f"{seed} {set_name} {at}")


def templates(language):
    raw = language.raw
    keys = (
        "filler_user",
        "filler_assistant",
        "own_words",
        "chitchat",
        "tasks",
        "followups",
        "fix_near",
        "fix_near_replies",
        "mentions",
        "short_answers",
    )
    found = {text for key in keys for text in raw[key]}
    return found | {text for fact in language.facts for text in fact.templates()}


def content_words(language):
    """Topic nouns, verbs, adjectives, things and listed values, as stems."""
    found = set(itertools.chain(language.verbs, language.adjectives, *language.topics.values()))
    for fact in language.facts:
        found |= {form for concept in fact.things for form in concept}
        found |= set(fact.value.split("|")) if "|" in fact.value else set()
    found |= {word for key in ("verbs", "nouns", "ends") for word in language.shared[key]}
    return set().union(*(language.stems(word) for word in found))


def both(part):
    """The union over a set's languages, for dev and test."""
    return [set().union(*(part(language) for language in words.load(name))) for name in SETS]


@pytest.mark.parametrize("turns", [30, 300])
def test_same_seed_same_bytes(turns):
    for name in SETS:
        first, again = (json.dumps(generate.archive(name, 3, turns, 1)) for _ in range(2))
        assert first == again
        assert first != json.dumps(generate.archive(name, 4, turns, 1))


@pytest.mark.parametrize(
    "part",
    [
        templates,
        content_words,
        lambda language: {language.name} - {"en"},
        lambda language: {fact.name for fact in language.facts},
        lambda language: set(language.topics),
        lambda language: set(language.names),
        lambda language: set(language.places),
        lambda language: set(language.tail),
        lambda language: set(language.raw["task_words"].split("|")),
        lambda language: set(language.shared["tool_lines"] + language.shared["files"]),
    ],
    ids="templates content languages types topics names places tail tasks tools".split(),
)
def test_sets_have_nothing_in_common(part):
    dev, test = both(part)
    assert dev and test
    assert dev & test == set()


@pytest.mark.parametrize("set_name, at", ALL)
def test_stratum_is_the_number_of_shared_stems(set_name, at):
    talk = talk_of(set_name, at)
    stems = talk.language.stems
    for wanted in questions.STRATA * 3:
        one = questions.single(talk, wanted)
        fact = talk.book.facts[-1]
        assert one["gold"] == [fact.turn]
        assert facts.stratum(len(stems(one["text"]) & stems(fact.text))) == wanted


@pytest.mark.parametrize("set_name, at", [(s, a) for s, a in ALL if words.load(s)[a].spaced])
def test_stratum_holds_in_the_written_text(set_name, at):
    made = generate.archive(set_name, 2, 300, at)
    stems = words.load(set_name)[at].stems
    singles = [one for one in made["questions"] if one["kind"] == "single"]
    assert len(singles) == 20
    for one in singles:
        turn = made["turns"][one["gold"][0] - 1]
        text = turn["user"] + " " + turn["assistant"]
        assert facts.stratum(len(stems(one["text"]) & stems(text))) == one["stratum"]


@pytest.mark.parametrize("turns", generate.SIZES[:3])
def test_counts_of_questions(turns):
    for name in SETS:
        positives, refused = generate.per_archive(name, turns)
        count = generate.archives_of(name, turns)
        assert positives * count >= generate.POSITIVES_MIN
        assert refused * count >= generate.NEGATIVES_MIN
        made = generate.archive(name, 1, turns, 0)
        kinds = collections.Counter(
            one["kind"] + one["stratum"] if one["kind"] == "single" else one["kind"]
            for one in made["questions"]
        )
        for kind in questions.KINDS:
            assert kinds[kind] == positives
        for stratum in questions.STRATA:
            assert kinds["single" + stratum] == positives
        for kind in negatives.KINDS:
            assert kinds[kind] == refused


@pytest.mark.parametrize("set_name, at", ALL)
def test_gold_is_in_the_archive_and_outside_the_window(set_name, at):
    made = generate.archive(set_name, 5, 300, at)
    assert [turn["turn"] for turn in made["turns"]] == list(range(1, 301))
    times = [datetime.datetime.fromisoformat(turn["time"]) for turn in made["turns"]]
    assert times == sorted(times)
    for one in made["questions"]:
        assert datetime.datetime.fromisoformat(one["time"]) > times[-1]
        assert all(1 <= turn < made["window_from"] for turn in one["gold"] + one["stale"])
        assert bool(one["gold"]) == (one["kind"] not in negatives.KINDS)
        assert "{" not in one["text"] and "{" not in one["last_user"]
        if one["kind"] == "corrected":
            assert one["stale"][0] < one["gold"][0]


@pytest.mark.parametrize("set_name, at", ALL)
def test_a_fact_has_one_answer(set_name, at):
    talk = talk_of(set_name, at)
    generate.ask_all(talk, 5)
    kept = talk.book.facts
    assert len({(fact.type.name, fact.who) for fact in kept}) == len(kept)
    things = collections.Counter((fact.type.name, fact.thing) for fact in kept)
    for name, pools in talk.book.pools.items():
        left = pools["solo"] + pools["group"]
        assert all(things[name, thing] == 0 for thing in left)
    days = [(f.type.name, f.thing, f.date.month, f.date.day) for f in kept if f.date]
    assert len(set(days)) == len(days)


@pytest.mark.parametrize("set_name, at", ALL)
def test_unanswerable_has_no_fact(set_name, at):
    talk = talk_of(set_name, at, 300)
    generate.ask_all(talk, 3)
    talk.fill([])
    facts_before = len(talk.book.facts)
    for index in range(20):
        one = negatives.unanswerable(talk, index)
        named = [fact for fact in talk.book.facts if fact.who in one["text"]]
        asked = {template.text for fact in named for template in fact.type.ask}
        assert one["gold"] == [] and (asked or one["stratum"] == "day")
    assert len(talk.book.facts) == facts_before


def test_vocabulary_has_a_long_tail():
    made = generate.archive("dev", 1, 20000, 0)
    counts = collections.Counter()
    for turn in made["turns"]:
        counts.update(re.findall(r"\w+", turn["user"].lower()))
    once = sum(count == 1 for count in counts.values())
    assert len(counts) > 5000
    assert once > len(counts) / 5
    assert sum(len(turn["assistant"]) > 500 for turn in made["turns"]) > 300
    assert sum("```" in turn["assistant"] for turn in made["turns"]) > 300
    assert sum("name" in turn for turn in made["turns"]) > 300


def test_dates_meet():
    language = words.load("dev")[0]
    day = datetime.date(2024, 5, 3)
    said = {dates.spell(language, day, style) for style in dates.spellings(language)}
    assert {"2024-05-03", "3 May 2024", "May 3rd"} <= said
    thai = words.load("test")[3]
    assert any("2567" in dates.spell(thai, day, style) for style in dates.spellings(thai))
    asked = {
        dates.asked_relative(language, generate.random.Random(seed), datetime.date(2024, 5, 8), day)
        for seed in range(20)
    }
    assert asked == {"last Friday", "5 days ago"}


def test_weather_gold_is_unique():
    made = weather.build(1)
    language = words.load("dev")[0]
    assert len(made["turns"]) == 2000 and len(made["questions"]) == 27
    assert made == weather.build(1)
    for one in made["questions"]:
        day = dates.spell(language, datetime.date.fromisoformat(one["date"]), weather.REPORT_STYLE)
        start = f"Weather report for {one['place']}, {day}:"
        hits = [turn["turn"] for turn in made["turns"] if turn["user"].startswith(start)]
        assert hits == one["gold"]
        assert day not in one["text"] and hits[0] < made["window_from"]


def test_asked_again_keeps_the_first_askings():
    made = asked_again.build("dev", 1, turns=2000, facts=50)
    assert len(made["questions"]) == 50
    for one in made["questions"]:
        earlier = made["turns"][one["earlier"][0] - 1]
        assert earlier["user"] == one["text"] and earlier["assistant"] == one["answer"]
        assert earlier["recalled"] == one["gold"]
        assert one["gold"][0] < one["earlier"][0] < made["window_from"]
