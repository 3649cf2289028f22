#!/usr/bin/env python3
"""The figures of a training run, read by the tensorboard package: tensorboard_test.py FOLDER SOURCE KOLO TRAIN."""
import csv
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

FOLDER, SOURCE, KOLO, TRAIN = sys.argv[1:5]
sys.path.insert(0, str(Path(SOURCE, "scripts")))
from index_environments import environment, site_packages  # noqa: E402

sys.path.insert(0, str(site_packages(environment(FOLDER, "tensorboard"))))
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # noqa: E402


def train(folder, steps):
    subprocess.run([KOLO, "run", "-n", "2", "--", TRAIN, "--figures", folder, "--limit", "5120", "--steps", str(steps), "--progress", "none"],
                   check=True, timeout=120)


class Figures(unittest.TestCase):
    def test_tensorboard_reads_what_the_table_says(self):
        with tempfile.TemporaryDirectory() as folder:
            train(folder, 20)
            train(folder, 10)  # the run goes on from an earlier step: what came after it is gone
            with open(Path(folder, "figures.csv"), encoding="utf-8", newline="") as file:
                rows = list(csv.DictReader(file))
            self.assertEqual([int(row["step"]) for row in rows if row["name"] == "train/loss"], [10, 20, 10])
            events = EventAccumulator(folder)
            events.Reload()
            names = {row["name"] for row in rows}
            self.assertEqual(set(events.Tags()["scalars"]), names)
            self.assertLessEqual({"train/loss", "train/learning rate", "time/step", "test/accuracy"}, names)
            for name in names:
                last = [row for row in rows if row["name"] == name][-1]
                (scalar,) = events.Scalars(name)
                self.assertEqual((scalar.step, scalar.wall_time), (int(last["step"]), float(last["seconds"])))
                self.assertAlmostEqual(scalar.value, float(last["value"]), delta=1e-6 * abs(scalar.value))


unittest.main(argv=sys.argv[:1], verbosity=2)
