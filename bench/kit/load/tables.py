"""The tables beside the figures: how answers ended, how long users waited, what was checked."""

from kit.report import number

SHOWN_FAULTS = 20


def listed(counts):
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items())) or "0"


def answers(phases):
    lines = [
        "| scenario, part | asked | right | right tokens/s | others | errors "
        "| prompt tokens reused, restored, recomputed |",
        "|---|---|---|---|---|---|---|",
    ]
    for phase in phases:
        others = {end: count for end, count in phase.ends.items() if end != "done"}
        kv = " + ".join(str(phase.kv.get(k, 0)) for k in ("reused", "restored", "recomputed"))
        rate = f"{phase.goodput:.1f}" if phase.seconds else ""
        cells = [f"{phase.scenario}, {phase.phase}", str(sum(phase.ends.values()))]
        cells += [str(phase.right), rate, listed(others), listed(phase.errors), kv]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def waits(phases):
    lines = [
        "| scenario, part | milliseconds | of | p50 | p90 | p95 | p99 | max |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for phase in phases:
        for what, points in phase.waits.items():
            cells = [f"{phase.scenario}, {phase.phase}", what, str(phase.counts[what])]
            cells += [number(float(value)) for value in points.values()]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def checks(results):
    """What was compared, and every fault, or the first ones of many."""
    lines = []
    for result in results:
        verdict = result.verdict
        told = (
            f"{result.run.name}: {len(verdict.right)} of {verdict.asked} answers right, "
            f"{verdict.compared} compared with what they must be, {len(verdict.faults)} faults"
        )
        extra = [verdict.alike] if verdict.alike else []
        if verdict.words_said:
            extra.append(f"{verdict.words_said} answers have their own code word")
        lines.append("- " + "; ".join([told, *extra]) + ".")
        lines += [f"  - WRONG: {fault}" for fault in verdict.faults[:SHOWN_FAULTS]]
        if len(verdict.faults) > SHOWN_FAULTS:
            lines.append(f"  - and {len(verdict.faults) - SHOWN_FAULTS} more, in load.json")
    return "\n".join(lines)
