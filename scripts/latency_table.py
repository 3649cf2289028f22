"""The table `latency` of scripts/compare-training: updates a second of a small policy, for which latency decides, with kolo and
with Gloo interleaved, and the steps of the environment until it has learned its task."""
import json
import statistics

from training_rows import aligned

BLOCKS = 5
SEEDS = 5
UPDATES = 4000
# arm: (what averages, KOLO_TRANSPORTS)
ARMS = {
    "kolo": ("kolo", None),
    "kolo over TCP": ("kolo", "tcp"),
    "Gloo": ("gloo", None),
}
ALONE = "one rank"
REFERENCE = "Gloo"
RANKS = (2, 4)


class CartpoleRow:
    """A run of train_cartpole on ranks of this machine."""

    def __init__(self, arm, part, ranks, **key):
        self.key = {"arm": arm, "part": part, "ranks": ranks, **key}

    def program(self, programs, folder):
        library = ARMS.get(self.key["arm"], ("kolo", None))[0]
        so_long = ["--seed", str(self.key["seed"])] if self.key["part"] == "seeds" else ["--updates", str(UPDATES)]
        return [str(programs / "train_cartpole"), "--communication", library, *so_long, "--json", str(folder / "results.json")]

    def command(self, programs, folder):
        transports = ARMS.get(self.key["arm"], ("kolo", None))[1]
        return ["env", "OMP_NUM_THREADS=1", *([f"KOLO_TRANSPORTS={transports}"] if transports else []),
                str(programs / "kolo"), "run", "-n", str(self.key["ranks"]), "--no-prefix", "--", *self.program(programs, folder)]

    def results(self, folder):
        found = json.loads((folder / "results.json").read_text())
        taken = ("updates_per_s", "average_s", "steps", "updates", "seconds", "parameters", "minibatch", "solved_after_steps",
                 "solved_after_s", "mean_return")
        return {name: found[name] for name in taken}

    def said(self, found):
        if self.key["part"] == "seeds":
            return f"solved after {found['solved_after_steps']} steps"
        return f"{found['updates_per_s']:.0f} updates/s"


def latency(_, __):
    """Blocks of all arms in turn, then a run with each seed."""
    for block in range(1, BLOCKS + 1):
        yield CartpoleRow(ALONE, "updates", 1, block=block)
        for ranks in RANKS:
            for arm in ARMS:
                yield CartpoleRow(arm, "updates", ranks, block=block)
    for seed in range(1, SEEDS + 1):
        yield CartpoleRow("kolo", "seeds", 2, seed=seed)


def update_lines(rows):
    """Ratios are within a block."""
    lines = []
    def of(arm, ranks):
        return {row["block"]: row for row in rows if (row["arm"], row["ranks"]) == (arm, ranks)}
    for ranks in (1, *RANKS):
        reference = of(REFERENCE, ranks)
        for arm in [ALONE] if ranks == 1 else ARMS:
            found = of(arm, ranks)
            if not found:
                continue
            rates = [row["updates_per_s"] for row in found.values()]
            average = statistics.median(row["average_s"] for row in found.values())
            ratios = [row["updates_per_s"] / reference[block]["updates_per_s"] for block, row in found.items() if block in reference]
            times = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})" if ratios and arm != REFERENCE else ""
            lines.append([arm, str(ranks), f"{statistics.median(rates):,.0f}", f"{min(rates):,.0f} to {max(rates):,.0f}",
                          f"{1e6 * average:.0f}" if ranks > 1 else "", times])
    return lines


def seed_lines(rows):
    return [[str(row["seed"]), f"{row['solved_after_steps']:,}" if row["solved_after_steps"] else "not",
             f"{row['solved_after_s']:.1f}" if row["solved_after_steps"] else "", f"{row['mean_return']:.1f}"]
            for row in sorted(rows, key=lambda row: row["seed"])]


def latency_summary(rows):
    updates = update_lines([row for row in rows if row["part"] == "updates"])
    seeds = seed_lines([row for row in rows if row["part"] == "seeds"])
    parts = []
    if updates:
        parts.append(aligned(["gradients averaged by", "ranks", "updates a second", "of blocks", "us to average", "times Gloo's"], updates))
    if seeds:
        parts.append(aligned(["seed", "steps until solved", "seconds", "mean of the last 100 episodes"], seeds))
    return "\n\n".join(parts)
