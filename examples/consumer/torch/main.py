"""Each rank has a tensor; all ranks get the sum: torchrun --nproc_per_node 4 main.py (Debian 12 needs -r 1 -t 1 too)."""
import torch
import torch.distributed as dist

import kolo_torch  # noqa: F401: from PyTorch 2.5 on the backend is known without it

dist.init_process_group("kolo")
values = torch.full((1001,), dist.get_rank() + 1.0)
dist.all_reduce(values)
print(f"rank {dist.get_rank()} of {dist.get_world_size()}: {values[0]}")
dist.destroy_process_group()
