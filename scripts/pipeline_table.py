"""The table `pipeline` of scripts/compare-training: bubbles of a pipeline, the micro-batches that its ranks hold,
the cost of recomputing, and the borders of partition()."""
import json
import statistics
from pathlib import Path

from training_rows import aligned

ROOT = Path(__file__).resolve().parent.parent
PROFILE = ROOT / "docs/data/pipeline_profile.json"
ARMS = {"gpipe": (), "1f1b": (), "interleaved": ("--chunks", "2")}
RANKS = (2, 4, 8)
ROUNDS = (1, 2, 4)  # micro-batches, times the ranks
FORWARD_MS, BACKWARD_MS = 60, 120
SPLIT_MICRO_BATCHES = 8
SPLIT_SECONDS = 0.8  # time of all layers of the profile in a step
SMALL = "784-30-10"


class PipelineRow:
    """A run of bench_train pipeline on ranks of this machine."""

    def __init__(self, part, arm, ranks, micro_batches, options, **more):
        self.key = {"arm": arm, "part": part, "pipeline_ranks": ranks, "micro_batches": micro_batches, **more}
        self.options = options

    def program(self, programs, _):
        return [str(programs / "bench_train"), "pipeline", "--micro-batches", str(self.key["micro_batches"]), *self.options]

    def command(self, programs, folder):
        return [str(programs / "kolo"), "run", "-n", str(self.key["pipeline_ranks"]), "--no-prefix", "--",
                *self.program(programs, folder), "--output", str(folder / "results.json")]

    def results(self, folder):
        found = json.loads((folder / "results.json").read_text())
        names = ("kind", "borders", "step_s", "step_mean_s", "computing_s", "bubble", "formula", "most_held", "peak_bytes",
                 "alone_step_s", "slowest_stage_s")
        return {name: found[name] for name in names if name in found}

    def said(self, found):
        return f"{1e3 * found['step_mean_s']:.1f} ms a step, bubble {found['bubble']:.3f}, by the formula {found['formula']:.3f}"


def schedule(arm):
    return ["--schedule", arm, *ARMS[arm]]


def pipeline(_, __):
    for ranks in RANKS:
        for rounds in ROUNDS:
            for arm in ARMS:
                yield PipelineRow("bubble", arm, ranks, rounds * ranks,
                                  [*schedule(arm), "--steps", "2", "--forward-ms", str(FORWARD_MS), "--backward-ms",
                                   str(BACKWARD_MS)])
    profile = json.loads(PROFILE.read_text())["layers"]
    slower = 1e3 * SPLIT_SECONDS / sum(layer["forward_ms"] + layer["backward_ms"] for layer in profile)
    replayed = ["--profile", str(PROFILE), "--slower", str(slower), "--steps", "4"]
    yield PipelineRow("split", "partition", 2, SPLIT_MICRO_BATCHES, [*replayed, "--partition"])
    for border in range(1, len(profile)):
        yield PipelineRow("split", f"border {border}", 2, SPLIT_MICRO_BATCHES, [*replayed, "--borders", str(border)])
    for batch in (64, 1024):
        for micro_batches in (1, 4):
            yield PipelineRow("small", SMALL, 2, micro_batches,
                              ["--network", SMALL, "--batch", str(batch), "--steps", "200", "--alone"], batch=batch)
    for micro_batches in (2, 4, 8):
        for arm in ARMS:
            for recompute in (False, True):
                more = ["--recompute"] if recompute else []
                yield PipelineRow("computed", arm, 2, micro_batches,
                                  [*schedule(arm), *more, "--network", "residual", "--batch", "512", "--steps", "4"],
                                  recompute=recompute)


def bubble_lines(rows):
    """Measured bubbles beside the formulas; counts of the first rank, which holds most, and of the last rank."""
    lines = []
    for row in sorted(rows, key=lambda row: (row["pipeline_ranks"], row["micro_batches"])):
        lines.append([f"{row['pipeline_ranks']}", f"{row['micro_batches']}", row["arm"], f"{row['bubble']:.3f}",
                      f"{row['formula']:.3f}", f"{row['bubble'] / row['formula']:.3f}",
                      f"{row['most_held'][0]}", f"{row['most_held'][-1]}"])
    return lines


def computed_lines(rows):
    lines = []
    for row in rows:
        plain = next((other for other in rows if not other["recompute"] and
                      (other["arm"], other["micro_batches"]) == (row["arm"], row["micro_batches"])), None)
        ratio = f"{row['step_mean_s'] / plain['step_mean_s']:.2f}" if plain and row["recompute"] else "-"
        lines.append([f"{row['arm']}{', recompute' if row['recompute'] else ''}", f"{row['micro_batches']}",
                      f"{1e3 * row['step_mean_s']:.0f}", ratio, f"{row['bubble']:.3f}", f"{row['formula']:.3f}",
                      f"{row['most_held'][0]}, {row['most_held'][1]}",
                      ", ".join(f"{bytes_ / 1e6:.0f}" for bytes_ in row["peak_bytes"])])
    return lines


def split_lines(rows):
    best = min((row["step_mean_s"] for row in rows if row["arm"] != "partition"), default=None)
    return [[row["arm"], f"{row['borders'][0]}", f"{1e3 * row['step_mean_s']:.0f}",
             f"{row['step_mean_s'] / best:.3f}" if best else "-"] for row in rows]


def small_lines(rows):
    return [[f"{row['batch']}", f"{row['micro_batches']}", f"{1e6 * row['step_mean_s']:.0f}",
             f"{1e6 * row['alone_step_s']:.0f}", f"{row['step_mean_s'] / row['alone_step_s']:.2f}"] for row in rows]


def worst(rows):
    """The largest deviation of measured bubbles from the formula, as a share of it."""
    return max(abs(row["bubble"] / row["formula"] - 1) for row in rows)


def pipeline_summary(rows):
    def part(name):
        return [row for row in rows if row["part"] == name]
    parts = []
    if part("bubble"):
        parts.append(aligned(["ranks", "micro-batches", "schedule", "bubble", "formula", "ratio", "held by rank 0", "by the last"],
                             bubble_lines(part("bubble"))))
        parts.append(f"at most {100 * worst(part('bubble')):.1f} % from the formula, "
                     f"{100 * statistics.mean(abs(row['bubble'] / row['formula'] - 1) for row in part('bubble')):.1f} % in the mean")
    if part("computed"):
        parts.append(aligned(["schedule", "micro-batches", "ms a step", "of the plain one", "bubble", "formula", "held",
                              "MB above the start"], computed_lines(part("computed"))))
    if part("split"):
        parts.append(aligned(["cut", "border", "ms a step", "of the best"], split_lines(part("split"))))
    if part("small"):
        parts.append(aligned([f"batch of {SMALL}", "micro-batches", "us a step, 2 ranks", "us alone", "ratio"], small_lines(part("small"))))
    return "\n\n".join(parts)
