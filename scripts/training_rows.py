"""Shared by the tables of scripts/compare-training: a row that is a run of train_fashion_mnist, and tables as markdown."""
import json
import statistics

RANKS = 4


class Row:
    """A run of train_fashion_mnist. `key` identifies it in its table; `command` runs it and writes its
    numbers to `folder`."""

    limit_s = 0  # for a long run

    def __init__(self, key, network, options, ranks=RANKS):
        self.key, self.network, self.options, self.ranks = key, network, options, ranks

    def program(self, programs, folder):
        return [str(programs / "train_fashion_mnist"), "--output", str(folder), "--progress", "none", *self.options]

    def command(self, programs, folder):
        train = self.program(programs, folder)
        if self.network is None:
            return [str(programs / "kolo"), "run", "-n", str(self.ranks), "--", *train]
        return ["scripts/cluster", "--hosts", str(self.ranks), "--rate", self.network, "--no-prefix", "--", *train]

    def results(self, folder):
        metrics = json.loads((folder / "metrics.json").read_text())
        communication = metrics["communication"]
        return {
            "accuracy": metrics["test_accuracy"][-1][1],
            "loss": metrics["loss"][-1][1],
            "steps": metrics["steps"],
            "training_s": metrics["training_seconds"],
            "to_85_s": time_to(metrics, 85),
            "to_90_s": time_to(metrics, 90),
            "sent_bytes_per_step": communication["sent_bytes_per_step"],
            "share_of_float32": communication["sent_bytes_per_step"] / communication["ring_bytes_per_step"],
        }

    def said(self, found):
        return f"{found['accuracy']:.2f} %"


def time_to(metrics, accuracy):
    """Seconds of training until the accuracy was first reached; None if it was not."""
    return next((seconds for _, value, seconds in metrics["test_accuracy"] if value >= accuracy), None)


def aligned(header, lines):
    widths = [max(len(line[i]) for line in [header, *lines]) for i in range(len(header))]
    def text(line):
        cells = [line[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:]))]
        return "| " + " | ".join(cells) + " |"
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([text(header), rule, *map(text, lines)])


def spread(values):
    if len(values) < 2:
        return f"{values[0]:.2f}"
    return f"{statistics.mean(values):.2f} ± {statistics.stdev(values):.2f}"
