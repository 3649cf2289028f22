"""For pyproject.toml: a wheel's version, and the PyTorch that it is for.

There is a wheel for each minor version of PyTorch. The version says which, as in 0.2.0+torch2.15: a version of its own lies beside the
others in one folder or index, and pip takes the one whose requirement the PyTorch that is installed meets.
"""
import re
from pathlib import Path

HEADER = Path(__file__).resolve().parents[2] / "include/kolo/version.hpp"


def build_state(state):
    if state == "sdist" or not HEADER.exists():
        raise SystemExit("kolo-torch has no source distribution, because it compiles all of kolo: in kolo's sources, pip install ./bindings/torch")


def dynamic_metadata(settings, project):
    try:
        import torch
    except ImportError as error:
        raise SystemExit(f"kolo-torch compiles for the PyTorch that is installed: pip install --no-build-isolation ({error})") from None
    minor = ".".join(torch.__version__.split(".")[:2])
    kolo = re.search(r'KOLO_VERSION "(.*)"', HEADER.read_text())[1]
    return {"version": f"{kolo}+torch{minor}", "dependencies": [f"torch=={minor}.*"]}
