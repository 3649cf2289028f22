"""Two tables of scripts/compare-training. sum-precision: errors of all-reduce sums, as `kolo precision` computes them from
schedules; they depend on no machine and on no time. sum-order: accuracies of trainings that differ in the order of sums."""
import json
import statistics

from sum_precision_plot import plot
from training_rows import RANKS as TRAINING_RANKS
from training_rows import Row, aligned, spread

RANKS = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
SHOWN_RANKS = (8, 64, 1024)
ARMS = ("ring", "central", "parameter_server", "direct", "butterfly", "hierarchical", "binary_blocks", "halving_doubling",
        "recursive_doubling", "binomial")
# One of those that add in the same order where the number of ranks is a power of two: "central", "parameter_server" and
# "direct" one rank after another; the last four by pairs.
ORDER_ARMS = ("ring", "central", "butterfly", "hierarchical", "halving_doubling")
# Two levels of ranks, so that "hierarchical" is one.
PER_HOST = 8
PLAIN = ("normal", "positive")
# (data, order) for which the order of a sum matters.
ADVERSARIAL = (("positive", "ascending"), ("positive", "descending"), ("one_large", "ascending"), ("one_large", "descending"),
               ("cancelling", "drawn"), ("cancelling", "ascending"), ("cancelling", "descending"))
# Sums of four contributions: a chain from another rank in each chunk, a chain from rank 0, and pairs.
TRAINED = ("ring", "central", "binomial")
# name: (type of the arrays, wire)
FORMATS = {"float32": ("float32", "native"), "float16 on the wire": ("float32", "float16"),
           "bfloat16 on the wire": ("float32", "bfloat16"),
           "arrays of bfloat16": ("bfloat16", "native")}
FORMAT_ARMS = ("ring", "direct", "halving_doubling")
COLUMNS = ("ranks", "roundings", "mean_units", "rms_units", "largest_units", "rms_of_rms", "largest_of_rms")


def rounded(value):
    return float(f"{value:.4g}") if isinstance(value, float) else value


class PrecisionRow(Row):
    """Sums by one algorithm with 2 to 1024 ranks: each column of the results is a list with a number for each of them."""

    def __init__(self, arm, data, order, what, seeds):
        self.key = {"arm": arm, "data": data, "order": order, "format": what, "seeds": seeds}

    def program(self, programs, folder):
        kind, wire = FORMATS[self.key["format"]]
        return [str(programs / "kolo"), "precision", self.key["arm"], "--ranks", ",".join(map(str, RANKS)),
                "--per-host", str(PER_HOST), "--data", self.key["data"], "--order", self.key["order"], "--type", kind,
                "--wire", wire, "--seeds", str(self.key["seeds"]), "--json"]

    def command(self, programs, folder):
        return ["bash", "-c", 'exec "${@:2}" >"$1"', "bash", str(folder / "rows.jsonl"), *self.program(programs, folder)]

    def results(self, folder):
        points = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
        columns = {name: [rounded(point[name]) for point in points] for name in COLUMNS}
        of_seeds = [point["rms_of_rms_of_seeds"] for point in points]
        return {**columns, "least_rms_of_rms": [rounded(min(seeds)) for seeds in of_seeds],
                "greatest_rms_of_rms": [rounded(max(seeds)) for seeds in of_seeds],
                "unit_roundoff": points[0]["unit_roundoff"], "count": points[0]["count"],
                "same_bits": all(point["same_bits"] for point in points)}

    def said(self, found):
        return f"{found['rms_units'][-1]:.3g} u sum|x| with {found['ranks'][-1]} ranks"


def sum_precision(_, seeds):
    """The error of a sum by each algorithm, for data and orders that round differently, and for fewer bits."""
    for arm in ARMS:
        for data in PLAIN:
            yield PrecisionRow(arm, data, "drawn", "float32", seeds)
    for arm in ORDER_ARMS:
        for data, order in ADVERSARIAL:
            yield PrecisionRow(arm, data, order, "float32", seeds)
    for what in list(FORMATS)[1:]:
        for arm in FORMAT_ARMS:
            for data in PLAIN:
                yield PrecisionRow(arm, data, "drawn", what, seeds)


class OrderRow(Row):
    """A training whose averages one algorithm sums."""

    def command(self, programs, folder):
        return ["env", f"KOLO_ALGORITHM={self.key['arm']}", *super().command(programs, folder)]


def sum_order(_, seeds):
    """Accuracy on the test images for orders of sums, beside the accuracy for other seeds."""
    for seed in range(1, seeds + 1):
        for arm in TRAINED:
            yield OrderRow({"arm": arm, "ranks": TRAINING_RANKS, "epochs": 2, "seed": seed}, None, ["--epochs", "2", "--seed", str(seed)])


def at(row, column, ranks):
    return row[column][row["ranks"].index(ranks)]


def find(rows, arm, data, order, what):
    return next((row for row in rows
                 if (row["arm"], row["data"], row["order"], row["format"]) == (arm, data, order, what)), None)


def plain_table(rows, what, arms, scale, unit):
    """Errors over exact sums, both as root mean squares."""
    lines = []
    for arm in arms:
        found = [find(rows, arm, data, "drawn", what) for data in PLAIN]
        if None not in found:
            lines.append([arm, str(at(found[0], "roundings", SHOWN_RANKS[-1])),
                          *(f"{at(row, 'rms_of_rms', n) / scale:.3g}" for row in found for n in SHOWN_RANKS)])
    header = [f"{what}, {unit}", f"roundings, N = {SHOWN_RANKS[-1]}",
              *(f"{data}, N = {n}" for data in PLAIN for n in SHOWN_RANKS)]
    return aligned(header, lines) if lines else ""


def adversarial_table(rows):
    """Root mean square and largest error of an element, in units of u S; S: the sum of the contributions' magnitudes."""
    most = SHOWN_RANKS[-1]
    lines = []
    for arm in ORDER_ARMS:
        found = [find(rows, arm, data, order, "float32") for data, order in ADVERSARIAL]
        if None not in found:
            lines.append([arm, *(f"{at(row, 'rms_units', most):.2g} ({at(row, 'largest_units', most):.2g})" for row in found)])
    return aligned([f"float32, N = {most}, u S", *(f"{data}, {order}" for data, order in ADVERSARIAL)], lines) if lines else ""


def summary(rows):
    tables = [plain_table(rows, "float32", ARMS, 1e-8, "10^-8 of the sum"), adversarial_table(rows),
              *(plain_table(rows, what, FORMAT_ARMS, 1e-2, "% of the sum") for what in list(FORMATS)[1:])]
    return "\n\n".join(table for table in tables if table)


def order_summary(rows):
    lines = []
    for arm in TRAINED:
        of_arm = {row["seed"]: row["accuracy"] for row in rows if row["arm"] == arm}
        ring = {row["seed"]: row["accuracy"] for row in rows if row["arm"] == TRAINED[0]}
        apart = [abs(of_arm[seed] - ring[seed]) for seed in of_arm.keys() & ring.keys()]
        if of_arm:
            lines.append([arm, str(len(of_arm)), spread(list(of_arm.values())),
                          f"{statistics.mean(apart):.2f}" if apart and arm != TRAINED[0] else "-"])
    return aligned(["sums by", "seeds", "test accuracy, %", "apart from ring's of the same seed, mean"], lines)


TABLES = {"sum-precision": sum_precision, "sum-order": sum_order}
SUMMARIES = {"sum-precision": summary, "sum-order": order_summary}
PLOTS = {"sum-precision": plot}
