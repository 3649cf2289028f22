"""How the backend gets in: entry points, the name "gloo" for scripts and libraries that have it written into them."""
import datetime
import importlib
import os
import subprocess
import sys
import warnings

import kolo_torch_entry
import pytest
import torch
import torch.distributed as dist
from ranks import run

import kolo_torch

VERSION = tuple(int(part) for part in torch.__version__.split(".")[:2])
HAS_ENTRY_POINTS = VERSION >= (2, 5)
ALONE = "import tempfile; file = 'file://' + tempfile.mkdtemp() + '/store'; dist.init_process_group({!r}, init_method=file, rank=0, world_size=1)"


def python(*lines, **variables):
    """What a Python of its own prints."""
    code = "\n".join(["import sys", "import torch.distributed as dist", *lines])
    return subprocess.run([sys.executable, "-B", "-W", "ignore", "-c", code], env={**os.environ, **variables}, text=True, timeout=100,
                          check=True, stdout=subprocess.PIPE).stdout.split()


@pytest.mark.skipif(not HAS_ENTRY_POINTS, reason="PyTorch before 2.5 looks for no entry points")
def test_nothing_is_imported_by_hand():
    loaded = "print('kolo_torch' in sys.modules)"
    assert python("print('KOLO' in dist.Backend._plugins)", loaded, ALONE.format("cpu:kolo"), loaded) == ["True", "False", "True"]
    first_use = [ALONE.format("kolo"), loaded] if VERSION >= (2, 14) else []
    known = python("print('KOLO' in dist.Backend._plugins)", *first_use, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert known == ["False", "True"][:1 + len(first_use) // 2]


def test_registering_again_is_harmless():
    kolo_torch_entry.register()
    kolo_torch_entry.register()


def test_registering_never_raises(monkeypatch):
    monkeypatch.setattr(dist, "Backend", None)
    with pytest.warns(UserWarning, match='will not know the backend "kolo"'):
        kolo_torch_entry.register()


def test_another_pytorch_is_refused(monkeypatch):
    monkeypatch.setattr(torch, "__version__", "1.12.1")
    with pytest.raises(ImportError, match="was built for PyTorch .* this is PyTorch 1.12.1.*pip install --no-build-isolation"):
        importlib.reload(kolo_torch)


def test_a_script_with_gloo_written_into_it():
    by_hand = [] if HAS_ENTRY_POINTS else ["import kolo_torch"]
    backend = "print(dist.get_backend(), 'kolo_torch._native' in sys.modules)"
    assert python(*by_hand, ALONE.format("gloo"), backend, KOLO_TORCH_AS_GLOO="1") == ["gloo", "True"]
    assert python(ALONE.format("gloo"), backend) == ["gloo", "False"]


def as_gloo(rank, size, path, detail):
    os.environ["KOLO_TORCH_AS_GLOO"] = "1"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kolo_torch_entry.register()
        kolo_torch_entry.register()
    if detail:
        dist.set_debug_level(dist.DebugLevel.DETAIL)
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=size, timeout=datetime.timedelta(seconds=20))
    groups = [dist.group.WORLD, dist.new_group(backend="gloo"), dist.new_group([0, 1], timeout=datetime.timedelta(days=10_000))]
    assert len(kolo_torch.groups.backends(None)) == 3
    for group in groups:
        assert dist.get_backend(group) == "gloo"
        tensor = torch.ones(3)
        dist.all_reduce(tensor, group=group)
        assert tensor[0] == size
        dist.monitored_barrier(group=group, timeout=datetime.timedelta(seconds=10))
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2))
    model(torch.full((3, 4), rank + 1.0)).sum().backward()
    assert torch.allclose(model.module.weight.grad, torch.full((2, 4), 4.5))  # 3 rows of 1 and of 2
    dist.destroy_process_group()


@pytest.mark.parametrize("detail", [False, True])
def test_the_name_gloo(tmp_path, detail):
    run(2, as_gloo, tmp_path / "store", detail, backend=None)


def builds_the_class(rank, size, path):
    os.environ["KOLO_TORCH_AS_GLOO"] = "1"
    kolo_torch_entry.register()
    backend = dist.ProcessGroupGloo(dist.FileStore(path, size), rank, size, datetime.timedelta(seconds=20))
    assert kolo_torch._native.is_kolo(backend)
    tensor = torch.ones(3)
    backend.allreduce([tensor]).wait()
    assert tensor[0] == size


def test_a_library_that_builds_the_class_of_gloo(tmp_path):
    run(2, builds_the_class, str(tmp_path / "store"), backend=None)
