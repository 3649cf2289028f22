#!/usr/bin/env python3
"""docs_test.py KOLO DOCS: fails if docs/algorithms.md, its pictures or the README's moving one differ from
what the schedules say."""
import filecmp
import subprocess
import sys
import tempfile
from pathlib import Path

KOLO, DOCS = sys.argv[1], Path(sys.argv[2])
IMAGES = Path("images/algorithms")

with tempfile.TemporaryDirectory() as folder:
    new = Path(folder)
    subprocess.run([DOCS.parent / "scripts/algorithm_pages.py", KOLO, folder], check=True)
    names = {Path("algorithms.md")} | {IMAGES / p.name for root in (new, DOCS) for p in (root / IMAGES).glob("*")}
    stale = []
    for name in sorted(names):
        if not (new / name).exists():
            stale.append(f"docs/{name}: no algorithm has it any more")
        elif not (DOCS / name).exists():
            stale.append(f"docs/{name}: missing")
        elif not filecmp.cmp(new / name, DOCS / name, shallow=False):
            stale.append(f"docs/{name}: not what the schedules say")
    sheet = subprocess.run([KOLO, "draw", "ring", "--ranks", "4", "--format", "svg", "--output", "-"], check=True,
                           stdout=subprocess.PIPE).stdout
    moving = subprocess.run([sys.executable, DOCS.parent / "scripts/animate-drawing"], input=sheet, check=True,
                            stdout=subprocess.PIPE).stdout
    if moving != (DOCS / "images/ring.svg").read_bytes():
        stale.append("docs/images/ring.svg: not what the schedules say")
if stale:
    sys.exit("\n".join(stale) + "\nThe docs are stale. To write them anew: scripts/update-docs")
print(f"{len(names)} files are up to date")
