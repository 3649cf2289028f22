"""The rows of batch_tables.py as Markdown and as pictures."""
import statistics

import spread_plot
from batch_tables import (BATCH_ARMS, BATCHES, CONSTANT_EPOCHS, CYCLE_EPOCHS, GOAL, GROWING_ARMS, MILESTONES, PRECISION_ARMS,
                          PRECISION_RATE, RATES, accuracy_of_rates, batch_cells, batch_grid, best_of, growing_rate, of_cell,
                          of_growing_arm, of_table)
from training_rows import aligned, spread


DIVERGED = 50  # percent; guessing gets 10


def of_seeds(rows, rate):
    """Rows on the test images, one for each seed; those of four ranks if there are any."""
    found = [row for row in rows if row["rate"] == rate and not row["held_out"]]
    return {row["seed"]: row for row in sorted(found, key=lambda row: row.get("ranks", 1))}


def accuracies(found):
    return [row["accuracy"] for row in found.values()]


def mean_and_deviation(values):
    return statistics.mean(values), statistics.stdev(values) if len(values) > 1 else 0


def mean_curve(rows):
    """[epoch, mean accuracy, standard deviation] of several seeds' evaluations."""
    curves = [row["accuracies"] for row in rows]
    looks = [[curve[i][1] for curve in curves] for i in range(min(map(len, curves)))]
    return [(curves[0][i][0], *mean_and_deviation(look)) for i, look in enumerate(looks)]


def stays_from(curve, goal):
    """The first epoch from which the accuracy stays at the goal; None if it ends below."""
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
        found = of_seeds(here, rate)
        return f"{spread(accuracies(found))} ({rate:g}; {len(found)})" if rate and found else "-"
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
        rate = growing_rate(rows, arm)
        found = of_seeds(of_growing_arm(rows, arm), rate)
        if not found:
            continue
        twin = of_seeds(of_growing_arm(rows, "steps"), growing_rate(rows, "steps"))
        gaps = [found[seed]["accuracy"] - twin[seed]["accuracy"] for seed in found.keys() & twin.keys()]
        lines.append([arm, f"{rate:g}", str(next(iter(found.values()))["steps"]), str(len(found)),
                      spread(accuracies(found)), spread(gaps) if gaps and arm != "steps" else "-"])
    return aligned(["schedule", "rate", "updates", "seeds", "test accuracy, %", "above steps"], lines)


def cycle_summary(rows):
    lines = []
    for epochs in CYCLE_EPOCHS:
        here = of_table(rows, "one-cycle", arm="one-cycle", epochs=epochs)
        rate = best_of(here, RATES)
        found = of_seeds(here, rate)
        if found:
            is_reached = statistics.mean(accuracies(found)) >= GOAL
            lines.append([f"one-cycle, {epochs:g} epochs", f"{rate:g}", str(len(found)), spread(accuracies(found)),
                          f"{epochs:g}" if is_reached else "-"])
    for rate in RATES:
        found = of_seeds(of_table(rows, "one-cycle", arm="constant"), rate)
        if found:
            reached = stays_from(mean_curve(list(found.values())), GOAL)
            lines.append([f"constant, {CONSTANT_EPOCHS:g} epochs", f"{rate:g}", str(len(found)),
                          spread(accuracies(found)), f"{reached:g}" if reached else "-"])
    return aligned(["schedule", "rate", "seeds", "test accuracy at the end, %", f"epochs to {GOAL} %"], lines)


def precision_summary(rows):
    lines = []
    for arm in PRECISION_ARMS:
        found = of_seeds(of_table(rows, "precision", arm=arm), PRECISION_RATE)
        if found:
            lines.append([arm, str(len(found)), spread(accuracies(found))])
    return aligned(["", "seeds", "test accuracy, %"], lines)


SUMMARIES = {"batch": batch_summary, "growing-batch": growing_summary, "one-cycle": cycle_summary,
             "precision": precision_summary}


def batch_plot(rows):
    def point(arm, images):
        arm = arm if (arm, images) in batch_cells() else "unscaled"
        here = of_cell(rows, arm, images)
        found = of_seeds(here, best_of(here, batch_grid(arm, images)))
        return [(images, *mean_and_deviation(accuracies(found)))] if found else []
    series = {arm: [one for images in BATCHES for one in point(arm, images)] for arm in BATCH_ARMS}
    return spread_plot.plot({arm: line for arm, line in series.items() if line}, "Large batches",
                            "Fashion-MNIST, 6 epochs, the best of 5 rates; mean of the seeds, bars of one standard deviation",
                            "images in a batch", BATCHES, is_log=True)


def growing_plot(rows):
    series = {}
    for arm in GROWING_ARMS:
        rate = growing_rate(rows, arm)
        found = of_seeds(of_growing_arm(rows, arm), rate)
        if found:
            updates = next(iter(found.values()))["steps"]
            curves = [row for row in found.values() if "accuracies" in row]
            series[f"{arm}, {updates:,}"] = mean_curve(curves) if curves else [(6, *mean_and_deviation(accuracies(found)))]
    return spread_plot.plot(series, "A batch that grows, a rate that falls",
                            f"Fashion-MNIST, {MILESTONES}: times 3, or a third, after epochs 1 and 3; bars of one standard deviation. Numbers: updates",
                            "epochs", range(1, 7))


def cycle_plot(rows):
    cycle, series = [], {}
    for epochs in CYCLE_EPOCHS:
        here = of_table(rows, "one-cycle", arm="one-cycle", epochs=epochs)
        found = of_seeds(here, best_of(here, RATES))
        # Without seeds that diverged, which would stretch the axis; the table has them.
        if found and min(accuracies(found)) >= DIVERGED:
            cycle.append((epochs, *mean_and_deviation(accuracies(found))))
    if cycle:
        series["one-cycle, at the end"] = cycle
    for rate in RATES:
        found = of_seeds(of_table(rows, "one-cycle", arm="constant"), rate)
        if found and min(accuracies(found)) >= DIVERGED:
            series[f"constant, {rate:g}"] = [point for point in mean_curve(list(found.values())) if point[0] >= 1]
    return spread_plot.plot(series, "One cycle, or a constant rate",
                            "Fashion-MNIST, batch of 256: the end of cycles of some length, and the way of constant rates; bars of one "
                            "standard deviation", "epochs", range(1, 7))


PLOTS = {"batch": batch_plot, "growing-batch": growing_plot, "one-cycle": cycle_plot}
