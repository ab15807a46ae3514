"""Lines over a number of turns, as SVG written by hand: a panel for each run, from 0 up."""

import math

from kit.plot import text

WIDTH, LEFT, RIGHT = 760, 70, 640
PANEL, GAP = 180, 62
COLOURS = ("#2f7ed8", "#9aa5b1", "#d9534f")


def nice(value):
    """The next number up of 1, 2, 5 times a power of ten."""
    power = 10 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= value * 0.999)


def panel(title, series, y):
    """`series`: {name: [(turn, ms)]}."""
    points = [point for line in series.values() for point in line]
    right = max(x for x, _ in points)
    top = nice(max(1e-3, max(value for _, value in points)))

    def at(x, value):
        return LEFT + (RIGHT - LEFT) * x / right, y + PANEL * (1 - value / top)

    out = [text(20, y - 14, title, font_weight="bold")]
    for part in range(5):
        value = top * part / 4
        _, line = at(0, value)
        out.append(f'<path d="M{LEFT} {line:.1f}H{RIGHT}" stroke="#ddd" fill="none"/>')
        out.append(text(LEFT - 8, line + 4, f"{value:g} ms", text_anchor="end", fill="#666"))
        x, _ = at(right * part / 4, 0)
        turns = f"{right * part / 4:,.0f}"
        out.append(text(x, y + PANEL + 16, turns, text_anchor="middle", fill="#666"))
    labels = []
    for (name, line), colour in zip(series.items(), COLOURS):
        path = "L".join("{:.1f} {:.1f}".format(*at(*point)) for point in line)
        out.append(f'<path d="M{path}" stroke="{colour}" stroke-width="1.5" fill="none"/>')
        labels.append((at(*line[-1])[1] + 4, name, colour))
    below = -math.inf
    for place, name, colour in sorted(labels):
        below = max(place, below + 14)
        out.append(text(RIGHT + 6, below, name, fill=colour))
    return out, y + PANEL + GAP


def draw(panels, note):
    """`panels`: [(title, series)]."""
    body, y = [], 44
    for title, series in panels:
        more, y = panel(title, series, y)
        body += more
    body.append(text(20, y - 18, note, fill="#666"))
    lines = "\n".join(body)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y:.0f}" '
        f'font-family="sans-serif" font-size="12">\n'
        f'<rect width="100%" height="100%" fill="white"/>\n{lines}\n</svg>\n'
    )
