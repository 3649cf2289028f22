#!/usr/bin/env -S python3 -B
"""PyTorch's DistributedDataParallel, over Gloo or kolo, doing what bench_train does. See --help."""
import argparse
import json
import math
import os
import statistics
import sys
import time

try:
    import torch
    import torch.distributed as dist
    from torch import nn
except ModuleNotFoundError:
    sys.exit("pytorch_ddp.py: this Python has no torch (Debian: apt-get install python3-torch, and /usr/bin/python3)")

HELP = """\
PyTorch's DistributedDataParallel, doing what bench_train does: the peer to compare with.

  kolo run -n 2 -- benchmarks/train/pytorch_ddp.py train --model mlp --batch 8
                                                       computes for real, as bench_train train
  PYTHONPATH=build/python kolo run -n 2 -- benchmarks/train/pytorch_ddp.py train --over kolo
  kolo run -n 2 -- benchmarks/train/pytorch_ddp.py replay --trace mlp.json --seconds 1.2
                                                       sleeps as bench_train replay, 1.2 s a step
  GLOO_SOCKET_IFNAME=eth0 scripts/cluster --hosts 4 --rate 1gbit -- benchmarks/train/pytorch_ddp.py replay ...

--over: gloo; kolo; private, which is kolo with buckets in private memory; nothing, which is a hook that sums nothing.
Buckets are PyTorch's own (1 and 25 MiB), gradients are views of them. Averages are verified. Prints one JSON object.
"""
SHORT = 200e-6   # seconds; what is shorter is slept together with what follows
WATCHED = 80e-6
LEFT_OUT = 5


def sleep_until(moment):
    left = moment - time.monotonic() - WATCHED
    if left > 0:
        time.sleep(left)
    while time.monotonic() < moment:
        pass


class Wait(torch.autograd.Function):
    """Passes `x` on; backward waits until the parameter's gradient is due, and gives it."""

    @staticmethod
    def forward(context, x, parameter, model, index):
        context.model, context.index = model, index
        return x.clone()

    @staticmethod
    def backward(context, gradient):
        return gradient, context.model.wait_for(context.index), None, None


class Replayed(nn.Module):
    """The model of benchmarks/train/replayed_model.hpp."""

    def __init__(self, trace):
        super().__init__()
        self.trace, self.in_backward, self.begin = trace, False, 0.0
        self.values = nn.ParameterList(nn.Parameter(torch.zeros(p["shape"])) for p in trace["parameters"])
        self.gradients = [torch.zeros_like(value) for value in self.values]
        self.order = sorted(range(len(self.values)), key=lambda i: trace["parameters"][i]["ready"])

    def set_gradients(self, value):
        for parameter, gradient in zip(self.values, self.gradients):
            gradient.fill_(value)
            if parameter.grad is not None:
                parameter.grad.zero_()

    def forward(self):
        sleep_until(time.monotonic() + self.trace["forward"])
        self.in_backward = False
        x = torch.zeros(1)
        for index in reversed(self.order):  # autograd begins with what was applied last
            x = Wait.apply(x, self.values[index], self, index)
        return x

    def wait_for(self, index):
        if not self.in_backward:
            self.in_backward, self.begin = True, time.monotonic()
        sleep_until(self.begin + self.trace["parameters"][index]["ready"])
        return self.gradients[index].detach()

    def optimize(self):
        if self.trace["optimizer"] > SHORT:
            sleep_until(time.monotonic() + self.trace["optimizer"])


def scaled(trace, factor):
    result = dict(trace, parameters=[dict(p, ready=p["ready"] * factor) for p in trace["parameters"]])
    for name in ("forward", "backward", "optimizer"):
        result[name] *= factor
    return result


def slowest(times):
    times = torch.tensor(times, dtype=torch.float64)
    dist.all_reduce(times, dist.ReduceOp.MAX)
    return times.tolist()


def wrap(model, over="gloo"):
    parallel = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    if over == "nothing":
        parallel.register_comm_hook(None, kept)
    return parallel


def kept(_, bucket):
    future = torch.futures.Future()
    future.set_result(bucket.buffer())
    return future


def start(over):
    plain = dist.Reducer
    if over in ("kolo", "private"):
        import kolo_torch  # noqa: F401: registers the backend
    if over == "private":
        dist.Reducer = plain
    dist.init_process_group("gloo" if over in ("gloo", "nothing") else "kolo")


