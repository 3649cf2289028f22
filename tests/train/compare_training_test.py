#!/usr/bin/env python3
"""scripts/compare-training with fake programs: its runs, its stored rows, and how it resumes."""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(sys.argv[1]) / "scripts/compare-training"
sys.path.insert(0, str(SCRIPT.parent))
from training_tables import RATES, TABLES, summary  # noqa: E402

# Answers with an accuracy that depends on the rate and the seed; fails where the hook is int8.
TRAIN = """#!/usr/bin/env python3
import json, os, sys
options = dict(zip(sys.argv[1::2], sys.argv[2::2]))
if options.get("--hook") == "int8":
    sys.exit("no memory")
rate, seed = float(options["--lr"]), int(options["--seed"])
accuracy = 91 - abs(rate - 0.05) + seed / 100
json.dump({"test_accuracy": [[1, 84.0, 10.0], [2, 86.0, 20.0], [3, accuracy, 30.0]], "loss": [[3, 0.2, 30.0]], "steps": 9,
           "training_seconds": 30.0, "communication": {"sent_bytes_per_step": 50.0, "ring_bytes_per_step": 100.0}},
          open(os.path.join(options["--output"], "metrics.json"), "w"))
"""
# Faster with rows than with whole tables, with the same loss.
WORDS = """#!/usr/bin/env python3
import json, sys
options = dict(zip(sys.argv[1::2], sys.argv[2::2]))
seconds = {"sparse": 0.1, "gather": 0.2, "dense": 0.5}[options["--tables"]]
json.dump({"loss": [9.0, 7.25], "median_step_s": seconds, "mean_step_s": 2 * seconds, "sent_bytes_per_step": 1.5e6},
          open(options["--json"], "w"))
"""
KOLO = """#!/usr/bin/env python3
import os, sys
program = sys.argv[sys.argv.index("--") + 1:]
os.execv(program[0], program)
"""


