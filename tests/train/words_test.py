#!/usr/bin/env python3
"""The word model with real ranks: it learns, and tables with sparse gradients learn what dense ones learn."""
import sys
import tempfile
import unittest

from results import results_of

KOLO, PROGRAM = sys.argv[1:3]
SMALL = ["--width", "8", "--tokens", "128", "--negatives", "64"]


def train(tables, *arguments, vocabulary=3000, ranks=3, expect=0):
    def command(file):
        return [KOLO, "run", "-n", str(ranks), "--", PROGRAM, *SMALL, "--vocabulary", str(vocabulary), "--tables", tables,
                "--json", file, *arguments]
    return results_of(command, expect, KOLO_ALGORITHM="ring")  # by messages, whose bytes are counted


class Words(unittest.TestCase):
    def test_sparse_tables_learn_what_dense_ones_learn(self):
        for optimizer in ("sgd", "adagrad"):
            runs = {tables: train(tables, "--optimizer", optimizer, "--lr", "0.2", "--steps", "60")
                    for tables in ("sparse", "gather", "dense")}
            dense = runs.pop("dense")
            self.assertLess(dense["loss"][-1], 0.97 * dense["loss"][0], "it learns")
            for tables, run in runs.items():
                self.assertEqual(len(run["loss"]), 60)
                for one, other in zip(run["loss"], dense["loss"], strict=True):
                    self.assertAlmostEqual(one, other, delta=1e-4, msg=f"{optimizer}, {tables}")
                self.assertLess(run["sent_bytes_per_step"], 0.5 * dense["sent_bytes_per_step"])

    def test_adam_moves_the_rows_of_a_step(self):
        run = train("sparse", "--optimizer", "adam", "--lr", "0.01", "--steps", "60")
        self.assertLess(run["loss"][-1], 0.97 * run["loss"][0], "it learns")

    def test_a_text_of_ones_own(self):
        sentence = "The quick brown fox jumps over the lazy dog's tail.\n"
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as text:
            text.write(sentence * 1000)
            text.flush()
            run = train("sparse", "--text", text.name, "--steps", "40", "--held-out", "200", vocabulary=12)
            self.assertLess(run["loss"][-1], 0.5 * run["loss"][0], "it learns the only sentence that there is")
            # An untrained model gives all 12 words equal probability.
            self.assertLess(run["perplexity"], 6)
            self.assertGreater(run["perplexity"], 1)
            said = train("sparse", "--text", text.name, "--held-out", "2000", vocabulary=12, expect=1)
            self.assertIn("--held-out 2000: there are 990 words held out", said)
            text.truncate(100)
            said = train("sparse", "--text", text.name, expect=1)
            self.assertIn(f"{text.name} holds 100 bytes, fewer than", said)
            text.seek(0)
            text.write("x" * 50_000)
            text.flush()
            self.assertIn("holds fewer than 1000 words", train("sparse", "--text", text.name, expect=1))
        self.assertIn("cannot open /nowhere", train("sparse", "--text", "/nowhere", expect=1))

    def test_perplexity_is_the_same_however_many_ranks_compute_it(self):
        # Without effective steps, it is that of the initial model.
        runs = [train("sparse", "--held-out", "500", "--steps", "1", "--lr", "1e-9", ranks=ranks) for ranks in (1, 3)]
        self.assertAlmostEqual(runs[0]["perplexity"], runs[1]["perplexity"], delta=0.01)
        self.assertAlmostEqual(runs[0]["perplexity"], 3000, delta=300)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
