"""docs/images/scaling.svg: tokens a second over the number of workers, one line an all-reduce, with the spread of the
blocks; no library."""
import math
import statistics
from xml.sax.saxutils import escape

from comparison_page import human_rate
from comparison_plot import BOTTOM, COLORS, DARK, HEIGHT, LEFT, RIGHT, STYLE, TOP, WIDTH, heading, spread, tick
from scaling_table import ARMS, MAIN, RING, THEIRS, of_case

MORE_STYLE = """\
.perfect { fill: none; stroke: #57606a; stroke-width: 1.25; }
.theirs { fill: none; stroke: #57606a; stroke-width: 1.25; stroke-dasharray: 2 4; }
.bar { stroke-width: 1.5; }
"""
MORE_DARK = """\
.perfect, .theirs { stroke: #9aa5b1; }
"""


def lowest_mean_highest(values):
    return min(values), statistics.mean(values), max(values)


def lines_of(rows):
    """{arm: [(N, lowest, mean, highest) tokens a second]}, and the ring's [(N, predicted tokens a second)]."""
    series, prediction = {}, []
    for arm in ARMS:
        for ranks in sorted({row["ranks"] for row in rows}):
            # One worker alone is the first point of every arm.
            here = [row for row in rows if row["ranks"] == ranks and row["arm"] == (RING if ranks == 1 else arm)]
            if not here:
                continue
            series.setdefault(arm, []).append((ranks, *lowest_mean_highest([row["tokens_per_s"] for row in here])))
            if arm == RING:
                prediction.append((ranks, statistics.mean(ranks * row["tokens"] / row["predicted_s"] for row in here)))
    return series, prediction


TITLE = "Tokens a second over the number of workers"


def scaling_plot(rows):
    """The case in which all arms run. Returns SVG text."""
    rows = of_case([row for row in rows if row["table"] == "scaling"], MAIN)
    blocks = len({row["block"] for row in rows})
    subtitle = (f"{rows[0]['gradient_bytes'] / 4e6:.1f} million parameters, {MAIN.compute_s:g} s of computation a step, links of "
                f"{human_rate(MAIN.network)}; means, least and greatest of {blocks} blocks")
    series, prediction = lines_of(rows)
    alone = series[RING][0][2]
    most = series[RING][-1][0]
    step = tick(alone * most / 1e3, 6)
    top = step * math.ceil(alone * most / 1e3 / step - 1e-9)

    def x(n):
        return LEFT + (RIGHT - LEFT) * n / most

    def y(tokens):
        return BOTTOM - (BOTTOM - TOP) * tokens / 1e3 / top

    def path(points):
        return " ".join(f"{'L' if i else 'M'}{x(n):.1f} {y(value):.1f}" for i, (n, value) in enumerate(points))

    colors = COLORS[:len(series)]
    light = "".join(f".c{i} {{ stroke: {one}; }} .t{i} {{ fill: {one}; }}\n" for i, (one, _) in enumerate(colors))
    dark = "".join(f".c{i} {{ stroke: {one}; }} .t{i} {{ fill: {one}; }}\n" for i, (_, one) in enumerate(colors))
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
           f'aria-label="{escape(TITLE)}">',
           f"<style>\n{STYLE}{MORE_STYLE}{light}@media (prefers-color-scheme: dark) {{\n{DARK}{MORE_DARK}{dark}}}\n</style>",
           f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}"/>', *heading(TITLE, subtitle)]
    for i in range(round(top / step) + 1):
        height = y(i * step * 1e3)
        out.append(f'<line class="grid" x1="{LEFT}" x2="{RIGHT}" y1="{height:.1f}" y2="{height:.1f}"/>')
        out.append(f'<text class="quiet" x="{LEFT - 10}" y="{height + 4.5:.1f}" text-anchor="end">{i * step:g}</text>')
    for n in [point[0] for point in series[RING]]:
        out.append(f'<line class="axis" x1="{x(n):.1f}" x2="{x(n):.1f}" y1="{BOTTOM}" y2="{BOTTOM + 5}"/>')
        out.append(f'<text class="quiet" x="{x(n):.1f}" y="{BOTTOM + 21}" text-anchor="middle">{n}</text>')
    out.append(f'<line class="axis" x1="{LEFT}" x2="{RIGHT}" y1="{BOTTOM}" y2="{BOTTOM}"/>')
    out.append(f'<text x="{(LEFT + RIGHT) / 2}" y="{BOTTOM + 46}" text-anchor="middle">workers N</text>')
    middle = (TOP + BOTTOM) / 2
    out.append(f'<text x="{LEFT - 48}" y="{middle}" text-anchor="middle" '
               f'transform="rotate(-90 {LEFT - 48} {middle})">thousand tokens a second</text>')
    out.append(f'<path class="perfect" d="{path([(0, 0), (most, alone * most)])}"/>')
    out.append(f'<path class="theirs" d="{path([(0, 0), (most, THEIRS * alone * most)])}"/>')
    out.append(f'<path class="form c0" d="{path(prediction)}"/>')
    for i, points in enumerate(series.values()):
        out.append(f'<path class="line c{i}" d="{path([(n, mean) for n, _, mean, _ in points])}"/>')
        for n, lowest, mean, highest in points:
            out.append(f'<path class="bar c{i}" d="M{x(n):.1f} {y(lowest):.1f} V{y(highest):.1f} '
                       f'M{x(n) - 4:.1f} {y(lowest):.1f} h8 M{x(n) - 4:.1f} {y(highest):.1f} h8"/>')
            out.append(f'<circle class="t{i}" cx="{x(n):.1f}" cy="{y(mean):.1f}" r="3"/>')
    labels = [("perfect", "quiet", alone * most), (f"{THEIRS:.2f} of it: 2017", "quiet", THEIRS * alone * most),
              ("ring, predicted", "t0", prediction[-1][1])]
    labels += [(arm, f"name t{i}", points[-1][2]) for i, (arm, points) in enumerate(series.items())]
    ends = [y(value) for _, _, value in labels]
    for i, ((name, style, _), height) in enumerate(zip(labels, spread(ends), strict=True)):
        line = style.replace("name ", "").replace("t", "c") if style != "quiet" else "axis"
        out.append(f'<path class="leader {line}" d="M{RIGHT + 6} {ends[i]:.1f} L{RIGHT + 18} {height:.1f}"/>')
        out.append(f'<text class="{style}" x="{RIGHT + 22}" y="{height + 4.5:.1f}">{escape(name)}</text>')
    out.append("</svg>")
    return "\n".join(out) + "\n"
