"""The tables of scripts/compare-training: which programs are run for their rows, and how the rows are summed up."""
import json
import statistics
import tempfile
from pathlib import Path

import batch_results
import batch_tables
import hybrid_table
import language_model_table
import latency_table
import local_tables
import pipeline_table
import scaling_table
import server_tables
import sharded_table
import sum_precision_table
import tensor_table
from training_rows import Row, aligned, spread

ARMS = {
    "float32": [],
    "float16": ["--hook", "float16"],
    "bfloat16": ["--hook", "bfloat16"],
    "int8": ["--hook", "int8"],
    "float8": ["--hook", "float8"],
    "one_bit": ["--hook", "one_bit"],
    "one_bit after an epoch": ["--hook", "one_bit:start_after_steps=234"],
    # Its momentum takes the place of the optimizer's.
    "top_k 1 %": ["--hook", "top_k:ratio=0.01:warm_up_steps=234", "--momentum", "0"],
    "top_k 0.1 %": ["--hook", "top_k:ratio=0.001:warm_up_steps=234", "--momentum", "0"],
    "power_sgd 2": ["--hook", "power_sgd:rank=2"],
    "adam": ["--optimizer", "adam"],
    "one_bit_adam": ["--optimizer", "one_bit_adam", "--freeze-after-steps", "234"],
}
RATES = (0.0125, 0.025, 0.05, 0.1, 0.2, 0.4)
DEFAULT_RATE = 0.1
# Adam moves an element by about its rate a step, whatever the gradient: its grid is the same one, divided.
RATE_DIVISORS = {"adam": 50, "one_bit_adam": 50}
TABLE_METHODS = ("sparse", "gather", "dense")
BLOCKS = 20
# Arguments of train_data_parallel: the workers, and the all-reduce; None: kolo's choice.
DRIVERS = {
    "DataParallel": ("replicas", None),
    "central driver": ("ranks", "central"),
    "parameter server": ("ranks", "parameter_server"),
    "DDP, ring": ("ranks", "ring"),
    "DDP": ("ranks", None),
}
# The options of train_fashion_mnist for each way in which images come.
READERS = ("sampler", "shards", "scatter")
ONE_HOST = "one host"
PLACES = ((2, ONE_HOST), (4, ONE_HOST), (4, "1gbit"))


def rate_of(arm, rate):
    """The rate of this arm for a rate of the grid."""
    return rate / RATE_DIVISORS.get(arm, 1)


class ReaderRow(Row):
    """A run of train_fashion_mnist for the way of its images. Files of shards stay for the next row."""

    def program(self, programs, folder):
        shards = str(Path(tempfile.gettempdir()) / "kolo-fashion-mnist-shards")
        return [*super().program(programs, folder), "--reader", self.key["arm"], "--shards", shards]

    def results(self, folder):
        metrics = json.loads((folder / "metrics.json").read_text())
        return {"step_s": metrics["training_seconds"] / metrics["steps"],
                "wait_s": metrics["data"]["wait_seconds_per_step"], "ready_s": metrics["data"]["ready_seconds"]}

    def said(self, found):
        return f"{1e3 * found['wait_s']:.2f} ms of {1e3 * found['step_s']:.0f} ms a step waiting for images"


class WordsRow(Row):
    """A run of train_words."""

    def program(self, programs, folder):
        return [str(programs / "train_words"), "--json", str(folder / "results.json"), *self.options]

    def results(self, folder):
        metrics = json.loads((folder / "results.json").read_text())
        return {"loss": metrics["loss"][-1], "median_step_s": metrics["median_step_s"],
                "mean_step_s": metrics["mean_step_s"], "sent_bytes_per_step": metrics["sent_bytes_per_step"]}

    def said(self, found):
        return f"{1e3 * found['median_step_s']:.0f} ms a step, loss {found['loss']:.5f}"


class DriverRow(WordsRow):
    """A run of train_data_parallel: replicas in one process, or ranks on this machine or on emulated hosts."""

    def program(self, programs, folder):
        return [str(programs / "train_data_parallel"), "--json", str(folder / "results.json"), *self.options]

    def command(self, programs, folder):
        workers, algorithm = DRIVERS[self.key["arm"]]
        train = [*self.program(programs, folder), "--workers", workers]
        number = str(self.key["workers"])
        environment = ["env", f"KOLO_ALGORITHM={algorithm}"] if algorithm else []
        if workers == "replicas":
            return [*environment, *train, "--replicas", number]
        if self.network == ONE_HOST:
            return [*environment, str(programs / "kolo"), "run", "-n", number, "--", *train]
        return [*environment, "scripts/cluster", "--hosts", number, "--rate", self.network, "--no-prefix", "--", *train]


