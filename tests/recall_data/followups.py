#!/usr/bin/env python3
"""Follow-up questions as a server sees them: what recall put into the prompt of the first question
is still in the window one to three turns later (ARCHITECTURE.md), so the evidence is in the prompt
if it was recalled then or is recalled now.

    followups.py --set dev --ranker recall=PROGRAM [--sizes 30,300,2000,20000]

The questions are those of generate.py; this only notes beside each which question came first. That
one is asked with the words of another turn before it, as generate.py gives them to others. Of the
turns between, the last is asked too, right behind the first question. A trim between, which takes
recall spans out of the window, is not modelled.
"""

import argparse
import sys

import generate
import metrics
import questions
import rankers

SIZES = "30,300,2000,20000"


def with_first(set_name, seed, size):
    """Conversations with `first` in each follow-up. Draws nothing that generate.py does not."""
    kept = {"facts": questions.plain_fact, "followup": questions.KINDS["followup"]}
    last = []

    def plain_fact(*arguments):
        last[:] = kept["facts"](*arguments)
        return tuple(last)

    def followup(talk, index):
        made = kept["followup"](talk, index)
        made["first"] = talk.language.render(last[2])
        return made

    questions.plain_fact, questions.KINDS["followup"] = plain_fact, followup
    try:
        yield from generate.archives(set_name, seed, size)
    finally:
        questions.plain_fact, questions.KINDS["followup"] = kept["facts"], kept["followup"]


def records_of(ranker, made):
    ranker.reset()
    ranker.add(made["turns"])
    found = []
    for one in made["questions"]:
        if one["kind"] != "followup":
            continue
        before = made["turns"][-1]
        last = {"last_user": before["user"], "last_answer": before["assistant"]}
        first = ranker.ask({**one, "text": one["first"], **last}, 5, made["window_from"])
        between = []
        if one["stratum"] != "+1":
            asked = {**one, "text": one["last_user"], "last_user": one["first"]}
            between = ranker.ask(asked, 5, made["window_from"])["injected"]
        now = ranker.ask(one, 5, made["window_from"])
        gold = set(one["gold"])
        keys = {key: one[key] for key in ("stratum", "language", "conversation")}
        found.append(
            {
                **keys,
                "size": made["size"],
                "first": float(bool(gold & set(first["injected"]))),
                "between": float(bool(gold & set(between))),
                "now": float(bool(gold & set(now["injected"]))),
                "prompt": float(bool(gold & set(first["injected"] + between + now["injected"]))),
            }
        )
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--set", default="dev", choices=("dev", "test"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sizes", default=SIZES)
    parser.add_argument("--ranker", required=True)
    arguments = parser.parse_args()
    ranker = rankers.make(arguments.ranker)
    records = []
    for size in arguments.sizes.split(","):
        for made in with_first(arguments.set, arguments.seed, int(size)):
            records += records_of(ranker, made)
    ranker.close()
    heads = ["size or step", "n", "recalled at first", "between", "now", "in the prompt [95 %]"]
    rows = []
    for (size,), some in metrics.groups(records, "size"):
        shares = [metrics.percent(metrics.mean(some, key)) for key in ("first", "between", "now")]
        rows.append([size, len(some), *shares, metrics.with_interval(some, "prompt")])
    for (step,), some in metrics.groups(records, "stratum"):
        shares = [metrics.percent(metrics.mean(some, key)) for key in ("first", "between", "now")]
        rows.append([step, len(some), *shares, metrics.with_interval(some, "prompt")])
    print(metrics.markdown(heads, rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
