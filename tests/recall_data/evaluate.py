#!/usr/bin/env python3
"""Runs rankers over generated conversations; prints Markdown tables and writes JSON.

    evaluate.py --set dev --ranker fts5 --out FOLDER
    evaluate.py --set dev --ranker fts5 --ranker 'lab=PROGRAM --flag' --sizes 30,300
    evaluate.py --story weather --ranker fts5         --story asked_again: the special sessions
    evaluate.py --tune                                weights and thresholds of FTS5, on dev only

Every run on the test set is to be logged in docs/recall_runs.md.
"""

import argparse
import json
import pathlib
import sys
import time

import asked_again
import generate
import metrics
import rankers
import tune
import weather

STORIES = ("weather", "asked_again")


def turns_of(conversation, recalled):
    if recalled:
        return conversation["turns"]
    return [
        {key: value for key, value in turn.items() if key != "recalled"}
        for turn in conversation["turns"]
    ]


def run_conversation(ranker, conversation, recalled=True):
    """The records of one ranker over one conversation."""
    ranker.reset()
    ranker.add(turns_of(conversation, recalled))
    lengths = {t["turn"]: len(t["user"]) + len(t["assistant"]) for t in conversation["turns"]}
    window_from, window = conversation["window_from"], 0
    if conversation.get("keep"):
        window = len(conversation["turns"]) + 1 - window_from
    records = []
    for question in conversation["questions"]:
        five = ranker.ask(question, 5, window_from)
        one = ranker.ask(question, 1, window_from)
        record = {key: question[key] for key in ("id", "kind", "stratum", "language")}
        record.update(ranker=ranker.name, size=conversation["size"])
        record.update(conversation=conversation["id"])
        record.update(metrics.judge(question, five, one, lengths))
        records.append(record)
        if window:
            turn = len(lengths) + 1
            kept = {
                "turn": turn,
                "time": question["time"],
                "user": question["text"],
                "assistant": question["answer"],
            }
            if recalled:
                kept["recalled"] = list(five["injected"])
            ranker.add([kept])
            lengths[turn] = len(kept["user"]) + len(kept["assistant"])
            window_from = turn + 1 - window
    return records


def conversations(arguments):
    if arguments.story == "weather":
        yield weather.build(arguments.seed)
    elif arguments.story == "asked_again":
        yield asked_again.build(arguments.set, arguments.seed)
    else:
        for size in arguments.sizes:
            yield from generate.archives(arguments.set, arguments.seed, size, arguments.archives)


def evaluate(arguments):
    """Runs all rankers over all conversations, each made once."""
    started = time.monotonic()
    chosen = [rankers.make(spec) for spec in arguments.ranker]
    records = []
    for conversation in conversations(arguments):
        for ranker in chosen:
            records += run_conversation(ranker, conversation, not arguments.no_recalled)
        if not arguments.quiet:
            print(f"{conversation['id']} {time.monotonic() - started:.0f} s", file=sys.stderr)
    for ranker in chosen:
        ranker.close()
    return records


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--set", default="dev", choices=("dev", "test"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sizes", default=",".join(map(str, generate.SIZES)))
    parser.add_argument("--archives", type=int, help="conversations of each size, for a quick look")
    parser.add_argument(
        "--ranker", action="append", help="fts5, fts5-bigram, chance, COMMAND or NAME=COMMAND"
    )
    parser.add_argument("--story", choices=STORIES)
    parser.add_argument("--no-recalled", action="store_true")
    parser.add_argument("--tune", action="store_true")
    parser.add_argument("--out", type=pathlib.Path, help="folder for results.json, results.md")
    parser.add_argument("--quiet", action="store_true")
    arguments = parser.parse_args()
    arguments.sizes = [int(size) for size in arguments.sizes.split(",")]
    if arguments.tune:
        return tune.tune(arguments.seed)
    if not arguments.ranker:
        parser.error("name a --ranker")
    records = evaluate(arguments)
    text = metrics.report(records)
    print(text)
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
        (arguments.out / "results.md").write_text(text + "\n")
        settings = {key: str(value) for key, value in vars(arguments).items()}
        result = {"settings": settings, "cells": metrics.cells(records), "records": records}
        (arguments.out / "results.json").write_text(json.dumps(result) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
