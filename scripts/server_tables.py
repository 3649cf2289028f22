"""The table server of scripts/compare-training: parameter servers, their rules and bounds."""
import json
import statistics

import dot_plot
from training_rows import Row, aligned, spread

SEEDS = 3
# A sixth of the epochs of the table accuracy.
EPOCHS = 1
# Images of a push, for any number of workers, so that only the staleness differs.
SHARE = 64
# Stale pushes act as momentum of their own (I. Mitliagkas et al.: "Asynchrony begets Momentum", 2016): all rules without
# momentum, and some with that of train_fashion_mnist.
MOMENTUM = {0.0: ["--momentum", "0", "--lr", "0.4"], 0.9: ["--momentum", "0.9", "--lr", "0.1"]}
# arm: (options, numbers of workers by momentum)
RULES = {
    "synchronous": ([], {0.0: (4,), 0.9: (4,)}),
    "unbounded": (["--rule", "unbounded"], {0.0: (4, 12), 0.9: (4, 8, 12)}),
    "clocks, 4": (["--rule", "clocks", "--staleness", "4"], {0.0: (4,)}),
    "versions, 2, dropped": (["--rule", "versions", "--staleness", "2"], {0.0: (4,)}),
    "versions, 0, divided": (["--rule", "versions", "--staleness", "0", "--late", "divide"], {0.0: (12,)}),
}
# Replayed: a worker computes for 40 ms, one of four for 160 ms.
BLOCKS = 3
REPLAY = ["--compute-ms", "40", "--slow-worker", "3", "--slow-ms", "160", "--seconds", "15"]
REPLAYED = {
    "synchronous": [],
    "unbounded": ["--rule", "unbounded"],
    "clocks, 3": ["--rule", "clocks", "--staleness", "3"],
    "clocks, 30": ["--rule", "clocks", "--staleness", "30"],
    "versions, 16, dropped": ["--rule", "versions", "--staleness", "16"],
    "versions, 4, divided": ["--rule", "versions", "--staleness", "4", "--late", "divide"],
    "versions, 4, dropped": ["--rule", "versions", "--staleness", "4"],
}
KEPT = ("images_per_second", "mean_staleness", "staleness_histogram")


class ServerRow(Row):
    """A run of train_parameter_server with one server."""

    limit_s = 900

    def __init__(self, key, options):
        super().__init__(key, None, options, key["workers"] + 1)

    def program(self, programs, folder):
        return [str(programs / "train_parameter_server"), "--output", str(folder), "--progress", "none", "--batch",
                str(SHARE * self.key["workers"]), *self.options]

    def results(self, folder):
        metrics = json.loads((folder / "metrics.json").read_text())
        server, workers = metrics["servers"][0], metrics["workers"]
        pushes = sum(metrics["staleness_histogram"])
        found = {name: metrics[name] for name in KEPT}
        found.update(updates=server["updates"], dropped=server["dropped"] / pushes, divided=server["divided"] / pushes,
                     steps=[worker["steps"] for worker in workers],
                     wait_s=[worker["waiting_seconds"] / worker["steps"] for worker in workers])
        if "test_accuracy" in metrics:
            found["accuracy"] = metrics["test_accuracy"]
        return found

    def said(self, found):
        how_well = f"{found['accuracy']:.2f} %" if "accuracy" in found else f"{found['images_per_second']:.0f} images/s"
        return f"{how_well}, mean staleness {found['mean_staleness']:.2f}"


def accuracy_arms():
    """(arm, momentum, workers)"""
    for momentum in MOMENTUM:
        for arm, (_, numbers) in RULES.items():
            for workers in numbers.get(momentum, ()):
                yield arm, momentum, workers


def server(_, seeds):
    """Replayed runs in interleaved blocks; accuracies for several seeds."""
    for block in range(1, BLOCKS + 1):
        for arm, options in REPLAYED.items():
            yield ServerRow({"arm": arm, "workers": 4, "replayed": True, "block": block}, [*REPLAY, *options])
    for seed in range(1, min(seeds, SEEDS) + 1):
        for arm, momentum, workers in accuracy_arms():
            yield ServerRow({"arm": arm, "workers": workers, "momentum": momentum, "epochs": EPOCHS, "seed": seed},
                            ["--epochs", str(EPOCHS), "--seed", str(seed), *MOMENTUM[momentum], *RULES[arm][0]])


def share(rows, name):
    value = statistics.mean(row[name] for row in rows)
    return f"{100 * value:.0f} %" if value else "-"


def of_accuracy(rows):
    """{(arm, momentum, workers): rows} in the order of the runs."""
    found = {}
    for arm in accuracy_arms():
        of_arm = [row for row in rows if "accuracy" in row and (row["arm"], row["momentum"], row["workers"]) == arm]
        if of_arm:
            found[arm] = of_arm
    return found


def server_summary(rows):
    replayed = [row for row in rows if row.get("replayed")]
    synchronous = {row["block"]: row["images_per_second"] for row in replayed if row["arm"] == "synchronous"}
    lines = []
    for arm in REPLAYED:
        of_arm = [row for row in replayed if row["arm"] == arm]
        if not of_arm:
            continue
        ratios = [row["images_per_second"] / synchronous[row["block"]] for row in of_arm if row["block"] in synchronous]
        waits = [[row["wait_s"][worker] for row in of_arm] for worker in (0, 3)]
        lines.append([arm, f"{statistics.mean(row['images_per_second'] for row in of_arm):,.0f}",
                      f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})" if ratios else "-",
                      f"{statistics.mean(row['mean_staleness'] for row in of_arm):.1f}", share(of_arm, "dropped"),
                      share(of_arm, "divided"), *(f"{1e3 * statistics.mean(wait):.1f}" for wait in waits)])
    tables = []
    if lines:
        tables.append(aligned(["rule, bound", "images/s", "of synchronous", "mean staleness", "dropped", "divided",
                               "ms a step of a fast worker with the server", "of the slow one"], lines))
    lines = [[arm, f"{momentum:g}", str(workers), str(len(of_arm)), spread([row["accuracy"] for row in of_arm]),
              f"{statistics.mean(row['mean_staleness'] for row in of_arm):.2f}",
              str(max(len(row["staleness_histogram"]) for row in of_arm) - 1), share(of_arm, "dropped"),
              share(of_arm, "divided")] for (arm, momentum, workers), of_arm in of_accuracy(rows).items()]
    if lines:
        tables.append(aligned(["rule, bound", "momentum", "workers", "seeds", "test accuracy, %", "mean staleness", "highest", "dropped",
                               "divided"], lines))
    return "\n\n".join(tables)


def server_plot(rows):
    """Accuracy and the mean staleness that was measured, with and without momentum."""
    found = of_accuracy([row for row in rows if row["table"] == "server"])
    lines = []
    for (arm, momentum, workers), of_arm in found.items():
        accuracies = [row["accuracy"] for row in of_arm]
        age = statistics.mean(row["mean_staleness"] for row in of_arm)
        lines.append((f"{arm}, {workers} w.", f"{age:.1f}", statistics.mean(accuracies),
                      statistics.stdev(accuracies) if len(accuracies) > 1 else 0, int(momentum > 0)))
    return dot_plot.plot(lines, "Parameter servers: accuracy and staleness",
                         f"Fashion-MNIST, {EPOCHS} epoch, pushes of {SHARE} images by w. workers; orange without, blue with a momentum of 0.9; "
                         "bars of one standard deviation", ("rule, bound", "updates late"), ticks=5)
