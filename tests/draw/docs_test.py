#!/usr/bin/env python3
"""docs_test.py KOLO DOCS: fails if docs/algorithms.md, its pictures or those of the pages that explain differ from what the
schedules say."""
import filecmp
import subprocess
import sys
import tempfile
from pathlib import Path

KOLO, DOCS = sys.argv[1], Path(sys.argv[2])
IMAGES = (Path("images/algorithms"), Path("images/explained"))

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
if stale:
    sys.exit("\n".join(stale) + "\nThe docs are stale. To write them anew: scripts/update-docs")
print(f"{len(names)} files are up to date")
