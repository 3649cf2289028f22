"""train_hybrid: a job divided in several ways learns as one rank does, and impossible grids are refused."""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

KOLO, TRAIN = sys.argv[1:3]
SMALL = ["--steps", "4", "--batch", "8", "--context", "16", "--width", "16", "--layers", "2", "--progress", "none"]


def run(ranks, *options, **settings):
    return subprocess.run([KOLO, "run", "-n", str(ranks), "--", TRAIN, *SMALL, *options], text=True, timeout=120,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**os.environ, **settings})


class Hybrid(unittest.TestCase):
    def train(self, text, ranks, *options, **settings):
        with tempfile.TemporaryDirectory() as folder:
            results = Path(folder, "results.json")
            done = run(ranks, "--text", str(text), "--json", str(results), *options, **settings)
            self.assertEqual(done.returncode, 0, done.stdout)
            return json.loads(results.read_text())

    def test_every_grid_learns_as_one_rank(self):
        with tempfile.TemporaryDirectory() as folder:
            text = Path(folder, "text")
            text.write_text("".join(f"word{i}\n   n {i}: a definition of the number {i * i}\n" for i in range(2000)))
            alone = self.train(text, 1)
            self.assertLess(alone["loss"][-1], alone["loss"][0])
            for ranks, grid in ((4, ["--sharded", "2", "--tensor", "2"]),
                                (8, ["--data", "2", "--pipeline", "2", "--tensor", "2", "--micro-batches", "2"])):
                times = Path(folder, f"times-{ranks}")
                divided = self.train(text, ranks, *grid, KOLO_TIMELINE=str(times))
                self.expect_spans(times)
                self.assertEqual(len(divided["loss"]), 4)
                for mine, other in zip(alone["loss"], divided["loss"]):
                    self.assertAlmostEqual(mine, other, delta=1e-4 * mine, msg=str(grid))
                self.assertLess(divided["parameters_of_a_rank"], alone["parameters_of_a_rank"], grid)

    def expect_spans(self, folder):
        """One merged timeline shows what the ways to divide do."""
        subprocess.run([KOLO, "trace", "merge", *folder.glob("*.json"), "-o", folder / "job.json"], check=True,
                       stdout=subprocess.DEVNULL)
        names = {event["name"] for event in json.loads((folder / "job.json").read_text())["traceEvents"]}
        self.assertIn("sum over group", names)
        if folder.name == "times-8":
            self.assertLessEqual({"forward 0", "backward 1", "wait for output 1", "averages over pipelines"}, names)

    def test_grids_that_cannot_be_are_refused(self):
        for ranks, options, words in ((2, ["--data", "3"], "takes 3 ranks, and there are 2"),
                                      (3, ["--data", "3"], "--batch 8 cannot be cut into 3"),
                                      (5, ["--pipeline", "5"], "4 layers cannot be 5 stages")):
            done = run(ranks, *options)
            self.assertNotEqual(done.returncode, 0, options)
            self.assertIn(words, done.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
