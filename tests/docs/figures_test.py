#!/usr/bin/env python3
"""figures_test.py ROOT: a table of figures says where they come from. Either the line above it is a generator,

    <!-- scripts/compare-training sparse --show -->

which must print each row of it; or the text of its section has the date, the processor and a command in code; or the line
above it says what the figures are computed from: <!-- computed: ... -->. Left out are pages that are generated as a whole, which other
tests compare with their data, and the notebook, whose entries stay as they were written."""
import functools
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(sys.argv[1]).resolve()
LEFT_OUT = {"algorithms.md", "comparison.md", "notebook", "site"}
NUMBER = r"[(<~+-]*\d[\d,./]*\)?"
UNIT = r"(?:ns|us|ms|s|min|%|x|[KMG]B(?:/s)?|[MG]bit/s)\)?"
FIGURE = re.compile(rf"{NUMBER}(?: ?{UNIT})?(?:(?:,|;|:| to| ±| /|) {NUMBER}(?: ?{UNIT})?)*")
HEAD_UNIT = re.compile(r"(?<!\w)(?:ns|us|ms|[KMG]B|[MG]bit/s|%)(?!\w)")
EVIDENCE = {"a date": re.compile(r"\b20\d\d-\d\d-\d\d\b"), "a machine": re.compile(r"EPYC|Xeon|H200|\bcores\b"),
            "a command in code": re.compile(r"(?:`|^)[^`\n]*(?:scripts/|kolo |train_|bench_|tests/)[^`\n]*(?:`|$)", re.MULTILINE)}
GENERATOR = re.compile(r"<!-- (scripts/compare-training [\w-]+ --show) -->")
COMPUTED = re.compile(r"<!-- computed: .+ -->")


def cells(row):
    return [cell.strip().replace("**", "") for cell in row.replace(r"\|", "").strip().strip("|").split("|")]


def holds_figures(rows):
    """Whether a quarter of the cells, without the first column and defaults, are numbers with a fraction or a unit, which the
    column's name may have."""
    body = [(name, cell) for row in rows[2:] for name, cell in [*zip(cells(rows[0]), cells(row))][1:] if cell and name != "default"]
    figures = [cell for name, cell in body
               if FIGURE.fullmatch(cell) and (re.search(r"\d[.,]\d|\d ?[a-z%]|±", cell) or HEAD_UNIT.search(name))]
    return 4 * len(figures) > len(body)


def tables(text):
    """(number of the line, rows, the line above, text of the section without its tables) of each table."""
    lines, heading, found, is_code = text.split("\n"), 0, [], False
    for index, line in enumerate([*lines, "# the end"]):
        is_code ^= line.startswith("```")
        if line.startswith("#") and not is_code:
            section = "\n".join(other for other in lines[heading:index] if not other.startswith("|"))
            yield from ((*table, section) for table in found)
            heading, found = index, []
        elif line.startswith("|") and not is_code:
            if not lines[index - 1].startswith("|"):
                found.append((index + 1, [], lines[index - 1]))
            found[-1][1].append(line)


@functools.cache
def printed_rows(command):
    done = subprocess.run(command.split(), cwd=ROOT, capture_output=True, text=True, check=True)
    return [cells(line) for line in done.stdout.splitlines() if line.startswith("|")]


def problems():
    """The faults of all tables, one after another, and at last the number of tables."""
    count = 0
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        name = page.relative_to(ROOT)
        if LEFT_OUT & set(name.parts):
            continue
        for line, rows, above, section in tables(page.read_text(encoding="utf-8")):
            if generator := GENERATOR.fullmatch(above):
                count += 1
                printed = printed_rows(generator[1])
                yield from (f"{name}:{line}: {generator[1]} prints no such row: {row}" for row in [rows[0], *rows[2:]]
                            if cells(row) not in printed)
            elif holds_figures(rows) and not COMPUTED.fullmatch(above):
                count += 1
                if missing := [what for what, pattern in EVIDENCE.items() if not pattern.search(section)]:
                    yield f"{name}:{line}: the section lacks {', '.join(missing)} of this table's figures"
    if count < 10:
        yield f"only {count} tables of figures were found"


if found := list(problems()):
    sys.exit("\n".join(found))
