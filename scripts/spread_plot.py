"""Accuracies with their spread as SVG: a line an arm, a bar of one standard deviation to each side; no library."""
import math
from xml.sax.saxutils import escape

from comparison_plot import BOTTOM, BROAD, COLORS, DARK, HEIGHT, LEFT, RIGHT, STYLE, TOP, WIDTH, heading, spread, tick

BARS = ".bar { fill: none; stroke-width: 1.25; opacity: 0.75; }\n"
# Pixels between the bars of two arms at one x.
SHIFT = 4


def plot(series, title, subtitle, x_label, x_ticks, is_log=False, y_label="test accuracy, %", shift=SHIFT, broad=None):
    """series: {arm: [(x, mean, standard deviation)]}; x_ticks: labels of the axis; the arm `broad` lies below the others, which
    it may follow. Returns SVG text."""
    points = [point for line in series.values() for point in line]
    lowest = math.floor(min(mean - deviation for _, mean, deviation in points))
    highest = math.ceil(max(mean + deviation for _, mean, deviation in points))
    step = tick(highest - lowest, 8)
    lowest, highest = step * math.floor(lowest / step), step * math.ceil(highest / step)
    scale = math.log2 if is_log else float
    left, right = scale(min(x_ticks)), scale(max(x_ticks))

    def x_of(x):
        return LEFT + 16 + (RIGHT - LEFT - 32) * (scale(x) - left) / (right - left)

    def y_of(percent):
        return BOTTOM - (BOTTOM - TOP) * (percent - lowest) / (highest - lowest)

    def colors(which):
        return "".join(f".c{i} {{ stroke: {COLORS[i][which]}; }} .t{i} {{ fill: {COLORS[i][which]}; }}\n"
                       for i in range(len(series)))

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
           f'aria-label="{escape(title)}">',
           f"<style>\n{STYLE}{BARS}{BROAD}{colors(0)}@media (prefers-color-scheme: dark) {{\n{DARK}{colors(1)}}}\n</style>",
           f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}"/>', *heading(title, subtitle)]
    for i in range(round((highest - lowest) / step) + 1):
        height = y_of(lowest + i * step)
        out.append(f'<line class="grid" x1="{LEFT}" x2="{RIGHT}" y1="{height:.1f}" y2="{height:.1f}"/>')
        out.append(f'<text class="quiet" x="{LEFT - 10}" y="{height + 4.5:.1f}" text-anchor="end">{lowest + i * step:g}</text>')
    for x in x_ticks:
        out.append(f'<line class="axis" x1="{x_of(x):.1f}" x2="{x_of(x):.1f}" y1="{BOTTOM}" y2="{BOTTOM + 5}"/>')
        out.append(f'<text class="quiet" x="{x_of(x):.1f}" y="{BOTTOM + 21}" text-anchor="middle">{x:,g}</text>')
    out.append(f'<line class="axis" x1="{LEFT}" x2="{RIGHT}" y1="{BOTTOM}" y2="{BOTTOM}"/>')
    out.append(f'<text x="{(LEFT + RIGHT) / 2}" y="{BOTTOM + 46}" text-anchor="middle">{escape(x_label)}</text>')
    middle = (TOP + BOTTOM) / 2
    out.append(f'<text x="{LEFT - 48}" y="{middle}" text-anchor="middle" '
               f'transform="rotate(-90 {LEFT - 48} {middle})">{escape(y_label)}</text>')
    places = [[(x_of(x) + shift * (i - (len(series) - 1) / 2), mean, deviation) for x, mean, deviation in line]
              for i, line in enumerate(series.values())]
    for i, (name, line) in sorted(enumerate(zip(series, places, strict=True)), key=lambda one: one[1][0] != broad):
        path = " ".join(f"{'L' if k else 'M'}{x:.1f} {y_of(mean):.1f}" for k, (x, mean, _) in enumerate(line))
        out.append(f'<path class="line{" broad" * (name == broad)} c{i}" d="{path}"/>')
        if broad:
            continue
        for x, mean, deviation in line:
            top, bottom = y_of(mean + deviation), y_of(mean - deviation)
            out.append(f'<path class="bar c{i}" d="M{x:.1f} {top:.1f} V{bottom:.1f} M{x - 3:.1f} {top:.1f} h6 '
                       f'M{x - 3:.1f} {bottom:.1f} h6"/>')
            out.append(f'<circle class="t{i}" cx="{x:.1f}" cy="{y_of(mean):.1f}" r="3"/>')
    ends = [y_of(line[-1][1]) for line in places]
    for i, (name, height) in enumerate(zip(series, spread(ends), strict=True)):
        out.append(f'<path class="leader c{i}" d="M{places[i][-1][0] + 6:.1f} {ends[i]:.1f} L{RIGHT + 18} {height:.1f}"/>')
        out.append(f'<text class="name t{i}" x="{RIGHT + 22}" y="{height + 4.5:.1f}">{escape(name)}</text>')
    out.append("</svg>")
    return "\n".join(out) + "\n"
