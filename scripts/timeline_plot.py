#!/usr/bin/env python3
"""Draws a part of a timeline as SVG, from the events that Perfetto shows; no library.

usage: python3 scripts/timeline_plot.py TIMELINE.json OUT.svg [--from MS] [--length MS] [--ranks 0,1] [--tracks compute,waiting]
"""
import argparse
import json
from xml.sax.saxutils import escape

from comparison_plot import DARK, STYLE, WIDTH, heading

LEFT, RIGHT = 136, 526
ROW, GAP, TOP = 22, 26, 84
# Colours on light and on dark paper by the first word of a span's name; others get the last ones.
COLORS = {"forward": ("#2c8a4b", "#5cc481"), "backward": ("#1f6fb2", "#62b0ee"), "optimizer": ("#7a4fb5", "#b594e8"),
          "bucket": ("#c2571a", "#f08c4f"), "all_reduce": ("#c2571a", "#f08c4f"), "wait": ("#b3261e", "#f2827b"),
          "for": ("#b3261e", "#f2827b"), "": ("#57606a", "#9aa5b1")}
KINDS = list(COLORS)


def rows_of(trace, ranks, tracks):
    """[(process, row, [(begin in ns, length in ns, name)])] in the order in which viewers draw them."""
    processes, threads, spans = {}, {}, {}
    for event in trace["traceEvents"]:
        if event["name"] == "process_name":
            processes[event["pid"]] = event["args"]["name"]
        elif event["name"] == "thread_name":
            threads[event["tid"]] = (event["pid"], event["args"]["name"])
        elif event["ph"] == "X":
            # Whole nanoseconds, so that spans that touch do not overlap by a rounding error.
            times = round(event["ts"] * 1000), round(event["dur"] * 1000)
            spans.setdefault(event["tid"], []).append((*times, event["name"]))
    return [(processes[pid], name, spans[tid]) for tid, (pid, name) in sorted(threads.items())
            if tid in spans and (not ranks or pid - 1 in ranks) and (not tracks or name.split(" (")[0] in tracks)]


def depths(spans):
    """Each span with the number of spans that enclose it."""
    open_ends, found = [], []
    for begin, length, name in sorted(spans, key=lambda span: (span[0], -span[1])):
        while open_ends and open_ends[-1] <= begin:
            open_ends.pop()
        found.append((begin, length, name, len(open_ends)))
        open_ends.append(begin + length)
    return found


def kind_of(name):
    word = name.split()[0] if name else ""
    return KINDS.index(word if word in COLORS else "")


def style(which):
    return "".join(f".k{i} {{ fill: {COLORS[kind][which]}; }}\n" for i, kind in enumerate(KINDS))


def plot(rows, start, length, title, subtitle):
    """`start` and `length` of the part in ms."""
    def x_of(ms):
        return LEFT + (RIGHT - LEFT) * (ms - start) / length

    body, y, process = [], TOP, None
    for name, row, spans in rows:
        inside = [(begin / 1e6, span / 1e6, what, depth) for begin, span, what, depth in depths(spans)
                  if begin / 1e6 < start + length and (begin + span) / 1e6 > start]
        if not inside:
            continue
        if name != process:
            y += 0 if process is None else GAP - 8
            body.append(f'<text class="name" x="14" y="{y + 14}">{escape(name)}</text>')
            y, process = y + GAP - 2, name
        height = ROW * (1 + max(span[3] for span in inside))
        body.append(f'<text class="quiet" x="{LEFT - 12}" y="{y + 14}" text-anchor="end">{escape(row)}</text>')
        body.append(f'<line class="grid" x1="{LEFT}" x2="{RIGHT}" y1="{y + height + 1}" y2="{y + height + 1}"/>')
        for begin, duration, what, depth in inside:
            left, right = x_of(max(begin, start)), x_of(min(begin + duration, start + length))
            body.append(f'<rect class="span k{kind_of(what)}" x="{left:.2f}" y="{y + ROW * depth + 2}" '
                        f'width="{max(right - left, 0.4):.2f}" height="{ROW - 3}"><title>{escape(what)}: '
                        f'{duration:.3f} ms</title></rect>')
            if right - left > 7.2 * len(what) + 4:
                body.append(f'<text class="inside" x="{(left + right) / 2:.1f}" y="{y + ROW * depth + 15.5}" '
                            f'text-anchor="middle">{escape(what)}</text>')
        y += height + 4
    step = next(one for one in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 1e9) if length / one <= 8)
    axis = [f'<line class="axis" x1="{LEFT}" x2="{RIGHT}" y1="{y + 6}" y2="{y + 6}"/>']
    for i in range(int(length / step) + 1):
        x = x_of(start + i * step)
        axis.append(f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" y1="{y + 6}" y2="{y + 11}"/>')
        axis.append(f'<text class="quiet" x="{x:.1f}" y="{y + 27}" text-anchor="middle">{i * step:g}</text>')
    axis.append(f'<text x="{(LEFT + RIGHT) / 2}" y="{y + 48}" text-anchor="middle">milliseconds</text>')
    height = y + 62
    own = ".span { opacity: 0.9; }\n.inside { font-size: 12px; fill: #ffffff; }\n"
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}">',
        f"<style>\n{STYLE}{own}{style(0)}@media (prefers-color-scheme: dark) {{\n{DARK}.inside {{ fill: #0d1117; }}\n"
        f"{style(1)}}}\n</style>",
        f'<rect class="paper" width="{WIDTH}" height="{height}"/>',
        *heading(title, subtitle), *body, *axis, "</svg>"]) + "\n"


def main():
    numbers = lambda text: [int(one) for one in text.split(",")]  # noqa: E731
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("timeline")
    parser.add_argument("picture")
    parser.add_argument("--from", dest="start", type=float, default=0, metavar="MS")
    parser.add_argument("--length", type=float, metavar="MS")
    parser.add_argument("--ranks", type=numbers)
    parser.add_argument("--tracks", type=lambda text: text.split(","))
    parser.add_argument("--title", default="A timeline")
    parser.add_argument("--subtitle", default="")
    arguments = parser.parse_args()
    with open(arguments.timeline, encoding="utf-8") as file:
        rows = rows_of(json.load(file), arguments.ranks, arguments.tracks)
    if not rows:
        parser.error("no such tracks")
    end = max(begin + length for _, _, spans in rows for begin, length, _ in spans) / 1e6
    with open(arguments.picture, "w", encoding="utf-8") as file:
        file.write(plot(rows, arguments.start, arguments.length or end - arguments.start, arguments.title,
                        arguments.subtitle))


if __name__ == "__main__":
    main()
