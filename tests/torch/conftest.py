import functools
import os
import sys

sys.path.insert(0, os.path.dirname(__file__))
os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch.distributed as dist  # noqa: E402

# Debian 13's PyTorch 2.6 lacks libuv, for which its TCPStore asks by default.
try:
    dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
except RuntimeError:
    os.environ["USE_LIBUV"] = "0"
    dist.TCPStore = functools.partial(dist.TCPStore, use_libuv=False)
