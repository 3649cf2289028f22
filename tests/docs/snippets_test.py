#!/usr/bin/env python3
"""snippets_test.py core|train ROOT FOLDER COMPILER FLAGS...: compiles the C++ of the documentation, without making code.

Each ```cpp block of README.md and docs/ is a function of its own in one file, after the includes of all blocks and the
names that blocks take for granted: context_core.hpp and context_train.hpp, and for one block a comment before it,
<!-- given: parameters of the function -->. `...` stands for what a reader fills in. A block with a namespace or a function
is compiled as it is. Errors name the page and the line."""
import re
import subprocess
import sys
from pathlib import Path

PART, ROOT, FOLDER, COMPILER, *FLAGS = sys.argv[1:]
ROOT, FOLDER = Path(ROOT), Path(FOLDER)
HERE = Path(__file__).resolve().parent
BLOCK = re.compile(r"^(?:<!-- given: ([^\n]*) -->\n)?```cpp\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INCLUDE = re.compile(r"^#include .*$", re.MULTILINE)
# A block that declares things for a file of its own, inside the library or the tool.
WHOLE_FILE = re.compile(r"^(namespace|void|int main)\b", re.MULTILINE)
TRAIN_PAGES = ("docs/training",)


def blocks():
    """(page, line of the first line of code, what is given, text) of each block that this part compiles."""
    for page in sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]):
        name = str(page.relative_to(ROOT))
        text = page.read_text(encoding="utf-8")
        for match in BLOCK.finditer(text):
            needs_libtorch = name.startswith(TRAIN_PAGES) or "kolo/train/" in match[2] or "torch::" in match[2]
            if needs_libtorch == (PART == "train"):
                yield name, text.count("\n", 0, match.start(2)) + 1, match[1] or "", match[2]


def without_gaps(text):
    """`...` alone on a line or in braces is what the reader writes."""
    text = re.sub(r"^(\s*)\.\.\.$", r"\1", text, flags=re.MULTILINE)
    return text.replace("{ ... }", "{ }")


def source():
    functions, files, includes = [], [], []
    for number, (page, line, given, text) in enumerate(blocks()):
        includes += INCLUDE.findall(text)
        text = without_gaps(INCLUDE.sub("", text))
        where = f'#line {line} "{page}"\n'
        if WHOLE_FILE.search(text):
            files.append(f"{where}{text}\n")
        else:
            functions.append(f"void snippet_{number}({given}) {{\n{where}{text}}}\n")
    head = "\n".join(dict.fromkeys(includes))
    context = f'#include "context_{PART}.hpp"'
    return len(functions) + len(files), f"{head}\n{context}\n" + "".join(files) + "".join(functions)


count, text = source()
if count == 0:
    sys.exit(f"FAILED: no ```cpp block of {PART} in README.md and docs/")
path = FOLDER / f"snippets_{PART}.cpp"
FOLDER.mkdir(parents=True, exist_ok=True)
path.write_text(text)
folders = [HERE, ROOT / "include", ROOT / "train/include", ROOT / "src", ROOT / "cli", ROOT / "examples"]
command = [COMPILER, "-std=c++20", "-fsyntax-only", "-w", *(f"-I{folder}" for folder in folders), *FLAGS, str(path)]
if subprocess.run(command).returncode != 0:
    sys.exit("FAILED: the blocks above do not compile. Correct the page, or declare what it takes for granted in "
             f"tests/docs/context_{PART}.hpp")
print(f"{count} blocks compile")
