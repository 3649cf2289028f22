#!/usr/bin/env python3
"""The training program with real ranks: the same curve on one rank and on four, readable files, a clean stop."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree

KOLO, PROGRAM = sys.argv[1:3]
TIMEOUT_S = 120
BATCH = 256  # the program's default


def one_epoch(steps):
    """One, because an evaluation ends each, which takes as long as a small epoch."""
    return ["--limit", str(steps * BATCH), "--epochs", "1"]


def command(ranks, *arguments):
    return [KOLO, "run", "-n", str(ranks), "--", PROGRAM, *arguments]


def train(ranks, *arguments, expect=0, **settings):
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(command(ranks, "--output", folder, *arguments), text=True, timeout=TIMEOUT_S,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env={**os.environ, "KOLO_ALGORITHM": "ring", **settings})
        if done.returncode != expect:
            raise AssertionError(f"exit code {done.returncode}\n{done.stdout}")
        files = {}
        for name in os.listdir(folder):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                files[name] = file.read()
        return done.stdout, files


class Program(unittest.TestCase):
    def test_four_ranks_learn_as_one_does(self):
        # At this rate rounding errors stay small; at the default one a short run multiplies them by thousands.
        arguments = [*one_epoch(60), "--lr", "0.03"]
        curves, one_rank = {}, None
        for ranks in (1, 4):
            with tempfile.TemporaryDirectory() as folder:
                beside = os.path.join(folder, "metrics.json")
                if ranks > 1:
                    with open(beside, "w", encoding="utf-8") as file:
                        file.write(one_rank)
                output, files = train(ranks, *arguments, *(["--beside", beside] if ranks > 1 else []))
            one_rank = files["metrics.json"]
            self.assertIn("1 rank, training loss", files["loss.svg"])
            self.assertEqual("4 ranks, training loss" in files["loss.svg"], ranks == 4)
            metrics = json.loads(files["metrics.json"])
            self.assertEqual(metrics["ranks"], ranks)
            self.assertEqual(metrics["steps"], 60)
            curves[ranks] = metrics["loss"]
            communication = metrics["communication"]
            self.assertEqual(communication["sent_bytes_per_step"], communication["ring_bytes_per_step"])
            self.assertEqual(communication["gradient_bytes_per_step"], 4 * metrics["parameters"])
            self.assertIn("test accuracy", output)
            xml.etree.ElementTree.fromstring(files["loss.svg"])
            events = json.loads(files["timeline.json"])["traceEvents"]
            self.assertEqual({event["pid"] for event in events}, set(range(1, ranks + 1)))
            names = {event["name"] for event in events}
            self.assertLessEqual({"forward", "backward", "optimizer", "wait"}, names)
        self.assertLess(curves[1][-1][1], 0.8 * curves[1][0][1], "it learns")
        for one, four in zip(curves[1], curves[4], strict=True):
            self.assertEqual(one[0], four[0])
            self.assertAlmostEqual(one[1], four[1], delta=2e-3)

    def test_all_ways_for_images_to_come_serve(self):
        arguments = [*one_epoch(20), "--lr", "0.05"]
        with tempfile.TemporaryDirectory() as shards:
            losses = {}
            for reader in ("sampler", "scatter", "shards"):
                _, files = train(2, *arguments, "--reader", reader, "--shards", shards)
                metrics = json.loads(files["metrics.json"])
                losses[reader] = [value for _, value, _ in metrics["loss"]]
                self.assertGreater(metrics["data"]["ready_seconds"], 0)
            self.assertIn("shard-7.pt", os.listdir(shards))
        for sampled, scattered in zip(losses["sampler"], losses["scatter"], strict=True):
            self.assertAlmostEqual(sampled, scattered, delta=2e-3)
        self.assertLess(losses["shards"][-1], losses["shards"][0])

    def test_parts_of_a_batch_make_the_step_of_the_whole(self):
        arguments = [*one_epoch(12), "--lr", "0.05"]
        curves = [json.loads(train(2, *arguments, *parts)[1]["metrics.json"])["loss"]
                  for parts in ((), ("--accumulate", "4"))]
        for whole, parted in zip(*curves, strict=True):
            self.assertAlmostEqual(whole[1], parted[1], delta=2e-3)

    def test_schedules_set_the_rate_or_the_batch(self):
        def run(*arguments):
            return json.loads(train(2, "--limit", "1024", "--epochs", "2", *arguments)[1]["metrics.json"])
        grown, lowered = (run("--schedule", kind, "--milestones", "2@1", "--warm-up", "0", "--lr", "0.04")
                          for kind in ("growing-batch", "steps"))
        self.assertEqual(grown["steps"], 4 + 2)
        self.assertEqual(grown["images"], 2048)
        self.assertEqual(lowered["steps"], 8)
        self.assertEqual([point[1] for point in lowered["learning_rate"]], [0.04, 0.02])
        layered = run("--optimizer", "lars", "--batch", "512", "--scale-rate", "linear", "--schedule", "one-cycle")
        self.assertEqual(layered["steps"], 4)
        self.assertLess(layered["learning_rate"][-1][1], 0.01)

    def test_schedules_that_cannot_be_are_refused(self):
        for arguments, says in ((("--warm-up", "5"), "warm-up"),
                                (("--schedule", "steps", "--milestones", "often"), "--milestones often is not like"),
                                (("--accumulate", "3"), "accumulated in 3 equal parts")):
            output, _ = train(2, "--limit", "1024", "--epochs", "2", *arguments, expect=1)
            self.assertIn(says, output)

    def test_mixed_precision_learns_as_float32_does(self):
        losses = {}
        for options in ((), ("--bfloat16", "--wire", "float16", "--loss-scale", "65536")):
            _, files = train(2, *one_epoch(20), "--lr", "0.02", *options)
            losses[options] = [value for _, value, _ in json.loads(files["metrics.json"])["loss"]]
        for plain, mixed in zip(*losses.values(), strict=True):
            self.assertAlmostEqual(plain, mixed, delta=0.05)
        self.assertNotEqual(*losses.values())

    def test_gradient_hooks_learn_too_and_send_less(self):
        for hook, share, more in (("one_bit", 1 / 25, ["--lr", "0.02"]),
                                  ("top_k:ratio=0.01", 1 / 18, ["--lr", "0.1", "--momentum", "0"])):
            with self.subTest(hook=hook):
                # Over tcp, because bytes through shared memory are not counted as sent.
                _, files = train(4, *one_epoch(40), "--hook", hook, *more, KOLO_TRANSPORTS="tcp")
                metrics = json.loads(files["metrics.json"])
                self.assertEqual(metrics["options"]["hook"], hook)
                communication = metrics["communication"]
                self.assertGreater(communication["sent_bytes_per_step"], 0)
                self.assertLess(communication["sent_bytes_per_step"], share * communication["ring_bytes_per_step"])
                self.assertLess(metrics["loss"][-1][1], 0.8 * metrics["loss"][0][1], "it learns")

    def test_one_bit_adam_sends_less_after_its_warm_up(self):
        _, files = train(4, *one_epoch(40), "--optimizer", "one_bit_adam", "--lr", "0.002",
                         "--freeze-after-steps", "10", KOLO_TRANSPORTS="tcp")
        metrics = json.loads(files["metrics.json"])
        self.assertEqual(metrics["options"]["optimizer"], "one_bit_adam")
        communication = metrics["communication"]
        # 9 of the 39 steps that are counted belong to the warm-up.
        share = communication["sent_bytes_per_step"] / communication["ring_bytes_per_step"]
        self.assertGreater(share, 9 / 39)
        self.assertLess(share, 9 / 39 + 1 / 20)
        self.assertLess(metrics["loss"][-1][1], 0.8 * metrics["loss"][0][1], "it learns")

    def test_a_hook_and_an_optimizer_with_one_momentum_each_are_refused(self):
        output, _ = train(2, "--limit", "512", "--steps", "1", "--hook", "top_k", expect=1)
        self.assertIn("set that of SGD to 0", output)

    def test_an_accuracy_that_is_missed_is_an_error(self):
        output, _ = train(2, "--limit", "512", "--steps", "1", "--require-accuracy", "99", expect=1)
        self.assertIn("below the required", output)

    def test_missing_data_is_named(self):
        output, _ = train(2, "--data", "/nowhere", expect=1)
        self.assertIn("/nowhere/train-images-idx3-ubyte.gz", output)

    def test_a_batch_that_cannot_be_shared_is_refused(self):
        output, _ = train(3, "--limit", "512", "--batch", "256", expect=1)
        self.assertIn("cannot be shared by 3 ranks", output)

    def test_an_interrupt_stops_between_two_steps(self):
        for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            with subprocess.Popen(command(2, "--limit", "8192", "--epochs", "1000"), text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as job:
                try:
                    lines = []
                    for line in job.stdout:
                        lines.append(line)
                        if "images/s" in line:
                            break
                    begin = time.monotonic()
                    job.send_signal(number)
                    lines += job.stdout.readlines()
                    self.assertEqual(job.wait(TIMEOUT_S), status, "".join(lines))
                    self.assertLess(time.monotonic() - begin, 20)
                    self.assertIn(f"stopped by signal {int(number)} after step", "".join(lines))
                finally:
                    job.kill()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
