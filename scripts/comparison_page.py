"""docs/comparison.md: text from measured rows, and the closed forms with which each row is compared."""
import math


CHOICE = "choice"  # in place of an algorithm's name: kolo chooses


def label(algorithm):
    """The name of a curve."""
    return "kolo's choice" if algorithm == CHOICE else algorithm.replace(":servers=", ", ").replace(":", ", ")


def ring(n, _):
    return 2 * (n - 1) / n


def halving_doubling(n, _):
    power = 1 << (n.bit_length() - 1)
    return 2 * (power - 1) / power + (0 if power == n else 2)


def parameter_server(n, arguments):
    servers = min(int(arguments.get("servers", n)), n)
    most = max((n - 1) / servers, 1 if servers < n else 0)
    return 2 * most


# algorithm: (the form as people write it, why, n bytes -> multiples of n one after the other on the busiest link)
FORMS = {
    "central": ("2(N-1) n", "N-1 contributions come in over the driver's link, then N-1 results go out",
                lambda n, _: 2 * (n - 1)),
    "parameter_server": ("2 max((N-1)/S, 1) n",
                         "a server gets its 1/S of N-1 contributions and sends it N-1 times; a worker that is no "
                         "server sends and gets n. With S = N each rank is a server: 2(N-1)/N n", parameter_server),
    "naive": ("(N-1) n", "each rank sends everything to each other rank, and adds up for itself", lambda n, _: n - 1),
    "ring": ("2(N-1)/N n", "N-1 rounds sum 1/N of the data, N-1 rounds spread it; all links work in each", ring),
    "halving_doubling": ("2(P-1)/P n, P the largest power of two up to N; + 2 n when N is none",
                         "halves, quarters, ... are exchanged and summed, then gathered the same way back; ranks "
                         "beyond P hand their data to a partner before and get the result after", halving_doubling),
}


def arguments_of(algorithm):
    """"parameter_server:servers=2" -> ("parameter_server", {"servers": "2"})."""
    name, *pairs = algorithm.split(":")
    return name, dict(pair.partition("=")[::2] for pair in pairs)


def predicted_ms(algorithm, ranks, size, goodput):
    """The closed form's time at `goodput` bytes a second; None where no form is known."""
    name, arguments = arguments_of(algorithm)
    if name not in FORMS:
        return None
    return 1e3 * FORMS[name][2](ranks, arguments) * size / goodput


def human_bytes(size):
    return f"{size / (1 << 20):g} MiB" if size >= 1 << 20 else f"{size / 1024:g} KiB"


def human_rate(rate):
    return rate.replace("mbit", " Mbit/s").replace("gbit", " Gbit/s")


def milliseconds(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}"


def tables(data):
    for ranks in data.ranks():
        yield f"### N = {ranks}\n"
        yield "| algorithm | measured ms (min to p95) | closed form ms | measured / closed form | ring = 1 |"
        yield "| --- | ---: | ---: | ---: | ---: |"
        rows = [row for row in data.results if row["ranks"] == ranks]
        ring_us = next((row["median_us"] for row in rows if row["algorithm"] == "ring"), None)
        for row in sorted(rows, key=lambda row: row["median_us"]):
            predicted = predicted_ms(row.get("ran", row["algorithm"]), ranks, row["bytes"], data.goodput)
            median, low, high = (row[key] / 1e3 for key in ("median_us", "min_us", "p95_us"))
            name = f"kolo's choice: {row['ran']}" if row["algorithm"] == CHOICE else row["algorithm"]
            cells = [name, f"{milliseconds(median)} ({milliseconds(low)} to {milliseconds(high)})",
                     "-" if predicted is None else milliseconds(predicted),
                     "-" if predicted is None else f"{median / predicted:.2f}",
                     "-" if ring_us is None else f"{row['median_us'] / ring_us:.2f}"]
            yield f"| {' | '.join(cells)} |"
        yield ""


def growth(data, algorithm):
    """(N, ms) of the smallest and the largest N measured; None where there are not two."""
    points = data.series().get(algorithm, [])
    return (points[0], points[-1]) if len(points) > 1 else None


def what_one_sees(data):
    for algorithm in data.series():
        ends = growth(data, algorithm)
        name, arguments = arguments_of(algorithm)
        if not ends or name not in FORMS:
            continue
        (first, first_ms), (last, last_ms) = ends
        form = FORMS[name][2](last, arguments) / FORMS[name][2](first, arguments)
        yield (f"- **{algorithm}**: {milliseconds(first_ms)} ms with {first} workers, {milliseconds(last_ms)} ms with "
               f"{last}, {last_ms / first_ms:.2f} times")
        yield f"  as long; its closed form says {form:.2f} times."
    central, rings = growth(data, "central"), data.series().get("ring", [])
    if central and len(rings) > 1:
        (first, first_ms), (last, last_ms) = central
        slope = (last_ms - first_ms) / (last - first)
        worst = max(ms / predicted_ms("ring", n, data.size, data.goodput) for n, ms in rings)
        yield ""
        yield f"The central driver's time grows with every worker, here by {milliseconds(slope)} ms for each. The ring's does not:"
        yield "its links carry 2(N-1)/N n, less than 2 n bytes however many there are."
        yield f"It takes at most {worst:.2f} times as long as they need for that, {milliseconds(rings[-1][1])} ms with {rings[-1][0]} workers."


