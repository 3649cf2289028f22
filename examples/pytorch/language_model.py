"""Trains a small transformer to predict the next byte of a dictionary, by DistributedDataParallel.

    torchrun --nproc_per_node 2 language_model.py                    kolo
    torchrun --nproc_per_node 2 language_model.py --backend gloo     the same over Gloo
    ./side_by_side.py --ranks 2 language_model.py --steps 100        both, in one table

Debian's package dict-wn has the text; --text names another file, gzip'd or not.
"""
import argparse
import gzip
import json
import math
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import kolo_torch  # noqa: F401: from PyTorch 2.5 on, an installed kolo_torch needs no import


class Transformer(nn.Module):
    """Scores, [n, t, 256], of the byte that follows each of int64 [n, t]."""

    def __init__(self, width, layers, heads, context):
        super().__init__()
        self.bytes, self.positions = nn.Embedding(256, width), nn.Embedding(context, width)
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, layers)
        self.output = nn.Linear(width, 256)
        self.register_buffer("mask", torch.full((context, context), float("-inf")).triu(1))

    def forward(self, x):
        t = x.shape[1]
        x = self.bytes(x) + self.positions.weight[:t]
        return self.output(self.blocks(x, self.mask[:t, :t]))


def load(path):
    with open(path, "rb") as file:
        data = file.read()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="kolo")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=16, help="windows of text a step, of all ranks")
    parser.add_argument("--context", type=int, default=128, help="bytes of a window")
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--text", default="/usr/share/dictd/wn.dict.dz")
    parser.add_argument("--prompt", default="ring", help="what the model goes on from at the end")
    parser.add_argument("--json", help="file for the losses and the time")
    options = parser.parse_args()

    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", 1)))  # ranks share the cores
    dist.init_process_group(options.backend)
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1)
    text = load(options.text)
    model = DistributedDataParallel(Transformer(options.width, options.layers, 4, options.context), gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters(), options.lr, weight_decay=0.1)
    windows = torch.Generator().manual_seed(1)  # the same on all ranks: each takes its part
    losses, seconds, total = [], 0.0, torch.zeros(1)
    begin = time.monotonic()
    for step in range(1, options.steps + 1):
        starts = torch.randint(len(text) - options.context - 1, (options.batch,), generator=windows)[rank::size]
        batch = torch.stack([text[s:s + options.context + 1] for s in starts]).long()
        loss = nn.functional.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        total += loss.detach() / math.log(2)
        if step % 20 == 0 or step == options.steps:
            dist.all_reduce(total)
            losses.append(total.item() / (size * ((step - 1) % 20 + 1)))
            total.zero_()
            seconds = time.monotonic() - begin
            if rank == 0:
                rate = step * options.batch * options.context / seconds
                print(f"step {step}: {losses[-1]:.3f} bits a byte, {rate:,.0f} bytes/s", flush=True)
    if rank == 0:
        written = torch.tensor([list(options.prompt.encode())])
        with torch.no_grad():
            for _ in range(100):
                scores = model.module(written[:, -options.context:])[0, -1]
                written = torch.cat([written, torch.multinomial((scores / 0.7).softmax(0), 1)[None]], 1)
        print(bytes(written[0].tolist()).decode(errors="replace"))
        if options.json:
            with open(options.json, "w") as file:
                json.dump({"losses": losses, "seconds": seconds, "steps": options.steps}, file)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
