#!/usr/bin/env python3
"""Checkpoints of kolo::Checkpoint in Python: load_module() gives a torch.nn.Module the values of a folder run/step-N, and
save_module() writes a folder that kolo loads. Needs the packages torch and safetensors.

    checkpoint.py run/step-100 model.safetensors      joins all tensors in one file"""
import json
import os
import sys
import zlib

import torch
from safetensors import safe_open
from safetensors.torch import save_file

NAMES = {torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64",
         torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL"}


def whole(tensor, read):
    """A tensor of the index, of parts: ranges of elements in memory's order, which make slices, which make the whole."""
    shape, dimension, slices = tensor["shape"], tensor.get("dimension", 0), {}
    order = tensor.get("order", list(range(len(shape))))
    for part in tensor["parts"]:
        slices.setdefault(tuple(part.get("slice", ())), []).append(read(part).flatten())
    for extent, ranges in slices.items():
        sizes = [extent[1] - extent[0] if extent and d == dimension else size for d, size in enumerate(shape)]
        elements = torch.cat(ranges).reshape([sizes[d] for d in order])
        slices[extent] = elements.permute([order.index(d) for d in range(len(sizes))])
    return torch.cat(list(slices.values()), dimension) if len(slices) > 1 else next(iter(slices.values()))


def load(folder):
    """All tensors of a checkpoint by name: "first.weight", "optimizer/first.weight/exp_avg", ..."""
    with open(os.path.join(folder, "index.json"), encoding="utf-8") as file:
        index = json.load(file)
    files = {name: safe_open(os.path.join(folder, name), "pt") for name in index["files"]}
    return {name: whole(tensor, lambda part: files[part["file"]].get_tensor(part["key"]))
            for name, tensor in index["tensors"].items()}


def save(folder, step, tensors):
    """Writes the checkpoint folder/step-N."""
    name, path = "rank-0.safetensors", os.path.join(folder, f"step-{step}")
    size = sum(value.numel() * value.element_size() for value in tensors.values())
    os.makedirs(path)
    save_file({key: value.contiguous() for key, value in tensors.items()}, os.path.join(path, name),
              {"format": "pt", "step": str(step)})
    with open(os.path.join(path, name), "rb") as file:
        data = file.read()
    text = json.dumps({
        "metadata": {"kolo_checkpoint": 2, "step": step, "total_size": size},
        "files": {name: {"bytes": len(data), "crc32": f"{zlib.crc32(data):08x}"}},
        "weight_map": dict.fromkeys(tensors, name),
        "tensors": {key: {"dtype": NAMES[value.dtype], "shape": list(value.shape), "parts": [{"file": name, "key": key}]}
                    for key, value in tensors.items()}})[1:]
    with open(os.path.join(path, "index.json"), "w", encoding="utf-8") as file:
        file.write(f'{{"crc32":"{zlib.crc32(text.encode()):08x}",\n{text}')


def names(module):
    """The first name of each parameter and buffer, by its own name: tied weights are saved once."""
    first = {}
    return {name: first.setdefault(id(value), name) for name, value in module.state_dict(keep_vars=True).items()}


def load_module(folder, module):
    tensors = load(folder)
    module.load_state_dict({name: tensors[first] for name, first in names(module).items()})


def save_module(folder, step, module):
    save(folder, step, {name: value for name, value in module.state_dict().items() if names(module)[name] == name})


if __name__ == "__main__":
    save_file(load(sys.argv[1]), sys.argv[2])
