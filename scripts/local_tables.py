"""The table `local` of scripts/compare-training: ranks that wait for each other less often, and what it costs in accuracy."""
import json
import statistics

import dot_plot
from batch_tables import HELD_OUT, RATES, accuracy_of_rates, best_of, of_table, to_try
from training_rows import RANKS, Row, aligned, spread

EVERY_STEP = "every step"
# arm: (its options, and the rate or outer rate, if any, that is tuned on images held out)
ARMS = {
    EVERY_STEP: ([], None),
    "late": (["--synchronization", "late"], "rate"),
    "gossip": (["--synchronization", "gossip", "--period", "1"], None),
    "local H=1": (["--synchronization", "local", "--period", "1"], None),
    "local H=4": (["--synchronization", "local", "--period", "4"], None),
    "local H=16": (["--synchronization", "local", "--period", "16"], "rate"),
    "local H=64": (["--synchronization", "local", "--period", "64"], "rate"),
    "post-local H=16": (["--synchronization", "post-local", "--period", "16", "--averaged-epochs", "3"], None),
    "DiLoCo H=16": (["--synchronization", "local", "--period", "16"], "outer_rate"),
    "DiLoCo H=64": (["--synchronization", "local", "--period", "64"], "outer_rate"),
}
TUNED_AS = {"DiLoCo H=64": "DiLoCo H=16"}
GRIDS = {"rate": RATES, "outer_rate": (0.1, 0.2, 0.4, 0.7, 1.0)}
# The rate of every step, which the table "rates" found, and the outer rate of DiLoCo's authors. An arm leaves them for a
# value that is better by more points than one seed's noise.
USUAL = {"rate": 0.1, "outer_rate": 0.7}
MARGIN = 0.2
RATE = USUAL["rate"]
# Over TCP, because bytes through shared memory are not counted. The ring sends the fewest.
LINKS = ["KOLO_TRANSPORTS=tcp", "KOLO_ALGORITHM=ring"]


class LocalRow(Row):
    """A run of train_fashion_mnist on four ranks of one host that talk over TCP."""

    def __init__(self, arm, value, held_out, seed):
        options, tuned = ARMS[arm]
        key = {"arm": arm, "rate": RATE, "outer_rate": None, "held_out": held_out, "seed": seed}
        if tuned:
            key[tuned] = value
        outer = ["--outer-lr", str(key["outer_rate"])] if key["outer_rate"] else []
        of_images = ["--held-out", str(held_out)] if held_out else []
        super().__init__(key, None, [*options, *outer, *of_images, "--lr", str(key["rate"]), "--seed", str(seed)])

    def command(self, programs, folder):
        return ["env", *LINKS, *super().command(programs, folder)]

    def results(self, folder):
        metrics = json.loads((folder / "metrics.json").read_text())
        return {"accuracy": metrics["test_accuracy"][-1][1], "loss": metrics["loss"][-1][1], "steps": metrics["steps"],
                "sent_bytes_per_step": metrics["communication"]["sent_bytes_per_step"],
                "parameter_bytes": 4 * metrics["parameters"]}


def of_arm(rows, arm):
    """Its rows; `rate` is what is tuned."""
    tuned = ARMS[arm][1] or "rate"
    found = [{**row, "rate": row[tuned]} for row in of_table(rows, "local", arm=arm)]
    return found + (of_other_tables(rows) if arm == EVERY_STEP else [])


def of_other_tables(rows):
    """Every step is known from "accuracy", whose ranks shared memory, and its bytes are from "compression"."""
    accuracy, compression = of_table(rows, "accuracy", arm="float32"), of_table(rows, "compression", arm="float32")
    return [{**row, "held_out": 0, "sent_bytes_per_step": compression[0]["sent_bytes_per_step"]}
            for row in accuracy if compression]


def grid_of(arm):
    return GRIDS[ARMS[arm][1]]


def value_of(rows, arm):
    """The tuned value of the arm; None until it is known."""
    tuned, rows_of_grid = ARMS[arm][1], of_arm(rows, TUNED_AS.get(arm, arm))
    if not tuned:
        return RATE
    best = best_of(rows_of_grid, grid_of(arm))
    if best is None:
        return None
    found = {USUAL[tuned]: 0, **accuracy_of_rates(rows_of_grid)}
    return best if found[best] > found[USUAL[tuned]] + MARGIN else USUAL[tuned]


