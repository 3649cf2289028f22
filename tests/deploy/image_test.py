#!/usr/bin/env python3
"""image_test.py ROOT DEBS: the last stage of the Dockerfile, built by buildah on a Debian made from nothing, with the packages
in DEBS in place of those that the stages before would build. So the packages are installed by apt on a bare system, too."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT, DEBS = Path(sys.argv[1]), Path(sys.argv[2])
NEEDED = ("buildah", "mmdebstrap")


def mirror():
    """Where this machine gets its packages from."""
    lines = subprocess.run(["apt-get", "indextargets", "--format", "$(CODENAME) $(REPO_URI)", "Origin: Debian"], text=True,
                           stdout=subprocess.PIPE, check=True).stdout.splitlines()
    return next(line.split() for line in lines if "security" not in line)


class Image(unittest.TestCase):
    def buildah(self, *arguments, **more):
        # Without a daemon, and without what a machine in a container may lack: overlays and namespaces of its own.
        return subprocess.run(["buildah", "--root", f"{self.folder}/root", "--runroot", f"{self.folder}/run",
                               "--storage-driver", "vfs", *map(str, arguments)], text=True, stdout=subprocess.PIPE,
                              env={**os.environ, "BUILDAH_ISOLATION": "chroot"}, check=True, **more).stdout.strip()

    def make_base(self):
        suite, place = mirror()
        base = f"{self.folder}/base.tar"
        subprocess.run(["mmdebstrap", "--quiet", "--variant=minbase", suite, base, f"deb {place} {suite} main"], check=True)
        container = self.buildah("from", "scratch")
        self.buildah("add", "--quiet", container, base, "/")
        name = next(line.split()[1] for line in (ROOT / "Dockerfile").read_text().splitlines()[::-1] if line.startswith("FROM "))
        self.buildah("commit", "--quiet", "--rm", container, f"docker.io/library/{name}")

    def test_ranks_run_in_it_without_root_rights(self):
        with tempfile.TemporaryDirectory() as self.folder:
            self.make_base()
            packages = Path(self.folder, "packages/packages")
            packages.mkdir(parents=True)
            for deb in DEBS.glob("*.deb"):
                if "-dev" not in deb.name and "train" not in deb.name:
                    shutil.copy(deb, packages)
            self.buildah("bud", "--quiet", "--network", "host", "--pull-never", "--build-context",
                         f"packages={packages.parent}", "--tag", "kolo", ROOT)
            container = self.buildah("from", "--pull-never", "localhost/kolo")
            self.assertEqual(self.buildah("run", container, "--", "id", "-u"), "10001")
            output = self.buildah("run", container, "--", "kolo", "run", "-n", "2", "--", "kolo", "bench", "all_reduce",
                                  "--sizes", "1M", "--iterations", "3")
            self.assertIn("All results are right", output)


if __name__ == "__main__":
    absent = [program for program in NEEDED if shutil.which(program) is None]
    if absent or os.geteuid() != 0:
        print(f"skipped: needs root, {', '.join(NEEDED)}")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
