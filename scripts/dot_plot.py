"""Accuracies with their spread as SVG: a row an arm, a dot with a bar of one standard deviation to each side; no library."""
import math
from xml.sax.saxutils import escape

from comparison_plot import COLORS, DARK, STYLE, WIDTH, heading, tick

MORE_STYLE = ".bar { fill: none; stroke-width: 1.5; opacity: 0.75; }\n.end { text-anchor: end; }\n.middle { text-anchor: middle; }\n"
TOP, ROW, LEFT, RIGHT, NUMBERS = 104, 26, 196, 436, 526


def plot(rows, title, subtitle, columns, ticks=6):
    """rows: [(arm, what stands beside it, mean, standard deviation, number of the colour)]; columns: the headings of both texts.
    Returns SVG text."""
    lowest = max(0, min(mean - deviation for _, _, mean, deviation, _ in rows))
    highest = min(100, max(mean + deviation for _, _, mean, deviation, _ in rows))
    step = tick(highest - lowest, ticks)
    lowest, highest = step * math.floor(lowest / step), step * math.ceil(highest / step)
    bottom = TOP + ROW * len(rows)

    def x(percent):
        return LEFT + (RIGHT - LEFT) * (min(max(percent, lowest), highest) - lowest) / (highest - lowest)

    def colors(which):
        return "".join(f".c{i} {{ stroke: {pair[which]}; }} .t{i} {{ fill: {pair[which]}; }}\n" for i, pair in enumerate(COLORS))

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + 52}" role="img" aria-label="{escape(title)}">',
           f"<style>\n{STYLE}{MORE_STYLE}{colors(0)}@media (prefers-color-scheme: dark) {{\n{DARK}{colors(1)}}}\n</style>",
           f'<rect class="paper" width="{WIDTH}" height="{bottom + 52}"/>', *heading(title, subtitle),
           f'<text class="quiet" x="14" y="{TOP - 8}">{escape(columns[0])}</text>',
           f'<text class="quiet end" x="{NUMBERS}" y="{TOP - 8}">{escape(columns[1])}</text>',
           f'<text class="middle" x="{(LEFT + RIGHT) / 2}" y="{bottom + 42}">test accuracy, %</text>']
    for i in range(round((highest - lowest) / step) + 1):
        at = x(lowest + i * step)
        out.append(f'<line class="grid" x1="{at:.1f}" x2="{at:.1f}" y1="{TOP}" y2="{bottom}"/>')
        out.append(f'<text class="quiet middle" x="{at:.1f}" y="{bottom + 18}">{lowest + i * step:g}</text>')
    for i, (arm, beside, mean, deviation, color) in enumerate(rows):
        y = TOP + ROW * (i + 0.5)
        out.append(f'<text x="14" y="{y + 4.5:.1f}">{escape(arm)}</text>')
        out.append(f'<path class="bar c{color}" d="M{x(mean - deviation):.1f} {y:.1f}H{x(mean + deviation):.1f}"/>')
        out.append(f'<circle class="t{color}" cx="{x(mean):.1f}" cy="{y:.1f}" r="5"/>')
        out.append(f'<text class="quiet end" x="{NUMBERS}" y="{y + 4.5:.1f}">{escape(beside)}</text>')
    out.append("</svg>")
    return "\n".join(out) + "\n"
