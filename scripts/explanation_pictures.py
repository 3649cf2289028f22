#!/usr/bin/env -S python3 -B
"""explanation_pictures.py KOLO FOLDER: writes the pictures of the pages that explain into the folder, from what kolo's draw and
plan say. For scripts/update-docs."""
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RANKS = 4
SECONDS, TRAVEL = 2.4, 0.55  # of a step of the moving picture, and the share of it in which numbers travel
HEAD = """<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {0} {1}' width='{2}' height='{3}' role='img'>
<title>{4}</title>
<style>
text{{font:14px system-ui,sans-serif;fill:#222}}.b{{font-weight:600}}.s{{font-size:12px;fill:#555}}.m{{text-anchor:middle}}
.e{{text-anchor:end}}.k{{fill:#fff}}.n1{{fill:#eceae4}}.n2{{fill:#cfe0f2}}.n3{{fill:#9cc3ea}}.n4{{fill:#8fd19e}}
.o{{fill:none;stroke:#333;stroke-width:1.6}}.w{{stroke:#333;stroke-width:1.5;fill:none;marker-end:url(#k)}}
.l{{stroke:#999;fill:none}}.g{{stroke:#ddd}}.f0{{fill:#2a6cb0}}.f1{{fill:#e07a34}}.f2{{fill:#8ccf9d}}.f3{{fill:#4b2a83}}.f4{{fill:#f2e3a3;stroke:#b59f4a}}
.c{{fill:none;stroke-width:2}}.c0{{stroke:#2f77c0}}.c1{{stroke:#c4581d}}.c2{{stroke:#2d8a49}}.c3{{stroke:#8755c9}}.i{{fill:#fff}}.j{{fill:#222}}
.d1{{stroke-dasharray:2 3;stroke-width:2.5}}.d2{{stroke-dasharray:9 3 2 3}}.d3{{stroke-dasharray:6 4}}
#k path{{fill:#333}}
@media(prefers-color-scheme:dark){{
text{{fill:#ededea}}.s{{fill:#b5b4af}}.k{{fill:#161618}}.n1{{fill:#34343a}}.n2{{fill:#27435f}}.n3{{fill:#2c6296}}.n4{{fill:#2f7a43}}
.o,.w{{stroke:#e0dfda}}.l{{stroke:#77767c}}.g{{stroke:#38383e}}.f0{{fill:#3a7ec8}}.f1{{fill:#f0a368}}.f2{{fill:#7fd097}}
.f3{{fill:#7d5bc4}}.f4{{fill:#e0cf8a}}.c0{{stroke:#6db3f2}}.c1{{stroke:#ff9d6e}}.c2{{stroke:#69c585}}.c3{{stroke:#b99af0}}.i{{fill:#fff}}.j{{fill:#161618}}
#k path{{fill:#e0dfda}}}}
{5}</style>
<marker id='k' viewBox='0 0 6 6' refX='5' refY='3' markerWidth='5' markerHeight='5' orient='auto'><path d='M0 0L6 3L0 6z'/></marker>
<rect class='k' width='100%' height='100%'/>
"""


def image(width, height, title, body, style="", scale=1.5):
    return HEAD.format(width, height, round(width * scale), round(height * scale), title, style) + body + "</svg>\n"


def ink(fill):
    """The class of text on a fill: fills differ in lightness, so that they do so on grey paper, too."""
    return "i" if fill in ("f0", "f3") else "j"


def text(x, y, words, kind=""):
    return f"<text x='{x:g}' y='{y:g}'" + (f" class='{kind}'" if kind else "") + f">{words}</text>\n"


class Kolo:
    def __init__(self, program):
        self.program = program

    def run(self, *words):
        # No table of this machine: the model's typical costs.
        quiet = {key: value for key, value in os.environ.items() if not key.startswith("KOLO_")} | {"KOLO_TABLE": "/nonexistent"}
        return subprocess.run([self.program, *words], check=True, stdout=subprocess.PIPE, text=True, env=quiet).stdout

    def drawing(self, algorithm, ranks):
        """What the page of `kolo draw` shows, and what each rank holds after each step: [step][rank][chunk] = contributors."""
        page = self.run("draw", algorithm, "--ranks", str(ranks), "--format", "html", "--output", "-")
        data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])
        state, states = [[[] for _ in range(data["parts"])] for _ in range(ranks)], []
        for step in data["steps"]:
            state = [list(row) for row in state]
            for rank, part, _, sets in step["changes"]:
                state[rank][part] = data["sets"][sets[0]]
            states.append(state)
        return data, states


