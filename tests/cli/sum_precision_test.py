#!/usr/bin/env python3
"""The table sum-precision: docs/ and the picture show the rows that kolo precision computes."""
import json
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree
from pathlib import Path

KOLO, ROOT = Path(sys.argv[1]), Path(sys.argv[2])
sys.path.insert(0, str(ROOT / "scripts"))
import sum_precision_plot  # noqa: E402
import sum_precision_table  # noqa: E402


def rows():
    lines = (ROOT / "docs/data/training.jsonl").read_text().splitlines()
    return [row for row in map(json.loads, lines) if row["table"] == "sum-precision"]


class SumPrecision(unittest.TestCase):
    # The logarithm and the cosine under the normal numbers may differ in their last bits between machines.
    def test_rows_are_what_kolo_computes(self):
        for what in ("float32", "arrays of bfloat16"):
            row = sum_precision_table.PrecisionRow("halving_doubling", "positive", "drawn", what, 5)
            with tempfile.TemporaryDirectory() as folder:
                subprocess.run(row.command(KOLO.parent, Path(folder)), check=True, timeout=100)
                found = row.results(Path(folder))
            kept = sum_precision_table.find(rows(), "halving_doubling", "positive", "drawn", what)
            self.assertTrue(found["same_bits"])
            for column in (*sum_precision_table.COLUMNS, "least_rms_of_rms", "greatest_rms_of_rms"):
                for here, there in zip(found[column], kept[column], strict=True):
                    self.assertAlmostEqual(here, there, delta=0.02 * there, msg=f"{what}, {column}")

    def test_the_table_asks_for_what_is_kept(self):
        kept = [{name: row[name] for name in ("arm", "data", "order", "format", "seeds")} for row in rows()]
        wanted = [row.key for row in sum_precision_table.sum_precision([], 5)]
        self.assertCountEqual(kept, wanted)

    def test_the_page_has_the_tables(self):
        page = (ROOT / "docs/notebook/sums.md").read_text()
        for table in sum_precision_table.summary(rows()).split("\n\n"):
            self.assertIn(table, page)

    def test_the_picture_is_of_these_rows(self):
        picture = sum_precision_plot.plot(rows())
        xml.etree.ElementTree.fromstring(picture)
        self.assertEqual((ROOT / "docs/images/sum-precision.svg").read_text(), picture)

    # Summed by pairs, positive contributions have errors of the last few additions alone, for any number of ranks.
    def test_expected_errors_grow_as_theory_says(self):
        def ratio(data, order):
            few, many = (sum_precision_plot.expected(n, data, order, 2 ** -24) for n in (64, 1024))
            return many / few
        self.assertAlmostEqual(ratio("normal", "one after another"), 4, delta=0.1)
        self.assertAlmostEqual(ratio("positive", "one after another"), 4, delta=0.1)
        self.assertAlmostEqual(ratio("normal", "by pairs"), (10 / 6) ** 0.5, delta=0.01)
        self.assertAlmostEqual(ratio("positive", "by pairs"), 1, delta=0.05)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
