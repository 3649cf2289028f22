#!/usr/bin/env python3
"""house.py RULE ROOT: fails with a reason if the source tree at ROOT breaks the rule."""
import sys
from pathlib import Path

from rules import RULES

rule, root = RULES[sys.argv[1]], Path(sys.argv[2]).resolve()
problems = rule(root)
for problem in problems:
    print(problem)
if problems:
    sys.exit(f"{len(problems)} places break the rule: {rule.__doc__}")
