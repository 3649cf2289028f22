#!/usr/bin/env python3
"""The table scaling of scripts/compare-training: its runs, its efficiencies, its prediction and its picture."""
import json
import sys
import tempfile
import unittest
from pathlib import Path
from xml.etree import ElementTree

SCRIPTS = Path(sys.argv[1]) / "scripts"
sys.path.insert(0, str(SCRIPTS))
from scaling_plot import scaling_plot  # noqa: E402
from scaling_table import ARMS, MAIN, TRACE, predicted, scaling, scaling_summary  # noqa: E402

STEP = {"forward_s": 0.2, "backward_s": 0.3, "optimizer_s": 0.05, "first_bucket_s": 0.1, "communication_s": 0.4}


def row(arm, ranks, block, tokens_per_s, **changed):
    return {"table": "scaling", "gradient_bytes": 4e6, "arm": arm, "ranks": ranks, "compute_s": MAIN.compute_s, "network": MAIN.network, "block": block, "tokens": 100, "tokens_per_s": tokens_per_s,
            **STEP, "step_mean_s": 0.825, "exposed_s": 0.2, "processor_s": 0.01, "predicted_s": 0.75, **changed}


class Scaling(unittest.TestCase):
    def test_blocks_take_turns_and_one_worker_runs_once_in_each(self):
        keys = [one.key for one in scaling([], 1)]
        first = [key for key in keys if key["block"] == 1 and key["compute_s"] == MAIN.compute_s]
        self.assertEqual([key["arm"] for key in first if key["ranks"] == 1], ["ring"])
        self.assertEqual([key["arm"] for key in first if key["ranks"] == 16], list(ARMS))
        self.assertEqual([key["block"] for key in keys], sorted(key["block"] for key in keys))

    def test_the_algorithm_and_the_hosts_are_those_of_the_row(self):
        driver = next(one for one in scaling([], 1) if one.key["arm"] == "driver" and one.key["ranks"] == 8)
        command = " ".join(driver.command(Path("programs"), Path("folder")))
        self.assertTrue(command.startswith("env KOLO_ALGORITHM=central scripts/cluster --hosts 8 --rate 200mbit "), command)
        self.assertIn(f"programs/bench_train replay --trace {TRACE} --seconds {MAIN.compute_s} ", command)

    def test_the_trace_is_a_language_model(self):
        trace = json.loads(TRACE.read_text())
        self.assertGreater(trace["tokens"], 0)
        self.assertGreater(len(trace["parameters"]), 1)

    def test_communication_is_predicted_to_hide_under_backward_as_far_as_it_fits(self):
        self.assertAlmostEqual(predicted(STEP), 0.2 + 0.5 + 0.05)
        self.assertAlmostEqual(predicted({**STEP, "communication_s": 0.1}), 0.2 + 0.3 + 0.05)

    def test_results_are_read_from_the_file_of_the_program(self):
        with tempfile.TemporaryDirectory() as folder:
            found = {**STEP, "tokens": 100, "tokens_per_s": 5.0, "step_mean_s": 1.5, "exposed_s": 0, "processor_s": 0,
                     "sent_bytes": 1, "gradient_bytes": 2, "buckets": 3, "model": "language_model"}
            (Path(folder) / "results.json").write_text(json.dumps(found))
            results = next(scaling([], 1)).results(Path(folder))
        self.assertEqual((results["kind"], results["tokens_per_s"]), ("replayed", 5.0))
        self.assertAlmostEqual(results["predicted_s"], 0.75)

    def test_efficiency_is_of_the_block_s_own_worker_alone(self):
        # The machine is slower in the second block, but the efficiency is equal.
        rows = [row("ring", 1, 1, 100), row("ring", 1, 2, 50), row("ring", 4, 1, 320), row("ring", 4, 2, 160)]
        line = scaling_summary(rows).splitlines()[-1]
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        self.assertEqual(cells[:7], ["ring", "4", "240 ± 113", "0.800 ± 0.000", "825", "750", "1.100 ± 0.000"])

    def test_the_picture_has_every_line_and_bars_for_the_spread(self):
        rows = [row("ring", 1, block, 100 + block) for block in (1, 2)]
        rows += [row(arm, 4, block, 300 + block) for arm in ARMS for block in (1, 2)]
        picture = ElementTree.fromstring(scaling_plot(rows))
        texts = [text.text for text in picture.iter("{http://www.w3.org/2000/svg}text")]
        for name in [*ARMS, "perfect", "0.78 of it: 2017", "ring, predicted"]:
            self.assertIn(name, texts)
        bars = [path for path in picture.iter("{http://www.w3.org/2000/svg}path") if path.get("class").startswith("bar")]
        self.assertEqual(len(bars), 2 * len(ARMS))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
