"""Ranks of one job whose NCCL, or whose KOLO_GPU, differs: all of them choose the same engine, or all say why there is none."""
import os
import subprocess
import sys

kolo, fakes = sys.argv[1:]

NEWER = "export FAKE_NCCL_VERSION=23007"
NONE = "export KOLO_NCCL_LIBRARY=/nowhere/libnccl.so.2"
INCOMPLETE = f"export KOLO_NCCL_LIBRARY={fakes}/libcuda.so.1"
STAGED = "export KOLO_GPU=staged"
# What rank 1 has of its own; KOLO_GPU of all; what each rank says.
CASES = [
    (NEWER, "auto", "calls on devices are staged: rank 0 has NCCL 2.28.9, rank 1 has 2.30.7"),
    (NEWER, "nccl", "KOLO_GPU is nccl on rank 0, but rank 0 has NCCL 2.28.9, rank 1 has 2.30.7"),
    (NONE, "auto", "calls on devices are staged: rank 1 has no NCCL: /nowhere/libnccl.so.2: cannot open"),
    (INCOMPLETE, "auto", "calls on devices are staged: rank 1 has no NCCL: " + fakes + "/libcuda.so.1 has no function ncclGetErrorString"),
    (STAGED, "auto", "calls on devices are staged: rank 1 asks for it"),
    (STAGED, "nccl", "KOLO_GPU is nccl on rank 0, but it is staged on rank 1"),
]

failed = 0
for own, gpu, text in CASES:
    bench = f"{kolo} bench all_reduce --device cuda --sizes 70001 --iterations 3"
    script = f"if [ $RANK = 1 ]; then {own}; fi; exec {bench}"
    environment = dict(os.environ, LD_LIBRARY_PATH=fakes, KOLO_GPU=gpu, KOLO_LOG="info")
    done = subprocess.run([kolo, "run", "-n", "2", "sh", "-c", script], env=environment, capture_output=True, text=True, timeout=120)
    output = done.stdout + done.stderr
    is_right = all(any(line.startswith(f"[{rank}]") and text in line for line in output.splitlines()) for rank in range(2))
    is_right = is_right and ("All results are right" in output) == (done.returncode == 0) == text.startswith("calls")
    if not is_right:
        failed += 1
        print(f"rank 1: {own}; KOLO_GPU={gpu}: expected \"{text}\" of both ranks, status {done.returncode}:\n{output}")
sys.exit(failed > 0)
