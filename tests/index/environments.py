"""Virtual environments with packages of the Python index, kept for the next run."""
import subprocess
import sys
from pathlib import Path

# Versions are fixed, so that a test fails for a change of kolo and not of a peer.
PYTORCH = "torch==2.15.0"


def environment(folder, name, *packages):
    """The path of the environment FOLDER/NAME that holds exactly PACKAGES and what they need."""
    place = Path(folder) / name
    stamp = place / "installed"
    wanted = "\n".join(packages)
    if not stamp.exists() or stamp.read_text() != wanted:
        subprocess.run([sys.executable, "-m", "venv", "--clear", place], check=True)
        subprocess.run([place / "bin/pip", "install", "--quiet", *packages], check=True)
        stamp.write_text(wanted)
    return place


def site_packages(place):
    return next(Path(place).glob("lib/python3.*/site-packages"))
