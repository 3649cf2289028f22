"""Tables of scripts/compare-training about rates and batches: what a large batch costs, a batch that grows, one cycle, and
products and gradients in 16 bits.

All of them ask for the accuracy at the end, which does not depend on the number of ranks: one rank computes the batch of all.
Rates of a grid are tried once, with images held out of the training set; the best one is run with several seeds on the test
images."""
import json
import math
import statistics

import spread_plot
from training_rows import KEEP_MEMORY, Row, aligned, spread

HELD_OUT = 5000
BASE_BATCH = 256
BATCHES = (256, 1024, 4096, 8192)
# Rates for a batch of 256. Powers of two, so that arms which scale them otherwise share runs.
RATES = (0.025, 0.05, 0.1, 0.2, 0.4)
# Images that one rank computes at a time: more of them take more memory and no less time.
PART = 256
# Epochs of the climb to the highest rate in the table "batch".
WARM_UP = 1
# Of each arm: the optimizer, what its rate is multiplied by at a batch that is `times` as large, and what its grid is
# divided by. LAMB moves a layer by its rate times the layer's norm.
BATCH_ARMS = {
    "unscaled": ("sgd", lambda times: 1, 1),
    "square root": ("sgd", math.sqrt, 1),
    "linear": ("sgd", lambda times: times, 1),
    "LARS": ("lars", math.sqrt, 1),
    "LAMB": ("lamb", math.sqrt, 10),
}
# The same factors: the batch grows, or the rate falls.
MILESTONES = "3@1,3"
GROWING_ARMS = ("steps", "growing-batch", "cosine")
# The growing batch begins with the rate of its twin.
TUNED_AS = {"growing-batch": "steps"}
CYCLE_EPOCHS = (1.0, 1.5, 2.0, 2.5, 3.0)
CONSTANT_EPOCHS = 6.0
# Constant rates that are run with several seeds.
CONSTANT_RATES = 2
GOAL = 90
PRECISION_ARMS = {
    "float32": [],
    "products in bfloat16": ["--bfloat16"],
    "gradients in float16": ["--wire", "float16", "--loss-scale", "65536"],
}
PRECISION_RATE = 0.1


class AccuracyRow(Row):
    """A run of train_fashion_mnist that is about accuracy; on one rank unless its key has a number of ranks."""

    def __init__(self, key, options):
        held_out = ["--held-out", str(key["held_out"])] if key["held_out"] else []
        super().__init__(key, None, [*options, "--lr", str(key["rate"]), *held_out, "--seed", str(key["seed"])],
                         key.get("ranks", 1))

    def command(self, programs, folder):
        return ["env", *KEEP_MEMORY, *super().command(programs, folder)]

    def results(self, folder):
        metrics = json.loads((folder / "metrics.json").read_text())
        return {"accuracy": metrics["test_accuracy"][-1][1],
                "accuracies": [[round(epoch, 3), accuracy] for epoch, accuracy, _ in metrics["test_accuracy"]],
                "loss": metrics["loss"][-1][1], "steps": metrics["steps"]}


