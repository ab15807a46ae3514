"""The plot of bench/load: how long users waited for a first token, and figures against goals."""

from kit import plot

SHOWN = (("p50", "#9aa5b1"), ("p95", "#2f7ed8"), ("max", "#d9534f"))


def rows_of(phases):
    """For each part and kind of turn the first token's median, p95 and slowest."""
    groups = []
    for phase in phases:
        for what, points in phase.waits.items():
            if not what.startswith("first token"):
                continue
            kind = what.partition(", ")[2]
            name = f"{phase.scenario}, {phase.phase}"
            name = name if kind in name else f"{name}, {kind}"
            groups.append([(f"{name} {at}", points[at], colour) for at, colour in SHOWN])
    return groups


def draw(figures, phases, machine):
    first, y = plot.log_bars("First token: median, p95, slowest", rows_of(phases), 30)
    second, y = plot.draw_goals(figures, y)
    return plot.page([*first, *second], y, machine)
