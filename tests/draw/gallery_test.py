#!/usr/bin/env python3
"""gallery_test.py KOLO [FOLDER]: the pages of kolo draw --all: all algorithms, links and markup. With FOLDER and a browser,
writes screenshots there."""
import json
import re
import subprocess
import sys
import tempfile
import unittest
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import browser

KOLO = sys.argv[1]
PICTURES = Path(sys.argv[2]) if len(sys.argv) > 2 else None
MOST_BYTES = 12 << 20
VOID = {"meta", "link", "input", "br", "hr", "img"}


class Markup(HTMLParser):
    """Elements, ids and links of a page. `faults`: tags that do not match, and ids that occur twice."""

    def __init__(self, text):
        super().__init__()
        self.open, self.faults, self.ids, self.links, self.elements = [], [], set(), [], Counter()
        self.feed(text)
        self.close()
        self.faults += [f"<{tag}> is never closed" for tag in self.open]

    def handle_starttag(self, tag, attributes):
        if tag not in VOID:
            self.open.append(tag)
        self.start(tag, attributes)

    def handle_startendtag(self, tag, attributes):
        self.start(tag, attributes)

    def start(self, tag, attributes):
        self.elements[tag] += 1
        names = [name for name, _ in attributes]
        if len(names) != len(set(names)):
            self.faults.append(f"<{tag}> has an attribute twice: {names}")
        attributes = dict(attributes)
        if attributes.get("id") in self.ids:
            self.faults.append(f"the id {attributes['id']} occurs twice")
        if "id" in attributes:
            self.ids.add(attributes["id"])
        for name in ("href", "src"):
            if name in attributes:
                self.links.append(attributes[name])
        if tag == "a" and "href" not in attributes:
            self.faults.append("a link leads nowhere")

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"</{tag}> at {self.getpos()} closes another element")


def algorithms():
    """(collective, name) of all algorithms, as kolo check lists them."""
    lines = subprocess.run([KOLO, "check", "--ranks", "2", "--json"], check=True, stdout=subprocess.PIPE, text=True).stdout
    return [(row["collective"], row["algorithm"]) for row in map(json.loads, lines.splitlines())]


class Gallery(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.temporary.name) / "site"
        out = subprocess.run([KOLO, "draw", "--all", "-o", cls.folder], check=True, stdout=subprocess.PIPE, text=True).stdout
        assert out == f"{cls.folder}/index.html\n", out
        cls.pages = {path.name: path.read_text(encoding="utf-8") for path in sorted(cls.folder.iterdir())}
        cls.markup = {name: Markup(text) for name, text in cls.pages.items()}

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def test_every_algorithm_has_its_pages(self):
        known = algorithms()
        self.assertGreater(len(known), 40)
        front = self.markup["index.html"]
        expected = {"index.html", "compare.html"}
        for collective, name in known:
            self.assertIn(f"{collective}-{name}", front.ids)
            for ranks in (4, 6, 8, 16):
                page = f"{collective}-{name}-{ranks}.html"
                expected.add(page)
                self.assertIn(page, front.links)
                self.assertIn(f"<title>{collective}: {name}, {ranks} ranks", self.pages[page])
        self.assertEqual(set(self.pages), expected)
        self.assertEqual(front.elements["svg"], 4 * len(known) + 1, "a small picture for each number of ranks")
        self.assertIn(f"{len(known)} algorithms", self.pages["index.html"])

    def test_markup_is_well_formed(self):
        for name, markup in self.markup.items():
            self.assertEqual(markup.faults, [], name)
            self.assertTrue(self.pages[name].startswith("<!doctype html>"), name)
            self.assertIsNone(re.search("@[A-Z]+@", self.pages[name]), name)

    def test_links_lead_somewhere(self):
        for name, markup in self.markup.items():
            for link in markup.links:
                if link == "data:,":
                    continue
                path, _, part = link.partition("#")
                target = path or name
                self.assertIn(target, self.pages, f"{name}: {link}")
                if target == "compare.html" and part:
                    left, right, ranks = part.split(",")
                    self.assertIn(f"{left}-{ranks}.html", self.pages, f"{name}: {link}")
                    self.assertIn(f"{right}-{ranks}.html", self.pages, f"{name}: {link}")
                elif part:
                    self.assertIn(part, self.markup[target].ids, f"{name}: {link}")

    def test_the_pages_need_no_network(self):
        for name, text in self.pages.items():
            self.assertEqual(text.count("http"), text.count("http://www.w3.org/2000/svg"), name)
            for sign in ("@import", "fetch(", "src="):
                self.assertNotIn(sign, text, name)
        self.assertLess(sum(len(text.encode()) for text in self.pages.values()), MOST_BYTES)

    def test_the_same_pages_are_written_again(self):
        again = self.folder.parent / "again"
        subprocess.run([KOLO, "draw", "--all", "--ranks", "4", "-o", again], check=True, stdout=subprocess.DEVNULL)
        once_more = self.folder.parent / "once-more"
        subprocess.run([KOLO, "draw", "--all", "--ranks", "4", "-o", once_more], check=True, stdout=subprocess.DEVNULL)
        for path in again.iterdir():
            self.assertEqual(path.read_bytes(), (once_more / path.name).read_bytes(), path.name)

    @unittest.skipUnless(browser.find(), "needs chromium")
    def test_two_pages_step_side_by_side(self):
        page = browser.Browser()
        try:
            page.open(self.folder / "index.html", 1400, 900)
            shown = "[...document.querySelectorAll('.shot:not([hidden])')].every(shot => shot.dataset.ranks === ranks.value)"
            self.assertEqual(page.evaluate("ranks.value"), "8")
            self.assertTrue(page.evaluate(shown))
            page.evaluate("ranks.value = '16'; ranks.dispatchEvent(new Event('change'))")
            self.assertTrue(page.evaluate(shown))
            self.assertTrue(page.evaluate("document.getElementById('compare').href.endsWith(',16')"))
            if PICTURES:
                page.screenshot(PICTURES / "gallery.png")
            page.open(f"{self.folder}/compare.html#all_reduce-ring,all_reduce-binomial,4,3", 1400, 900)
            self.assertEqual(page.evaluate("[step, steps, names[0].value, names[1].value]"),
                             [3, 6, "all_reduce-ring", "all_reduce-binomial"])
            page.press("ArrowRight")
            self.assertEqual(page.evaluate("location.hash"), "#all_reduce-ring,all_reduce-binomial,4,4")
            page.press("End")
            self.assertEqual(page.evaluate("step"), 6)
            if PICTURES:
                page.screenshot(PICTURES / "compare.png")
            page.press(" ")
            page.wait("step === 1 && playing")
            page.press(" ")
            self.assertFalse(page.evaluate("playing"))
            self.assertEqual(page.problems, [])
        finally:
            page.close()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
