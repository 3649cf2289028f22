#!/usr/bin/env python3
"""names_test.py ROOT: each name in the columns "kolo" of docs/from-pytorch-and-mpi.md is one of a public header, a setting, or a
word of the command line."""
import re
import sys
from pathlib import Path

ROOT = Path(sys.argv[1])
PAGE = "docs/from-pytorch-and-mpi.md"
# What stands for a reader's own names in the calls.
ARGUMENTS = {"a", "b", "t", "x", "in", "out", "data", "net", "model", "factor", "function", "layer", "max_norm", "name", "reason",
             "train", "program"}

headers = [*(ROOT / "include").rglob("*.hpp"), *(ROOT / "train/include").rglob("*.hpp")]
code = re.sub(r"//[^\n]*", "", "\n".join(path.read_text() for path in headers))
settings = (ROOT / "docs/running.md").read_text()
known = set(re.findall(r"\w+", code)) | set(re.findall(r"KOLO_\w+", settings)) | ARGUMENTS

problems, rows, is_table = [], 0, False
for number, line in enumerate((ROOT / PAGE).read_text().splitlines(), 1):
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    if not line.startswith("|"):
        is_table = False
    elif cells[1] == "kolo":
        is_table = True
    elif is_table:
        rows += 1
        for name in re.findall(r"`([^`]+)`", cells[1]):
            words = ["Communicator"] if name.startswith("kolo run ") else re.findall(r"[A-Za-z_]\w*", name)
            problems += [f"{PAGE}:{number}: kolo has no {word}" for word in words if word not in known]
print(*problems, sep="\n")
if problems or rows < 40:
    sys.exit(f"FAILED: {len(problems)} names in {rows} rows do not exist")