def verify(model, expected):
    for parameter in model.values:
        flat = parameter.grad.flatten()
        for value in (flat[0].item(), flat[-1].item()):
            if not math.isclose(value, expected, rel_tol=1e-5):
                sys.exit(f"pytorch_ddp.py: an average is {value}, not {expected}")


def replay_steps(parallel, trace, steps):
    model, rank, ranks, times = parallel.module, dist.get_rank(), dist.get_world_size(), []
    model.trace = trace
    for step in range(LEFT_OUT + steps):
        model.set_gradients(rank + 1 + step % 8)
        dist.barrier()
        begin = time.monotonic()
        parallel().backward()
        model.optimize()
        times.append(time.monotonic() - begin)
        verify(model, (ranks + 1) / 2 + step % 8)
    return slowest(times[LEFT_OUT:])


def replay(options):
    with open(options.trace) as file:
        trace = json.load(file)
    parallel = wrap(Replayed(trace))
    replay_steps(parallel, trace, 1)
    alone = statistics.median(replay_steps(parallel, scaled(trace, 0), options.steps))
    compute = trace["forward"] + trace["backward"] + trace["optimizer"]
    if options.seconds:
        trace = scaled(trace, options.seconds / compute)
        compute = options.seconds
    times = replay_steps(parallel, trace, options.steps)
    return {"kind": "replayed", "model": trace["model"], "compute_s": compute, "communication_s": alone,
            "step_s": statistics.median(times), "step_mean_s": statistics.mean(times)}


def perceptron(*widths):
    layers = []
    for width, following in zip(widths, widths[1:]):
        layers += [nn.Linear(width, following), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


MODELS = {"mlp": (1024, 3072, 3072, 3072, 1024), "wide": (20_000, 1024, 1024, 1024, 1024)}


def train(options):
    torch.manual_seed(1 + dist.get_rank())
    widths = MODELS[options.model]
    parallel = wrap(perceptron(*widths).to(options.device), options.over)
    images, labels = torch.rand(options.batch, widths[0]), torch.randint(widths[-1], (options.batch,))
    images, labels = images.to(options.device), labels.to(options.device)
    optimizer = torch.optim.SGD(parallel.parameters(), lr=0.001, momentum=0.9)
    times, losses = [], []
    for step in range(LEFT_OUT + options.steps):
        if step == LEFT_OUT:
            dist.barrier()
            start = time.monotonic()
        begin = time.monotonic()
        loss = nn.functional.cross_entropy(parallel(images), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
        if options.device != "cpu":
            torch.cuda.synchronize()
        times.append(time.monotonic() - begin)
    mean = (time.monotonic() - start) / options.steps  # no barrier comes between steps
    *times, mean = slowest([*times[LEFT_OUT:], mean])
    return {"kind": "computed", "model": options.model, "batch": options.batch, "device": options.device, "losses": [loss.item() for loss in losses],
            "step_s": statistics.median(times), "step_mean_s": mean}


def main():
    parser = argparse.ArgumentParser(description=HELP, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    replaying = commands.add_parser("replay")
    replaying.add_argument("--trace", required=True, help="a file of bench_train record")
    replaying.add_argument("--seconds", type=float, help="compute that long a step; else as recorded")
    training = commands.add_parser("train")
    training.add_argument("--model", choices=MODELS, default="mlp")
    training.add_argument("--batch", type=int, default=8)
    training.add_argument("--over", choices=("gloo", "kolo", "private", "nothing"), default="gloo")
    training.add_argument("--device", default="cpu", help="cpu, cuda, cuda:1")
    replaying.set_defaults(over="gloo")
    for command in (replaying, training):
        command.add_argument("--steps", type=int, default=20)
    options = parser.parse_args()
    if "RANK" not in os.environ:
        parser.error("needs the variables of a job: start it by kolo run, torchrun or scripts/cluster")
    torch.set_num_threads(1)
    start(options.over)
    result = replay(options) if options.command == "replay" else train(options)
    if dist.get_rank() == 0:
        print(json.dumps(dict(result, peer=f"PyTorch {torch.__version__}, {options.over}", ranks=dist.get_world_size())))


if __name__ == "__main__":
    main()
