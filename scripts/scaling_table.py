"""The table `scaling` of scripts/compare-training: tokens a second of a replayed language model as workers are added, and
how far the time of a step is from the one that its parts predict."""
import json
import statistics
from pathlib import Path
from typing import NamedTuple

from comparison_page import human_rate
from training_rows import aligned

ROOT = Path(__file__).resolve().parent.parent
TRACE = ROOT / "docs/data/language_model_trace.json"
BLOCKS = 5
RING = "ring"
# arm: (its KOLO_ALGORITHM, the steps that count in a block: fewer for slow arms)
ARMS = {
    RING: ("ring", 8),
    "halving and doubling": ("halving_doubling", 8),
    "parameter server": ("parameter_server:servers=2", 3),
    "driver": ("central", 3),
}


class Case(NamedTuple):
    """Links, seconds of computation in a step, and what runs with them; reasons in scaling_section()."""

    network: str
    compute_s: float
    ranks: tuple
    arms: tuple


MAIN = Case("200mbit", 0.41, (1, 2, 4, 8, 16), tuple(ARMS))
# Twice the computation; and as many workers as theirs, with all four times as slow so that two cores are enough for them.
CASES = (MAIN, Case("200mbit", 0.82, (1, 2, 4, 8, 16), (RING,)), Case("50mbit", 1.64, (1, 40), (RING,)))
# A bucket is closed at so many bytes: 17 buckets of a model of 4.5 MB.
BUCKETS = ["--first-bucket", str(1 << 18), "--bucket", str(1 << 18)]
# The work that this table repeats: 31 times on 40 GPUs (A. Gibiansky, Bringing HPC Techniques to Deep Learning, 2017).
THEIRS = 31 / 40
TAKEN = ("tokens", "tokens_per_s", "step_mean_s", "exposed_s", "forward_s", "backward_s", "optimizer_s", "first_bucket_s",
         "communication_s", "processor_s", "sent_bytes", "gradient_bytes", "buckets")


class ScalingRow:
    """A run of bench_train replay, one rank on each host."""

    def __init__(self, case, arm, ranks, block):
        self.key = {"arm": arm, "ranks": ranks, "network": case.network, "compute_s": case.compute_s, "block": block}

    def program(self, programs, folder):
        return [str(programs / "bench_train"), "replay", "--trace", str(TRACE), "--seconds", str(self.key["compute_s"]),
                "--steps", str(ARMS[self.key["arm"]][1]), *BUCKETS, "--output", str(folder / "results.json")]

    def command(self, programs, folder):
        return ["env", f"KOLO_ALGORITHM={ARMS[self.key['arm']][0]}", "scripts/cluster", "--hosts", str(self.key["ranks"]),
                "--rate", self.key["network"], "--no-prefix", "--", *self.program(programs, folder)]

    def results(self, folder):
        found = json.loads((folder / "results.json").read_text())
        return {**{name: found[name] for name in TAKEN}, "predicted_s": predicted(found), "kind": "replayed"}

    def said(self, found):
        return f"{found['tokens_per_s']:.0f} tokens/s, {found['step_mean_s'] / found['predicted_s']:.3f} of the prediction"


def predicted(row):
    """Seconds of a step from its parts, with all communication hidden that can be."""
    return (row["forward_s"] + max(row["backward_s"], row["first_bucket_s"] + row["communication_s"])
            + row["optimizer_s"])


def scaling(_, __):
    """Blocks in turn; one worker runs once in a block, because all arms are equal there."""
    for block in range(1, BLOCKS + 1):
        for case in CASES:
            for ranks in case.ranks:
                for arm in case.arms if ranks > 1 else [RING]:
                    yield ScalingRow(case, arm, ranks, block)


def of_case(rows, case):
    return [row for row in rows if (row["network"], row["compute_s"]) == (case.network, case.compute_s)]


def mean_and_spread(values, digits=0):
    """`mean ± standard deviation`, of the blocks."""
    values = list(values)
    text = f"{statistics.mean(values):,.{digits}f}"
    return f"{text} ± {statistics.stdev(values):,.{digits}f}" if len(values) > 1 else text


def efficiencies(rows, arm, ranks):
    """Of each block of a case, tokens a second over those of as many workers that each run alone."""
    def of(arm, ranks):
        return {row["block"]: row["tokens_per_s"] for row in rows if (row["arm"], row["ranks"]) == (arm, ranks)}
    alone, together = of(RING, 1), of(arm, ranks)
    return [together[block] / (ranks * alone[block]) for block in sorted(alone.keys() & together.keys())]