def best_rates(rows):
    """Results of the rows of "rates", by arm."""
    best = {}
    for row in rows:
        if row["table"] != "rates":
            continue
        known = best.get(row["arm"])
        if known is None or row["accuracy"] > known["accuracy"]:
            best[row["arm"]] = row
    return {arm: row["rate"] for arm, row in best.items()}


def rates(_, __):
    """Accuracy on 5,000 images held out of the training set, for each rate of a grid, for the other tables."""
    for arm, options in ARMS.items():
        for rate in (rate_of(arm, rate) for rate in RATES):
            yield Row({"arm": arm, "rate": rate, "seed": 1}, None,
                      [*options, "--lr", str(rate), "--held-out", "5000", "--seed", "1"])


def accuracy(rows, seeds):
    """Accuracy on the test images, at the best rates, for several seeds."""
    best = best_rates(rows)
    for seed in range(1, seeds + 1):
        for arm, options in ARMS.items():
            rate = best.get(arm, rate_of(arm, DEFAULT_RATE))
            yield Row({"arm": arm, "rate": rate, "seed": seed}, None, [*options, "--lr", str(rate), "--seed", str(seed)])


def compression(rows, _):
    """Time to an accuracy on four emulated hosts, at the best rates."""
    best = best_rates(rows)
    for network in ("100mbit", "20mbit"):
        for arm, options in ARMS.items():
            rate = best.get(arm, rate_of(arm, DEFAULT_RATE))
            yield Row({"arm": arm, "network": network, "rate": rate, "seed": 1}, network,
                      [*options, "--lr", str(rate), "--evaluate-every", "40"])


def sparse(_, __):
    """Gradients of tables as rows or whole, on four emulated hosts: steps in interleaved blocks, and long runs whose
    losses must agree."""
    def row(arm, optimizer, steps, block):
        return WordsRow({"arm": arm, "network": "1gbit", "optimizer": optimizer, "steps": steps, "block": block}, "1gbit",
                        ["--tables", arm, "--optimizer", optimizer, "--steps", str(steps)])
    for block in range(1, BLOCKS + 1):
        for arm in TABLE_METHODS:
            yield row(arm, "sgd", 10, block)
    for optimizer in ("sgd", "adagrad"):
        for arm in TABLE_METHODS:
            yield row(arm, optimizer, 200, 0)


def drivers(_, __):
    """Where averages are computed: interleaved blocks of steps of one model and global batch."""
    for block in range(1, BLOCKS + 1):
        for workers, network in PLACES:
            for arm, (kind, _) in DRIVERS.items():
                if kind == "ranks" or network == ONE_HOST:
                    yield DriverRow({"arm": arm, "workers": workers, "network": network, "block": block}, network,
                                    ["--steps", "16", "--hidden", "1024"])


def data(_, __):
    """How images reach four emulated hosts: interleaved blocks of steps."""
    for block in range(1, BLOCKS + 1):
        for arm in READERS:
            yield ReaderRow({"arm": arm, "network": "1gbit", "block": block}, "1gbit", ["--steps", "40"])


TABLES = {"rates": rates, "accuracy": accuracy, "compression": compression, "sparse": sparse, "drivers": drivers,
          "data": data, **batch_tables.TABLES, **local_tables.TABLES, "scaling": scaling_table.scaling,
          "language-model": language_model_table.language_model, "sharded": sharded_table.sharded, **sum_precision_table.TABLES,
          "latency": latency_table.latency, "hybrid": hybrid_table.hybrid, "server": server_tables.server, "tensor": tensor_table.tensor,
          "pipeline": pipeline_table.pipeline}


def seconds(value):
    return "-" if value is None else f"{value:.0f}"


def paired_ratios(dividends, divisors, value):
    """Quotients of two arms' rows, block by block."""
    ratios = sorted(dividends[block][value] / divisors[block][value] for block in dividends.keys() & divisors.keys())
    return f"{statistics.median(ratios):.2f} x ({ratios[0]:.2f} to {ratios[-1]:.2f})" if ratios else "-"


def by_block(rows, arm):
    return {row["block"]: row for row in rows if row["arm"] == arm and row["block"] > 0}


def sparse_summary(rows):
    losses = {(row["arm"], row["optimizer"]): f"{row['loss']:.5f}" for row in rows if row["block"] == 0}
    lines = []
    for arm in TABLE_METHODS:
        blocks = by_block(rows, arm)
        of_arm = list(blocks.values())
        if not of_arm:
            continue
        faster = paired_ratios(by_block(rows, "dense"), blocks, "median_step_s")
        lines.append([arm, f"{1e3 * statistics.median(row['median_step_s'] for row in of_arm):.0f}",
                      f"{1e3 * statistics.mean(row['mean_step_s'] for row in of_arm):.0f}", faster,
                      f"{of_arm[-1]['sent_bytes_per_step'] / 1e6:.2f}",
                      losses.get((arm, "sgd"), "-"), losses.get((arm, "adagrad"), "-")])
    return aligned(["tables", "ms a step, median", "mean", "faster than dense", "MB sent a step", "loss, sgd", "loss, adagrad"], lines)


