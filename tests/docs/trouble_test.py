#!/usr/bin/env python3
"""Each message of the library and the tools has one cause in src/base/trouble, and each cause has its messages; docs/trouble.md
is what scripts/trouble_page.py makes of the table.
usage: trouble_test.py ROOT"""
import re
import sys
from pathlib import Path

ROOT = Path(sys.argv[1])
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests/house")]
import rules
import trouble_page
import trouble_table

FOLDERS = ["src", "train", "cli", "bindings"]
# Where a message is made. In prefixed() and from_errno() the cause is in what is prefixed, or in the system's words.
SITE = re.compile(r"\bthrow\s+[\w:]+\s*[({]|[({]\s*Code::\w+\s*,|\blog\(\)\s*\.\s*(?:warn|error)\s*\(|\bTORCH_(?:CHECK|CHECK_VALUE|WARN)\("
                  r"|\bfmt::print\(stderr,|\b(?:refuse|refuse_if|fail|accuse|wrong|Misuse|make_exception_ptr|say)\s*\(")
TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|R"\w*\(.*?\)\w*"|\'(?:\\.|[^\'\\\n])+\'|\w+|\s+|.', re.DOTALL)
GAP = "\0"
# The checker's findings about schedules, which stand behind "the checker refuses it" and in the table of `kolo check`; the
# doctor's, which say themselves what to do.
WITHOUT = ("src/schedule/", "cli/doctor/findings.cpp")
# What stands only behind another message, which has a cause.
INNER = {"cannot be read: ", "is too long for a key", "is empty", "it returns ", " of the batch: ", "unknown error",
         "setting it up", "confirming it", "changing keys", "run_elastic", "/cut-off-rank-", " after "}
INNER |= {"(see DistributedDataParallelOptions::check_parameters_every)"}
# What kolo run and others tell in passing.
NOTES = {"SIG", "starts as a newcomer", "has come into the group", "is not listed any more", "\\r\\x1b[K", "\\r\\033[K", "; stopping the other ", "kolo bench: rank", "kolo tune: ",
         "goes"}


def text_of(code):
    """What the code's literals say, with gaps for values."""
    parts = []
    for token in TOKEN.findall(code):
        if token.startswith('"'):
            parts.append(re.sub(r"\{[^{}]*\}", GAP, token[1:-1].replace('\\"', '"').replace("{{", "{").replace("}}", "}")))
        elif not token.isspace():
            parts.append(GAP)
    return re.sub(GAP + "+", GAP, "".join(parts))


def balanced(code, at):
    """The code from the bracket at `at` to the one that closes it."""
    depth, begin = 0, at
    while at < len(code):
        token = TOKEN.match(code, at)[0]
        at += len(token)
        depth += (token in ("(", "{")) - (token in (")", "}"))
        if depth == 0:
            break
    return code[begin:at]


def messages(code):
    """(line, what makes it, text) of each message in the code of a file."""
    for site in SITE.finditer(code):
        at = site.start() if site[0][0] in "({" else re.compile("[({]").search(code, site.start()).start()
        text = text_of(balanced(code, at))
        if len(re.findall("[A-Za-z]{2,}", text)) >= 2:
            yield code.count("\n", 0, site.start()) + 1, site[0], text


def problems(root):
    causes = trouble_table.read_causes(root)
    literals = []
    count = 0
    for path in [path for folder in [*FOLDERS, "include"] for path in rules.sources(root, folder)]:
        name = str(path.relative_to(root))
        code = rules.without_comments(path.read_text())
        literals.append(text_of(code))
        if name.startswith(WITHOUT):
            continue
        for line, maker, text in messages(code):
            count += 1
            # These say themselves of what cause they are where nothing closer is known.
            known = trouble_table.cause_of(text, causes) or (name.startswith("cli/") and maker.startswith("refuse")) or "Misuse" in maker
            if not known and not any(text.strip(GAP).startswith(inner) or inner in text for inner in INNER | NOTES):
                yield f"{name}:{line}: no cause in src/base/trouble knows this message: {text.replace(GAP, '...')}"
    for path in sorted((root / "bindings/torch/kolo_torch").glob("*.py")):
        for made in re.findall(r"^ +raise \w+\((.*?\")\)$", path.read_text(), re.MULTILINE | re.DOTALL):
            count += 1
            if made[-7:-2] not in {f"[{cause.code}" for cause in causes}:
                yield f"{path.relative_to(root)}: a message does not end in a code: {made}"
    if count < 500:
        yield f"only {count} messages were found in the sources"
    literals = "\n".join(literals)
    owners = {}
    for cause in causes:
        if not 60 <= len(causes) <= 80:
            yield f"there are {len(causes)} causes"
            break
        if not cause.text or not cause.fragments:
            yield f"{cause.code} has no explanation or no messages"
        for fragment in cause.fragments + cause.weak:
            if fragment in owners:
                yield f"{cause.code} and {owners[fragment]} both have '{fragment}'"
            owners[fragment] = cause.code
            if len(fragment) < 4:
                yield f"{cause.code}: '{fragment}' is too short to tell messages apart"
            if fragment not in literals and fragment not in trouble_table.SYSTEM:
                yield f"{cause.code}: no message has '{fragment}'"
    if len({cause.code for cause in causes}) < len(causes):
        yield "a code occurs twice"
    if (root / "docs/trouble.md").read_text() != trouble_page.page(causes):
        yield "docs/trouble.md is stale: run scripts/trouble_page.py"


found = list(problems(ROOT))
print("\n".join(found))
sys.exit(1 if found else 0)
