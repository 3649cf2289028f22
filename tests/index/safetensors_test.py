#!/usr/bin/env python3
"""Checkpoints go to Python and back by the package safetensors: safetensors_test.py FOLDER KOLO TRAIN_SURVIVE."""
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
from index_environments import environment, site_packages  # noqa: E402

FOLDER, KOLO, SURVIVE = sys.argv[1:4]
PYTHON = "/usr/bin/python3"  # for which Debian has torch
EXAMPLES = Path(__file__).resolve().parents[2] / "examples/pytorch"
PROGRAM = """
import sys, torch, checkpoint
source, target = sys.argv[1:3]
torch.manual_seed(1)
net = torch.nn.Sequential(torch.nn.Linear(16, 128), torch.nn.Tanh(), torch.nn.Linear(128, 1))
checkpoint.load_module(source, net)
checkpoint.save_module(target + "/net", 3, net)
other = torch.nn.Sequential(torch.nn.Linear(16, 128), torch.nn.Tanh(), torch.nn.Linear(128, 1))
checkpoint.load_module(target + "/net/step-3", other)
assert all(torch.equal(a, b) for a, b in zip(net.state_dict().values(), other.state_dict().values()))
checkpoint.save(target, 100, checkpoint.load(source))  # optimizer and all
torch.manual_seed(1)
x = torch.randn([60000, 16])
print("loss", torch.nn.functional.mse_loss(net(x), x.sin().sum(1, True)).item())
"""


class Safetensors(unittest.TestCase):
    def survive(self, ranks, folder, steps):
        done = subprocess.run([KOLO, "run", "-n", str(ranks), "--", SURVIVE, folder, str(steps)], text=True, timeout=120,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout, float(re.search(r"with loss (\S+)", done.stdout)[1])

    def test_a_checkpoint_goes_to_python_and_back(self):
        packages = f"{EXAMPLES}:{site_packages(environment(FOLDER, 'safetensors'))}"
        with tempfile.TemporaryDirectory() as folder:
            _, loss = self.survive(3, f"{folder}/run", 100)
            done = subprocess.run([PYTHON, "-c", PROGRAM, f"{folder}/run/step-100", f"{folder}/back"], text=True, timeout=300,
                                  env={**os.environ, "PYTHONPATH": packages}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            self.assertEqual(done.returncode, 0, done.stdout)
            self.assertAlmostEqual(float(re.search(r"loss (\S+)", done.stdout)[1]), loss, places=4)
            said, again = self.survive(2, f"{folder}/back", 100)
            self.assertIn("2 ranks go on from step 100", said)
            self.assertAlmostEqual(again, loss, places=6)
            _, later = self.survive(2, f"{folder}/back", 150)
            _, expected = self.survive(3, f"{folder}/run", 150)
            self.assertAlmostEqual(later, expected, places=4)


unittest.main(argv=sys.argv[:1], verbosity=2)
