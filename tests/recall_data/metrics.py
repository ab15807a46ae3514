"""From answers to figures: what one answer is worth, means with bootstrap intervals by
conversation, and the tables.
"""

import functools
import random

RESAMPLES = 500
NEED_NOTHING = 0.6
NEGATIVES = ("own_words", "chitchat", "unanswerable")
FIGURES = ("top1", "top5", "all5", "in1", "in5", "all_in5")
RECORD_KEYS = ("kind", "stratum", "size", "language", "conversation")


def judge(question, five, one, lengths):
    """One question's figures from the answers at limits 5 and 1. lengths: characters of turns."""
    gold, stale = set(question["gold"]), set(question["stale"])
    ranked = [hit["turn"] for hit in five["ranked"]]
    injected, single = set(five["injected"]), set(one["injected"])
    wasted = [turn for turn in injected if turn not in gold]
    return {
        "top1": float(bool(gold & set(ranked[:1]))),
        "top5": float(bool(gold & set(ranked[:5]))),
        "all5": float(bool(gold) and gold <= set(ranked[:5])),
        "in1": float(bool(gold & single)),
        "in5": float(bool(gold & injected)),
        "all_in5": float(bool(gold) and gold <= injected),
        "stale_alone": float(bool(stale & injected) and not gold & injected),
        "stale_alone1": float(bool(stale & single) and not gold & single),
        "fired": float(bool(injected)),
        "injected": float(len(injected)),
        "wasted": float(len(wasted)),
        "wasted_characters": float(sum(lengths[turn] for turn in wasted)),
        "us": float(five["us"]),
    }


def mean(records, figure):
    return sum(record[figure] for record in records) / len(records) if records else None


@functools.lru_cache(maxsize=None)
def draws(conversations):
    rng = random.Random(17)
    return [rng.choices(range(conversations), k=conversations) for _ in range(RESAMPLES)]


def interval(records, value):
    """95 % of the means when whole conversations are drawn again. None with fewer than three."""
    sums = {}
    for record in records:
        pair = sums.setdefault(record["conversation"], [0.0, 0])
        pair[0] += value(record)
        pair[1] += 1
    pairs = list(sums.values())
    if len(pairs) < 3:
        return None
    means = []
    for drawn in draws(len(pairs)):
        count = sum(pairs[at][1] for at in drawn)
        means.append(sum(pairs[at][0] for at in drawn) / count)
    means.sort()
    return means[int(0.025 * RESAMPLES)], means[int(0.975 * RESAMPLES) - 1]


def percent(value):
    return "-" if value is None else f"{100 * value:.1f}"


def with_interval(records, figure):
    text = percent(mean(records, figure))
    found = interval(records, lambda record: record[figure])
    return text + (f" [{100 * found[0]:.1f}, {100 * found[1]:.1f}]" if found else "")


def groups(records, *keys):
    """Records by the values of some keys, in the order of these values."""
    found = {}
    for record in records:
        found.setdefault(tuple(record[key] for key in keys), []).append(record)
    return sorted(found.items(), key=lambda item: [str(part).zfill(8) for part in item[0]])


def conversations(records):
    return len({record["conversation"] for record in records})


def positives_table(records, *keys):
    heads = [
        *keys,
        "ranker",
        "n",
        "conv.",
        "top 1",
        "top 5",
        "all in 5",
        "injected 1",
        "injected 5 [95 %]",
        "all injected",
    ]
    rows = []
    answerable = [record for record in records if record["kind"] not in NEGATIVES]
    for values, part in groups(answerable, *keys):
        for (ranker,), some in groups(part, "ranker"):
            row = [*values, ranker, len(some), conversations(some)]
            row += [percent(mean(some, figure)) for figure in FIGURES[:4]]
            rows.append([*row, with_interval(some, "in5"), percent(mean(some, "all_in5"))])
    return markdown(heads, rows)


def negatives_table(records):
    heads = ["kind", "size", "ranker", "n", "false injection % [95 %]", "turns injected"]
    rows = []
    for values, part in groups(records, "kind", "size", "ranker"):
        if values[0] in NEGATIVES:
            rate = with_interval(part, "fired")
            rows.append([*values, len(part), rate, f"{mean(part, 'injected'):.2f}"])
    return markdown(heads, rows)


