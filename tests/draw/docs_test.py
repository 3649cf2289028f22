#!/usr/bin/env python3
"""docs_test.py KOLO DOCS: fails if docs/algorithms.md, its pictures, or pictures and output on the pages that explain differ from
what the schedules say."""
import filecmp
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

KOLO, DOCS = sys.argv[1], Path(sys.argv[2])
IMAGES = (Path("images/algorithms"), Path("images/explained"))
PAGES = ("ring-all-reduce.md", "data-parallel-training.md")
# A command with its output, of which "..." stands for some lines. Times that were measured differ from run to run.
SHOWN = re.compile(r"^```\n\$ kolo (?!bench)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def outdated(page):
    """The commands of a page that print something else than it shows."""
    untuned = os.environ | {"KOLO_TABLE": "/nonexistent"}
    shown = SHOWN.findall((DOCS / page).read_text())
    for words, output in shown or [("", "")]:
        printed = subprocess.run([KOLO, *words.split()], stdout=subprocess.PIPE, text=True, env=untuned, cwd=DOCS.parent).stdout
        if not re.fullmatch("(?:.*\\n)*".join(re.escape(part) for part in re.split(r"^\.\.\.\n", output, flags=re.MULTILINE)), printed):
            yield f"docs/{page}: kolo {words} prints something else:\n{printed}"


with tempfile.TemporaryDirectory() as folder:
    new = Path(folder)
    subprocess.run([DOCS.parent / "scripts/algorithm_pages.py", KOLO, folder], check=True)
    subprocess.run([DOCS.parent / "scripts/explanation_pictures.py", KOLO, new / "images/explained"], check=True)
    names = {Path("algorithms.md")} | {images / p.name for images in IMAGES for root in (new, DOCS) for p in (root / images).glob("*")}
    stale = []
    for name in sorted(names):
        if not (new / name).exists():
            stale.append(f"docs/{name}: nothing writes it any more")
        elif not (DOCS / name).exists():
            stale.append(f"docs/{name}: missing")
        elif not filecmp.cmp(new / name, DOCS / name, shallow=False):
            stale.append(f"docs/{name}: not what the schedules say")
    stale += [problem for page in PAGES for problem in outdated(page)]
if stale:
    sys.exit("\n".join(stale) + "\nThe docs are stale. scripts/update-docs writes anew all but the output of commands")
print(f"{len(names)} files are up to date")