class CompareTraining(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        for name, text in (("train_fashion_mnist", TRAIN), ("train_words", WORDS), ("kolo", KOLO)):
            (self.folder / name).write_text(text)
            (self.folder / name).chmod(0o755)
        self.json = self.folder / "rows/rows.jsonl"

    def compare(self, *arguments, expect=0):
        done = subprocess.run([sys.executable, "-B", SCRIPT, *arguments, "--json", self.json, "--programs", self.folder],
                              text=True, capture_output=True, timeout=60, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
        self.assertEqual(done.returncode, expect, done.stderr)
        return done.stdout, done.stderr

    def rows(self):
        return [json.loads(line) for line in self.json.read_text().splitlines()]

    def test_the_best_rate_is_taken_and_seeds_are_summed_up(self):
        self.compare("rates", "--only", "float32")
        self.assertEqual([row["rate"] for row in self.rows()], list(RATES))
        table, _ = self.compare("accuracy", "--only", "float32", "--seeds", "3")
        taken = [row for row in self.rows() if row["table"] == "accuracy"]
        self.assertEqual([(row["rate"], row["seed"]) for row in taken], [(0.05, 1), (0.05, 2), (0.05, 3)])
        self.assertIn("91.02 ± 0.01", table)
        for field in ("machine", "date", "kind", "share_of_float32", "to_85_s"):
            self.assertIn(field, taken[0])
        self.assertEqual(taken[0]["to_85_s"], 20)

    def test_adam_has_the_same_grid_of_smaller_rates(self):
        table, _ = self.compare("rates", "--only", "float32,adam")
        self.assertEqual([row["rate"] for row in self.rows() if row["arm"] == "adam"], [rate / 50 for rate in RATES])
        cells = {line.split("|")[1].strip(): line.split("|")[2:-1] for line in table.splitlines()[2:]}
        self.assertEqual(list(cells), ["float32", "adam, rate / 50"])
        self.assertNotIn("-", "".join(cells["adam, rate / 50"]))

    def test_what_is_there_is_not_run_again(self):
        self.compare("accuracy", "--only", "float32", "--seeds", "1")
        _, progress = self.compare("accuracy", "--only", "float32,one_bit", "--seeds", "1")
        self.assertIn("1 left  one_bit", progress)
        self.assertEqual(len(self.rows()), 2)
        shown, progress = self.compare("accuracy", "--show")
        self.assertEqual(progress, "")
        self.assertIn("one_bit", shown)

    def test_a_run_that_fails_is_a_row_that_says_why(self):
        table, _ = self.compare("accuracy", "--only", "float32,int8", "--seeds", "1")
        self.assertIn("failed: int8: exit code 1: ['no memory']", table)
        self.assertIn("| float32", table)
        self.assertNotIn("| int8", table)
        self.assertIn("A run that failed runs again when its line is taken out of", table)

    def test_blocks_take_turns_and_are_compared_in_pairs(self):
        keys = [row.key for row in TABLES["sparse"]([], 1)]
        blocks = [(key["block"], key["arm"]) for key in keys if key["block"] > 0]
        self.assertEqual(blocks, [(block, arm) for block in range(1, 21) for arm in ("sparse", "gather", "dense")])
        # The machine gets slower from block to block, but the ratios stay equal.
        seconds = {"sparse": 0.1, "gather": 0.2, "dense": 0.5}
        rows = [{"table": "sparse", **key, "loss": 7.25, "median_step_s": (1 + key["block"]) * seconds[key["arm"]],
                 "mean_step_s": 1.0, "sent_bytes_per_step": 1.5e6} for key in keys]
        line = next(line for line in summary("sparse", rows).splitlines() if line.startswith("| sparse"))
        self.assertEqual([cell.strip() for cell in line.split("|")[1:-1]],
                         ["sparse", "1150", "1000", "5.00 x (5.00 to 5.00)", "1.50", "7.25000", "7.25000"])

    def test_drivers_are_run_where_they_can_be_and_compared_in_pairs(self):
        rows = list(TABLES["drivers"]([], 1))
        first = [(row.key["workers"], row.key["network"], row.key["arm"]) for row in rows if row.key["block"] == 1]
        self.assertEqual(len(first), 14)
        self.assertEqual([arm for workers, network, arm in first if network == "1gbit"],
                         ["central driver", "parameter server", "DDP, ring", "DDP"])
        def command(*key):
            row = next(row for row in rows if tuple(row.key.values()) == key)
            return " ".join(row.command(Path("programs"), Path("folder")))
        self.assertEqual(command("DataParallel", 2, "one host", 1),
                         "programs/train_data_parallel --json folder/results.json --steps 16 --hidden 1024 "
                         "--workers replicas --replicas 2")
        self.assertTrue(command("central driver", 4, "one host", 1).startswith("env KOLO_ALGORITHM=central programs/kolo run -n 4 -- "))
        self.assertTrue(command("DDP", 4, "1gbit", 1).startswith("scripts/cluster --hosts 4 --rate 1gbit "))
        # The machine gets slower from block to block, but the ratios stay equal.
        found = [{"table": "drivers", **row.key, "median_step_s": (1 + row.key["block"]) * (0.3 if row.key["arm"] == "central driver" else 0.2),
                  "mean_step_s": 1.0, "sent_bytes_per_step": 1.5e6} for row in rows]
        line = next(line for line in summary("drivers", found).splitlines() if line.startswith("| 4, 1gbit") and "central" in line)
        self.assertEqual([cell.strip() for cell in line.split("|")[1:-1]],
                         ["4, 1gbit", "central driver", "3450", "1000", "1.50 x (1.50 to 1.50)", "1.50"])

    def test_language_models_run_for_steps_or_minutes(self):
        rows = list(TABLES["language-model"]([], 5))
        def command(arm, **key):
            row = next(row for row in rows if row.key == {"arm": arm, **key})
            return row, " ".join(row.command(Path("programs"), Path("folder")))
        _, one = command("bytes, 1 rank", fixed_steps=600, seed=1)
        self.assertIn("kolo run -n 1 -- programs/train_language_model --output folder", one)
        row, four = command("bytes, 4 ranks", minutes=10, seed=1)
        self.assertIn("run -n 4 ", four)
        self.assertIn("--minutes 10 --seed 1", four)
        self.assertGreater(row.limit_s, 10 * 60)
        _, words = command("words, sparse tables", seed=3)
        self.assertIn("train_words --text /usr/share/dictd/wn.dict.dz --held-out 20000", words)
        self.assertEqual(sum(row.key.get("minutes") == 10 for row in rows), 3)
        found = [{"table": "language-model", "arm": "bytes, 4 ranks", "minutes": 10, "steps": 1000, "bytes_per_s": 30000.0, "bits": bits}
                 for bits in (2.0, 2.2)]
        found.append({"table": "language-model", "arm": "words, sparse tables", "steps": 9, "mean_step_s": 0.5, "perplexity": 99.0})
        bits, _, words = summary("language-model", found).partition("\n\n")
        self.assertEqual([cell.strip() for cell in bits.splitlines()[-1].split("|")[1:-1]],
                         ["bytes, 4 ranks, 10 minutes", "2", "1,000", "30,000", "2.10 ± 0.14"])
        self.assertEqual([cell.strip() for cell in words.splitlines()[-1].split("|")[1:-1]],
                         ["words, sparse tables", "1", "9", "500", "99.00"])

    def test_ways_of_the_images_are_compared_in_pairs(self):
        rows = list(TABLES["data"]([], 1))
        self.assertEqual([row.key["arm"] for row in rows[:4]], ["sampler", "shards", "scatter", "sampler"])
        command = " ".join(rows[2].command(Path("programs"), Path("folder")))
        self.assertIn("programs/train_fashion_mnist --output folder", command)
        self.assertIn("--reader scatter --shards ", command)
        seconds = {"sampler": 0.1, "shards": 0.1, "scatter": 0.2}
        found = [{"table": "data", **row.key, "step_s": row.key["block"] * seconds[row.key["arm"]], "wait_s": 0.002,
                  "ready_s": 1.5} for row in rows]
        line = next(line for line in summary("data", found).splitlines() if line.startswith("| scatter"))
        self.assertEqual([cell.strip() for cell in line.split("|")[1:-1]],
                         ["scatter", "1.50", "2.00", "2100.0", "2.00 x (2.00 to 2.00)"])

    def test_the_word_model_is_run_and_read(self):
        row = next(TABLES["sparse"]([], 1))
        subprocess.run(row.program(self.folder, self.folder), check=True)
        found = row.results(self.folder)
        self.assertEqual((found["loss"], found["median_step_s"], found["sent_bytes_per_step"]), (7.25, 0.1, 1.5e6))
        self.assertEqual(row.said(found), "100 ms a step, loss 7.25000")

    def test_without_rows_there_is_no_table(self):
        _, said = self.compare("rates", "--show", expect=1)
        self.assertIn("has no rows of rates", said)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