def stale_table(records):
    heads = ["size", "sort", "ranker", "n", "stale alone at 1", "stale alone at 5 [95 %]"]
    corrected = [record for record in records if record["kind"] == "corrected"]
    rows = []
    for values, part in groups(corrected, "size", "stratum", "ranker"):
        at_one = percent(mean(part, "stale_alone1"))
        rows.append([*values, len(part), at_one, with_interval(part, "stale_alone")])
    return markdown(heads, rows)


def per_hundred(records, figure):
    """The figure over 100 turns of which 60 need nothing: half off-topic, half chit-chat."""
    needless = [
        mean([record for record in records if record["kind"] == kind], figure) or 0.0
        for kind in ("own_words", "chitchat")
    ]
    useful = mean([record for record in records if record["kind"] not in NEGATIVES], figure) or 0.0
    return 100 * (NEED_NOTHING * sum(needless) / 2 + (1 - NEED_NOTHING) * useful)


def cost_table(records):
    heads = [
        "size",
        "ranker",
        "injected turns per 100",
        "wasted turns per 100",
        "wasted tokens per 100 (characters / 4)",
        "mean us",
    ]
    rows = []
    for values, part in groups(records, "size", "ranker"):
        row = [f"{per_hundred(part, figure):.1f}" for figure in ("injected", "wasted")]
        row.append(f"{per_hundred(part, 'wasted_characters') / 4:.0f}")
        rows.append([*values, *row, f"{mean(part, 'us'):.0f}"])
    return markdown(heads, rows)


def difference_table(records, first, other):
    """Points of the other ranker over the first, paired by question."""
    base = {record["id"]: record for record in records if record["ranker"] == first}
    joined = []
    for record in records:
        if record["ranker"] == other and record["kind"] not in NEGATIVES:
            pair = {key: record[key] for key in RECORD_KEYS}
            for figure in ("top1", "top5", "in1", "in5"):
                pair[figure] = record[figure] - base[record["id"]][figure]
            joined.append(pair)
    heads = [
        "language",
        "kind",
        "stratum",
        "n",
        "top 1",
        "top 5 [95 %]",
        "injected 1",
        "injected 5 [95 %]",
    ]
    everywhere = [{**pair, "language": "all"} for pair in joined]
    rows = []
    for values, part in groups(everywhere + joined, "language", "kind", "stratum"):
        top1, in1 = (percent(mean(part, figure)) for figure in ("top1", "in1"))
        row = [*values, len(part), top1, with_interval(part, "top5"), in1]
        rows.append([*row, with_interval(part, "in5")])
    return markdown(heads, rows)


def markdown(heads, rows):
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def report(records):
    rankers = list(dict.fromkeys(record["ranker"] for record in records))
    single = [record for record in records if record["kind"] == "single"]
    parts = [
        ("Questions with an answer, by kind", positives_table(records, "kind", "stratum")),
        ("The same by size", positives_table(records, "size")),
        ("The same by language", positives_table(records, "language")),
        ("One fact (kind single) by size and stratum", positives_table(single, "size", "stratum")),
        ("False injection", negatives_table(records)),
        ("Stale without the newest", stale_table(records)),
        ("Cost, 60 of 100 turns needing nothing", cost_table(records)),
    ]
    for other in rankers[1:]:
        title = f"Points of {other} over {rankers[0]}"
        parts.append((title, difference_table(records, rankers[0], other)))
    return "\n\n".join(f"### {title}\n\n{text}" for title, text in parts if text.count("\n") > 1)


def cells(records):
    """Every combination as a JSON object."""
    keys = ("ranker", "kind", "stratum", "size", "language")
    found = []
    for values, part in groups(records, *keys):
        figures = {
            key: round(mean(part, key), 6)
            for key in part[0]
            if key not in (*keys, "id", "conversation")
        }
        n = {"n": len(part), "conversations": conversations(part)}
        found.append({**dict(zip(keys, values)), **n, **figures})
    return found
