#!/usr/bin/env python3
"""scripts/timeline_plot.py: its picture shows the rows, the nesting and the chosen part of a timeline."""
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from xml.etree import ElementTree

SOURCE = Path(sys.argv[1])
SVG = "{http://www.w3.org/2000/svg}"


def metadata(what, pid, tid, name):
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}}


def span(pid, tid, begin, length, name):
    return {"ph": "X", "name": name, "pid": pid, "tid": tid, "ts": begin, "dur": length, "args": {}}


TRACE = {"traceEvents": [
    metadata("process_name", 1, 0, "rank 0"), metadata("thread_name", 1, 10001, "compute"),
    metadata("thread_name", 1, 10002, "waiting"),
    metadata("process_name", 2, 0, "rank 1"), metadata("thread_name", 2, 20001, "compute"),
    span(1, 10001, 0.1, 0.2, "before"), span(1, 10001, 1000.3, 3000.1, "backward"), span(1, 10001, 2000, 500, "wait"),
    # Touches the end of backward; sums of doubles would overlap.
    span(1, 10001, 4000.4, 1000, "optimizer"), span(1, 10002, 2000, 500, "for rank 1"),
    span(2, 20001, 1500, 2500, "<backward>")]}


class TimelinePlot(unittest.TestCase):
    def picture(self, *options, code=0):
        with tempfile.TemporaryDirectory() as folder:
            trace, out = Path(folder) / "trace.json", Path(folder) / "out.svg"
            trace.write_text(json.dumps(TRACE), encoding="utf-8")
            done = subprocess.run([sys.executable, "-B", SOURCE / "scripts/timeline_plot.py", trace, out, *options],
                                  stderr=subprocess.PIPE, text=True, check=False)
            self.assertEqual(done.returncode, code, done.stderr)
            return ElementTree.parse(out) if code == 0 else done.stderr

    def spans(self, *options):
        """{name: (y, width)}"""
        return {one.find(f"{SVG}title").text.split(":")[0]: (float(one.get("y")), float(one.get("width")))
                for one in self.picture(*options).iter(f"{SVG}rect") if one.get("class").startswith("span")}

    def test_rows_and_nesting(self):
        spans = self.spans()
        self.assertEqual(set(spans), {"before", "backward", "wait", "optimizer", "for rank 1", "<backward>"})
        self.assertEqual(spans["backward"][0], spans["optimizer"][0])
        self.assertLess(spans["backward"][0], spans["wait"][0])
        self.assertLess(spans["wait"][0], spans["for rank 1"][0])
        self.assertLess(spans["for rank 1"][0], spans["<backward>"][0])
        self.assertAlmostEqual(spans["backward"][1] / spans["<backward>"][1], 3000.1 / 2500, delta=0.01)

    def test_a_part_is_chosen(self):
        self.assertEqual(set(self.spans("--from", "1", "--length", "2", "--ranks", "0", "--tracks", "compute")),
                         {"backward", "wait"})
        self.assertIn("no such tracks", self.picture("--tracks", "nothing", code=2))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
