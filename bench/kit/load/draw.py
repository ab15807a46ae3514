"""The plot of bench/load: how long users waited for a first token, and figures against goals."""

from kit import plot

MARKS = (("p50", "#9aa5b1"), ("p95", "#2f7ed8"), ("max", "#d9534f"))


def rows_of(phases):
    """(name, percentiles) of each part and kind of turn."""
    rows = []
    for phase in phases:
        for what, points in phase.waits.items():
            if what.startswith("first token"):
                kind = what.partition(", ")[2]
                name = f"{phase.scenario}, {phase.phase}"
                rows.append((name if kind in name else f"{name}, {kind}", points))
    return rows


def dot(x, y, colour):
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" fill="{colour}"/>'


def draw_waits(phases, y):
    """A line from the median to the slowest for each row, on a logarithmic axis."""
    rows = rows_of(phases)
    if not rows:
        return [], y
    head = [plot.text(20, y, "First token", font_weight="bold")]
    for place, (name, colour) in enumerate(MARKS):
        head += [dot(120 + 60 * place, y - 4, colour), plot.text(128 + 60 * place, y, name)]
    axis = plot.LogAxis([points[name] for _, points in rows for name, _ in MARKS])
    out, top = [], y + 12
    y = top + 12
    for name, points in rows:
        places = [axis.place(points[mark]) for mark, _ in MARKS]
        out.append(plot.text(plot.LEFT - 8, y + 4, name, text_anchor="end"))
        out.append(f'<path d="M{places[0]:.1f} {y}H{places[-1]:.1f}" stroke="#9aa5b1"/>')
        out += [dot(x, y, colour) for x, (_, colour) in zip(places, MARKS)]
        slowest = plot.milliseconds(points["max"])
        out.append(plot.text(places[-1] + 9, y + 4, slowest, fill="#666"))
        y += plot.ROW
    lines, labels = axis.grid(top, y)
    return [*head, *lines, *out, *labels], y + 46


def draw(figures, phases, machine):
    first, y = draw_waits(phases, 30)
    second, y = plot.draw_goals(figures, y)
    return plot.page([*first, *second], y, machine)
