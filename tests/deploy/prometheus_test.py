#!/usr/bin/env python3
"""prometheus_test.py FOLDER KOLO: each metric that the alert rules and the dashboard name is one that ranks serve."""
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import unittest
import urllib.request
from pathlib import Path

FOLDER, KOLO = Path(sys.argv[1]), sys.argv[2]
NAME = re.compile(r"\bkolo_\w+")
TIMEOUT_S = 60


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def page_of_a_rank():
    port = free_port()
    job = subprocess.Popen([KOLO, "run", "-n", "2", "--", KOLO, "bench", "all_reduce", "--sizes", "1K", "--iterations", "100000000"],
                           env={**os.environ, "KOLO_METRICS": str(port)}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        give_up = time.monotonic() + TIMEOUT_S
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as page:
                    text = page.read().decode()
                if "kolo_operations_total{" in text:
                    return text
            except OSError:
                pass
            if time.monotonic() > give_up or job.poll() is not None:
                raise AssertionError("rank 0 serves no metrics")
            time.sleep(0.1)
    finally:
        job.terminate()
        job.wait(TIMEOUT_S)


class Prometheus(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.page = page_of_a_rank()
        cls.served = set(re.findall(r"^# TYPE (\w+)", cls.page, re.MULTILINE))

    def check_names(self, expressions):
        named = {name for expression in expressions for name in NAME.findall(expression)}
        self.assertGreater(len(named), 3)
        self.assertEqual(named - self.served, set(), "no rank serves these")

    def test_rules_name_served_metrics(self):
        text = (FOLDER / "rules.yaml").read_text(encoding="utf-8")
        self.check_names(re.findall(r"^        expr: (.*(?:\n          .*)*)", text, re.MULTILINE))

    def test_dashboard_shows_each_served_metric(self):
        dashboard = json.loads((FOLDER / "dashboard.json").read_text(encoding="utf-8"))
        expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
        self.check_names(expressions)
        shown = {name for expression in expressions for name in NAME.findall(expression)}
        self.assertEqual(self.served - shown, set(), "no panel shows these")
        self.assertEqual(len({panel["id"] for panel in dashboard["panels"]}), len(dashboard["panels"]))

    def test_labels_are_served(self):
        labels = set(re.findall(r'[{,](\w+)="', self.page))
        text = (FOLDER / "rules.yaml").read_text() + (FOLDER / "dashboard.json").read_text()
        grouped = {label.strip() for names in re.findall(r"by \(([^)]*)\)", text) for label in names.split(",")}
        self.assertEqual(grouped - labels, set(), "no metric has these labels")

    @unittest.skipUnless(shutil.which("promtool"), "there is no promtool here (prometheus)")
    def test_promtool_accepts_them(self):
        for kind, name in (("rules", "rules.yaml"), ("config", "prometheus.yaml")):
            done = subprocess.run(["promtool", "check", kind, FOLDER / name], text=True, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT)
            self.assertEqual(done.returncode, 0, done.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
