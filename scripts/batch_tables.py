"""Tables of scripts/compare-training about rates and batches: what a large batch costs, a batch that grows, one cycle, and
products and gradients in 16 bits.

All tables need the final accuracy, which does not depend on the number of ranks: one rank computes the batch of all.
Rates of a grid are tried once, with images held out of the training set; the best one is run with several seeds on the test
images."""
import json
import math
import statistics

from training_rows import RANKS, Row

HELD_OUT = 5000
BASE_BATCH = 256
BATCHES = (256, 1024, 4096, 8192)
# Rates for a batch of 256. Powers of two, so that arms which scale them otherwise share runs.
RATES = (0.025, 0.05, 0.1, 0.2, 0.4)
# Images that one rank computes at a time. More would take more memory and no less time.
PART = 256
# Of each arm: the optimizer, what its rate is multiplied by at a batch that is `times` as large, and what its grid is
# divided by. LAMB moves a layer by its rate times the layer's norm.
BATCH_ARMS = {
    "unscaled": ("sgd", lambda times: 1, 1),
    "square root": ("sgd", math.sqrt, 1),
    "linear": ("sgd", lambda times: times, 1),
    "LARS": ("lars", math.sqrt, 1),
    "LAMB": ("lamb", math.sqrt, 10),
}
# All arms run with equally many seeds before any arm runs with more.
FIRST_SEEDS = 3
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
    """A run of train_fashion_mnist for its accuracy; on one rank unless its key has a number of ranks."""

    def __init__(self, key, options):
        held_out = ["--held-out", str(key["held_out"])] if key["held_out"] else []
        super().__init__(key, None, [*options, "--lr", str(key["rate"]), *held_out, "--seed", str(key["seed"])],
                         key.get("ranks", 1))

    def results(self, folder):
        metrics = json.loads((folder / "metrics.json").read_text())
        return {"accuracy": metrics["test_accuracy"][-1][1],
                "accuracies": [[round(epoch, 3), accuracy] for epoch, accuracy, _ in metrics["test_accuracy"]],
                "loss": metrics["loss"][-1][1], "steps": metrics["steps"]}


def batch_row(arm, batch, rate, seed, held_out):
    optimizer = BATCH_ARMS[arm][0]
    return AccuracyRow({"arm": optimizer, "batch": batch, "rate": rate, "held_out": held_out, "seed": seed},
                       ["--optimizer", optimizer, "--batch", str(batch), "--accumulate", str(batch // PART)])


def batch_grid(arm, batch):
    _, scale, divisor = BATCH_ARMS[arm]
    return [float(f"{rate * scale(batch / BASE_BATCH) / divisor:.4g}") for rate in RATES]


def batch_cells():
    """Arms and batches. At a batch of 256 the arms that scale a rate are one."""
    return [(arm, batch) for batch in BATCHES for arm in BATCH_ARMS
            if batch > BASE_BATCH or arm not in ("square root", "linear")]


def of_table(rows, table, **key):
    return [row for row in rows if row["table"] == table and all(row.get(name) == value for name, value in key.items())]


def of_four_ranks(rows, **key):
    """The result of the tables "rates" and "accuracy": SGD at a batch of 256 with a cosine, on four ranks."""
    return [{**row, **key, "ranks": RANKS, "held_out": HELD_OUT if row["table"] == "rates" else 0}
            for row in rows if row["table"] in ("rates", "accuracy") and row["arm"] == "float32"]


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
    optimizer = BATCH_ARMS[arm][0]
    found = of_table(rows, "batch", arm=optimizer, batch=batch)
    if (optimizer, batch) == ("sgd", BASE_BATCH):
        found += of_four_ranks(rows, table="batch", arm=optimizer, batch=batch)
    return found


def is_known(row, rows):
    return any(all(row.key[name] == other[name] for name in ("rate", "held_out", "seed")) for other in rows)


def batch(rows, seeds):
    """The ends first, with a few seeds, because they tell most."""
    ends = [cell for cell in batch_cells() if cell[1] in (BATCHES[0], BATCHES[-1])]
    others = [cell for cell in batch_cells() if cell not in ends]
    best = {cell: best_of(of_cell(rows, *cell), batch_grid(*cell)) for cell in batch_cells()}
    def unknown(cell, rate, seed, held_out):
        row = batch_row(*cell, rate, seed, held_out)
        return [] if is_known(row, of_cell(rows, *cell)) else [row]
    def on_test_images(cells, number):
        for seed in range(1, number + 1):
            for cell in cells:
                if best[cell]:
                    yield from unknown(cell, best[cell], seed, 0)
    for cells in (ends, others):
        for cell in cells:
            for rate in to_try(of_cell(rows, *cell), batch_grid(*cell)):
                yield from unknown(cell, rate, 1, HELD_OUT)
        yield from on_test_images(cells, min(seeds, FIRST_SEEDS))
    yield from on_test_images(ends + others, seeds)
    if best[ends[0]]:
        yield batch_row(*ends[0], best[ends[0]], 1, 0)


def growing_row(arm, rate, seed, held_out):
    milestones = [] if arm == "cosine" else ["--milestones", MILESTONES]
    return AccuracyRow({"arm": arm, "rate": rate, "held_out": held_out, "seed": seed}, ["--schedule", arm, *milestones])


def of_growing_arm(rows, arm):
    found = of_table(rows, "growing-batch", arm=arm)
    return found + of_four_ranks(rows, table="growing-batch", arm=arm) if arm == "cosine" else found


def growing_rate(rows, arm):
    return best_of(of_growing_arm(rows, TUNED_AS.get(arm, arm)), RATES)


def growing_batch(rows, seeds):
    asked = [growing_row(arm, rate, 1, HELD_OUT) for arm in GROWING_ARMS if arm not in TUNED_AS
             for rate in to_try(of_growing_arm(rows, arm), RATES)]
    asked += [growing_row(arm, growing_rate(rows, arm), seed, 0) for seed in range(1, seeds + 1) for arm in GROWING_ARMS
              if growing_rate(rows, arm)]
    return (row for row in asked if not is_known(row, of_growing_arm(rows, row.key["arm"])))


def cycle_row(arm, epochs, rate, seed, held_out):
    """Constant rates, without a warm-up, evaluated twice an epoch."""
    images = 60000 - held_out
    options = ["--warm-up", "0", "--evaluate-every", str(images // BASE_BATCH // 2)] if arm == "constant" else []
    return AccuracyRow({"arm": arm, "epochs": epochs, "rate": rate, "held_out": held_out, "seed": seed},
                       ["--schedule", arm, "--epochs", str(epochs), *options])


def best_constant_rates(rows):
    """The rates with the highest mean of all evaluations on images held out: high accuracy that comes early and stays."""
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
    """Four ranks, because gradients are float16 only between ranks."""
    for seed in range(1, seeds + 1):
        for arm, options in PRECISION_ARMS.items():
            yield AccuracyRow({"arm": arm, "rate": PRECISION_RATE, "ranks": 4, "held_out": 0, "seed": seed}, options)


TABLES = {"batch": batch, "growing-batch": growing_batch, "one-cycle": one_cycle, "precision": precision}
