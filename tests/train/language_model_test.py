#!/usr/bin/env python3
"""The language model with real ranks: the same curve on one rank and on four, unusable texts, checkpoints."""
import gzip
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

KOLO, PROGRAM = sys.argv[1:3]
TIMEOUT_S = 120
SMALL = {"--width": 32, "--layers": 1, "--heads": 2, "--context": 32, "--ngram-rows": 512, "--batch": 16, "--precision": "float32",
         "--generate": 40}
WORDS = "gradient ring sum worker bucket bytes of the and sends receives each".split()


def entry(number, draw):
    definition = " ".join(draw.choice(WORDS) for _ in range(12))
    return f"word{number:04}\n    n 1: {definition};\n         \"{draw.choice(WORDS)}\"\n    2: {draw.choice(WORDS)} {number}\n"


def dictionary(entries=400):
    draw = random.Random(1)
    return "".join(entry(number, draw) for number in range(entries))


class LanguageModel(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.text = self.write("text", dictionary().encode())

    def write(self, name, content):
        path = os.path.join(self.folder.name, name)
        with open(path, "wb") as file:
            file.write(content)
        return path

    def train(self, ranks, *arguments, expect=0, text=None):
        output = os.path.join(self.folder.name, f"output{ranks}")
        options = {**SMALL, "--text": text or self.text, "--output": output, **dict(zip(arguments[::2], arguments[1::2], strict=True))}
        done = subprocess.run([KOLO, "run", "-n", str(ranks), "--", PROGRAM, *(str(word) for option in options.items() for word in option)],
                              text=True, timeout=TIMEOUT_S, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env={**os.environ, "KOLO_ALGORITHM": "ring"})
        self.assertEqual(done.returncode, expect, done.stdout)
        return done.stdout, output

    def metrics(self, output):
        with open(os.path.join(output, "metrics.json"), encoding="utf-8") as file:
            return json.load(file)

    def test_four_ranks_learn_as_one_does(self):
        runs = {}
        for ranks in (1, 4):
            more = ["--beside", os.path.join(self.folder.name, "output1", "metrics.json")] if ranks > 1 else []
            said, output = self.train(ranks, "--steps", "60", "--prompt", "word", *more)
            runs[ranks] = run = self.metrics(output)
            self.assertIn("bits per byte, held out", said)
            self.assertTrue(run["generated"].startswith("word"))
            self.assertEqual((run["ranks"], run["steps"], run["bytes_per_step"]), (ranks, 60, 16 * 32))
            self.assertEqual(run["communication"]["gradient_bytes_per_step"], 4 * run["parameters"])
            # Parts of a rank are whole elements, so their bytes are those of the formula to a few elements a bucket.
            self.assertAlmostEqual(run["communication"]["sent_bytes_per_step"], run["communication"]["ring_bytes_per_step"], delta=200)
            xml.etree.ElementTree.parse(os.path.join(output, "bits.svg"))
            with open(os.path.join(output, "timeline.json"), encoding="utf-8") as file:
                names = {event["name"] for event in json.load(file)["traceEvents"]}
            self.assertLessEqual({"forward", "backward", "optimizer"}, names)
        one, four = (runs[ranks]["loss"] for ranks in (1, 4))
        self.assertLess(one[-1][1], 0.8 * one[0][1], "it learns")
        for a, b in zip(one, four, strict=True):
            self.assertEqual(a[0], b[0])
            self.assertAlmostEqual(a[1], b[1], delta=2e-3)
        self.assertAlmostEqual(runs[1]["held_out"][-1][1], runs[4]["held_out"][-1][1], delta=2e-3)
        self.assertLess(runs[1]["held_out"][-1][1], runs[1]["held_out"][0][1])

    def test_shards_learn_the_same(self):
        losses = {}
        for shard in ("none", "optimizer_state", "gradients", "parameters"):
            _, output = self.train(3, "--batch", "15", "--steps", "30", "--shard", shard)
            run = self.metrics(output)
            losses[shard] = [bits for _, bits, _ in run["loss"]] + [run["held_out"][-1][1]]
            share = run["communication"]["sent_bytes_per_step"] / run["communication"]["ring_bytes_per_step"]
            # Some parameters are already gathered after an evaluation, or after forward.
            most = 1.5 if shard == "parameters" else 1
            self.assertGreater(share, 0.8 * most)
            self.assertLess(share, most + 0.001)
        for shard, values in losses.items():
            for one, other in zip(values, losses["none"], strict=True):
                self.assertAlmostEqual(one, other, delta=2e-3, msg=shard)

    def test_a_sharded_checkpoint_goes_on_with_other_ranks(self):
        checkpoint = os.path.join(self.folder.name, "run")
        self.train(4, "--steps", "20", "--checkpoint", checkpoint, "--shard", "parameters")
        said, output = self.train(2, "--steps", "60", "--checkpoint", checkpoint, "--shard", "gradients")
        self.assertIn("goes on after step 20", said)
        self.assertLess(self.metrics(output)["held_out"][-1][1], 4)

    def test_time_ends_it_too(self):
        said, output = self.train(2, "--minutes", "0.05")
        run = self.metrics(output)
        self.assertGreaterEqual(run["training_seconds"], 3)
        self.assertIn("min", said)

    def test_definitions_that_are_known_are_not_held_out(self):
        text = dictionary()
        entries = [f"word{part}" for part in text.split("word")[1:]]
        repeated = "again" + entries[3][len("word0003"):]
        fresh = "fresh\n    n 1: nobody has read this\n"
        both = "both\n    n 1: nor that\n    2: " + entries[5].split("1: ")[1].split("\n    2:")[0] + "\n"
        _, output = self.train(1, "--steps", "5", text=self.write("more", (text + repeated + fresh + both).encode()))
        repeats = len(repeated) + len(both)
        whole = len(text) + repeats + len(fresh)
        run = self.metrics(output)
        self.assertEqual(run["training_bytes"] + run["held_out_bytes"], whole - repeats)
        # A compressed text gives the same result.
        _, output = self.train(1, "--steps", "5", text=self.write("more.gz", gzip.compress((text + repeated + fresh + both).encode())))
        self.assertEqual(self.metrics(output)["loss"][0][1], run["loss"][0][1])

    def test_a_text_that_cannot_be_read_is_named(self):
        packed = gzip.compress(dictionary().encode())
        for text, says in (("/nowhere/text", "cannot open /nowhere/text"), (self.write("empty", b""), "empty is empty"),
                           (self.write("short", b"a few words\n"), "short holds 12 bytes, fewer than"),
                           (self.write("cut.gz", packed[:len(packed) // 2]), "cut.gz is cut short"),
                           (self.write("damaged.gz", packed[:100] + b"\0" * 100 + packed[200:]), "damaged.gz is damaged")):
            said, _ = self.train(2, "--steps", "1", expect=1, text=text)
            self.assertIn("rank 0: ", said)
            self.assertIn(says, said)

    def test_options_that_do_not_fit_are_refused(self):
        for arguments, says in ((("--batch", "15"), "--batch 15 cannot be shared by 2 ranks"),
                                (("--width", "33"), "--width 33 cannot be shared by 2 heads"),
                                (("--beside", "/nowhere"), "/nowhere: cannot be read"),
                                (("--beside", self.text), "text: ")):
            said, _ = self.train(2, "--steps", "1", *arguments, expect=1)
            self.assertIn(says, said)
        said, _ = self.train(2, "--steps", "2", "--require-bits", "0.01", expect=1)
        self.assertIn("more than the required 0.010", said)

    def test_a_checkpoint_goes_on_and_a_loss_that_is_no_number_does_not_reach_it(self):
        checkpoint = os.path.join(self.folder.name, "run")
        _, output = self.train(2, "--steps", "20", "--checkpoint", checkpoint)
        first = self.metrics(output)
        said, output = self.train(2, "--steps", "60", "--checkpoint", checkpoint)
        self.assertIn("goes on after step 20", said)
        second = self.metrics(output)
        self.assertEqual(second["steps"], 60)
        self.assertEqual(second["loss"][:len(first["loss"])], first["loss"], "the curve goes on, too")
        self.assertLess(second["held_out"][-1][1], first["held_out"][-1][1])
        self.assertGreater(second["training_seconds"], first["training_seconds"])

        before = sorted(os.listdir(checkpoint))
        said, _ = self.train(2, "--steps", "400", "--lr", "1e30", "--checkpoint", checkpoint, expect=1)
        self.assertRegex(said, r"rank 0: the loss of step \d+ is -?(nan|inf)")
        self.assertEqual(sorted(os.listdir(checkpoint)), before)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
