#!/usr/bin/env python3
"""Chooses the settings of the recall gate, on the development set.

    tune_gate.py --program build/release/bench/recall_probe [--features FILE]
    tune_gate.py --features FILE --check NAME=NUMBER...

The probe ranks every question once and says what it knows of each hit (--why); the gate is then
replayed here for many settings. Chosen: the most evidence injected at five, kinds and strata
alike, sizes alike, with false injection below the limits in every size, and below half as much
again in every size and language. Each setting is moved alone, over and over, until none helps.
--features keeps the hits in a file for the next run; --check only prints what settings give.
"""

import argparse
import pathlib
import pickle
import sys

import generate
import metrics
import rankers

SIZES = (30, 300, 2000, 20000)
# A third of the goals and less: other languages and other people's talk differ.
LIMITS = {"own_words": 0.007, "chitchat": 0.003}
CELL = 1.5
LEFT_OUT = ("single 0",)
START = {
    "log_expected_max": -2.0,
    "log_apart": 0.5,
    "log_dated": 5.5,
    "log_day": 4.0,
    "log_task": -1.0,
    "log_proper": 1.5,
    "log_identifier": 4.5,
    "log_personal": 1.0,
    "log_one_word": 2.5,
    "log_asked_before": 3.0,
    "log_inherited": 2.0,
    "share_of_best": 0.35,
}
STEPS = {name: (-1.0, -0.5, -0.25, 0.25, 0.5, 1.0) for name in START}
STEPS["log_apart"] = (-0.2, -0.1, 0.1, 0.2)
STEPS["share_of_best"] = (-0.15, -0.05, 0.05, 0.15)
# What the set has too few negatives against is bounded by judgement.
BOUNDS = {"log_apart": (0.0, 0.6), "share_of_best": (0.3, 0.8), "log_proper": (0.0, 1.5)}
BOUNDS.update(log_dated=(0.0, 6.0), log_identifier=(0.0, 5.0), log_personal=(0.0, 1.0))
BOUNDS.update(log_task=(-4.0, -1.0), log_inherited=(-3.0, 2.5), log_asked_before=(0.0, 3.0))
BOUNDS.update(log_expected_max=(-5.0, 1.0), log_day=(0.0, 4.25), log_one_word=(0.0, 2.5))


def features(program, sizes):
    """What the probe says of every question."""
    ranker = rankers.Command(f"recall={program} --why")
    found = []
    for size in sizes:
        for made in generate.archives("dev", 1, size):
            ranker.reset()
            ranker.add(made["turns"])
            for one in made["questions"]:
                reply = ranker.ask(one, 5, made["window_from"])
                kept = {key: one[key] for key in ("kind", "stratum", "language", "gold", "stale")}
                kept.update(size=size, hits=reply["ranked"], query=reply["query"])
                found.append(kept)
    ranker.close()
    return found


def limit_of(hit, query, sets):
    """As Gate::Why in src/recall/gate.cc."""
    limit = sets["log_expected_max"] - sets["log_apart"] * hit["apart"]
    if query["task"]:
        limit += sets["log_task"]
    with_day = hit["units"] + (0 if hit["dated"] else 1)
    day = hit["dated"] or hit["said_then"]
    if day and with_day > 1 and 2 * with_day >= query["own_units"]:
        limit += sets["log_dated"]
    elif hit["dated"] and query["question"]:
        limit += sets["log_day"]
    if hit["proper"] and hit["units"] > 1:
        limit += sets["log_proper"]
    if hit["identifier"]:
        limit += sets["log_identifier"]
    if query["asked_before"]:
        limit += sets["log_asked_before"]
    if query["personal"]:
        limit += sets["log_personal"]
    fits = query["personal"] or query["asks_assistant"] or hit["number"]
    if query["question"] and fits and hit["units"] == 1:
        if query["own_known"] <= 1 and query["own_units"] <= 2:
            limit += sets["log_one_word"]
    if hit["inherited"] > 0:
        limit += sets["log_inherited"]
    return limit


def bring(hits, hit, turns):
    """The hit with what corrects it, and what corrects that."""
    turns.add(hit["turn"])
    for turn in hit["with"]:
        if turn not in turns:
            turns.add(turn)
            for other in hits:
                if other["turn"] == turn:
                    bring(hits, other, turns)


