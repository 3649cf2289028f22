#!/usr/bin/env python3
"""links_test.py ROOT: fails where a link of a page leads to no file, or to no heading of a page."""
import re
import sys
from pathlib import Path

ROOT = Path(sys.argv[1]).resolve()
LINK = re.compile(r"\]\(([^)\s]+)\)|<img src=\"([^\"]+)\"")


def prose(page):
    return re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def anchors(page):
    """The headings of a page as GitHub names them."""
    for heading in re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE):
        heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.strip()).replace("`", "").replace("*", "").lower()
        yield re.sub(r"[^\w\- ]", "", heading).replace(" ", "-")


# Without git, which a bare system has not: what stands in build folders and hidden ones is no page of ours.
pages = [page for page in sorted(ROOT.rglob("*.md"))
         if not any(part.startswith((".", "build")) for part in page.relative_to(ROOT).parts)]
headings = {page: set(anchors(page)) for page in pages}
broken, count = [], 0
for page in pages:
    for match in LINK.finditer(prose(page)):
        link = match[1] or match[2]
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        count += 1
        if not target.exists():
            broken.append(f"{page.relative_to(ROOT)}: {link}: no such file")
        elif anchor and anchor not in headings.get(target, {anchor}):
            broken.append(f"{page.relative_to(ROOT)}: {link}: no such heading")
if broken or not count:
    sys.exit("\n".join(broken) or "no page has a link")
print(f"{count} links of {len(pages)} pages lead somewhere")
