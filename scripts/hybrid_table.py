"""The table `hybrid` of scripts/compare-training: predictions of `kolo plan training` for the ways to train a model, beside replays
of each way that communicate for real: times of steps over emulated links, and memory of ranks."""
import json
import statistics
import subprocess
from pathlib import Path

from comparison_page import human_rate
from training_rows import RANKS, aligned

ROOT = Path(__file__).resolve().parent.parent
PROFILE = ROOT / "docs/data/hybrid_profile.json"
BLOCKS = 3
STEPS = 3
NETWORKS = ("200mbit", "800mbit")
PAYLOAD = "0.956"  # of an emulated Ethernet
MICRO_BATCHES = 8
# Each way's name in `kolo plan training`.
WAYS = ("DistributedDataParallel", "ShardedDataParallel, optimizer_state", "ShardedDataParallel, gradients",
        "ShardedDataParallel, parameters", "pipeline 4", "data 2 x pipeline 2", "data 2 x tensor 2", "tensor 2 x pipeline 2",
        "tensor 4")
# For memory the layers are wider, so that libraries and buffers of messages are small beside them.
WIDER = 2


def model(part):
    """The profile that is replayed, in the format of `kolo plan training`: a transformer of width 144, 8 samples of 128 tokens.
    Its bytes are those of such a model. Its times are chosen, because the replay sleeps them."""
    profile = json.loads(PROFILE.read_text())
    if part == "memory":
        for layer in profile["layers"]:
            layer["parameters"] *= WIDER * WIDER
            for name in ("activation_bytes", "output_bytes", "tensor_sums"):
                layer[name] *= WIDER
            layer["forward_ms"] = layer["backward_ms"] = 0
    return profile


class HybridRow:
    """A replay of one way, and its prediction."""

    def __init__(self, arm, part, **key):
        self.key = {"arm": arm, "part": part, **key}
        self.planned = {}

    def plan(self, programs, profile):
        """The prediction of `kolo plan training` for this way."""
        said = subprocess.run([str(programs / "kolo"), "plan", "training", "--model", str(profile), "--hosts", str(RANKS),
                               "--rate", self.key.get("network", "1gbit"), "--payload", PAYLOAD, "--micro-batches",
                               str(MICRO_BATCHES), "--optimizer", "adam", "--json"],
                              check=True, stdout=subprocess.PIPE, text=True).stdout
        return next(way for way in json.loads(said)["ways"] if way["way"] == self.key["arm"])

    def program(self, programs, _):
        return [str(programs / "bench_train")]

    def replay(self, way, programs, folder):
        shard = way["way"].partition("ShardedDataParallel, ")[2]
        borders = ",".join(str(first) for first in way["first_layers"][1:])
        return [*self.program(programs, folder), "hybrid", "--profile", str(folder / "model.json"), "--data", str(way["data"]),
                "--tensor", str(way["tensor"]), "--pipeline", str(way["stages"]), "--micro-batches", str(way["micro_batches"]),
                "--batches", str(RANKS // way["data"]), *(["--borders", borders] if borders else []),
                *(["--shard", shard] if shard else []), "--steps", str(STEPS), "--output", str(folder / "results.json")]

    def command(self, programs, folder):
        profile = folder / "model.json"
        is_time = self.key["part"] == "time"
        profile.write_text(json.dumps(model(self.key["part"])))
        self.planned = self.plan(programs, profile)
        replay = self.replay(self.planned, programs, folder)
        if is_time:
            return ["scripts/cluster", "--hosts", str(RANKS), "--rate", self.key["network"], "--no-prefix", "--", *replay]
        # Over TCP, as between hosts.
        return ["env", "KOLO_TRANSPORTS=tcp", str(programs / "kolo"), "run", "-n", str(RANKS), "--no-prefix", "--", *replay,
                "--memory"]

    def results(self, folder):
        found = json.loads((folder / "results.json").read_text())
        if self.key["part"] == "memory":
            return {"kind": "replayed", "peak_bytes": found["peak_bytes"], "planned_bytes": self.planned["memory_bytes"]}
        return {"kind": "replayed", "step_s": found["step_s"], "step_mean_s": found["step_mean_s"],
                "planned_s": self.planned["step_seconds"]}

    def said(self, found):
        if self.key["part"] == "memory":
            return f"{found['peak_bytes'] / 1e6:.0f} MB, planned {found['planned_bytes'] / 1e6:.0f}"
        return f"{found['step_s']:.3f} s, planned {found['planned_s']:.3f}"


def hybrid(_, __):
    """Blocks of all ways in turn; memory once."""
    for block in range(1, BLOCKS + 1):
        for network in NETWORKS:
            for arm in WAYS:
                yield HybridRow(arm, "time", network=network, block=block)
    for arm in WAYS:
        yield HybridRow(arm, "memory")


def time_lines(rows):
    """By the replays' medians, the fastest way first."""
    lines = []
    for network in NETWORKS:
        ways = []
        for arm in WAYS:
            found = [row for row in rows if (row["arm"], row["network"]) == (arm, network)]
            if found:
                ways.append((statistics.median(row["step_s"] for row in found), arm, found))
        planned = sorted(ways, key=lambda way: way[2][-1]["planned_s"])
        for place, (step, arm, found) in enumerate(sorted(ways, key=lambda way: way[0])):
            ratios = [row["planned_s"] / row["step_s"] for row in found]
            lines.append([human_rate(network), arm, f"{1e3 * step:,.0f}", f"{1e3 * found[-1]['planned_s']:,.0f}",
                          f"{statistics.median(ratios):.2f}", f"{min(ratios):.2f} to {max(ratios):.2f}", str(place + 1),
                          str([way[1] for way in planned].index(arm) + 1)])
    return lines


def memory_lines(rows):
    return [[row["arm"], f"{row['peak_bytes'] / 1e6:,.0f}", f"{row['planned_bytes'] / 1e6:,.0f}",
             f"{row['planned_bytes'] / row['peak_bytes']:.2f}"] for row in rows]


def hybrid_summary(rows):
    times = time_lines([row for row in rows if row["part"] == "time"])
    memory = memory_lines([row for row in rows if row["part"] == "memory"])
    parts = []
    if times:
        parts.append(aligned(["links", "way", "ms a step", "planned", "planned / replayed", "of blocks", "place", "planned place"],
                             times))
    if memory:
        parts.append(aligned(["way", "MB of a rank", "planned", "planned / replayed"], memory))
    return "\n\n".join(parts)