def batch_row(arm, batch, rate, seed, held_out, ranks=1):
    optimizer = BATCH_ARMS[arm][0]
    parts = max(batch // (ranks * PART), 1)
    return AccuracyRow({"arm": optimizer, "batch": batch, "rate": rate, "ranks": ranks, "held_out": held_out, "seed": seed},
                       ["--optimizer", optimizer, "--batch", str(batch), "--accumulate", str(parts), "--warm-up", str(WARM_UP)])


def batch_grid(arm, batch):
    _, scale, divisor = BATCH_ARMS[arm]
    return [float(f"{rate * scale(batch / BASE_BATCH) / divisor:.4g}") for rate in RATES]


def batch_cells():
    """Arms and batches. At a batch of 256 the arms that scale a rate are one."""
    return [(arm, batch) for batch in BATCHES for arm in BATCH_ARMS
            if batch > BASE_BATCH or arm not in ("square root", "linear")]


def of_table(rows, table, **key):
    return [row for row in rows if row["table"] == table and all(row.get(name) == value for name, value in key.items())]


def accuracy_of_rates(rows):
    return {row["rate"]: row.get("accuracy", 0) for row in rows if row["held_out"]}


def to_try(rows, grid):
    """Rates of a rising grid, from its middle to the side where the accuracy on images held out rises, until it falls. The
    last of them may have no row yet."""
    found = accuracy_of_rates(rows)
    middle = len(grid) // 2
    tried = [grid[middle]]
    for step in (1, -1):
        best = middle
        while 0 <= best + step < len(grid):
            tried.append(grid[best + step])
            if any(rate not in found for rate in tried):
                return tried
            if found[grid[best + step]] <= found[grid[best]]:
                break
            best += step
        if best != middle:
            break
    return tried


def best_of(rows, grid):
    """The rate of the grid with the best accuracy on images held out; None until all of them have been tried."""
    found = accuracy_of_rates(rows)
    if any(rate not in found for rate in to_try(rows, grid)):
        return None
    return max((rate for rate in grid if rate in found), key=found.get)


def of_cell(rows, arm, batch):
    return of_table(rows, "batch", arm=BATCH_ARMS[arm][0], batch=batch)


def batch(rows, seeds):
    cells = sorted(batch_cells(), key=lambda cell: BATCHES[1:-1].count(cell[1]))  # the ends first: they say most
    for arm, images in cells:
        for rate in to_try(of_cell(rows, arm, images), batch_grid(arm, images)):
            yield batch_row(arm, images, rate, 1, HELD_OUT)
    best = {cell: best_of(of_cell(rows, *cell), batch_grid(*cell)) for cell in cells}
    tuned = {cell: rate for cell, rate in best.items() if rate}
    for seed in range(1, seeds + 1):
        for (arm, images), rate in tuned.items():
            yield batch_row(arm, images, rate, seed, 0)
    for (arm, images), rate in tuned.items():
        if arm == "unscaled":
            yield batch_row(arm, images, rate, 1, 0, ranks=4)


def growing_row(arm, rate, seed, held_out):
    milestones = [] if arm == "cosine" else ["--milestones", MILESTONES]
    return AccuracyRow({"arm": arm, "rate": rate, "held_out": held_out, "seed": seed}, ["--schedule", arm, *milestones])


def growing_batch(rows, seeds):
    tuned = [arm for arm in GROWING_ARMS if arm not in TUNED_AS]
    for arm in tuned:
        for rate in to_try(of_table(rows, "growing-batch", arm=arm), RATES):
            yield growing_row(arm, rate, 1, HELD_OUT)
    best = {arm: best_of(of_table(rows, "growing-batch", arm=arm), RATES) for arm in tuned}
    for seed in range(1, seeds + 1):
        for arm in GROWING_ARMS:
            rate = best[TUNED_AS.get(arm, arm)]
            if rate:
                yield growing_row(arm, rate, seed, 0)


def cycle_row(arm, epochs, rate, seed, held_out):
    """The accuracy of a constant rate is looked at twice an epoch, and it begins without a warm-up."""
    images = 60000 - held_out
    options = ["--warm-up", "0", "--evaluate-every", str(images // BASE_BATCH // 2)] if arm == "constant" else []
    return AccuracyRow({"arm": arm, "epochs": epochs, "rate": rate, "held_out": held_out, "seed": seed},
                       ["--schedule", arm, "--epochs", str(epochs), *options])


def best_constant_rates(rows):
    """The rates whose accuracy on images held out is highest in the mean of all looks at it: it comes early and stays."""
    found = {row["rate"]: statistics.mean(accuracy for _, accuracy in row["accuracies"])
             for row in of_table(rows, "one-cycle", arm="constant", held_out=HELD_OUT) if "accuracies" in row}
    return sorted(found, key=found.get, reverse=True)[:CONSTANT_RATES] if len(found) == len(RATES) else []


def one_cycle(rows, seeds):
    lengths = [("one-cycle", epochs) for epochs in CYCLE_EPOCHS]
    for arm, epochs in lengths:
        for rate in to_try(of_table(rows, "one-cycle", arm=arm, epochs=epochs), RATES):
            yield cycle_row(arm, epochs, rate, 1, HELD_OUT)
    for rate in RATES:
        yield cycle_row("constant", CONSTANT_EPOCHS, rate, 1, HELD_OUT)
    for seed in range(1, seeds + 1):
        for arm, epochs in lengths:
            rate = best_of(of_table(rows, "one-cycle", arm=arm, epochs=epochs), RATES)
            if rate:
                yield cycle_row(arm, epochs, rate, seed, 0)
        for rate in best_constant_rates(rows):
            yield cycle_row("constant", CONSTANT_EPOCHS, rate, seed, 0)


def precision(_, seeds):
    """Gradients travel in float16 only between ranks: four of them."""
    for seed in range(1, seeds + 1):
        for arm, options in PRECISION_ARMS.items():
            yield AccuracyRow({"arm": arm, "rate": PRECISION_RATE, "ranks": 4, "held_out": 0, "seed": seed}, options)


TABLES = {"batch": batch, "growing-batch": growing_batch, "one-cycle": one_cycle, "precision": precision}


def of_seeds(rows):
    """Rows of one rate on the test images, one a seed."""
    return {row["seed"]: row for row in rows if not row["held_out"] and row.get("ranks", 1) == 1}


def mean_and_deviation(accuracies):
    return statistics.mean(accuracies), statistics.stdev(accuracies) if len(accuracies) > 1 else 0


def mean_curve(rows):
    """[epoch, mean accuracy, standard deviation] of several seeds' looks."""
    curves = [row["accuracies"] for row in rows]
    looks = [[curve[i][1] for curve in curves] for i in range(min(map(len, curves)))]
    return [(curves[0][i][0], *mean_and_deviation(look)) for i, look in enumerate(looks)]


def stays_from(curve, goal):
    """The first epoch from which the accuracy stays at the goal; None where it ends below."""
    begin = None
    for epoch, accuracy, _ in curve:
        begin = (begin or epoch) if accuracy >= goal else None
    return begin


def batch_summary(rows):
    def cell(arm, images):
        if (arm, images) not in batch_cells():
            return "as unscaled"
        here = of_cell(rows, arm, images)
        rate = best_of(here, batch_grid(arm, images))
        found = of_seeds(of_table(here, "batch", rate=rate))
        return f"{spread([row['accuracy'] for row in found.values()])} ({rate:g}; {len(found)})" if rate and found else "-"
    def held_out(arm, images):
        found = accuracy_of_rates(of_cell(rows, arm, images))
        return [f"{found[rate]:.2f}" if rate in found else "-" for rate in batch_grid(arm, images)]
    def label(arm):
        return f"{arm}, rate / {BATCH_ARMS[arm][2]}" if BATCH_ARMS[arm][2] > 1 else arm
    updates = ["updates", *(str(6 * (60000 // images)) for images in BATCHES)]
    accuracy = aligned(["test accuracy, % (rate; seeds)", *(f"{images:,}" for images in BATCHES)],
                       [updates, *([arm, *(cell(arm, images) for images in BATCHES)] for arm in BATCH_ARMS)])
    tuning = aligned(["accuracy, held out", *(f"base rate {rate:g}" for rate in RATES)],
                     [[f"{images:,}, {label(arm)}", *held_out(arm, images)] for arm, images in batch_cells()])
    return f"{accuracy}\n\n{tuning}"


def growing_summary(rows):
    lines = []
    for arm in GROWING_ARMS:
        rate = best_of(of_table(rows, "growing-batch", arm=TUNED_AS.get(arm, arm)), RATES)
        found = of_seeds(of_table(rows, "growing-batch", arm=arm, rate=rate))
        if not found:
            continue
        twin = of_seeds(of_table(rows, "growing-batch", arm="steps"))
        gaps = [found[seed]["accuracy"] - twin[seed]["accuracy"] for seed in found.keys() & twin.keys()]
        lines.append([arm, f"{rate:g}", str(next(iter(found.values()))["steps"]), str(len(found)),
                      spread([row["accuracy"] for row in found.values()]), "-" if arm == "steps" else spread(gaps)])
    return aligned(["schedule", "rate", "updates", "seeds", "test accuracy, %", "above steps"], lines)


def cycle_summary(rows):
    lines = []
    for epochs in CYCLE_EPOCHS:
        here = of_table(rows, "one-cycle", arm="one-cycle", epochs=epochs)
        rate = best_of(here, RATES)
        found = of_seeds(of_table(here, "one-cycle", rate=rate))
        if found:
            accuracies = [row["accuracy"] for row in found.values()]
            lines.append([f"one-cycle, {epochs:g} epochs", f"{rate:g}", str(len(found)), spread(accuracies),
                          f"{epochs:g}" if statistics.mean(accuracies) >= GOAL else "-"])
    for rate in RATES:
        found = of_seeds(of_table(rows, "one-cycle", arm="constant", rate=rate))
        if found:
            reached = stays_from(mean_curve(list(found.values())), GOAL)
            lines.append([f"constant, {CONSTANT_EPOCHS:g} epochs", f"{rate:g}", str(len(found)),
                          spread([row["accuracy"] for row in found.values()]), f"{reached:g}" if reached else "-"])
    return aligned(["schedule", "rate", "seeds", "test accuracy at the end, %", f"epochs to {GOAL} %"], lines)


def precision_summary(rows):
    lines = []
    for arm in PRECISION_ARMS:
        found = {row["seed"]: row for row in of_table(rows, "precision", arm=arm)}
        if found:
            lines.append([arm, str(len(found)), spread([row["accuracy"] for row in found.values()])])
    return aligned(["", "seeds", "test accuracy, %"], lines)


SUMMARIES = {"batch": batch_summary, "growing-batch": growing_summary, "one-cycle": cycle_summary,
             "precision": precision_summary}


def batch_plot(rows):
    def point(arm, images):
        arm = arm if (arm, images) in batch_cells() else "unscaled"
        here = of_cell(rows, arm, images)
        found = of_seeds(of_table(here, "batch", rate=best_of(here, batch_grid(arm, images))))
        return [(images, *mean_and_deviation([row["accuracy"] for row in found.values()]))] if found else []
    series = {arm: [one for images in BATCHES for one in point(arm, images)] for arm in BATCH_ARMS}
    return spread_plot.plot({arm: line for arm, line in series.items() if line}, "Large batches",
                            "Fashion-MNIST, 6 epochs, the best of 5 rates; mean of the seeds, bars of one standard deviation",
                            "images in a batch", BATCHES, is_log=True)


def growing_plot(rows):
    series = {}
    for arm in GROWING_ARMS:
        rate = best_of(of_table(rows, "growing-batch", arm=TUNED_AS.get(arm, arm)), RATES)
        found = of_seeds(of_table(rows, "growing-batch", arm=arm, rate=rate))
        if found:
            updates = next(iter(found.values()))["steps"]
            series[f"{arm}, {updates:,} updates"] = mean_curve(list(found.values()))
    return spread_plot.plot(series, "A batch that grows, a rate that falls",
                            f"Fashion-MNIST, {MILESTONES}: times 3, or a third, after epochs 1 and 3; bars of one standard deviation",
                            "epochs", range(1, 7))


def cycle_plot(rows):
    cycle, series = [], {}
    for epochs in CYCLE_EPOCHS:
        here = of_table(rows, "one-cycle", arm="one-cycle", epochs=epochs)
        found = of_seeds(of_table(here, "one-cycle", rate=best_of(here, RATES)))
        if found:
            cycle.append((epochs, *mean_and_deviation([row["accuracy"] for row in found.values()])))
    if cycle:
        series["one-cycle, at the end"] = cycle
    for rate in RATES:
        found = of_seeds(of_table(rows, "one-cycle", arm="constant", rate=rate))
        if found:
            series[f"constant, {rate:g}"] = [point for point in mean_curve(list(found.values())) if point[0] >= 1]
    return spread_plot.plot(series, "One cycle, or a constant rate",
                            "Fashion-MNIST, batch of 256: the end of cycles of some length, and the way of constant rates; bars of one "
                            "standard deviation", "epochs", range(1, 7))


PLOTS = {"batch": batch_plot, "growing-batch": growing_plot, "one-cycle": cycle_plot}
