#!/usr/bin/env python3
"""Makes conversations with planted facts, and questions about them with the turns that answer them.

    generate.py --set dev --seed 1 --turns 2000 --out DIR
    generate.py --set test --seed 1 --turns 300 --archives 2     counts only, nothing written

The same arguments give the same bytes. DIR gets, for each archive, NAME.turns.jsonl and
NAME.questions.jsonl. Not tuned to any scorer: this was written before there was one.
"""

import argparse
import bisect
import datetime
import json
import pathlib
import random
import sys
import time

import dates
import negatives
import questions
import words
from facts import Book
from filler import OTHER_LANGUAGE_SHARE, Filler

SIZES = (30, 300, 2000, 20000, 200000)
# Conversations of a size; at least one of each language.
ARCHIVES = {30: 102, 300: 21, 2000: 12, 20000: 6, 200000: 3}
POSITIVES_MIN, NEGATIVES_MIN = 100, 300
START = {"dev": datetime.datetime(2019, 3, 4, 7), "test": datetime.datetime(2021, 9, 6, 7)}
OFFSET_HOURS = {"dev": 1, "test": -5}


class Talk:
    """One conversation while it is being made."""

    def __init__(self, set_name, language, turns, seed):
        self.rng = random.Random(seed)
        self.language, self.size = language, turns
        zone = datetime.timezone(datetime.timedelta(hours=OFFSET_HOURS[set_name]))
        per_day = 3 if turns < 100 else min(120, max(12, turns / 1500))
        start = START[set_name].replace(tzinfo=zone)
        self.times = dates.clock(self.rng, start, turns, per_day)
        self.asked_at = self.times[-1] + datetime.timedelta(minutes=self.rng.randint(2, 90))
        self.window_from = turns + 1 - min(20, turns // 5)
        self.free = set(range(1, self.window_from))
        self.vocabulary = []
        count = 14 + min(400, turns // 40)
        names = self.rng.sample(language.names, min(count, len(language.names)))
        self.filler = Filler(language, self.rng, turns, names)
        self.book = Book(language, self.rng, self.filler, names)

    def peek(self, low=1):
        """A turn that is still free and not in the window; None where there is none from low."""
        for _ in range(30):
            turn = self.rng.randrange(low, self.window_from)
            if turn in self.free:
                return turn
        left = sorted(turn for turn in self.free if turn >= low)
        return self.rng.choice(left) if left else None

    def peek_late(self, days):
        """The same, within some days before the questions."""
        since = self.asked_at - days * dates.DAY
        low = bisect.bisect_left(self.times, since) + 1
        return self.peek(low) if low < self.window_from else None

    def take(self, turn=None):
        turn = turn or self.peek()
        self.free.discard(turn)
        return turn

    def take_pair(self):
        for _ in range(2000):
            turn = self.peek()
            if turn + 1 in self.free:
                return self.take(turn), self.take(turn + 1)
        raise questions.Shortage("no two turns beside each other are free")

    def fill(self, others):
        """The turns that hold no fact; returns the archive."""
        rng, filler, planted = self.rng, self.filler, self.book.turns
        turns = []
        filler.seen, filler.seen_nouns = [], []  # the negatives are made of what follows
        for number, moment in enumerate(self.times, 1):
            turn = planted.get(number)
            if turn is None:
                draw = rng.random()
                if others and draw < OTHER_LANGUAGE_SHARE:
                    turn = others[int(draw / OTHER_LANGUAGE_SHARE * len(others))].turn()
                else:
                    turn = filler.turn()
            turns.append({"turn": number, "time": dates.stamp(moment), **turn})
        return turns


def ask_all(talk, count):
    """Plants everything with an answer. Those that need a certain place come first."""
    asked = []
    for kind in ("date", "corrected", "multi", "followup", "assistant_said"):
        start = talk.rng.randrange(12)
        asked += [questions.KINDS[kind](talk, start + index) for index in range(count)]
    for wanted in questions.STRATA:
        asked += [questions.single(talk, wanted) for _ in range(count)]
    for _ in range(min(600, talk.size // 40)):
        questions.background(talk)
    questions.mention_all(talk)
    return asked


def refuse_all(talk, count):
    start = talk.rng.randrange(12)
    return [
        make(talk, start + index) for make in negatives.KINDS.values() for index in range(count)
    ]


def archive(set_name, seed, turns, index, counts=None):
    """One conversation: {"id", "language", "window_from", "turns", "questions"}."""
    languages = words.load(set_name)
    language = languages[index % len(languages)]
    name = f"{set_name}-s{seed}-{turns}-{index}"
    talk = Talk(set_name, language, turns, name)
    positives, refused = counts or per_archive(set_name, turns)
    asked = ask_all(talk, positives)
    others = [
        Filler(other, talk.rng, turns // 10, talk.book.names)
        for other in languages
        if other is not language
    ]
    made = talk.fill(others)
    asked += refuse_all(talk, refused)
    for number, one in enumerate(asked):
        for part in ("text", "last_user", "last_answer"):
            if part in one:
                one[part] = language.render(one[part])
        last = made[talk.rng.randrange(talk.window_from - 1, turns)]
        one.setdefault("last_user", last["user"])
        one.setdefault("last_answer", last["assistant"])
        one.update(id=f"{name}-{number}", time=dates.stamp(talk.asked_at))
        one.update(language=language.name, conversation=name)
    talk.rng.shuffle(asked)
    return {
        "id": name,
        "language": language.name,
        "size": turns,
        "turns": made,
        "window_from": talk.window_from,
        "questions": asked,
    }


def archives_of(set_name, turns):
    """How many conversations; sizes between take the next smaller one's number."""
    size = max(size for size in SIZES if size <= max(turns, SIZES[0]))
    return max(ARCHIVES[size], len(words.LANGUAGES[set_name]))


def per_archive(set_name, turns):
    """Questions of each positive and of each negative kind in one archive."""
    count = archives_of(set_name, turns)
    return -(-POSITIVES_MIN // count), -(-NEGATIVES_MIN // count)


def archives(set_name, seed, turns, count=None):
    """All conversations of one size, made one at a time."""
    for index in range(count or archives_of(set_name, turns)):
        yield archive(set_name, seed, turns, index)


def write_lines(path, items):
    with path.open("w", encoding="ascii") as file:
        for item in items:
            file.write(json.dumps(item) + "\n")


def write(made, folder):
    """NAME.turns.jsonl, and NAME.questions.jsonl with a first line about the conversation."""
    folder.mkdir(parents=True, exist_ok=True)
    write_lines(folder / (made["id"] + ".turns.jsonl"), made["turns"])
    head = {key: made[key] for key in ("id", "language", "size", "window_from")}
    write_lines(folder / (made["id"] + ".questions.jsonl"), [head, *made["questions"]])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--set", required=True, choices=sorted(words.LANGUAGES))
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--turns", type=int, required=True)
    parser.add_argument("--archives", type=int, help="how many, instead of as many as are needed")
    parser.add_argument("--out", type=pathlib.Path)
    arguments = parser.parse_args()
    if arguments.turns < SIZES[0]:
        parser.error(f"at least {SIZES[0]} turns")
    counts, started = {}, time.monotonic()
    for made in archives(arguments.set, arguments.seed, arguments.turns, arguments.archives):
        for one in made["questions"]:
            key = one["kind"] + (" " + one["stratum"] if one["kind"] == "single" else "")
            counts[key] = counts.get(key, 0) + 1
        if arguments.out:
            write(made, arguments.out)
        now = time.monotonic()
        print(
            f"{made['id']} {made['language']} {len(made['turns'])} turns, "
            f"{len(made['questions'])} questions, {now - started:.1f} s"
        )
        started = now
    for key, number in sorted(counts.items()):
        print(f"{key:18} {number}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
