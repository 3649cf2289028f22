#!/usr/bin/env python3
"""format.py ROOT [--fix]: fails when clang-format would change a C++ file; --fix changes it."""
import collections
import re
import shutil
import subprocess
import sys
from pathlib import Path

from rules import sources

VERSION = "14"  # other versions format differently
SKIPPED = 77

tool = shutil.which("clang-format-" + VERSION) or shutil.which("clang-format")
if not tool:
    sys.exit("clang-format is missing: scripts/install-dependencies --for test")
version = subprocess.run([tool, "--version"], check=True, capture_output=True, text=True).stdout
if not re.search(rf"version {VERSION}\.", version):
    print(f"skipped: needs clang-format {VERSION}, here is: {version.strip()}")
    sys.exit(SKIPPED)

files = list(sources(Path(sys.argv[1]).resolve()))
if "--fix" in sys.argv:
    subprocess.run([tool, "-i", *files], check=True)
result = subprocess.run([tool, "--dry-run", "-Werror", *files], capture_output=True, text=True)
# It prints each place with its text; one line for each file is enough.
places = collections.Counter(re.findall(r"^(.+?):\d+:\d+: error:", result.stderr, re.MULTILINE))
for name, count in sorted(places.items()):
    print(f"{name}: not formatted in {count} places")
if result.returncode:
    if not places:
        print(result.stderr)
    sys.exit("to format all files: python3 -B tests/house/format.py . --fix")
print(f"{len(files)} files are formatted")
