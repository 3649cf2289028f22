"""The table `sharded` of scripts/compare-training: memory, bytes sent and the time of a replayed step, if the
optimizer's state, gradients or parameters are divided among the ranks."""
import json
import statistics

from comparison_page import human_rate
from scaling_table import BUCKETS, TRACE
from training_rows import RANKS, aligned

BLOCKS = 3
WHOLE = "DistributedDataParallel"
SHARDS = ("optimizer_state", "gradients", "parameters")
# Links, and the seconds that a step computes: communication takes about as long as that, and half.
CASES = (("200mbit", 0.41), ("200mbit", 0.82))
STEPS = 8
LAYERS = 8  # of bench_train's transformer


class MemoryRow:
    """Steps of a transformer with Adam, on ranks of this machine, for their memory and what they send."""

    def __init__(self, arm):
        self.key = {"arm": arm, "part": "memory"}

    def program(self, programs, _):
        shard = [] if self.key["arm"] == WHOLE else ["--shard", self.key["arm"]]
        return [str(programs / "bench_train"), "train", "--model", "transformer", "--batch", "1", "--steps", "4", "--adam",
                "--json", *shard]

    def command(self, programs, folder):
        # Over TCP, because bytes through shared memory are not counted as sent, and by rings, which send the fewest.
        return ["sh", "-c", 'out=$1; shift; exec "$@" >"$out"', "sh", str(folder / "results.json"),
                "env", "KOLO_TRANSPORTS=tcp", "KOLO_ALGORITHM=ring", str(programs / "kolo"), "run", "-n", str(RANKS),
                "--no-prefix", "--", *self.program(programs, folder)]

    def results(self, folder):
        found = json.loads((folder / "results.json").read_text())
        return {**{name: found[name] for name in ("parameters", "first_bytes", "peak_bytes", "sent_bytes")}, "kind": "computed"}

    def said(self, found):
        return f"{found['peak_bytes'] / 1e6:.0f} MB"


class TimeRow:
    """A run of bench_train replay, one rank on each host, interleaved with the undivided model. Its buckets are of the size
    of a layer, as the units of the divided one are."""

    def __init__(self, arm, network, compute_s, block):
        self.key = {"arm": arm, "part": "time", "network": network, "compute_s": compute_s, "block": block}

    def program(self, programs, folder):
        return [str(programs / "bench_train"), "replay", "--trace", str(TRACE), "--seconds", str(self.key["compute_s"]),
                "--steps", str(STEPS), *BUCKETS, "--shard", self.key["arm"], "--output", str(folder / "results.json")]

    def command(self, programs, folder):
        return ["scripts/cluster", "--hosts", str(RANKS), "--rate", self.key["network"], "--no-prefix", "--",
                *self.program(programs, folder)]

    def results(self, folder):
        found = json.loads((folder / "results.json").read_text())
        divided = {f"sharded_{name}": value for name, value in found["sharded"].items()}
        return {**{name: found[name] for name in ("step_mean_s", "exposed_s", "communication_s", "sent_bytes")}, **divided,
                "kind": "replayed"}

    def said(self, found):
        return f"{found['sharded_step_mean_s'] / found['step_mean_s']:.3f} of the undivided step"


def sharded(_, __):
    for arm in (WHOLE, *SHARDS):
        yield MemoryRow(arm)
    for block in range(1, BLOCKS + 1):
        for network, compute_s in CASES:
            for arm in SHARDS:
                yield TimeRow(arm, network, compute_s, block)


def formula(arm, parameters):
    """Bytes of a rank with Adam: see kolo/train/sharded_data_parallel.hpp. Units are the layers of the model; the three of
    gradients are those under way in backward."""
    unit = parameters / LAYERS
    return {WHOLE: 16 * parameters, "optimizer_state": (8 + 8 / RANKS) * parameters,
            "gradients": (4 + 12 / RANKS) * parameters, "parameters": 16 / RANKS * parameters + 4 * (2 + 3) * unit}[arm]


def memory_lines(rows):
    """Resident memory beside the formulas, which do not count libtorch's code and workspace, equal in all rows."""
    whole = next((row for row in rows if row["arm"] == WHOLE), None)
    lines = []
    for row in rows:
        expected = formula(row["arm"], row["parameters"])
        cells = [row["arm"], f"{row['peak_bytes'] / 1e6:.0f}", f"{expected / 1e6:.0f}"]
        if whole:
            less = whole["peak_bytes"] - row["peak_bytes"]
            cells += [f"{less / 1e6:.0f}", f"{(formula(WHOLE, row['parameters']) - expected) / 1e6:.0f}",
                      f"{row['sent_bytes'] / whole['sent_bytes']:.3f}"]
        else:
            cells += ["-", "-", "-"]
        lines.append(cells)
    return lines


def time_lines(rows):
    """The mean of the blocks; ratios within a block."""
    lines = []
    for network, compute_s in CASES:
        for arm in SHARDS:
            found = [row for row in rows if (row["arm"], row["network"], row["compute_s"]) == (arm, network, compute_s)]
            if not found:
                continue
            def milliseconds(name):
                return f"{1e3 * statistics.mean(row[name] for row in found):,.0f}"
            ratios = [row["sharded_step_mean_s"] / row["step_mean_s"] for row in found]
            lines.append([f"{human_rate(network)}, {compute_s:g} s", arm, milliseconds("step_mean_s"),
                          milliseconds("sharded_step_mean_s"), f"{statistics.mean(ratios):.3f}",
                          f"{min(ratios):.3f} to {max(ratios):.3f}", milliseconds("sharded_communication_s"),
                          milliseconds("sharded_exposed_s")])
    return lines


def sharded_summary(rows):
    memory = memory_lines([row for row in rows if row["part"] == "memory"])
    times = time_lines([row for row in rows if row["part"] == "time"])
    parts = []
    if memory:
        parts.append(aligned(["divided", "MB resident at the peak", "MB by the formula", "MB saved", "by the formula", f"sent, of {WHOLE}'s"], memory))
    if times:
        parts.append(aligned(["links, computation", "divided", "ms undivided", "ms a step", "ratio", "of blocks",
                              "communication alone", "exposed"], times))
    return "\n\n".join(parts)
