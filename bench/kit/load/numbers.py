"""Percentiles and sums of what came of a run."""

import collections
import dataclasses
import math

POINTS = (("p50", 50), ("p90", 90), ("p95", 95), ("p99", 99))


def percentile(values, percent):
    """Nearest rank: a value that was measured."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def percentiles(values):
    """{"p50": ..., "max": ...}; empty for no values."""
    if not values:
        return {}
    return {**{name: percentile(values, at) for name, at in POINTS}, "max": max(values)}


def first_ms(outcomes):
    return [one.first_ms for one in outcomes if one.first_ms is not None]


def gaps_ms(outcomes):
    return [gap for one in outcomes for gap in one.gaps_ms]


def timing_ms(outcomes, name):
    """Of the server's own clock."""
    return [one.tenuto["timing_ms"][name] for one in outcomes if one.tenuto]


@dataclasses.dataclass
class Phase:
    """One part of a scenario, summed up."""

    scenario: str
    phase: str
    seconds: float  # 0: not a stretch of time of its own
    ends: dict  # how answers ended: how many
    errors: dict  # status or code: how many
    right: int
    good_tokens: int  # of right and complete answers
    kv: dict  # tokens of prompts: reused, restored, recomputed
    waits: dict  # what: percentiles of milliseconds
    counts: dict  # what: how many values these are of

    @property
    def goodput(self):
        return self.good_tokens / self.seconds if self.seconds else 0.0


def waits_of(outcomes):
    """{what: milliseconds} of one phase."""
    waits = {}
    for kind in sorted({one.turn.kind for one in outcomes}):
        waits[f"first token, {kind}"] = first_ms(o for o in outcomes if o.turn.kind == kind)
    waits["between tokens"] = gaps_ms(outcomes)
    waits["queue"] = timing_ms(outcomes, "queue")
    return {what: values for what, values in waits.items() if values}


def phase_of(scenario, phase, seconds, outcomes, verdict):
    right = [one for one in outcomes if verdict.is_right(one)]
    kv = collections.Counter()
    for one in outcomes:
        if one.tenuto:
            kv.update({k: one.tenuto["kv"][k] for k in ("reused", "restored", "recomputed")})
    waits = waits_of(outcomes)
    return Phase(
        scenario,
        phase,
        seconds,
        dict(collections.Counter(one.end for one in outcomes)),
        dict(collections.Counter(one.error for one in outcomes if one.error)),
        len(right),
        sum(one.usage["completion_tokens"] for one in right),
        dict(kv),
        {what: percentiles(values) for what, values in waits.items()},
        {what: len(values) for what, values in waits.items()},
    )


def phases_of(run, verdict):
    """In the order in which they came."""
    names = list(dict.fromkeys(one.turn.phase for one in run.outcomes))
    phases = []
    for name in names:
        outcomes = run.of(name)
        seconds = run.seconds.get(name, 0.0)
        phases.append(phase_of(run.name, name, seconds, outcomes, verdict))
    return phases


def tokens_between(outcomes, begin, end):
    return sum(begin < now <= end for one in outcomes for now in one.parts)