def data_summary(rows):
    lines = []
    for arm in READERS:
        of_arm = by_block(rows, arm)
        if of_arm:
            lines.append([arm, *(f"{scale * statistics.median(row[name] for row in of_arm.values()):.{digits}f}"
                                 for name, scale, digits in (("ready_s", 1, 2), ("wait_s", 1e3, 2), ("step_s", 1e3, 1))),
                          paired_ratios(of_arm, by_block(rows, "sampler"), "step_s")])
    return aligned(["way", "s until the first batch", "ms of a step waiting", "ms a step", "of sampler's"], lines)


def drivers_summary(rows):
    lines = []
    for workers, network in PLACES:
        here = [row for row in rows if (row["workers"], row["network"]) == (workers, network)]
        for arm in DRIVERS:
            blocks = by_block(here, arm)
            of_arm = list(blocks.values())
            if not of_arm:
                continue
            slower = paired_ratios(blocks, by_block(here, "DDP"), "median_step_s")
            lines.append([f"{workers}, {network}", arm,
                          f"{1e3 * statistics.median(row['median_step_s'] for row in of_arm):.0f}",
                          f"{1e3 * statistics.mean(row['mean_step_s'] for row in of_arm):.0f}", slower,
                          f"{of_arm[-1]['sent_bytes_per_step'] / 1e6:.2f}"])
    return aligned(["workers, links", "driver", "ms a step, median", "mean", "of DDP's time", "MB sent by the busiest rank"], lines)


SUMMARIES = {"sparse": sparse_summary, "drivers": drivers_summary, "data": data_summary,
             "scaling": scaling_table.scaling_summary, "language-model": language_model_table.language_model_summary,
             "sharded": sharded_table.sharded_summary, **sum_precision_table.SUMMARIES,
             "latency": latency_table.latency_summary, "hybrid": hybrid_table.hybrid_summary,
             "pipeline": pipeline_table.pipeline_summary,
             "server": server_tables.server_summary,
             "tensor": tensor_table.tensor_summary}


def summary(table, rows):
    """The rows of a table, as markdown."""
    of_several_tables = {**batch_results.SUMMARIES, **local_tables.SUMMARIES}
    if table in of_several_tables:
        return of_several_tables[table](rows)
    rows = [row for row in rows if row["table"] == table]
    if table in SUMMARIES:
        return SUMMARIES[table](rows)
    arms = list(dict.fromkeys(row["arm"] for row in rows))
    if table == "rates":
        found = {(row["arm"], row["rate"]): row["accuracy"] for row in rows}
        grid = [rate for rate in RATES if any((arm, rate_of(arm, rate)) in found for arm in arms)]
        def cell(arm, rate):
            value = found.get((arm, rate_of(arm, rate)))
            return "-" if value is None else f"{value:.2f}"
        def label(arm):
            return f"{arm}, rate / {RATE_DIVISORS[arm]}" if arm in RATE_DIVISORS else arm
        return aligned(["accuracy, held out", *(f"rate {rate}" for rate in grid)],
                       [[label(arm), *(cell(arm, rate) for rate in grid)] for arm in arms])
    if table == "accuracy":
        lines = []
        for arm in arms:
            of_arm = [row for row in rows if row["arm"] == arm]
            lines.append([arm, f"{of_arm[0]['rate']}", str(len(of_arm)), spread([row["accuracy"] for row in of_arm])])
        return aligned(["hook", "rate", "seeds", "test accuracy, %"], lines)
    lines = []
    for row in rows:
        plain = next((other for other in rows if other["arm"] == "float32" and other["network"] == row["network"]), None)
        faster = "-"
        if plain and plain["to_90_s"] and row["to_90_s"]:
            faster = f"{plain['to_90_s'] / row['to_90_s']:.2f} x"
        lines.append([f"{row['arm']}, {row['network']}", f"{row['sent_bytes_per_step']:.0f}", f"1/{1 / row['share_of_float32']:.1f}",
                      seconds(row["to_85_s"]), seconds(row["to_90_s"]), faster, f"{row['accuracy']:.2f}"])
    return aligned(["hook, links", "bytes sent a step", "of float32's", "s to 85 %", "s to 90 %", "faster", "accuracy, %"], lines)
