#!/usr/bin/env -S python3 -B
"""Runs a program of this folder over kolo and over Gloo, one after the other, and prints both in one table.

    ./side_by_side.py --ranks 2 fashion_mnist.py --epochs 1
    ./side_by_side.py --ranks 4 language_model.py --steps 100

Options behind the program's name are the program's. The status is 1 if the losses differ by more than --tolerance, a
fraction: over two ranks they are the same bits, over more the order of sums differs.
"""
import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

TEED = ["-r", "1", "-t", "1"]  # without these, PyTorch 1.13's torchrun fails in Python 3.11


def run(backend, options, path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]  # one that is free
    command = [sys.executable, "-B", "-m", "torch.distributed.run", *(TEED if torch.__version__.startswith("1.") else []),
               "--nproc_per_node", str(options.ranks), "--master_addr", "127.0.0.1", "--master_port", str(port), options.program,
               "--backend", backend, "--json", path, *options.arguments]
    print(f"{backend}:", flush=True)
    status = subprocess.run(command, env={"OMP_NUM_THREADS": "1", **os.environ}).returncode
    if status:
        sys.exit(f"side_by_side.py: the run over {backend} ended with status {status}")
    return json.loads(Path(path).read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--tolerance", type=float, default=0.02)
    parser.add_argument("program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    options.program = str(Path(__file__).parent / options.program)
    with tempfile.TemporaryDirectory() as folder:
        kolo, gloo = (run(backend, options, f"{folder}/{backend}.json") for backend in ("kolo", "gloo"))
    print(f"\n{'':12}{'kolo':>12}{'gloo':>12}")
    for number, pair in enumerate(zip(kolo["losses"], gloo["losses"]), 1):
        print(f"{f'loss {number}':12}{pair[0]:12.5f}{pair[1]:12.5f}")
    for name, of in (("ms a step", lambda result: 1e3 * result["seconds"] / result["steps"]), ("s", lambda result: result["seconds"])):
        print(f"{name:12}{of(kolo):12.1f}{of(gloo):12.1f}")
    differ = [number for number, (mine, theirs) in enumerate(zip(kolo["losses"], gloo["losses"]), 1)
              if not abs(mine - theirs) <= options.tolerance * abs(theirs)]
    if differ:
        sys.exit(f"side_by_side.py: losses {differ} differ by more than {options.tolerance}")


if __name__ == "__main__":
    main()
