"""docs/images/comparison.svg: one line an algorithm, measured (dots) over closed form (dashes); no library."""
import math
import textwrap
from xml.sax.saxutils import escape

# Narrow, so that letters are still read on a telephone.
WIDTH, HEIGHT = 540, 440
LEFT, RIGHT, TOP, BOTTOM = 62, 354, 92, 382
LABEL_GAP = 17
# Colours for colour-blind readers too; the second of each pair is for a dark background.
COLORS = (("#c2571a", "#f08c4f"), ("#1f6fb2", "#62b0ee"), ("#7a4fb5", "#b594e8"), ("#2c8a4b", "#5cc481"),
          ("#a8801a", "#e0b94a"), ("#b03060", "#ef7fa6"), ("#4a6572", "#9fb6c1"))

STYLE = """\
text { font: 13px system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; fill: #24292f; }
.title { font-size: 18px; font-weight: 600; }
.quiet { fill: #57606a; }
.grid { stroke: #d8dee4; stroke-width: 1; }
.axis { stroke: #57606a; stroke-width: 1; }
.paper { fill: #ffffff; }
.line { fill: none; stroke-width: 2.25; stroke-linejoin: round; }
.form { fill: none; stroke-width: 1.25; stroke-dasharray: 5 4; opacity: 0.8; }
.leader { fill: none; stroke-width: 0.75; opacity: 0.7; }
.name { font-weight: 600; }
"""
BROAD = ".broad { stroke-width: 11; stroke-linecap: round; opacity: 0.35; }\n"
DARK = """\
text { fill: #e6edf3; }
.quiet { fill: #9aa5b1; }
.grid { stroke: #2d333b; }
.axis { stroke: #9aa5b1; }
.paper { fill: #0d1117; }
"""


def heading(title, subtitle):
    """Title and subtitle, the latter on up to two lines."""
    yield f'<text class="title" x="14" y="28">{escape(title)}</text>'
    for i, line in enumerate(textwrap.wrap(subtitle, 74)):
        yield f'<text class="quiet" x="14" y="{50 + 18 * i}">{escape(line)}</text>'


def tick(highest, parts):
    """The least of 1, 2, 2.5, 5 times a power of ten that cuts 0 to `highest` into at most `parts`."""
    power = 10 ** math.floor(math.log10(highest / parts))
    return next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power * parts >= highest * 0.999)


def spread(wanted, bottom=BOTTOM):
    """Heights near the wanted ones, in the same order, no two nearer than LABEL_GAP, none below the plot's bottom."""
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    placed = {}
    lowest = -math.inf
    for i in order:
        lowest = placed[i] = max(wanted[i], lowest + LABEL_GAP)
    highest = bottom - 4
    for i in reversed(order):
        highest = placed[i] = min(placed[i], highest)
        highest -= LABEL_GAP
    return [placed[i] for i in range(len(wanted))]


def plot(series, forms, names, broad, title, subtitle):
    """series and forms: {algorithm: [(N, milliseconds)]}; names: the label of each; the series `broad` lies below the others,
    which it may follow. Returns SVG text."""
    ranks = sorted({n for points in series.values() for n, _ in points})
    highest = max(ms for lines in (series, forms) for points in lines.values() for _, ms in points)
    seconds = highest >= 2000
    scale = 1e-3 if seconds else 1
    step = tick(highest * scale, 6)
    top = step * math.ceil(highest * scale / step - 1e-9)

    def x(n):
        return LEFT + (RIGHT - LEFT) * (n - ranks[0]) / max(ranks[-1] - ranks[0], 1)

    def y(ms):
        return BOTTOM - (BOTTOM - TOP) * ms * scale / top

    def path(points):
        return " ".join(f"{'L' if i else 'M'}{x(n):.1f} {y(ms):.1f}" for i, (n, ms) in enumerate(points))

    colors = [COLORS[i % len(COLORS)] for i in range(len(series))]
    light = "".join(f".c{i} {{ stroke: {one}; }} .t{i} {{ fill: {one}; }}\n" for i, (one, _) in enumerate(colors))
    dark = "".join(f".c{i} {{ stroke: {one}; }} .t{i} {{ fill: {one}; }}\n" for i, (_, one) in enumerate(colors))
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
           f'aria-label="{escape(title)}">',
           f"<style>\n{STYLE}{BROAD}{light}@media (prefers-color-scheme: dark) {{\n{DARK}{dark}}}\n</style>",
           f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}"/>', *heading(title, subtitle)]
    for i in range(round(top / step) + 1):
        height = y(i * step / scale)
        out.append(f'<line class="grid" x1="{LEFT}" x2="{RIGHT}" y1="{height:.1f}" y2="{height:.1f}"/>')
        out.append(f'<text class="quiet" x="{LEFT - 10}" y="{height + 4.5:.1f}" text-anchor="end">{i * step:g}</text>')
    for n in ranks:
        out.append(f'<line class="axis" x1="{x(n):.1f}" x2="{x(n):.1f}" y1="{BOTTOM}" y2="{BOTTOM + 5}"/>')
        out.append(f'<text class="quiet" x="{x(n):.1f}" y="{BOTTOM + 21}" text-anchor="middle">{n}</text>')
    out.append(f'<line class="axis" x1="{LEFT}" x2="{RIGHT}" y1="{BOTTOM}" y2="{BOTTOM}"/>')
    out.append(f'<text x="{(LEFT + RIGHT) / 2}" y="{BOTTOM + 46}" text-anchor="middle">workers N</text>')
    middle = (TOP + BOTTOM) / 2
    out.append(f'<text x="{LEFT - 48}" y="{middle}" text-anchor="middle" '
               f'transform="rotate(-90 {LEFT - 48} {middle})">time, {"s" if seconds else "ms"}</text>')
    for i, (name, points) in sorted(enumerate(series.items()), key=lambda one: one[1][0] != broad):
        if name == broad:
            out.append(f'<path class="line broad c{i}" d="{path(points)}"/>')
            continue
        if name in forms:
            out.append(f'<path class="form c{i}" d="{path(forms[name])}"/>')
        out.append(f'<path class="line c{i}" d="{path(points)}"/>')
        out += [f'<circle class="t{i}" cx="{x(n):.1f}" cy="{y(ms):.1f}" r="3.5"/>' for n, ms in points]
    ends = [y(points[-1][1]) for points in series.values()]
    for i, (name, height) in enumerate(zip(series, spread(ends), strict=True)):
        end = x(series[name][-1][0])
        out.append(f'<path class="leader c{i}" d="M{end + 6:.1f} {ends[i]:.1f} L{RIGHT + 18} {height:.1f}"/>')
        out.append(f'<text class="name t{i}" x="{RIGHT + 22}" y="{height + 4.5:.1f}">{escape(names[name])}</text>')
    out.append("</svg>")
    return "\n".join(out) + "\n"
