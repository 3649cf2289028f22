"""A demo as a page: words a second and the loss over time, what happened, and the samplers' record. No script, no library."""
from html import escape

from comparison_plot import tick
from demo_screen import clock

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 480, 260, 56, 8, 30, 36
STYLE = """
:root { color-scheme: light dark; --text: #24292f; --quiet: #57606a; --grid: #d8dee4; --paper: #ffffff; --kolo: #c2571a; --pytorch: #1f6fb2; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e6edf3; --quiet: #9aa5b1; --grid: #2d333b; --paper: #0d1117; --kolo: #f08c4f; --pytorch: #62b0ee; }
}
body { font: 16px/1.5 system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; color: var(--text); background: var(--paper);
       margin: 0 auto; padding: 1rem; max-width: 46rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin: 1.6rem 0 0.3rem; }
svg { width: 100%; height: auto; } svg text { font-size: 13px; fill: var(--quiet); } .grid { stroke: var(--grid); }
.line { fill: none; stroke-width: 2; } .kolo { stroke: var(--kolo); } .pytorch { stroke: var(--pytorch); }
.mark { stroke: var(--quiet); stroke-dasharray: 3 4; } b.kolo { color: var(--kolo); } b.pytorch { color: var(--pytorch); }
table { border-collapse: collapse; width: 100%; } td, th { padding: 0.15rem 0.5rem; text-align: left; border-bottom: 1px solid var(--grid); }
td.number, th.number { text-align: right; } .quiet { color: var(--quiet); }
"""


def thinned(points, most=600):
    return points[::max(1, len(points) // most)]


def plot(label, series, marks, x_label, from_zero):
    """series: {class: lines of [(x, y)]}; marks: [(x, number)]. Returns SVG."""
    points = [point for lines in series.values() for line in lines for point in line]
    if not points:
        return "<p class=quiet>nothing yet</p>"
    right, high = max(x for x, _ in points) or 1, max(y for _, y in points)
    low = 0 if from_zero else min(y for _, y in points)
    step = tick(max(high - low, 1e-9), 5)
    low = step * int(low / step)

    def x_of(x):
        return LEFT + (WIDTH - LEFT - RIGHT) * x / right

    def y_of(y):
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (y - low) / max(high - low, 1e-9)

    out = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(label)}">']
    level = low
    while level <= high:
        out.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y_of(level):.1f}" y2="{y_of(level):.1f}"/>'
                   f'<text x="{LEFT - 8}" y="{y_of(level) + 4:.1f}" text-anchor="end">{level:,g}</text>')
        level += step
    beside = 0
    for x, number in marks:
        beside = max(x_of(x), beside + 12)  # numbers of marks that are near each other stand side by side
        out.append(f'<line class="mark" x1="{x_of(x):.1f}" x2="{x_of(x):.1f}" y1="{TOP - 8}" y2="{HEIGHT - BOTTOM}"/>'
                   f'<text x="{beside:.1f}" y="{TOP - 14}" text-anchor="middle">{number}</text>')
    for name, lines in series.items():
        for line in lines:
            path = " ".join(f"{'L' if i else 'M'}{x_of(x):.1f} {y_of(y):.1f}" for i, (x, y) in enumerate(thinned(line)))
            out.append(f'<path class="line {name}" d="{path}"/>')
    out.append(f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 8}" text-anchor="end">{escape(x_label(right))}</text>'
               f'<text x="{LEFT}" y="{HEIGHT - 8}">0</text></svg>')
    return "".join(out)


def table(head, rows, kind_of_rest=" class=number"):
    def cells(kind, row):
        return "".join(f"<{kind}{kind_of_rest if i else ''}>{escape(str(cell))}</{kind}>" for i, cell in enumerate(row))
    return f"<table><tr>{cells('th', head)}</tr>" + "".join(f"<tr>{cells('td', row)}</tr>" for row in rows) + "</table>"


def page(story, record=None):
    """`record`: of check_records(), once the demo is over; without it the page looks for news every two seconds."""
    numbered = [(at, words, number, text) for number, (at, words, text) in enumerate(story.marks, 1)]
    rates = plot("words a second", {"kolo": story.rates["kolo"], "pytorch": story.rates["PyTorch"]},
                 [(at, number) for at, _, number, _ in numbered], lambda s: f"{clock(s)} minutes", True)
    losses = plot("loss", {"kolo": [story.losses]},
                  [(words, number) for _, words, number, _ in numbered], lambda words: f"{words:,} words trained", False)
    means = " ".join(f'<b class="{name.lower()}">{label}: {story.means[name]:,.0f} words a second.</b>'
                     for name, label in (("kolo", "kolo"), ("PyTorch", "PyTorch over Gloo")) if name in story.means)
    out = ["<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>",
           "" if record is not None else "<meta http-equiv=refresh content=2>",
           f"<title>{escape(story.title)}</title><style>{STYLE}</style><h1>{escape(story.title)}</h1><p>{means}</p>",
           f"<h2>Words a second</h2>{rates}<h2>Loss of kolo's training</h2>{losses}"]
    if numbered:
        out.append("<ol>" + "".join(f"<li>{escape(text)} <span class=quiet>at {clock(at)}</span></li>"
                                    for at, _, _, text in numbered) + "</ol>")
    if record is not None:
        out.append("<h2>The samplers' record</h2>" + table(
            ("epoch", "samples trained once", "not trained", "trained more than once"),
            [(f"{epoch}{'' if missing == 0 else ', not over'}", f"{once:,}", f"{missing:,}", f"{more:,}")
             for epoch, once, missing, more in record]))
    out.append("<h2>What happened</h2>" + table(("time", ""), [(clock(at), text) for at, text in story.log], ""))
    return "".join(out) + "</html>\n"
