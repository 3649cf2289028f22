"""Trains the model of train_words, a language model over words whose two tables have sparse gradients, by DistributedDataParallel.

    train_words --text /usr/share/dictd/wn.dict.dz --write-words words.bin
    torchrun --nproc_per_node 2 words.py words.bin                  kolo
    torchrun --nproc_per_node 2 words.py words.bin --backend gloo   the same over Gloo
"""
import argparse
import json
import math
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

CONTEXT = 3  # words that the next one is predicted from


class Words(nn.Module):
    """As words::Model in examples/train/words: the mean loss of sampled softmax."""

    def __init__(self, vocabulary, width):
        super().__init__()
        self.vocabulary = vocabulary
        self.input, self.output = (nn.Embedding(vocabulary, width, sparse=True) for _ in range(2))
        self.hidden = nn.Linear(CONTEXT * width, width)
        with torch.no_grad():
            self.input.weight.mul_(0.1)
            self.output.weight.mul_(0.1)

    def log_probability(self, words):
        words = words.double()
        return (((words + 2) / (words + 1)).log() / math.log(self.vocabulary + 1)).log().float()

    def draw(self, count, generator):
        share = torch.rand(count, generator=generator, dtype=torch.float64)
        return ((share * math.log(self.vocabulary + 1)).exp() - 1).long().clamp(max=self.vocabulary - 1)

    def forward(self, context, targets, negatives):
        state = torch.tanh(self.hidden(self.input(context).flatten(1)))
        rows = self.output(torch.cat([targets, negatives]))
        right = (state * rows[:len(targets)]).sum(1, keepdim=True) - self.log_probability(targets)[:, None]
        others = state @ rows[len(targets):].t() - self.log_probability(negatives)
        others = others.masked_fill(negatives == targets[:, None], -math.inf)
        scores = torch.cat([right, others], 1)
        return (scores.logsumexp(1) - scores[:, 0]).mean()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", help="what train_words --write-words has written")
    parser.add_argument("--backend", default="kolo")
    parser.add_argument("--vocabulary", type=int, default=100_000)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=1024, help="words that a rank predicts in a step")
    parser.add_argument("--negatives", type=int, default=1024)
    parser.add_argument("--lr", type=float, default=2)
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args()

    if options.backend == "kolo":
        import kolo_torch  # noqa: F401
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", 1)))  # ranks share the cores
    dist.init_process_group(options.backend)
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1)
    text = torch.from_file(options.words, size=os.path.getsize(options.words) // 8, dtype=torch.int64)
    model = DistributedDataParallel(Words(options.vocabulary, options.width))
    optimizer = torch.optim.SGD(model.parameters(), options.lr)
    order = torch.randperm(len(text) - CONTEXT, generator=torch.Generator().manual_seed(1))  # the same on all ranks
    negatives = torch.Generator().manual_seed(1)
    begin = time.monotonic()
    for step in range(1, options.steps + 1):
        first = ((step - 1) * size + rank) * options.tokens
        at = order[(first + torch.arange(options.tokens)) % len(order)]
        context = text[at[:, None] + torch.arange(CONTEXT)]
        optimizer.zero_grad()
        loss = model(context, text[at + CONTEXT], model.module.draw(options.negatives, negatives))
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        if rank == 0:
            print(json.dumps({"event": "step", "step": step, "ranks": size, "loss": mean.item() / size,
                              "words": options.tokens * size, "seconds": time.monotonic() - begin}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