def why(record, hit, sets):
    """As Gate::Why: None where the hit could never be quoted."""
    query = record["query"]
    if not hit["ranked"]:
        return None
    if hit["units"] == 0:
        if query["question"] and hit["said_then"] and query["own_units"] <= 2:
            return "matches"
        if not (query["question"] and query["anaphoric"]):
            return None
    window = query["window_info" if hit["inherited"] > 0 else "window_own_info"]
    if hit["log_expected"] > limit_of(hit, query, sets) or hit["info"] < window:
        return "doubted"
    if hit["score"] < sets["share_of_best"] * record["hits"][0]["score"]:
        return None
    return "matches"


def injected(record, sets):
    """Turns that the gate lets through, with what they bring along."""
    turns, admitted = set(), 0
    if record["query"]["chat"]:
        return turns
    reasons = [why(record, hit, sets) for hit in record["hits"]]
    last = max((at for at, reason in enumerate(reasons) if reason == "matches"), default=-1)
    for hit, reason in zip(record["hits"][: last + 1], reasons):
        if reason is None or hit["turn"] in turns:
            continue
        if admitted < 5:
            admitted += 1
            bring(record["hits"], hit, turns)
    return turns


def mean(values):
    return sum(values) / len(values) if values else 0.0


def figures(records, sets):
    """(evidence injected by kind and size, false injection by kind, size and language)."""
    evidence, fired = {}, {}
    for record in records:
        turns = injected(record, sets)
        kind = record["kind"]
        if kind in metrics.NEGATIVES:
            fired.setdefault((kind, record["size"], record["language"]), []).append(bool(turns))
            continue
        if kind == "single":
            kind += " " + record["stratum"]
        evidence.setdefault((kind, record["size"]), []).append(bool(turns & set(record["gold"])))
    return evidence, fired


def worth(records, sets):
    """Evidence, less what is above the limits."""
    evidence, fired = figures(records, sets)
    value = mean([mean(found) for (kind, _), found in evidence.items() if kind not in LEFT_OUT])
    by_size = {}
    over = 0.0
    for (kind, size, _), found in fired.items():
        if kind in LIMITS:
            by_size.setdefault((kind, size), []).extend(found)
            over += max(0.0, mean(found) - CELL * LIMITS[kind])
    for (kind, _), found in by_size.items():
        over += max(0.0, mean(found) - LIMITS[kind])
    return value - 20 * over


def climb(records, sets):
    best = worth(records, sets)
    moved = True
    while moved:
        moved = False
        for name, steps in STEPS.items():
            low, high = BOUNDS[name]
            for step in steps:
                tried = {**sets, name: round(sets[name] + step, 4)}
                if not low <= tried[name] <= high:
                    continue
                value = worth(records, tried)
                if value > best + 1e-4:
                    best, sets, moved = value, tried, True
        print(f"{best:.4f} " + " ".join(f"{key}={sets[key]:g}" for key in sets), flush=True)
    return sets


def show(records, sets):
    evidence, fired = figures(records, sets)
    sizes = sorted({record["size"] for record in records})
    for kind in sorted({kind for kind, _ in evidence}):
        row = [mean(evidence.get((kind, size), [])) for size in sizes]
        print(f"{kind:16}" + "".join(f"{100 * value:7.1f}" for value in [*row, mean(row)]))
    for kind, language in sorted({(kind, language) for kind, _, language in fired}):
        row = [mean(fired.get((kind, size, language), [])) for size in sizes]
        print(f"{kind:13}{language:3}" + "".join(f"{100 * value:7.1f}" for value in row))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default="build/release/bench/recall_probe")
    parser.add_argument("--features", type=pathlib.Path)
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--check", nargs="*")
    arguments = parser.parse_args()
    if arguments.features and arguments.features.exists():
        records = pickle.loads(arguments.features.read_bytes())
    else:
        records = features(arguments.program, [int(size) for size in arguments.sizes.split(",")])
        if arguments.features:
            arguments.features.write_bytes(pickle.dumps(records))
    sets = dict(START)
    if arguments.check is not None:
        for text in arguments.check:
            name, value = text.split("=")
            sets[name] = float(value)
    else:
        sets = climb(records, sets)
    show(records, sets)
    return 0


if __name__ == "__main__":
    sys.exit(main())
