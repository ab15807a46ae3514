"""Chooses the two bm25 weights and the threshold of the FTS5 baseline, on the development set.

Weights: the most evidence among the first five, each kind and stratum counted alike (stratum 0 and
follow-ups left out: no word of theirs is in the evidence). Threshold: the highest (evidence
injected at five) - (false injection, off-topic and chit-chat counted alike), each size counted
alike. bm25's own score is not scale-free, so one threshold for all sizes is a compromise.
"""

import json
import sys

import generate
import metrics
import rankers

# One conversation of each language and more where they are small.
TUNED_ON = {30: 48, 300: 12, 2000: 6, 20000: 3}
USER = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
SHARE = (0.0, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0)
LEFT_OUT = ("followup", "single 0")


def kind_of(question):
    return "single " + question["stratum"] if question["kind"] == "single" else question["kind"]


def evidence(ranker, conversations):
    """Mean over kinds of evidence among five."""
    hits = {}
    for conversation in conversations:
        load(ranker, conversation)
        for question in conversation["questions"]:
            kind = kind_of(question)
            if question["kind"] in metrics.NEGATIVES or kind in LEFT_OUT:
                continue
            rows = ranker.rank(question["text"], 5, conversation["window_from"])
            found = bool(set(question["gold"]) & {turn for turn, _ in rows})
            hits.setdefault((kind, conversation["size"]), []).append(found)
    return sum(sum(found) / len(found) for found in hits.values()) / len(hits)


def load(ranker, conversation):
    """One table for each conversation, kept for the whole of the tuning."""
    bases = ranker.__dict__.setdefault("bases", {})
    if conversation["id"] not in bases:
        ranker.base = None
        ranker.reset()
        ranker.add(conversation["turns"])
        bases[conversation["id"]] = ranker.base
    ranker.base = bases[conversation["id"]]
    ranker.weights(ranker.settings["user"], ranker.settings["assistant"])


def scored(ranker, conversations):
    """By size: (score at which gold comes in at five, or None) and negatives' top scores."""
    found = {}
    for conversation in conversations:
        load(ranker, conversation)
        for question in conversation["questions"]:
            kind = kind_of(question)
            if kind in LEFT_OUT or kind == "unanswerable":
                continue
            rows = ranker.rank(question["text"], 5, conversation["window_from"])
            if question["kind"] in metrics.NEGATIVES:
                score = rows[0][1] if rows else None
            else:
                score = max((s for turn, s in rows if turn in question["gold"]), default=None)
                kind = "positive"
            found.setdefault(conversation["size"], {}).setdefault(kind, []).append(score)
    return found


def threshold(found):
    """(threshold, its objective)."""

    def rate(scores, limit):
        return sum(score is not None and score >= limit for score in scores) / len(scores)

    def objective(limit):
        values = []
        for kinds in found.values():
            false = (rate(kinds["own_words"], limit) + rate(kinds["chitchat"], limit)) / 2
            values.append(rate(kinds["positive"], limit) - false)
        return sum(values) / len(values)

    scores = sorted(s for kinds in found.values() for part in kinds.values() for s in part if s)
    candidates = scores[:: max(1, len(scores) // 300)]
    best = max(candidates, key=objective)
    return best, objective(best)


def tune(seed):
    conversations = [
        conversation
        for size, count in TUNED_ON.items()
        for conversation in generate.archives("dev", seed, size, count)
    ]
    stored = {}
    for pairs in (False, True):
        ranker = rankers.Fts5(pairs)
        best = (-1.0, None)
        for user in USER:
            for share in SHARE:
                ranker.settings.update(user=user, assistant=round(user * share, 4))
                value = evidence(ranker, conversations)
                print(f"{ranker.name} user {user} assistant {user * share:.4g}: {100 * value:.2f}")
                best = max(best, (value, (user, round(user * share, 4))))
                sys.stdout.flush()
        user, assistant = best[1]
        ranker.settings.update(user=user, assistant=assistant)
        limit, value = threshold(scored(ranker, conversations))
        stored[ranker.name] = {
            "user": user,
            "assistant": assistant,
            "threshold": round(limit, 4),
            "evidence_among_five": round(best[0], 4),
            "gate_objective": round(value, 4),
        }
        print(ranker.name, stored[ranker.name])
    rankers.TUNED.write_text(json.dumps(stored, indent=1) + "\n")
    return 0