def local(rows, seeds):
    for arm, (_, tuned) in ARMS.items():
        if tuned and arm not in TUNED_AS:
            for value in to_try(of_arm(rows, arm), grid_of(arm)):
                yield LocalRow(arm, value, HELD_OUT, 1)
    for seed in range(1, seeds + 1):
        for arm in ARMS:
            value = value_of(rows, arm)
            if value and seed not in of_seeds(rows, arm, value):
                yield LocalRow(arm, value, 0, seed)


def of_seeds(rows, arm, value):
    return {row["seed"]: row for row in of_arm(rows, arm) if row["rate"] == value and not row["held_out"]}


def on_test_images(rows, arm):
    """Rows of the arm, by seed, with its tuned value: the value of most rows."""
    values = [row["rate"] for row in of_arm(rows, arm) if not row["held_out"]]
    return of_seeds(rows, arm, statistics.mode(values)) if values else {}


def share_of(rows, arm):
    """Bytes sent a step and rank, as a share of those of the arm that averages every step."""
    def sent(which):
        return statistics.mean(row["sent_bytes_per_step"] for row in on_test_images(rows, which).values())
    return sent(arm) / sent(EVERY_STEP)


def share_text(share):
    return f"{share:.2f}" if share > 0.1 else f"1/{1 / share:.1f}"


def local_summary(rows):
    every_step = on_test_images(rows, EVERY_STEP)
    lines = []
    for arm, (_, tuned) in ARMS.items():
        found = on_test_images(rows, arm)
        if not found or not every_step:
            continue
        value = next(iter(found.values()))["rate"]
        below = [every_step[seed]["accuracy"] - found[seed]["accuracy"] for seed in found.keys() & every_step.keys()]
        lines.append([arm, f"{RATE:g}, outer {value:g}" if tuned == "outer_rate" else f"{value:g}", str(len(found)),
                      f"{statistics.mean(row['sent_bytes_per_step'] for row in found.values()):,.0f}",
                      share_text(share_of(rows, arm)), spread([row["accuracy"] for row in found.values()]),
                      "-" if arm == EVERY_STEP else spread(below)])
    accuracy = aligned(["ranks wait", "rate", "seeds", "bytes sent a step", "of every step's", "test accuracy, %",
                        "points below every step"], lines)
    return f"{accuracy}\n\n{tuning_summary(rows)}".strip()


def tuning_summary(rows):
    """Accuracies on images held out, one seed; those of averages in every step are from "rates"."""
    def held_out(arm):
        here = of_table(rows, "rates", arm="float32") if arm == EVERY_STEP else \
            [row for row in of_arm(rows, arm) if row["held_out"]]
        return {row["rate"]: f"{row['rate']:g}: {row['accuracy']:.2f}" for row in here}
    lines = []
    for arm, (_, tuned) in ARMS.items():
        found = held_out(arm)
        if found:
            lines.append([arm, (tuned or "rate").replace("_", " "), *(found.get(value, "-") for value in GRIDS[tuned or "rate"])])
    return aligned(["accuracy, held out", "tuned", *("" for _ in RATES)], lines) if lines else ""


def local_plot(rows):
    """A row an arm, the most bytes first."""
    lines = []
    for arm in ARMS:
        found = [row["accuracy"] for row in on_test_images(rows, arm).values()]
        if found:
            lines.append((arm, share_of(rows, arm), statistics.mean(found), statistics.stdev(found) if len(found) > 1 else 0))
    lines.sort(key=lambda line: -line[1])
    kinds = list(dict.fromkeys(arm.split(" H=")[0] for arm, *_ in lines))
    return dot_plot.plot([(arm, share_text(share), mean, deviation, kinds.index(arm.split(" H=")[0]))
                          for arm, share, mean, deviation in lines], "Fewer synchronizations",
                         f"Fashion-MNIST, {RANKS} ranks, 6 epochs; an average every H steps; mean of the seeds, bars of one standard deviation",
                         ("ranks wait", "bytes"), ticks=5)


TABLES = {"local": local}
SUMMARIES = {"local": local_summary}
PLOTS = {"local": local_plot}
