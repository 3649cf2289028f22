#!/usr/bin/env python3
"""self_contained.py INCLUDE_FOLDER COMPILER...: fails if a public header does not compile alone (with -Werror: without warnings)."""
import subprocess
import sys
from pathlib import Path

folder, compiler = Path(sys.argv[1]), sys.argv[2:]
flags = ["-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", f"-I{folder}", "-x", "c++", "-"]
failed = 0
headers = sorted(folder.rglob("*.hpp"))
for header in headers:
    # Twice, which finds a missing include guard.
    line = f'#include "{header.relative_to(folder)}"\n'
    result = subprocess.run([*compiler, *flags], input=line * 2, text=True)
    if result.returncode:
        print(f"{header.relative_to(folder)} does not compile on its own")
        failed += 1
if failed or not headers:
    sys.exit(f"{failed} of {len(headers)} headers failed")
