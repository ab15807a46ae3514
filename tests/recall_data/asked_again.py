#!/usr/bin/env python3
"""A session of 20,000 turns with 500 facts. Each of 500 questions has been asked before in it, with
its answer kept as a turn; then they are asked again and those turns are kept as well. Evidence is
the turn where the fact was stated, never an earlier asking.

    asked_again.py --set dev --seed 1 --out DIR

A turn that asked before has "recalled": the turns that were in its prompt by recall, which a server
knows of its own answers. `evaluate.py --no-recalled` leaves it out.
"""

import argparse
import pathlib

import dates
import generate
import questions
import words
from filler import Filler

TURNS, FACTS = 20000, 500


def build(set_name, seed=1, turns=TURNS, facts=FACTS):
    """A conversation in the form of generate.archive(), with "answer" in each question."""
    name = f"asked-{set_name}-s{seed}-{turns}"
    languages = words.load(set_name)
    language = languages[0]
    talk = generate.Talk(set_name, language, turns, name)
    asked = []
    middle = turns // 2
    for _ in range(facts):
        fact, texts, text = questions.plain_fact(talk, 2)
        talk.book.keep(fact, texts, take_before(talk, middle))
        answer = fact.type.tell.fill(talk.book.slots(fact))
        shared = talk.book.shared_stems(fact, text)
        one = questions.question(
            "asked_again", text, [fact.turn], stratum=questions.stratum(shared)
        )
        earlier = talk.take(talk.peek(middle))
        talk.book.turns[earlier] = {
            "user": language.render(text),
            "assistant": language.render(answer),
            "recalled": [fact.turn],
        }
        asked.append({**one, "answer": language.render(answer), "earlier": [earlier]})
    others = [Filler(other, talk.rng, turns // 10, talk.book.names) for other in languages[1:]]
    made = talk.fill(others)
    talk.rng.shuffle(asked)
    for number, one in enumerate(asked):
        before = asked[number - 1] if number else None
        one["text"] = language.render(one["text"])
        one["last_user"] = before["text"] if before else made[-1]["user"]
        one["last_answer"] = before["answer"] if before else made[-1]["assistant"]
        asked_at = talk.asked_at + number * dates.DAY / 1440  # one a minute
        one.update(id=f"{name}-{number}", time=dates.stamp(asked_at))
        one.update(language=language.name, conversation=name)
    return {
        "id": name,
        "language": language.name,
        "size": turns,
        "turns": made,
        "window_from": talk.window_from,
        "questions": asked,
        "keep": True,
    }


def take_before(talk, end):
    while True:
        turn = talk.rng.randrange(1, end)
        if turn in talk.free:
            return talk.take(turn)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--set", default="dev", choices=sorted(words.LANGUAGES))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    generate.write(build(arguments.set, arguments.seed), arguments.out)


if __name__ == "__main__":
    main()