def number(contributors, chunk):
    """Rank r gives (chunk + 1) 10^r: a sum shows by its digits whose numbers are in it."""
    return sum((chunk + 1) * 10**rank for rank in contributors)


def cell(x, y, contributors, chunk, width=50, height=24):
    return (f"<rect class='n{len(contributors)}' x='{x:g}' y='{y:g}' width='{width}' height='{height}' rx='3'/>"
            + text(x + width / 2, y + height / 2 + 5, number(contributors, chunk), "m"))


def travels(step):
    """(sender, receiver, chunk, its contributors' set) of each value that travels in the step."""
    for sender, receiver, _, values in step["messages"]:
        for part, held in zip(values[::2], values[1::2]):
            yield sender, receiver, part, held


def ring_steps(kolo):
    """All steps of a ring as tables: a row for each rank, an arrow where a number goes."""
    data, states = kolo.drawing("ring", RANKS)
    across, down, pitch, line = 250, 194, 52, 38
    body = ""
    for number_of_step, (step, state) in enumerate(zip(data["steps"], states)):
        left, top = 14 + across * (number_of_step % 2), 12 + down * (number_of_step // 2)
        heading = re.sub(r" of \d+: | of \d+$", lambda found: ": " if ":" in found[0] else "", step["title"])
        body += text(left, top + 10, heading.replace(",", ""), "b")
        for rank, row in enumerate(state):
            y = top + 32 + line * rank
            body += text(left, y + 17, rank, "s")
            body += "".join(cell(left + 16 + pitch * chunk, y, held, chunk) for chunk, held in enumerate(row))
        for sender, receiver, chunk, _ in travels(step):
            x = left + 41 + pitch * chunk
            below, above = top + 32 + line * sender + 24, top + 32 + line * receiver
            for tail, head in [(below, above)] if above > below else [(below, below + 11), (above - 13, above)]:
                body += f"<path class='w' d='M{x} {tail}V{head}'/>\n"
            body += f"<rect class='o' x='{x - 25}' y='{above}' width='50' height='24' rx='3'/>\n"
    left, top = 14 + across, 12 + down * 3
    for row, words in enumerate(["A row is a rank, a column a chunk.", "An arrow is a message; out of the",
                                 "last row it goes to the first one.", "Framed: what has just changed.",
                                 "Digits show whose numbers a sum", "has: 1011, 2022: of 0, 1 and 3."]):
        body += text(left + 4, top + 34 + 20 * row, words, "s")
    return image(512, 12 + down * 4, "A ring all-reduce of four ranks, in numbers", body)


def moving_ring(kolo):
    """The same as a moving picture: numbers travel from rank to rank. Without animation it shows the first step."""
    data, states = kolo.drawing("ring", RANKS)
    steps = len(data["steps"]) - 1
    period = SECONDS * (steps + 2)  # at first the start is shown, and at last the end

    def timed(kind, begin, body, style=""):
        return f"<g class='{kind}' style='animation-delay:{SECONDS * begin - period:.4g}s;{style}'>\n{body}</g>\n"

    def corner(rank, chunk):
        x, y = data["places"][rank]
        return 50 + 320 * x, 62 + 168 * y + 26 * chunk

    body, lengths = "", {"first": 1 + TRAVEL, "one": 1, "last": 2 - TRAVEL}
    for sender, receiver, *_ in data["steps"][1]["messages"]:
        (x, y), (to_x, to_y) = ((left + 30, top + 51) for left, top in (corner(sender, 0), corner(receiver, 0)))
        at = [(x + (to_x - x) * part, y + (to_y - y) * part) for part in (0.32, 0.68)]
        body += f"<path class='w' d='M{at[0][0]:.1f} {at[0][1]:.1f}L{at[1][0]:.1f} {at[1][1]:.1f}'/>\n"
    for index, (step, state) in enumerate(zip(data["steps"], states)):
        length = "first" if index == 0 else "last" if index == steps else "one"
        begin, still = index + TRAVEL if index else 0, " still" if index == 1 else ""
        cards = ""
        for rank, row in enumerate(state):
            x, y = corner(rank, 0)
            cards += text(x + 30, y - 6, f"rank {rank}", "m s")
            cards += "".join(cell(*corner(rank, chunk), held, chunk, 60) for chunk, held in enumerate(row))
        for _, receiver, chunk, _ in travels(step):
            x, y = corner(receiver, chunk)
            cards += f"<rect class='o' x='{x:g}' y='{y:g}' width='60' height='24' rx='3'/>"
        body += timed(f"state {length}{still}", begin, cards)
        body += timed(f"state one{still}", index, text(14, 24, step["title"], "b"))
    body += timed("state one", steps + 1, text(14, 24, "Done: each rank has all sums", "b"))
    for index, step in enumerate(data["steps"][1:], 1):
        for sender, receiver, chunk, held in travels(step):
            (x, y), (to_x, to_y) = corner(sender, chunk), corner(receiver, chunk)
            number_in_frame = cell(x, y, data["sets"][held], chunk, 60) + f"<rect class='o' x='{x:g}' y='{y:g}' width='60' height='24' rx='3'/>"
            body += timed("packet", index, number_in_frame, f"--x:{to_x - x:g}px;--y:{to_y - y:g}px")
    body += text(14, 366, "Each rank begins with four numbers; each ends with the sums.", "s")
    body += text(14, 384, "Digits tell whose numbers a sum has: 1011, 2022, ... those of 0, 1, 3.", "s")
    style = ".state,.packet{visibility:hidden}.still{visibility:visible}\n@media(prefers-reduced-motion:no-preference){\n"
    for name, length in lengths.items():
        style += (f".{name}{{visibility:hidden;animation:{name} {period:g}s step-end infinite}}"
                  f"@keyframes {name}{{0%{{visibility:visible}}{100 * length / (steps + 2):.4g}%{{visibility:hidden}}}}\n")
    travel, there = 100 * TRAVEL / (steps + 2), "transform:translate(var(--x),var(--y))"
    style += (f".packet{{animation:move {period:g}s linear infinite}}@keyframes move{{0%{{visibility:visible;transform:none}}"
              f"{travel:.4g}%{{visibility:visible;{there}}}{travel + 0.01:.4g}%,100%{{visibility:hidden;{there}}}}}}}\n")
    return image(480, 396, "A ring all-reduce of four ranks, step by step", body, style, 1.3)


def exchanges(kolo):
    """Who sends what to whom, over a whole all-reduce: circles as large as the bytes that a rank sends."""
    body = ""
    for index, (name, title) in enumerate([("naive", "naive"), ("central", "central"),
                                           ("parameter_server:servers=2", "parameter server, two"), ("ring", "ring")]):
        data, _ = kolo.drawing(name, 8)
        links, sent = {}, [0] * 8
        for step in data["steps"]:
            for sender, receiver, _, _ in travels(step):
                links[sender, receiver] = links.get((sender, receiver), 0) + 1 / data["parts"]
                sent[sender] += 1 / data["parts"]
        left, top = 240 * (index % 2), 252 * (index // 2)
        places = [(left + 120 + 78 * math.sin(math.tau * i / 8), top + 150 - 78 * math.cos(math.tau * i / 8)) for i in range(8)]
        body += text(left + 14, top + 22, title, "b") + text(left + 14, top + 40, f"the busiest rank sends {max(sent):g} n", "s")
        for (one, other), share in sorted(links.items()):
            (x1, y1), (x2, y2) = places[one], places[other]
            body += f"<path class='l' stroke-width='{1.4 * share:.3g}' d='M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}'/>\n"
        for (x, y), amount in zip(places, sent):
            body += f"<circle class='f{int(amount > 2)}' cx='{x:.1f}' cy='{y:.1f}' r='{5.5 + 7 * math.sqrt(amount):.1f}'/>"
            body += text(round(x, 1), round(y + 4, 1), f"{amount:.3g}", "m s " + ink(f"f{int(amount > 2)}"))
    return image(480, 510, "What each of eight ranks sends in an all-reduce of n bytes", body)


def crossovers(kolo):
    """The predicted time of an all-reduce against its size."""
    names = ["central", "recursive_doubling", "halving_doubling", "ring"]
    sizes = [8 * 4**i for i in range(13)]
    times = {name: [] for name in names}
    for size in sizes:
        plan = json.loads(kolo.run("plan", "all_reduce", "--hosts", ",".join(["1"] * 16), "--bytes", str(size), "--json"))
        found = {row["algorithm"]: row["seconds"] for row in plan["ranking"]}
        for name in names:
            times[name].append(found[name])
    left, right, top, bottom = 58, 452, 14, 324
    def x(size):
        return left + (right - left) * math.log(size / sizes[0]) / math.log(sizes[-1] / sizes[0])
    def y(seconds):
        return bottom - (bottom - top) * math.log10(seconds / 5e-5) / math.log10(2 / 5e-5)
    body = ""
    for seconds, words in [(1e-4, "0.1 ms"), (1e-3, "1 ms"), (1e-2, "10 ms"), (0.1, "0.1 s"), (1, "1 s")]:
        body += f"<path class='g' d='M{left} {y(seconds):.1f}H{right}'/>" + text(left - 6, round(y(seconds) + 4), words, "s e")
    for size, words in [(8, "8 B"), (512, "512 B"), (32768, "32 KiB"), (2**21, "2 MiB"), (2**27, "128 MiB")]:
        body += f"<path class='g' d='M{x(size):.1f} {top}V{bottom}'/>" + text(round(x(size)), bottom + 18, words, "s m")
    for index, name in enumerate(names):
        points = "L".join(f"{x(size):.1f} {y(time):.1f}" for size, time in zip(sizes, times[name]))
        body += f"<path class='c c{index} d{index}' d='M{points}'/>\n<path class='c c{index} d{index}' d='M{left + 12} {top + 12 + 20 * index}h28'/>"
        body += text(left + 48, top + 17 + 20 * index, name)
    fastest = [min(names, key=lambda name: times[name][i]) for i in range(len(sizes))]
    for i, name in enumerate(fastest):
        body += f"<circle class='c c{names.index(name)} k' cx='{x(sizes[i]):.1f}' cy='{y(times[name][i]):.1f}' r='4'/>"
    body += text(left, bottom + 38, "16 hosts, TCP, typical costs; dots: the fastest of the four", "s")
    return image(490, 372, "Time of an all-reduce against its size", body, scale=1.4)


def bar(x, y, width, words, kind, height=22):
    return (f"<rect class='{kind}' x='{x:.1f}' y='{y}' width='{max(width - 1, 0.5):.1f}' height='{height}'/>"
            + text(round(x + width / 2, 1), y + height / 2 + 4, words, "m s " + ink(kind)) + "\n")


def ddp_step(kolo):
    """A step of data-parallel training, with its sum after backward and under it."""
    words = ["--bytes", "100MB", "--compute", "300ms", "--hosts", "8", "--rate", "10gbit", "--json"]
    plan = json.loads(kolo.run("plan", "step", *words))
    ring = next(row for row in plan["algorithms"] if row["algorithm"] == "ring")
    compute, backward, sums = plan["compute_seconds"], plan["backward_seconds"], ring["expected_seconds"]
    forward, left, scale, body = compute - backward, 74, 385 / (compute + ring["expected_seconds"]), ""
    for top, title, buckets in [(14, "The sum after backward", 1), (134, "Four buckets, summed under backward", 4)]:
        body += text(14, top + 12, title, "b") + text(14, top + 40, "compute", "s") + text(14, top + 66, "sums", "s")
        body += bar(left, top + 25, forward * scale, "forward", "f3")
        end = 0
        for bucket in range(buckets):
            share, name = backward / buckets, "backward" if buckets == 1 else f"b {bucket + 1}"
            ready = forward + share * (bucket + 1)
            body += bar(left + (ready - share) * scale, top + 25, share * scale, name, "f0")
            begin = max(ready, end)
            end = begin + sums / buckets
            body += bar(left + begin * scale, top + 51, (end - begin) * scale, "sum" if buckets == 1 else bucket + 1, "f1")
        at = left + end * scale
        body += f"<path class='o' d='M{at:.1f} {top + 22}V{top + 78}'/>" + text(round(at, 1), top + 94, f"{1000 * end:.0f} ms", "s e")
    return image(480, 244, "A training step with and without overlap", body, scale=1.5)


def parallelisms(_):
    """Which rank computes what: rows are layers, columns samples, colours ranks."""
    body = ""
    for index, (title, words) in enumerate([("data", "all layers, 1/4 of the samples"), ("pipeline", "1/4 of the layers, all samples"),
                                            ("tensor", "1/4 of each layer, all samples")]):
        left, top, size = 14 + 157 * index, 34, 34
        body += text(left, 22, title, "b")
        for layer in range(4):
            for sample in range(4):
                ranks = {0: [sample], 1: [layer], 2: [0, 1, 2, 3]}[index]
                for strip, rank in enumerate(ranks):
                    body += bar(left + sample * size, top + layer * size + strip * size // len(ranks), size, "", f"f{rank}", size // len(ranks) - 1)
        first, second = words.split(", ")
        body += text(left, top + 4 * size + 18, first + ",", "s") + text(left, top + 4 * size + 34, second, "s")
    body += text(14, 230, "Row: a layer. Column: some samples. Colour: the rank that computes them.", "s")
    return image(484, 242, "Data, pipeline and tensor parallelism of four ranks", body)


def pipelines(_):
    """Forwards and backwards of micro-batches on four stages: a backward takes twice as long as a forward."""
    stages, batches, unit, body = 4, 8, 12.4, ""
    for index, (title, ahead) in enumerate([("GPipe: all forwards, then all backwards", lambda stage: batches),
                                            ("1F1B: a backward as soon as it can", lambda stage: stages - stage)]):
        top, ends, clock = 14 + 176 * index, {}, [0] * stages
        orders = []
        for stage in range(stages):
            first = min(ahead(stage), batches)
            order = [("f", i) for i in range(first)]
            for i in range(batches):
                order += [("b", i)] + ([("f", first + i)] if first + i < batches else [])
            orders.append(order)
        while any(orders):
            for stage, order in enumerate(orders):
                while order:
                    kind, batch = order[0]
                    before = ("f", batch, stage - 1) if kind == "f" else ("b", batch, stage + 1)
                    if 0 <= before[2] < stages and before not in ends:
                        break
                    begin = max(clock[stage], ends.get(before, 0))
                    clock[stage] = ends[kind, batch, stage] = begin + (1 if kind == "f" else 2)
                    width, colour = ((1, "f0") if kind == "f" else (2, "f2"))
                    body += bar(60 + begin * unit, top + 24 + 26 * stage, width * unit, batch + 1, colour)
                    order.pop(0)
        idle = 1 - 3 * batches / max(clock)
        body += text(14, top + 12, title, "b")
        body += "".join(text(14, top + 40 + 26 * stage, f"rank {stage}", "s") for stage in range(stages))
        body += text(60, top + 144, f"idle: {100 * idle:.0f} % of {max(clock)} units; rank 0 holds {min(ahead(0), batches)} micro-batches", "s")
    for x, colour, words in ((14, "f0", "forward of a micro-batch, 1 unit"), (250, "f2", "its backward, 2 units")):
        body += f"<rect class='{colour}' x='{x}' y='362' width='12' height='10'/>" + text(x + 18, 372, words, "s")
    return image(480, 384, "Two schedules of a pipeline of four stages", body)


def memory(kolo):
    """What a rank of eight holds of 24 transformer blocks, with replicas and with each kind of shards."""
    profile = json.loads((ROOT / "docs/data/transformer_profile.json").read_text())
    block = next(layer for layer in profile["layers"] if layer["name"] == "block_1")
    profile["layers"] = [block | {"name": f"block {i}"} for i in range(24)]
    with tempfile.NamedTemporaryFile("w", suffix=".json") as model:
        json.dump(profile, model)
        model.flush()
        plan = json.loads(kolo.run("plan", "training", "--model", model.name, "--hosts", "8", "--rate", "1gbit", "--json"))
    ways = {row["way"]: row for row in plan["ways"]}
    parts = [("parameter_bytes", "parameters", "f0"), ("gradient_bytes", "gradients", "f1"), ("optimizer_bytes", "optimizer's state", "f2"),
             ("activation_bytes", "activations", "f4")]
    names = ["DistributedDataParallel", *(f"ShardedDataParallel, {shard}" for shard in ("optimizer_state", "gradients", "parameters"))]
    scale, body = 452 / max(sum(ways[name][key] for key, *_ in parts) for name in names), ""
    for index, name in enumerate(names):
        x, top = 14, 12 + 50 * index
        body += text(x, top + 12, name)
        for key, _, colour in parts:
            amount = ways[name][key]
            body += bar(x, top + 18, amount * scale, f"{amount / 1e6:.0f}" if amount * scale > 16 else "", colour)
            x += amount * scale
    x = 14
    for _, words, colour in parts:
        body += f"<rect class='{colour}' x='{x}' y='218' width='12' height='10'/>" + text(x + 16, 228, words, "s")
        x += 30 + 6.6 * len(words)
    body += text(14, 248, "MB. Shards: 1/8, and blocks in use: of gradients up to 3, of parameters 2", "s")
    return image(480, 258, "Memory of a rank, in MB", body)


# What each room of src/ is about, in two words.
ROOMS = {"comm": "communicators", "engine": "runs schedules", "selection": "chooses", "c_api": "C interface", "algorithms": "generators",
         "evaluation": "exact sums", "transport": "links", "rendezvous": "meeting", "schedule": "steps, chunks", "kernels": "SIMD sums",
         "net": "sockets, TLS", "observe": "metrics", "device": "CUDA, NCCL", "base": "settings, log, errors"}


def layers(_):
    """The rooms of src/ in layers: each stands above all rooms that it uses, as src/CMakeLists.txt names them."""
    uses = {}
    for words in re.findall(r"^kolo_room\((\w+ [^)[]*)\)", (ROOT / "src/CMakeLists.txt").read_text(), re.MULTILINE):
        room, *parts = words.split()
        uses[room] = [part.removeprefix("kolo_") for part in parts if part.startswith("kolo_")]

    def height(room):
        return 1 + max(map(height, uses[room]), default=-1)

    rows = [("n1", [("programs", "C++, C"), ("train", "over libtorch"), ("bindings", "PyTorch"), ("cli", "kolo")]),
            ("n4", [("include/kolo", "the public API")])]
    for level in range(max(map(height, uses)), -1, -1):
        rows.append(("n2", [(room, ROOMS[room]) for room in uses if height(room) == level]))
    body, top = "", 12
    for kind, names in rows:
        width = (456 - 6 * (len(names) - 1)) / len(names)
        for index, (name, words) in enumerate(names):
            x = 12 + (width + 6) * index
            body += f"<rect class='{kind}' x='{x:.1f}' y='{top}' width='{width:.1f}' height='44' rx='4'/>"
            body += text(round(x + width / 2, 1), top + 19, name, "m") + text(round(x + width / 2, 1), top + 36, words, "m s")
        top += 50
    return image(480, top + 26, "The layers of kolo", body + text(12, top + 14, "A room of src/ (blue) uses rooms of lower rows alone.", "s"))


def ports(kolo):
    """Two hosts: who connects to whom, with the names and ports of the page and the messages of a ring."""
    page = (ROOT / "docs/two-workstations.md").read_text()
    hosts = re.findall(r"([\d.]+) (\w+)\\n", page)[:2]
    ssh, listen = re.search(r"to any port (\d+),([\d:]+) proto tcp", page).groups()
    listen = listen.replace(":", " to ")
    body = ""
    for index, (address, name) in enumerate(hosts):
        left = 12 + 236 * index
        body += f"<rect class='n1' x='{left}' y='12' width='220' height='204' rx='6'/>" + text(left + 12, 34, f"{name}, {address}", "b")
        body += f"<rect class='n2' x='{left + 12}' y='48' width='196' height='36' rx='4'/>"
        body += text(left + 110, 71, "kolo run, with the store" if index == 0 else "kolo run", "m")
    corners = [30 + 100 * (rank % 2) + 236 * (rank // 2) for rank in range(RANKS)]
    for rank, x in enumerate(corners):
        body += f"<path class='c c3 d3' d='M{x + 40} 148L{(70, 110, 190, 214)[rank]} 86'/>\n"
        body += f"<rect class='n3' x='{x}' y='148' width='76' height='36' rx='4'/>" + text(x + 38, 171, f"rank {rank}", "m")
    body += "<path class='c c1 d1' d='M222 66H258' marker-end='url(#k)'/>\n"
    for sender, receiver, *_ in kolo.drawing("ring", RANKS)[0]["steps"][1]["messages"]:
        colour = "c2 d2" if sender // 2 == receiver // 2 else "c0"
        x, to = corners[sender] + 38, corners[receiver] + 38
        way = f"M{x + 40} 166H{to - 40}" if receiver == sender + 1 else f"M{x} 186V228H{to}V188"
        body += f"<path class='c {colour}' d='{way}' marker-end='url(#k)'/>\n"
    for row, (colour, words) in enumerate([("c1 d1", f"ssh: port {ssh} of each host; starts the ranks"),
                                           ("c3 d3", f"the store, where ranks meet: a port of {listen} on {hosts[0][1]}"),
                                           ("c0", f"between hosts: TCP, ports {listen}"),
                                           ("c2 d2", "within a host: shared memory, no port")]):
        body += f"<path class='c {colour}' d='M12 {250 + 22 * row}h28'/>" + text(48, 254 + 22 * row, words, "s")
    return image(480, 334, "Two hosts, their ranks and their ports", body)


def speed(_):
    """How many times as fast, from docs/data: medians of the ratios within a block of runs, of which block 0 is not timed."""
    rows = [json.loads(line) for line in (ROOT / "docs/data/training.jsonl").read_text().splitlines()]
    compared = [json.loads(line) for line in (ROOT / "docs/data/comparison.jsonl").read_text().splitlines()]

    def ratio(key, arm, other, **wanted):
        found, others = ({row["block"]: row[key] for row in rows if key in row and (wanted | {"arm": name}).items() <= row.items()}
                         for name in (arm, other))
        return statistics.median(value / others[block] for block, value in found.items() if block > 0)

    latency = {"table": "latency", "part": "updates", "ranks": 2}
    scaling = {"table": "scaling", "ranks": 16, "compute_s": 0.41, "network": "200mbit"}

    def time(algorithm):
        return next(row["median_us"] for row in compared
                    if row["type"] == "result" and (row["ranks"], row["algorithm"]) == (10, algorithm))

    bars = [("Training, 18.7 kB a step, shared memory: kolo beside Gloo", ratio("updates_per_s", "kolo", "Gloo", **latency), "f0"),
            ("The same over TCP", ratio("updates_per_s", "kolo over TCP", "Gloo", **latency), "f0"),
            ("Sums of 4 MiB, 10 hosts: a ring beside a central driver", time("central") / time("ring"), "f2"),
            ("Training on 16 hosts: a ring beside a central driver", ratio("tokens_per_s", "ring", "driver", **scaling), "f2"),
            ("Training with large tables, 4 hosts: sparse beside dense", ratio("median_step_s", "dense", "sparse", table="sparse"), "f3")]
    body, scale = "", 400 / max(times for _, times, _ in bars)
    for row, (words, times, colour) in enumerate(bars):
        top = 12 + 46 * row
        body += text(14, top + 12, words) + f"<rect class='{colour}' x='14' y='{top + 18}' width='{times * scale:.1f}' height='16'/>"
        body += text(round(20 + times * scale, 1), top + 31, f"{times:.1f}x", "b")
    body += text(14, 12 + 46 * len(bars) + 10, "Work a second, times that of the other; all on two cores.", "s")
    return image(480, 12 + 46 * len(bars) + 24, "How many times as fast", body)


PICTURES = {"ring": moving_ring, "ring-steps": ring_steps, "exchanges": exchanges, "crossovers": crossovers, "ddp-step": ddp_step,
            "parallelisms": parallelisms, "pipelines": pipelines, "memory": memory, "layers": layers, "ports": ports, "speed": speed}

if __name__ == "__main__":
    folder = Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in PICTURES.items():
        (folder / f"{name}.svg").write_text(make(Kolo(sys.argv[1])))
