"""The plot: time to the first token after a restart, and every figure against its goal. Written as
SVG by hand, so that it needs nothing but Python.
"""

import math
import re

WIDTH = 760
LEFT = 210
RIGHT = 640
ROW = 20
COLOURS = {"warm": "#9aa5b1", "restored": "#2f7ed8", "cold": "#7fb2e5", "recomputed": "#d9534f"}
GOOD, BAD = "#3c9d5d", "#d9534f"


def escape(text):
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def text(x, y, what, **style):
    attributes = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in style.items())
    return f'<text x="{x:.0f}" y="{y:.0f}"{attributes}>{escape(what)}</text>'


def bar(x, y, width, colour):
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(1.0, width):.1f}" height="{ROW - 5}" '
        f'fill="{colour}"/>'
    )


def milliseconds(value):
    if value < 10:
        return f"{value:.2g} ms"
    return f"{value / 1e3:.1f} s" if value >= 1e3 else f"{value:.0f} ms"


def first_token_times(figures):
    """[(history, {kind: ms})] of what was measured."""
    times = {}
    for figure in figures:
        detail, at = figure["detail"], times.setdefault(figure["at"], {})
        if figure["name"] == "restored_first_token":
            at["warm"], at["restored"] = detail["warm_ms"], detail["restored_ms"]
        elif figure["name"] == "restored_first_token_cold":
            at["cold"] = detail["cold_ms"]
        elif figure["name"] == "recompute_over_restored":
            at["recomputed"] = detail["recomputed_ms"]
    return [(at, kinds) for at, kinds in times.items() if kinds]


class LogAxis:
    """Milliseconds to places, powers of ten at both ends."""

    def __init__(self, values):
        self.low = 10.0 ** math.floor(math.log10(min(values)))
        self.high = max(10.0 ** math.ceil(math.log10(max(values))), self.low * 10)

    def place(self, value):
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return LEFT + (RIGHT - LEFT) * share

    def grid(self, top, bottom):
        """(lines, to be drawn first; labels)"""
        lines, labels = [], []
        power = self.low
        while power <= self.high * 1.01:
            x = self.place(power)
            lines.append(f'<path d="M{x:.1f} {top}V{bottom}" stroke="#ddd" fill="none"/>')
            name = milliseconds(power)
            labels.append(text(x, bottom + 14, name, text_anchor="middle", fill="#666"))
            power *= 10
        return lines, labels


def draw_times(figures, y):
    """Horizontal bars on a logarithmic axis."""
    times = first_token_times(figures)
    if not times:
        return [], y
    title = text(20, y, "First token of a 16-token turn after kill -9", font_weight="bold")
    axis = LogAxis([value for _, kinds in times for value in kinds.values()])
    out, top = [], y + 12
    y = top + 8
    for at, kinds in times:
        for kind in COLOURS:
            if kind not in kinds:
                continue
            x = axis.place(kinds[kind])
            out.append(text(LEFT - 8, y + 12, f"{at}, {kind}", text_anchor="end"))
            out.append(bar(LEFT, y, x - LEFT, COLOURS[kind]))
            out.append(text(x + 5, y + 12, milliseconds(kinds[kind])))
            y += ROW
        y += 8
    lines, labels = axis.grid(top, y)
    return [title, *lines, *out, *labels], y + 46


def draw_goals(figures, y):
    """How much of what its goal allows each figure takes: left of the line is good."""
    rows = []
    for figure in figures:
        goal = re.fullmatch(r"(<=|>=) ([\d.]+).*", figure["goal"])
        value = figure["value"]
        if goal and (goal[1] == "<=" or value > 0):
            limit = float(goal[2])
            rows.append((figure, value / limit if goal[1] == "<=" else limit / value))
    if not rows:
        return [], y
    out = [text(20, y, "Figures against their goals (line: the goal)", font_weight="bold")]
    top = y + 12
    y = top + 8
    line = LEFT + (RIGHT - LEFT) / 2
    for figure, share in rows:
        name = figure["name"].replace("restored_first_token", "restored")
        name = name.replace("recompute_over_restored", "recompute")
        at = figure["at"] if name != figure["name"] else ""
        width = (line - LEFT) * min(max(share, 0.0), 2.0)
        out.append(text(LEFT - 8, y + 12, f"{name} {at}".strip(), text_anchor="end"))
        out.append(bar(LEFT, y, width, GOOD if share <= 1 else BAD))
        value = f"{figure['value']:.3g} {figure['unit']}".strip()
        out.append(text(LEFT + width + 5, y + 12, f"{value} ({figure['goal']})"))
        y += ROW
    out.append(f'<path d="M{line:.1f} {top}V{y}" stroke="#333" fill="none"/>')
    return out, y + 30


def page(parts, y, machine):
    """The SVG's text: parts drawn above `y`, and what machine it was."""
    note = f"{machine['processor']}, {machine['cores']} cores, {machine['time'][:10]}"
    body = "\n".join([*parts, text(20, y, note, fill="#666")])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y + 16:.0f}" '
        f'font-family="sans-serif" font-size="12">\n'
        f'<rect width="100%" height="100%" fill="white"/>\n{body}\n</svg>\n'
    )


def draw(figures, machine):
    """`figures` as in results.json."""
    first, y = draw_times(figures, 30)
    second, y = draw_goals(figures, y)
    return page([*first, *second], y, machine)
