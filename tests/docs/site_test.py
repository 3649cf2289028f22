#!/usr/bin/env python3
"""site_test.py ROOT KOLO FOLDER: scripts/make-site writes a site whose links lead to files and places within it, and whose search,
in a browser and without a server, finds the call `all_reduce`."""
import html
import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

ROOT, KOLO, FOLDER = (Path(argument).resolve() for argument in sys.argv[1:])
sys.path.insert(0, str(ROOT / "tests/draw"))
import browser  # noqa: E402

if not browser.find():
    print("no browser")
    sys.exit(77)
subprocess.run([ROOT / "scripts/make-site", "--kolo", KOLO, FOLDER], check=True)

pages = {path: path.read_text(encoding="utf-8") for path in FOLDER.rglob("*.html") if "_static" not in path.parts}
names = {path: set(re.findall(r'\bid="([^"]+)"', text)) for path, text in pages.items()}
broken = []
for path, text in pages.items():
    for link in map(html.unescape, re.findall(r'\b(?:href|src)="([^"]+)"', re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL))):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, place = unquote(link).partition("#")
        target = Path(os.path.normpath(path.parent / name.partition("?")[0])) if name else path
        # What follows the # of a page of the gallery is for its script.
        is_place = target in names and "gallery" not in target.parts
        if not target.is_file() or place and is_place and place not in names[target]:
            broken.append(f"{path.relative_to(FOLDER)}: {link}")
if broken or len(pages) < 100:
    sys.exit("\n".join([*broken, f"{len(broken)} links of {len(pages)} pages lead nowhere"]))

page = browser.Browser()
try:
    page.open(FOLDER / "search.html?q=all_reduce", 1200, 800)
    page.wait("[...document.querySelectorAll('ul.search a')].some(a => a.href.includes('Communicator10all_reduce'))")
    for size in ((1300, 900), (390, 844)):
        page.open(FOLDER / "index.html", *size)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"the first page is wider than {size[0]} px"
finally:
    page.close()
