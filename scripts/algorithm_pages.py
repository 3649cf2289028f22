#!/usr/bin/env python3
"""algorithm_pages.py KOLO FOLDER: writes algorithms.md and its pictures into the folder, from what kolo's
list, check and draw say of the algorithms. For scripts/update-docs."""
import json
import subprocess
import sys
from pathlib import Path

RANKS = 8
# A sheet of more steps than this is drawn with fewer ranks.
MOST_STEPS = 8
IMAGES = Path("images/algorithms")
HEAD = """\
<!-- Written by scripts/update-docs from the schedules: edit the algorithms, not this file. -->
# Algorithms

Every algorithm that kolo has, with its cost. N ranks; n: the bytes of the whole data, over all parts where
each rank has one. A step is what all ranks do at once: each sends at most one message and receives at most
one (the one-port model). The closed form is what the algorithm's source states; a test holds the schedules
to it for 1 to 64 ranks. *Counted* is what the schedules of 8 ranks add up to, as multiples of n: what the
busiest rank sends and receives, and what the busiest link, from one rank to one other, carries.

`kolo check` proves them. `kolo draw NAME --collective COLLECTIVE` shows one step by step, and
`kolo draw --all -o site/` all of them: open `site/index.html`, which also compares two side by side.
`KOLO_ALGORITHM=NAME[:PARAMETER=VALUE]` chooses one.
"""
TABLE = """
## {}

| algorithm | steps | the busiest rank sends | counted steps | sends | receives | link | use |
| --- | --- | --- | --- | --- | --- | --- | --- |
"""
NOTES = {
    "rank_ordered": "Combines in rank order, so it serves reductions that are not commutative.",
    "in_shared_memory": "Ranks that share a host's memory run it there without messages, with the same result bit for bit "
                        "([performance](performance.md)); the counts here are those of its schedule, over links.",
    "out_of_place_only": "Input and output must be apart.",
    "even_parts_only": "All parts must be equally long.",
}


class Kolo:
    def __init__(self, program):
        self.program = program

    def run(self, *words):
        return subprocess.run([self.program, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                              check=False)

    def lines(self, *words):
        return [json.loads(line) for line in self.run(*words, "--json").stdout.splitlines()]

    def proofs(self, ranks, hosts):
        """What check says of all algorithms, by collective and name."""
        return {(row["collective"], row["algorithm"]): row for row in self.lines("check", *place(ranks, hosts))}


def place(ranks, hosts):
    """Options for ranks on one host, or on hosts of unequal size."""
    uneven = {8: "3,2,3", 6: "2,1,3", 4: "2,2"}
    return ("--hosts", uneven[ranks]) if hosts else ("--ranks", str(ranks))


def sentence(text):
    return text if text.endswith(".") else text + "."


def table_row(algorithm, proof):
    def share(key):
        return f"{proof[key] / proof['elements']:.4g} n" if proof["elements"] else "0"

    counted = "not served | | | "
    if proof["proved"]:
        counted = f"{proof['steps']} | {share('max_sent')} | {share('max_received')} | {share('max_link')}"
    steps, sent, use = (algorithm[key].replace("|", "\\|") for key in ("steps", "sent", "use"))
    on_hosts = " (counted on hosts of 3, 2 and 3 ranks)" if algorithm["hosts_matter"] else ""
    return f"| `{algorithm['name']}` | {steps} | {sent} | {counted} | {use}{on_hosts} |\n"


def section(algorithm):
    text = (f"\n### {algorithm['collective']}: {algorithm['name']}\n\n{sentence(algorithm['purpose'])}\n\n"
            f"Source: {sentence(algorithm['source'])}\n")
    notes = " ".join(note for key, note in NOTES.items() if algorithm[key])
    text += f"\n{notes}\n" if notes else ""
    text += "\n" if algorithm["parameters"] else ""
    for name, purpose in zip(algorithm["parameters"], algorithm["parameter_purposes"], strict=True):
        text += f"- `{name}`: {purpose}\n"
    return text


def sheet(kolo, algorithm):
    """The sheet of 8 ranks, or of fewer if that has too many steps; empty if no sheet can hold the steps."""
    smallest = ""
    for ranks in (RANKS, 6, 4):
        where = place(ranks, algorithm["hosts_matter"])
        drawn = kolo.run("draw", algorithm["name"], *where, "--format", "svg", "-o", "-")
        if drawn.returncode != 0:
            continue
        smallest = drawn.stdout
        if kolo.lines("check", "all_reduce", algorithm["name"], *where)[0]["steps"] <= MOST_STEPS:
            break
    return smallest


def write(program, folder):
    kolo = Kolo(program)
    proofs = {hosts: kolo.proofs(RANKS, hosts) for hosts in (False, True)}
    (folder / IMAGES).mkdir(parents=True, exist_ok=True)
    page, sections, last = HEAD, "", None
    for algorithm in kolo.lines("list"):
        if algorithm["type"] != "algorithm":
            continue
        collective, name = algorithm["collective"], algorithm["name"]
        if collective != last:
            page, sections, last = page + sections + TABLE.format(collective), "", collective
        page += table_row(algorithm, proofs[algorithm["hosts_matter"]][collective, name])
        sections += section(algorithm)
        if collective == "all_reduce" and (drawing := sheet(kolo, algorithm)):
            (folder / IMAGES / f"{name}.svg").write_text(drawing)
            sections += f"\n![{name} step by step]({IMAGES / name}.svg)\n"
    (folder / "algorithms.md").write_text(page + sections)


if __name__ == "__main__":
    write(sys.argv[1], Path(sys.argv[2]))