def spoken(parts):
    """"a", "a and b", "a, b and c"."""
    *first, last = parts
    return f"{', '.join(first)} and {last}" if first else last


def what_kolo_chooses(data):
    rows = [row for row in data.results if row["algorithm"] == CHOICE]
    if not rows:
        return
    ran = {}
    for row in rows:
        ran.setdefault(row["ran"], []).append(str(row["ranks"]))
    ratios = [row["median_us"] / min(other["median_us"] for other in data.results
                                     if other["ranks"] == row["ranks"] and other["algorithm"] != CHOICE) for row in rows]
    chosen = spoken([f"`{name}` with {spoken(ranks)} workers" for name, ranks in ran.items()])
    yield f"""
**What kolo chooses.** A call for which no algorithm is named runs the one with the least [predicted time](choosing.md). The
prediction uses the costs of a message and of a byte, which the ranks measure when they meet. Here it chooses {chosen}.
This takes {min(ratios):.2f} to {max(ratios):.2f} times as long as the fastest of the named ones."""


def why(data):
    """What the closed forms leave out, for the algorithms that are far from theirs."""
    def ratios(algorithm):
        return [ms / predicted_ms(algorithm, n, data.size, data.goodput) for n, ms in data.series().get(algorithm, [])]

    central, halving = ratios("central"), ratios("halving_doubling")
    if central and max(central) < 1:
        yield f"""
**Why the central driver is faster than its closed form** ({min(central):.2f} to {max(central):.2f} of it). The form adds up two phases: all
contributions come in, then all results go out. But a link carries both directions at once, and large messages travel in segments: the
sum of the first segments goes out while later segments still come in. If the phases overlapped completely, (N-1) n would be
left, half of the form."""
    if halving:
        yield f"""
**Why halving and doubling lies above the ring.** It takes {min(halving):.2f} to {max(halving):.2f} times its closed form, which is the ring's if N is a
power of two. It has 2 log2 N rounds of large messages, with log2 N partners in turn. A rank begins a round when it and its partner
have ended the one before. So a delay of one rank spreads to all of them. In a ring, a rank has one neighbour on each side all the time, and
segments of several chunks follow each other without a gap. If N is no power of two, the N - P ranks beyond the largest power P send all their n bytes to a
partner before, and receive n bytes after. In these 2 n more the other ranks wait. What these have sent the partner meanwhile shares its
link with the n bytes, which come later than the closed form says. That is why the curve rises at 6 and
10 workers and falls at 8. Where latency decides (short messages), 2 log2 N rounds are fewer than the ring's 2(N-1), and kolo chooses accordingly."""


def used_forms(data):
    yield "| algorithm | closed form | because |"
    yield "| --- | --- | --- |"
    seen = dict.fromkeys(arguments_of(algorithm)[0] for algorithm in data.series() if algorithm != CHOICE)
    for name in seen:
        form, why, _ = FORMS.get(name, ("-", "not known to scripts/compare", None))
        yield f"| {name} | {form} | {why} |"


def page(data):
    """The whole page. `data`: a Measurements of scripts/compare."""
    setup, machine = data.setup, data.machine
    rate = math.floor(data.goodput * 8 / 1e5) / 10
    size = human_bytes(data.size)
    congestion = f", TCP with {setup['congestion'].upper()}" if "congestion" in setup else ""
    skipped = ""
    if setup["skipped"]:
        skipped = f"\nNot measured, because this kolo does not know them: {', '.join(setup['skipped'])}.\n"
    lines = [f"""\
# How the time of an all-reduce grows with the number of workers

This page measures what [ring all-reduce, explained](ring-all-reduce.md) says: the time of a central driver grows with each worker, and the time of a ring does not.
It also measures what lies between the two, with kolo's own algorithms over the same links.

![Time over the number of workers](images/comparison.svg)

## Setup

- Every worker is a rank on an emulated host of its own (`scripts/cluster`): a network namespace with a link of
  {human_rate(setup["rate"])} in each direction to one switch. One long message between two of them gets {rate} Mbit/s
  of payload; the rest is headers.
- Each gives {size} of float32; each rank ends with the sum, in place. Every element of every result was compared.
- The time is the slowest rank's, the median of {setup["iterations"]} runs (`kolo bench`).
- {setup["date"]}, kolo {machine["kolo"]} on {machine["cpu"]}, {machine["cores"]} cores, {machine["memory_GB"]:.0f} GB, {machine["kernel"]}{congestion}.
- All ranks share these cores, so the links are chosen slow enough that they and not the cores are the limit.
{skipped}
To repeat it, as root:

    {setup["command"]}

The raw results are in [data/comparison.jsonl](data/comparison.jsonl); `scripts/compare --from
docs/data/comparison.jsonl` writes this page from them.

## What one sees
""", *what_one_sees(data), *what_kolo_chooses(data), *why(data), """
## Closed forms

n is the bytes of one worker's data. An algorithm goes through phases, and in each the direction of the link that carries most
decides; the closed form adds these up. Its time below is those bytes at the measured speed of one link: latency,
summation and the cores count nothing. A phase may begin where the one before has not ended everywhere (large messages
travel in segments), and so a measured time can lie below. `kolo plan step` computes with both directions of a link at
once, and comes closer: [what a training step takes](choosing.md#what-a-training-step-takes).
""", *used_forms(data), "", "## Measured\n", *tables(data)]
    return "\n".join(lines).rstrip() + "\n"
