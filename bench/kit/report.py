"""A figure, the table of all and the file they are kept in."""

import json
import random
import re
import statistics
from dataclasses import asdict, dataclass, field

RESAMPLES = 500
LOAD_MAX = 0.5  # above it the machine does something else as well


def spread(function, *samples):
    """(low, high): what `function` of these lists of rounds gives in nine of ten cases when rounds
    are drawn again from those there are. None where there is one round.
    """
    if min(map(len, samples)) < 2:
        return None
    draw = random.Random(1)
    values = sorted(
        function(*(draw.choices(sample, k=len(sample)) for sample in samples))
        for _ in range(RESAMPLES)
    )
    return values[RESAMPLES // 20], values[-RESAMPLES // 20 - 1]


def over(values, baseline):
    return statistics.median(values) / statistics.median(baseline)


@dataclass
class Figure:
    name: str
    at: str  # the size it was measured at, or ""
    value: float
    goal: str  # "<= 2.0", ">= 90" or "" where none is set
    measured: str  # what `value` was made of
    baseline: str  # and what it was compared with, in the same run
    detail: dict = field(default_factory=dict)
    unit: str = ""  # "" is a ratio
    spread: tuple = None  # (low, high) of `value` by spread()

    @property
    def met(self):
        """"yes" or "no" when the whole spread says so, else "unclear"; "" without a goal."""
        found = re.fullmatch(r"(<=|>=) ([\d.]+).*", self.goal)
        if not found:
            return ""
        goal = float(found[2])
        values = [self.value, *(self.spread or ())]
        if not self.unit and min(values) <= 0:
            return "unclear"  # a ratio of times that noise has turned round
        good = [value <= goal if found[1] == "<=" else value >= goal for value in values]
        return "yes" if all(good) else "unclear" if any(good) else "no"


def number(value):
    if isinstance(value, int):
        return str(value)
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.2f}"


def row(figure):
    met = f"**{figure.met}**" if figure.met == "no" else figure.met
    value = number(figure.value) + (f" {figure.unit}" if figure.unit else "")
    if figure.spread:
        value += " (" + " to ".join(map(number, figure.spread)) + ")"
    cells = [figure.name, figure.at, value, figure.goal, met, figure.measured, figure.baseline]
    return "| " + " | ".join(cells) + " |"


def table(figures, machine):
    lines = [
        "| figure | at | value | goal | met | measured | baseline, same run |",
        "|---|---|---|---|---|---|---|",
        *map(row, figures),
        "",
        f"{machine['processor']}, {machine['cores']} cores, load {machine['load_at_start']} at the "
        f"start; {machine['time'][:10]}; {', '.join(filter(None, machine['version']))}.",
    ]
    if machine["load_at_start"] > LOAD_MAX:
        lines.append("\n**Measured beside other work: noise, not figures.**")
    return "\n".join(lines)


def write(path, figures, machine, settings):
    rounded = [{**asdict(figure), "met": figure.met} for figure in figures]
    text = json.dumps({"machine": machine, "settings": settings, "figures": rounded}, indent=1)
    path.write_text(text + "\n")
