"""The table language-model of scripts/compare-training: a transformer of bytes and a model of words, both on Debian's dict-wn."""
import json
import statistics

import spread_plot
from training_rows import Row, aligned, spread

DICTIONARY = "/usr/share/dictd/wn.dict.dz"
MINUTES = 10
SEEDS = 3
# Of one rank, and of four ranks.
STEPS = 600
HELD_OUT_WORDS = 20_000
# 1,200 steps of four ranks read the dictionary once.
WORD_OPTIONS = ["--tables", "sparse", "--optimizer", "adagrad", "--lr", "0.1", "--vocabulary", "50000", "--steps", "1200"]
CURVE_POINTS = 60


class BytesRow(Row):
    """A run of train_language_model; its limit leaves time for evaluation and for a machine that is busy."""

    def __init__(self, key, ranks, options):
        super().__init__(key, None, [*options, "--seed", str(key["seed"])], ranks)
        self.limit_s = 240 + 60 * key.get("minutes", 20) * 1.5

    def program(self, programs, folder):
        return [str(programs / "train_language_model"), "--output", str(folder), "--progress", "none", *self.options]

    def results(self, folder):
        metrics = json.loads((folder / "metrics.json").read_text())
        losses = metrics["loss"]
        every = max(1, len(losses) // CURVE_POINTS)
        return {"bits": metrics["held_out"][-1][1], "steps": metrics["steps"], "parameters": metrics["parameters"],
                "training_s": metrics["training_seconds"], "in_bfloat16": metrics["in_bfloat16"],
                "bytes_per_s": metrics["steps"] * metrics["bytes_per_step"] / metrics["training_seconds"],
                "curve": [[step, round(bits, 3)] for step, bits, _ in losses[::every]]}

    def said(self, found):
        return f"{found['bits']:.3f} bits per byte"


class WordsRow(Row):
    """A run of train_words on the dictionary."""

    def __init__(self, key, options):
        super().__init__(key, None, [*options, "--seed", str(key["seed"])])
        self.limit_s = 1200

    def program(self, programs, folder):
        return [str(programs / "train_words"), "--text", DICTIONARY, "--held-out", str(HELD_OUT_WORDS), "--json",
                str(folder / "results.json"), *self.options]

    def results(self, folder):
        metrics = json.loads((folder / "results.json").read_text())
        return {"perplexity": metrics["perplexity"], "steps": len(metrics["loss"]), "mean_step_s": metrics["mean_step_s"],
                "sent_bytes_per_step": metrics["sent_bytes_per_step"]}

    def said(self, found):
        return f"perplexity {found['perplexity']:.1f}"


def language_model(_, seeds):
    """Bytes: one rank and four ranks with equally many steps, and four ranks for some minutes. Words: one pass."""
    for ranks in (1, 4):
        yield BytesRow({"arm": f"bytes, {ranks} {'rank' if ranks == 1 else 'ranks'}", "fixed_steps": STEPS, "seed": 1}, ranks,
                       ["--steps", str(STEPS)])
    for seed in range(1, min(seeds, SEEDS) + 1):
        yield WordsRow({"arm": "words, sparse tables", "seed": seed}, WORD_OPTIONS)
        yield BytesRow({"arm": "bytes, 4 ranks", "minutes": MINUTES, "seed": seed}, 4, ["--minutes", str(MINUTES)])


def language_model_summary(rows):
    def groups(of_bytes):
        found = {}
        for row in rows:
            if row["arm"].startswith("bytes") == of_bytes:
                length = f", {row['minutes']} minutes" if "minutes" in row else ""
                found.setdefault(row["arm"] + length, []).append(row)
        return found
    lines = [[name, str(len(found)), f"{statistics.mean(row['steps'] for row in found):,.0f}",
              f"{statistics.mean(row['bytes_per_s'] for row in found):,.0f}", spread([row["bits"] for row in found])]
             for name, found in groups(True).items()]
    parts = []
    if lines:
        parts.append(aligned(["model", "seeds", "steps", "bytes/s", "bits per byte, held out"], lines))
    lines = [[name, str(len(found)), f"{statistics.mean(row['steps'] for row in found):,.0f}",
              f"{1e3 * statistics.mean(row['mean_step_s'] for row in found):.0f}",
              spread([row["perplexity"] for row in found])] for name, found in groups(False).items()]
    if lines:
        parts.append(aligned(["model", "seeds", "steps", "ms a step", f"perplexity of {HELD_OUT_WORDS:,} words"], lines))
    return "\n\n".join(parts)


def language_model_plot(rows):
    """Bits per byte of the runs with equal steps, after the steep begin."""
    runs = [row for row in rows if row["table"] == "language-model" and "fixed_steps" in row]
    series = {row["arm"]: [(step, bits, 0) for step, bits in row["curve"] if step > STEPS / 20] for row in runs}
    ends = " and ".join(f"{row['bits']:.3f}" for row in runs)
    return spread_plot.plot(series, "A language model of bytes",
                            f"training loss on Debian's dict-wn; the curves lie on each other: {ends} bits per byte held out",
                            "steps of 4,096 bytes", range(0, STEPS + 1, 100), y_label="bits per byte", shift=0, broad=next(iter(series)))
