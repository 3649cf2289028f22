#!/usr/bin/env python3
"""format.py ROOT [--fix]: fails when clang-format would change a C++ file; --fix changes it."""
import re
import shutil
import subprocess
import sys
from pathlib import Path

from rules import sources

VERSION = "14"  # versions differ in what they find beautiful
SKIPPED = 77

tool = shutil.which("clang-format-" + VERSION) or shutil.which("clang-format")
if not tool:
    sys.exit("clang-format is missing: scripts/install-dependencies --for test")
version = subprocess.run([tool, "--version"], check=True, capture_output=True, text=True).stdout
if not re.search(rf"version {VERSION}\.", version):
    print(f"skipped: needs clang-format {VERSION}, here is: {version.strip()}")
    sys.exit(SKIPPED)

files = list(sources(Path(sys.argv[1]).resolve()))
mode = ["-i"] if "--fix" in sys.argv else ["--dry-run", "-Werror"]
result = subprocess.run([tool, *mode, *files])
if result.returncode:
    sys.exit("to format all files: python3 -B tests/house/format.py . --fix")
print(f"{len(files)} files are formatted")
