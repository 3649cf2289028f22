"""The table `tensor` of scripts/compare-training: memory and bytes of a rank if a transformer's layers or sequences are
divided among the ranks, beside the formulas, and the time of a step with replayed computation."""
import json
from pathlib import Path

from comparison_page import human_rate
from training_rows import aligned

ROOT = Path(__file__).resolve().parent.parent
PROFILE = ROOT / "docs/data/transformer_profile.json"
MODES = ("tensor", "sequence", "experts", "ulysses", "ring")
SIZES = (2, 4)
BATCH, CONTEXT, WIDTH, LAYERS, VOCABULARY, EXPERTS = 4, 64, 128, 2, 256, 8
ONE_HOST = "one host"
# Links, and the factor of the profile's times: 0.1 is a machine that computes ten times faster.
CASES = ((ONE_HOST, 1), (ONE_HOST, 0.1), ("1gbit", 1), ("1gbit", 0.1))
BLOCKS = 3
STEPS = 4


class BytesRow:
    """Steps of train_tensor over TCP, because bytes through shared memory are not counted, by rings, which send the fewest."""

    def __init__(self, arm, ranks):
        self.key = {"arm": arm, "part": "bytes", "ranks": ranks}

    def program(self, programs, folder):
        return [str(programs / "train_tensor"), "--mode", self.key["arm"], "--steps", "4", "--batch", str(BATCH), "--context",
                str(CONTEXT), "--width", str(WIDTH), "--layers", str(LAYERS), "--experts", str(EXPERTS), "--json",
                str(folder / "results.json")]

    def command(self, programs, folder):
        return ["env", "KOLO_TRANSPORTS=tcp", "KOLO_ALGORITHM=ring", str(programs / "kolo"), "run", "-n", str(self.key["ranks"]),
                "--", *self.program(programs, folder)]

    def results(self, folder):
        found = json.loads((folder / "results.json").read_text())
        return {"loss": found["loss"][-1], **{name: found[name] for name in
                                              ("parameters", "parameters_of_a_rank", "sent_bytes_per_step")}}

    def said(self, found):
        return f"{found['sent_bytes_per_step'] / 1e6:.2f} MB sent a step"


class TimeRow:
    """A run of bench_train tensor, interleaved with one rank that has all layers."""

    def __init__(self, arm, ranks, network, slower, block):
        self.key = {"arm": arm, "part": "time", "ranks": ranks, "network": network, "slower": slower, "block": block}

    def program(self, programs, folder):
        sequence = ["--sequence"] if self.key["arm"] == "sequence" else []
        return [str(programs / "bench_train"), "tensor", "--profile", str(PROFILE), "--slower", str(self.key["slower"]), "--steps",
                str(STEPS), *sequence, "--output", str(folder / "results.json")]

    def command(self, programs, folder):
        ranks = str(self.key["ranks"])
        if self.key["network"] == ONE_HOST:
            return [str(programs / "kolo"), "run", "-n", ranks, "--", *self.program(programs, folder)]
        return ["scripts/cluster", "--hosts", ranks, "--rate", self.key["network"], "--no-prefix", "--",
                *self.program(programs, folder)]

    def results(self, folder):
        found = json.loads((folder / "results.json").read_text())
        return {**{name: found[name] for name in ("step_mean_s", "alone_mean_s", "communication_s", "sent_bytes")},
                "kind": "replayed"}

    def said(self, found):
        return f"{found['alone_mean_s'] / found['step_mean_s']:.2f} times as fast as one rank"


def tensor(_, __):
    for ranks in SIZES:
        for arm in MODES:
            yield BytesRow(arm, ranks)
    for block in range(1, BLOCKS + 1):
        for network, slower in CASES:
            for ranks in SIZES:
                for arm in ("tensor", "sequence"):
                    yield TimeRow(arm, ranks, network, slower, block)


def sent_by_formula(arm, ranks, parameters):
    """Bytes of a step; see docs/training/tensor.md. For experts the formula assumes that bytes
    choose all experts equally."""
    n = ranks
    one_way = (n - 1) / n  # what a rank sends of the bytes of an all_gather or reduce_scatter
    activations = 4 * BATCH * CONTEXT * WIDTH
    vector = 4 * WIDTH
    # A largest score, a sum and the right score of each byte.
    scores = 3 * 4 * BATCH * CONTEXT * 2 * one_way
    blocks_and_ends = (8 * LAYERS + 4) * activations * one_way + scores
    places = 4 * CONTEXT * WIDTH * 2 * one_way
    if arm == "tensor":
        return blocks_and_ends
    if arm == "sequence":
        return blocks_and_ends + (6 * LAYERS + 2) * vector * 2 * one_way + places
    if arm == "experts":
        slices = activations / n
        exchanged = 4 * slices * one_way
        gate = EXPERTS * vector * 2 * one_way
        counts = 8 * (EXPERTS + 1) * (n - 1)
        return ((4 * LAYERS + 4) * activations * one_way + scores + (5 * LAYERS + 2) * vector * 2 * one_way + places
                + LAYERS * (exchanged + gate + counts + 4 * EXPERTS * 2 * one_way))
    gradients = 4 * parameters * 2 * one_way
    slices = activations / n
    if arm == "ulysses":
        return gradients + LAYERS * 8 * slices * one_way
    return gradients + LAYERS * (6 * n - 4) * slices


def bytes_lines(rows):
    lines = []
    for row in rows:
        formula = sent_by_formula(row["arm"], row["ranks"], row["parameters"])
        lines.append([row["arm"], str(row["ranks"]), f"{row['parameters_of_a_rank']:,.0f}",
                      f"{row['parameters_of_a_rank'] / row['parameters']:.3f}", f"{row['sent_bytes_per_step']:,.0f}",
                      f"{formula:,.0f}", f"{row['sent_bytes_per_step'] / formula:.3f}", f"{row['loss']:.5f}"])
    return lines


def time_lines(rows):
    """The block with the fastest step, because other programs on the machine only add waiting."""
    lines = []
    for network, slower in CASES:
        for ranks in SIZES:
            for arm in ("tensor", "sequence"):
                found = [row for row in rows
                         if (row["arm"], row["ranks"], row["network"], row["slower"]) == (arm, ranks, network, slower)]
                if not found:
                    continue
                best = min(found, key=lambda row: row["step_mean_s"])
                ratios = [row["alone_mean_s"] / row["step_mean_s"] for row in found]
                links = network if network == ONE_HOST else human_rate(network)
                least = min(row["communication_s"] for row in found)
                lines.append([f"{links}, {arm}", str(ranks), f"{1e3 * best['alone_mean_s']:,.0f}", f"{1e3 * best['step_mean_s']:,.0f}",
                              f"{best['alone_mean_s'] / best['step_mean_s']:.2f}", f"{min(ratios):.2f} to {max(ratios):.2f}",
                              f"{1e3 * least:,.0f}"])
    return lines


def tensor_summary(rows):
    parts = []
    sent = bytes_lines([row for row in rows if row["part"] == "bytes"])
    times = time_lines([row for row in rows if row["part"] == "time"])
    if sent:
        parts.append(aligned(["mode", "ranks", "parameters of a rank", "of all", "bytes sent a step", "by the formula", "ratio",
                              "loss"], sent))
    if times:
        parts.append(aligned(["links, mode", "ranks", "ms, one rank", "ms a step", "times as fast", "of blocks",
                              "communication alone"], times))
    return "\n\n".join(parts)
