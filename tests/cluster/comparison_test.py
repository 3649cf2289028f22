#!/usr/bin/env python3
"""docs/comparison.md and its picture are those that scripts/compare makes from the measured data."""

import json
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree
from pathlib import Path

ROOT = Path(sys.argv[1])
DATA = ROOT / "docs/data/comparison.jsonl"
sys.path.insert(0, str(ROOT / "scripts"))
from comparison_page import CHOICE, label, predicted_ms  # noqa: E402


def write_page(source, folder):
    return subprocess.run([ROOT / "scripts/compare", "--from", source, "--docs", folder], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


class Comparison(unittest.TestCase):
    def test_the_page_says_what_was_measured(self):
        with tempfile.TemporaryDirectory() as folder:
            done = write_page(DATA, folder)
            self.assertEqual(done.returncode, 0, done.stdout)
            for name in ("comparison.md", "images/comparison.svg", "data/comparison.jsonl"):
                self.assertEqual((Path(folder) / name).read_text(), (ROOT / "docs" / name).read_text(),
                                 f"docs/{name} is stale: scripts/compare --from {DATA.relative_to(ROOT)}")

    def test_the_picture_shows_each_algorithm(self):
        tree = xml.etree.ElementTree.parse(ROOT / "docs/images/comparison.svg")
        texts = [node.text for node in tree.iter("{http://www.w3.org/2000/svg}text")]
        rows = [json.loads(line) for line in DATA.read_text().splitlines()]
        for name in {row["algorithm"] for row in rows if row["type"] == "result"}:
            self.assertIn(label(name), texts)

    def test_the_tables_hold_every_row(self):
        page = (ROOT / "docs/comparison.md").read_text()
        rows = [json.loads(line) for line in DATA.read_text().splitlines()]
        tabled = re.findall(r"^\| [^|]+ \| [\d.]+ \(", page, re.MULTILINE)
        self.assertEqual(len(tabled), sum(row["type"] == "result" for row in rows))

    def test_what_kolo_chooses_is_a_curve_and_a_row(self):
        rows = [json.loads(line) for line in DATA.read_text().splitlines()]
        results = [row for row in rows if row["type"] == "result" and row["algorithm"] != CHOICE]
        chosen = [{**row, "algorithm": CHOICE, "ran": "halving_doubling" if row["ranks"] == 2 else "ring"}
                  for row in results if row["algorithm"] == "ring"]
        kept = [row for row in rows if row["type"] != "result"]
        with tempfile.TemporaryDirectory() as folder:
            data = Path(folder) / "data.jsonl"
            data.write_text("".join(json.dumps(row) + "\n" for row in [*kept, *results, *chosen]))
            done = write_page(data, folder)
            self.assertEqual(done.returncode, 0, done.stdout)
            page = (Path(folder) / "comparison.md").read_text()
            self.assertEqual(page.count("\n| kolo's choice: ring |"), len(chosen) - 1)
            self.assertEqual(page.count("\n| kolo's choice: halving_doubling |"), 1)
            self.assertIn("`halving_doubling` with 2 workers and `ring` with 4, 6, 8 and 10 workers.", page)
            self.assertIn(">kolo's choice</text>", (Path(folder) / "images/comparison.svg").read_text())

    def test_closed_forms(self):
        for algorithm, ranks, expected in (
                ("central", 5, 8), ("parameter_server:servers=1", 5, 8), ("parameter_server:servers=2", 5, 4),
                ("parameter_server:servers=4", 5, 2), ("parameter_server", 5, 8 / 5), ("naive", 5, 4), ("ring", 5, 8 / 5),
                ("halving_doubling", 8, 14 / 8), ("halving_doubling", 6, 2 + 3 / 2), ("ring", 1, 0)):
            self.assertAlmostEqual(predicted_ms(algorithm, ranks, 1000, 1e6), expected, 9, algorithm)
        self.assertIsNone(predicted_ms("newest", 5, 1000, 1e6))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
