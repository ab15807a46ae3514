"""A figure, the table of all and the file they are kept in."""

import json
import re
from dataclasses import asdict, dataclass, field


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

    @property
    def met(self):
        """None without a goal."""
        found = re.fullmatch(r"(<=|>=) ([\d.]+).*", self.goal)
        if not found:
            return None
        goal = float(found[2])
        return self.value <= goal if found[1] == "<=" else self.value >= goal

    @property
    def goal_number(self):
        found = re.search(r"[\d.]+", self.goal)
        return float(found[0]) if found else None


def number(value):
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.2f}"


def row(figure):
    met = {None: "", True: "yes", False: "**no**"}[figure.met]
    value = number(figure.value) + (f" {figure.unit}" if figure.unit else "")
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
    return "\n".join(lines)


def write(path, figures, machine, settings):
    rounded = [{**asdict(figure), "met": figure.met} for figure in figures]
    text = json.dumps({"machine": machine, "settings": settings, "figures": rounded}, indent=1)
    path.write_text(text + "\n")
