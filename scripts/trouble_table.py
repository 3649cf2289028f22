"""The table of causes, src/base/trouble, as the page and its test read it."""
import re
from pathlib import Path

FOLDER = "src/base/trouble"
# In the order in which src/base/trouble.cpp includes them.
FILES = ["core.txt", "training.txt", "tools.txt"]
# The system's words among the fragments, which no source has.
SYSTEM = {"Cannot allocate memory", "bad_alloc", "Too many open files", "Resource temporarily unavailable", "No space left on device",
          "Permission denied", "No such file", "File too large", "Read-only file system", "Is a directory", "Operation not permitted",
          "Input/output error", "Not a directory", "Disk quota exceeded", "File exists", "Address already in use",
          "Cannot assign requested address", "Network is unreachable", "No route to host", "Connection refused", "Connection reset",
          "Connection timed out", "Broken pipe", "Invalid argument", "Bad file descriptor", "Interrupted system call"}
CODE = re.compile(r"K\d{3} ")


class Cause:
    """One entry: its code, title and explanation, and the fragments of text by which its messages are known."""

    def __init__(self, area, line):
        self.area = area
        self.code, self.title = line.split(" ", 1)
        self.text, self.fragments, self.weak = [], [], []


def read_causes(root):
    causes, area = [], None
    for name in FILES:
        for line in (Path(root) / FOLDER / name).read_text().splitlines():
            if line.startswith("== "):
                area = line[3:]
            elif CODE.match(line):
                causes.append(Cause(area, line))
            elif line.startswith("- "):
                causes[-1].fragments += line[2:].split("|")
            elif line.startswith("~ "):
                causes[-1].weak += line[2:].split("|")
            elif line and "trouble" not in line[:12]:
                causes[-1].text.append(line)
    return causes


def cause_of(text, causes):
    """As with_code() does: the fragment that comes first in the text, the longest of several; None without any."""
    for fragments_of in (lambda cause: cause.fragments, lambda cause: cause.weak):
        found = [(at, -len(fragment), cause.code) for cause in causes for fragment in fragments_of(cause)
                 if (at := text.find(fragment)) >= 0]
        if found:
            return min(found)[2]
    return None
