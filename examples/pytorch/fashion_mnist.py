"""Trains a small convolutional network on images of clothes, by DistributedDataParallel.

    torchrun --nproc_per_node 2 fashion_mnist.py                     kolo
    torchrun --nproc_per_node 2 fashion_mnist.py --backend gloo      the same over Gloo
    ./side_by_side.py --ranks 2 fashion_mnist.py --epochs 1          both, in one table

Debian's package dataset-fashion-mnist has the images; --data names another folder with the four files.
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
from torch.utils.data.distributed import DistributedSampler

import kolo_torch  # noqa: F401: from PyTorch 2.5 on, an installed kolo_torch needs no import


def read(path, header):
    with gzip.open(path) as file:
        return torch.frombuffer(bytearray(file.read()[header:]), dtype=torch.uint8)


def load(folder, kind):
    """Images, float32 [n, 1, 28, 28] of mean 0 and deviation 1, and their labels, int64 [n]."""
    images = read(f"{folder}/{kind}-images-idx3-ubyte.gz", 16).view(-1, 1, 28, 28).float()
    labels = read(f"{folder}/{kind}-labels-idx1-ubyte.gz", 8).long()
    return (images / 255 - 0.286) / 0.353, labels


def network():
    return nn.Sequential(nn.Conv2d(1, 8, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Conv2d(8, 16, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Flatten(), nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10))


def accuracy(model, images, labels):
    """Of all ranks together, each on a part of the images."""
    rank, size = dist.get_rank(), dist.get_world_size()
    right = torch.zeros(1)
    with torch.no_grad():
        for part, expected in zip(images[rank::size].split(500), labels[rank::size].split(500)):
            right += (model(part).argmax(1) == expected).sum()
    dist.all_reduce(right)
    return right.item() / len(labels)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="kolo")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--steps", type=int, default=0, help="in an epoch, at most; 0: all images once")
    parser.add_argument("--batch", type=int, default=64, help="images a step, of all ranks")
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--json", help="file for the losses and the time")
    options = parser.parse_args()

    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", 1)))  # ranks share the cores
    dist.init_process_group(options.backend)
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1)
    images, labels = load(options.data, "train")
    held_out = load(options.data, "t10k")
    model = DistributedDataParallel(network(), gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(model.parameters(), options.lr, momentum=0.9, weight_decay=1e-4)
    sampler = DistributedSampler(range(len(images)), drop_last=True)
    steps = len(images) // options.batch
    if options.steps:
        steps = min(steps, options.steps)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1, (step + 1) / (steps / 2)) * (1 + math.cos(math.pi * step / (steps * options.epochs))) / 2)
    losses, seconds = [], 0.0
    for epoch in range(options.epochs):
        sampler.set_epoch(epoch)
        order = torch.tensor(list(sampler)).split(options.batch // size)[:steps]
        total = torch.zeros(1)
        begin = time.monotonic()
        for indices in order:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images[indices]), labels[indices])
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.detach()
        seconds += time.monotonic() - begin
        dist.all_reduce(total)
        losses.append(total.item() / (size * len(order)))
        right = accuracy(model.module, *held_out)
        if rank == 0:
            print(f"epoch {epoch + 1}: loss {losses[-1]:.4f}, {100 * right:.2f} % of the held-out images right, {seconds:.1f} s", flush=True)
    if rank == 0 and options.json:
        with open(options.json, "w") as file:
            json.dump({"losses": losses, "accuracy": right, "seconds": seconds, "steps": steps * options.epochs}, file)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