def line_of(rows, arm, ranks):
    here = [row for row in rows if (row["arm"], row["ranks"]) == (arm, ranks)]

    def milliseconds(name):
        return f"{1e3 * statistics.mean(row[name] for row in here):,.0f}"

    efficiency = efficiencies(rows, arm, ranks)
    return [arm, str(ranks), mean_and_spread(row["tokens_per_s"] for row in here),
            mean_and_spread(efficiency, 3) if efficiency else "-", milliseconds("step_mean_s"), milliseconds("predicted_s"),
            mean_and_spread((row["step_mean_s"] / row["predicted_s"] for row in here), 3),
            milliseconds("communication_s"), milliseconds("exposed_s"), milliseconds("processor_s")]


def scaling_summary(rows):
    """A table for each case, in milliseconds a step."""
    tables = []
    for case in CASES:
        found = of_case(rows, case)
        measured = {(row["arm"], row["ranks"]) for row in found}
        lines = [line_of(found, arm, ranks) for arm in ARMS for ranks in case.ranks if (arm, ranks) in measured]
        if lines:
            tables.append(f"{human_rate(case.network)}, {case.compute_s:g} s of computation a step:\n\n" + aligned(
                ["all-reduce", "N", "tokens/s", "efficiency", "step", "predicted", "step / predicted", "communication alone",
                 "exposed", "processor"], lines))
    return "\n\n".join(tables)


def scaling_section(rows):
    """The part of docs/comparison.md about whole steps of training."""
    rows = [row for row in rows if row["table"] == "scaling" and "failed" not in row]
    main = of_case(rows, MAIN)
    most = max(MAIN.ranks)
    alone, ring, driver = (statistics.mean(row["tokens_per_s"] for row in main if (row["arm"], row["ranks"]) == wanted)
                           for wanted in ((RING, 1), (RING, most), ("driver", most)))
    return f"""
## Whole steps of training

Ring all-reduce came to deep learning with one number: 40 GPUs trained a language model 31 times as fast as one (A. Gibiansky,
"Bringing HPC Techniques to Deep Learning", 2017). 31 / 40 = {THEIRS:.2f} is its *efficiency*: the tokens a second of N workers over N times
those of one.

![tokens a second over the number of workers](images/scaling.svg)

- **Model**: a causal transformer of 1.13 million parameters, {main[0]["tokens"]:,} tokens a step and rank. Gradients are 4.5 MB in 17 buckets, K below.
- **Computation is replayed** ([how](notebook/training.md#overlap-measuring-it-where-ranks-share-cores)): forward, backward and optimizer *sleep* as
  long as they took on one idle core. Gradients, buckets, all-reduces and links are real, and every average is verified.
- **Links**: one rank on each emulated host. Two ranks serve as parameter servers, rank 0 as driver.

A ring's communication takes 1.43 times backward in the first and the third case, and 0.72 times in the second. Computation is chosen so that the
prediction gives 0.77 for 40 workers: the {THEIRS:.2f} lies on the predicted curve *by construction*. Means of five blocks in turns, {main[0]["date"]}, two
cores of an Intel Xeon, libtorch 1.13; times in ms a step:

{scaling_summary(rows)}

- **A ring goes on** if communication takes longer than backward, too: {most} workers are {ring / alone:.1f} times as fast as one.
- **Two parameter servers and a driver add nothing** from four and from two workers on: {most} workers with a driver are {driver / alone:.1f} times as fast as
  one. The driver's link carries (N-1) K in, then as much out, so tokens a second approach a constant, {main[0]["tokens"]:,} B / K with B bytes a second. On a
  ring each rank sends less than 2 K, so the time of a step does.
- **Halving and doubling** sends as many bytes as a ring and is 3 to 5 % slower from four workers on.
- **The prediction** is *forward + max(backward, first bucket + communication) + optimizer*. It is worst if backward is the limit, since the last buckets
  become ready when backward ends ([why](notebook/training.md#scaling-the-prediction)).
  [`overlap_forward`](training/overlap.md#averages-that-the-next-forward-waits-for) is the remedy.

To repeat it, as root: `scripts/compare-training scaling --plot docs/images/scaling.svg`.
"""
