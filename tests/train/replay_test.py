#!/usr/bin/env python3
"""bench_train: it replays what it records, and the numbers of its subcommands are consistent."""
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

KOLO, PROGRAM = sys.argv[1:3]


def run(*command, expect=0):
    done = subprocess.run(command, text=True, timeout=100, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != expect:
        raise AssertionError(f"exit code {done.returncode}\n{done.stdout}")
    return done.stdout


class Replay(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.trace = str(Path(cls.folder.name) / "trace.json")
        run(PROGRAM, "record", "--model", "cnn", "--batch", "16", "--steps", "3", "--output", cls.trace)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def replay(self, *options):
        output = run(KOLO, "run", "-n", "2", "--no-prefix", "--", PROGRAM, "replay", "--trace", self.trace, "--steps", "3",
                     "--first-bucket", "4096", "--json", *options)
        return json.loads(output.strip().splitlines()[-1])

    def test_the_trace_has_all_parameters_in_the_time_of_backward(self):
        trace = json.loads(Path(self.trace).read_text())
        self.assertEqual(sum(len(p["shape"]) == 4 for p in trace["parameters"]), 2)
        self.assertEqual(len(trace["parameters"]), 8)
        for parameter in trace["parameters"]:
            self.assertGreater(parameter["ready"], 0)
            self.assertLess(parameter["ready"], 10 * trace["backward"])
        # The last layer is ready first.
        self.assertEqual(max(trace["parameters"], key=lambda p: p["ready"])["name"][:2], "0.")

    def test_a_step_takes_what_was_recorded_at_least(self):
        trace, row = json.loads(Path(self.trace).read_text()), self.replay()
        self.assertEqual(row["kind"], "replayed")
        self.assertEqual(row["gradient_bytes"], 4 * 105_866)
        self.assertGreater(row["buckets"], 1)
        self.assertAlmostEqual(row["forward_s"], trace["forward"])
        self.assertGreaterEqual(row["step_s"], trace["forward"] + trace["optimizer"])
        self.assertGreaterEqual(row["bound_s"], row["forward_s"] + row["backward_s"] + row["optimizer_s"] - 1e-9)

    def test_averages_that_go_on_in_the_next_forward_stand_beside_the_others(self):
        row = self.replay("--compute", "2", "--overlap-forward")
        compute = row["forward_s"] + row["backward_s"] + row["optimizer_s"]
        self.assertGreaterEqual(row["overlapped"]["step_mean_s"], compute)
        self.assertGreaterEqual(row["overlapped"]["bound_s"], compute)
        self.assertLess(row["overlapped"]["first_layer_s"], row["communication_s"])
        self.assertNotIn("overlapped", self.replay())

    def test_averages_that_arrive_late_stand_beside_the_others(self):
        row = self.replay("--compute", "2", "--delayed-averages")
        compute = row["forward_s"] + row["backward_s"] + row["optimizer_s"]
        self.assertEqual(row["delayed"]["bound_s"], max(row["delayed"]["computation_s"], row["delayed"]["communication_s"]))
        self.assertGreaterEqual(row["delayed"]["computation_s"], compute)
        self.assertGreaterEqual(row["delayed"]["step_mean_s"], compute)
        self.assertNotIn("delayed", self.replay())

    def test_computation_is_scaled_to_communication(self):
        row = self.replay("--compute", "2", "--hook", "int8")
        self.assertEqual(row["hook"], "int8:feedback=0:start_after_steps=0")
        compute = row["forward_s"] + row["backward_s"] + row["optimizer_s"]
        self.assertAlmostEqual(compute, 2 * row["communication_s"], delta=1e-9 + 1e-6 * compute)

    def test_seconds_of_computation_may_be_named(self):
        results = Path(self.folder.name) / "results.json"
        row = self.replay("--seconds", "0.05", "--output", str(results))
        self.assertAlmostEqual(row["forward_s"] + row["backward_s"] + row["optimizer_s"], 0.05)
        self.assertGreaterEqual(row["step_s"], row["forward_s"] + row["optimizer_s"])
        self.assertEqual(json.loads(results.read_text()), row)
        self.assertNotIn("tokens_per_s", row)
        run(PROGRAM, "replay", "--trace", self.trace, "--seconds", "1", "--compute", "1", expect=2)
        run(PROGRAM, "replay", "--trace", self.trace, "--output", "/nowhere/results.json", expect=1)

    def test_tokens_of_a_language_model_are_counted(self):
        trace = str(Path(self.folder.name) / "language_model.json")
        run(PROGRAM, "record", "--model", "language_model", "--batch", "2", "--steps", "1", "--output", trace)
        row = json.loads(run(KOLO, "run", "-n", "2", "--no-prefix", "--", PROGRAM, "replay", "--trace", trace, "--steps",
                             "2", "--json").strip().splitlines()[-1])
        self.assertEqual(row["tokens"], 2 * 64)
        self.assertAlmostEqual(row["tokens_per_s"], 2 * 2 * 64 / row["step_mean_s"])

    def test_steps_are_computed_for_real_too(self):
        row = json.loads(run(KOLO, "run", "-n", "2", "--no-prefix", "--", PROGRAM, "train", "--model", "cnn", "--batch",
                             "4", "--steps", "3", "--json").strip().splitlines()[-1])
        self.assertEqual((row["kind"], row["ranks"]), ("computed", 2))
        self.assertGreater(row["step_mean_s"], 0)

    def test_divided_layers_are_summed_beside_one_rank_with_all_of_them(self):
        profile = Path(self.folder.name) / "profile.json"
        profile.write_text(json.dumps({"layers": [{"forward_ms": 4, "backward_ms": 6, "tensor_sums": 4096},
                                                  {"forward_ms": 1, "backward_ms": 1}]}))
        for sequence in ([], ["--sequence"]):
            row = json.loads(run("env", "KOLO_TRANSPORTS=tcp", "KOLO_ALGORITHM=ring", KOLO, "run", "-n", "2", "--no-prefix", "--",
                                 PROGRAM, "tensor", "--profile", str(profile), "--steps", "2", "--json",
                                 *sequence).strip().splitlines()[-1])
            self.assertGreaterEqual(row["alone_mean_s"], 0.012)
            self.assertGreaterEqual(row["step_mean_s"], 0.007)
            # In forward and in backward, each of two ranks sends half of the summed bytes and receives the other half.
            self.assertAlmostEqual(row["sent_bytes"], 2 * 4096, delta=16)
        run(PROGRAM, "tensor", "--profile", "/nowhere.json", expect=1)

    def pipeline(self, *options):
        output = run(KOLO, "run", "-n", "2", "--no-prefix", "--", PROGRAM, "pipeline", "--steps", "2", "--json", *options)
        return json.loads(output.strip().splitlines()[-1])

    def test_stages_of_a_pipeline_sleep_as_long_as_they_are_said_to(self):
        row = self.pipeline("--micro-batches", "4", "--forward-ms", "2", "--backward-ms", "4")
        self.assertEqual((row["kind"], row["most_held"], row["formula"]), ("replayed", [2, 1], 1 / 5))
        self.assertAlmostEqual(row["computing_s"], 4 * 0.006)
        self.assertGreater(row["step_mean_s"], row["computing_s"])
        self.assertAlmostEqual(row["bubble"], 1 - row["computing_s"] / row["step_mean_s"])

    def test_layers_of_a_profile_are_cut_by_their_times(self):
        profile = Path(self.folder.name) / "profile.json"
        layers = [{"name": str(i), "forward_ms": ms, "backward_ms": 2 * ms, "output_bytes": 64} for i, ms in enumerate((1, 1, 3))]
        profile.write_text(json.dumps({"layers": layers}))
        row = self.pipeline("--micro-batches", "2", "--profile", str(profile), "--partition", "--slower", "2")
        self.assertEqual(row["borders"], [2])
        self.assertAlmostEqual(row["slowest_stage_s"], 0.018)
        self.assertAlmostEqual(row["computing_s"], 2 * 0.015 / 2)

    def test_what_is_no_trace_is_named(self):
        run(PROGRAM, "replay", "--trace", "/nowhere.json", expect=1)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
