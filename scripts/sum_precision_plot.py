"""docs/images/sum-precision.svg: errors of sums over the number of ranks, on axes of powers; no library."""
import math
from xml.sax.saxutils import escape

from comparison_plot import COLORS, DARK, STYLE, WIDTH, heading

HEIGHT = 676
PANEL_WIDTH, PANEL_HEIGHT = 222, 216
LEFTS, TOPS = (52, 302), (142, 412)
MORE_STYLE = """\
.bar { fill: none; stroke-width: 1; opacity: 0.45; }
.form { fill: none; stroke: #57606a; stroke-width: 1.25; stroke-dasharray: 5 4; }
.panel { font-weight: 600; }
.d1 { stroke-dasharray: 2 3; }
.d2 { stroke-dasharray: 9 3; }
.d3 { stroke-dasharray: 9 3 2 3; }
"""
MORE_DARK = ".form { stroke: #9aa5b1; }\n"
ARMS = ("ring", "direct", "hierarchical", "halving_doubling")
# data: description of its contributions
SIGNS = {"normal": "both signs", "positive": "one sign"}
# Pixels between the bars of two arms at one N.
SHIFT = 3
# Between the root mean square of a rounding's error and u: errors are even between half a unit in the last place to each
# side, and mantissas are spread as Benford's law says.
ROUNDING = 0.39
# Mean and mean square of |x|, x normal.
MEAN, SQUARE = math.sqrt(2 / math.pi), 1.0


def partial(k, data):
    """The mean square of a sum of k contributions."""
    return k * SQUARE if data == "normal" else k * k * MEAN ** 2 + k * (SQUARE - MEAN ** 2)


def expected(ranks, data, order, unit):
    """The root mean square of the error over that of the sum, if errors of roundings are independent."""
    if order == "one after another":
        squares = sum(partial(k, data) for k in range(2, ranks + 1))
    else:
        squares = sum(ranks / k * partial(k, data) for k in (2 ** i for i in range(1, int(math.log2(ranks)) + 1)))
    return ROUNDING * unit * math.sqrt(squares / partial(ranks, data))


class Panel:
    """One pair of axes; `powers`: the lowest and the highest power of ten."""

    def __init__(self, left, top, powers, ranks):
        self.left, self.top, self.powers, self.ranks = left, top, powers, ranks

    def x(self, n):
        first, last = math.log2(self.ranks[0]), math.log2(self.ranks[-1])
        return self.left + 10 + (PANEL_WIDTH - 20) * (math.log2(n) - first) / (last - first)

    def y(self, value):
        lowest, highest = self.powers
        return self.top + PANEL_HEIGHT * (highest - math.log10(value)) / (highest - lowest)

    def path(self, points):
        return " ".join(f"{'L' if i else 'M'}{self.x(n):.1f} {self.y(value):.1f}" for i, (n, value) in enumerate(points))

    def axes(self, title, has_numbers):
        bottom = self.top + PANEL_HEIGHT
        out = [f'<text class="panel" x="{self.left}" y="{self.top - 12}">{escape(title)}</text>']
        for power in range(self.powers[0], self.powers[1] + 1):
            height = self.y(10 ** power)
            out.append(f'<line class="grid" x1="{self.left}" x2="{self.left + PANEL_WIDTH}" y1="{height:.1f}" y2="{height:.1f}"/>')
            if has_numbers:
                out.append(f'<text class="quiet" x="{self.left - 8}" y="{height + 4.5:.1f}" text-anchor="end">10'
                           f'<tspan dy="-5" font-size="10">{power}</tspan></text>')
        out.append(f'<line class="axis" x1="{self.left}" x2="{self.left + PANEL_WIDTH}" y1="{bottom}" y2="{bottom}"/>')
        for i, n in enumerate(self.ranks):
            out.append(f'<line class="axis" x1="{self.x(n):.1f}" x2="{self.x(n):.1f}" y1="{bottom}" y2="{bottom + 5}"/>')
            if i % 3 == 0:
                out.append(f'<text class="quiet" x="{self.x(n):.1f}" y="{bottom + 20}" text-anchor="middle">{n}</text>')
        return out

    def line(self, row, color, shift):
        """The root mean square over all elements and seeds; bars up to the largest error of an element."""
        out = []
        for n, value, largest in zip(row["ranks"], row["rms_of_rms"], row["largest_of_rms"], strict=True):
            x, y, top = self.x(n) + shift, self.y(value), self.y(largest)
            out.append(f'<path class="bar c{color}" d="M{x:.1f} {y:.1f} V{top:.1f} M{x - 2:.1f} {top:.1f} h4"/>')
            out.append(f'<circle class="t{color}" cx="{self.x(n):.1f}" cy="{y:.1f}" r="2.75"/>')
        points = list(zip(row["ranks"], row["rms_of_rms"], strict=True))
        return [*out, f'<path class="line c{color} d{color}" d="{self.path(points)}"/>']


def powers_of(rows):
    """Powers of ten around all drawn values."""
    values = [value for row in rows for value in row["rms_of_rms"] + row["largest_of_rms"] if value > 0]
    return math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))


def legend():
    """The names of the lines."""
    for i, (arm, x) in enumerate(zip(ARMS, (14, 92, 184, 316), strict=True)):
        yield f'<path class="line c{i} d{i}" d="M{x} 94h22"/><text class="name t{i}" x="{x + 27}" y="98.5">{escape(arm)}</text>'


def style():
    def colors(which):
        return "".join(f".c{i} {{ stroke: {COLORS[i][which]}; }} .t{i} {{ fill: {COLORS[i][which]}; }}\n"
                       for i in range(len(ARMS)))
    return (f"<style>\n{STYLE}{MORE_STYLE}{colors(0)}"
            f"@media (prefers-color-scheme: dark) {{\n{DARK}{MORE_DARK}{colors(1)}}}\n</style>")


def plot(rows):
    """Rows of the table sum-precision. Returns SVG text."""
    rows = [row for row in rows if row["table"] == "sum-precision" and row["arm"] in ARMS and row["order"] == "drawn"
            and row["data"] in SIGNS]
    title = "Errors of all-reduce sums over the number of ranks"
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{title}">', style(),
           f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}"/>',
           *heading(title, "Root mean square, as a share of the exact sums; bars: the largest error. Thin dashes: predicted, one after "
                           "another and by pairs."), *legend()]
    for top, what in zip(TOPS, ("float32", "bfloat16 on the wire"), strict=True):
        here = [row for row in rows if row["format"] == what]
        for left, data in zip(LEFTS, SIGNS, strict=True):
            shown = sorted((row for row in here if row["data"] == data), key=lambda row: ARMS.index(row["arm"]))
            if not shown:
                continue
            panel = Panel(left, top, powers_of(here), shown[0]["ranks"])
            out += panel.axes(f"{what}, {SIGNS[data]}", left == LEFTS[0])
            for i, row in reversed(list(enumerate(shown))):  # the ring above the others
                out += panel.line(row, ARMS.index(row["arm"]), SHIFT * (i - (len(shown) - 1) / 2))
            if what == "float32":
                for order in ("one after another", "by pairs"):
                    points = [(n, expected(n, data, order, shown[0]["unit_roundoff"])) for n in panel.ranks]
                    out.append(f'<path class="form" d="{panel.path(points)}"/>')
    middle = LEFTS[0] + (LEFTS[1] + PANEL_WIDTH - LEFTS[0]) / 2
    out.append(f'<text x="{middle}" y="{TOPS[1] + PANEL_HEIGHT + 42}" text-anchor="middle">ranks N</text>')
    out.append("</svg>")
    return "\n".join(out) + "\n"
