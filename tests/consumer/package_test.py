#!/usr/bin/env python3
"""Installs and packages the build, then uses the result from outside. One function a ctest; see CMakeLists.txt."""
import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("test")
for option in ("source", "build", "work", "prefix"):
    parser.add_argument("--" + option, type=Path, required=True)
for option in ("cmake", "generator", "compiler"):
    parser.add_argument("--" + option, required=True)
args = parser.parse_args()

# The installation is moved, so no file may contain its first path.
INSTALLED_AT = args.work / "installed-at"
MOVED_TO = args.work / "moved-to"
DEBS = args.work / "deb"


def run(*command, **more):
    print("+", *command, flush=True)
    return subprocess.run([str(part) for part in command], check=True, **more)


def output_of(*command, **more):
    return run(*command, stdout=subprocess.PIPE, text=True, **more).stdout


def fresh(folder):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def only(folder, pattern):
    found = sorted(folder.rglob(pattern))
    assert len(found) == 1, f"{pattern} under {folder}: {[str(f) for f in found]}"
    return found[0]


def build_and_run(project, prefix, name):
    """Configures, builds and runs tests/consumer/PROJECT with the installation in PREFIX."""
    build = fresh(args.work / name)
    run(args.cmake, "-S", args.source / "tests/consumer" / project, "-B", build, "-G", args.generator,
        f"-DCMAKE_CXX_COMPILER={args.compiler}", f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_BUILD_TYPE=Release")
    found = re.search(r"^kolo_DIR:PATH=(.*)$", (build / "CMakeCache.txt").read_text(), re.MULTILINE)
    assert found and Path(found[1]).is_relative_to(prefix), f"found another kolo: {found and found[1]}"
    run(args.cmake, "--build", build)
    run(build / "consumer", timeout=60)


def install():
    fresh(INSTALLED_AT)
    shutil.rmtree(MOVED_TO, ignore_errors=True)
    run(args.cmake, "--install", args.build, "--prefix", INSTALLED_AT, stdout=subprocess.DEVNULL)
    INSTALLED_AT.rename(MOVED_TO)
    public = {p.relative_to(args.source / "include") for p in (args.source / "include").rglob("*.hpp")}
    if (args.source / "train/include").is_dir() and list(MOVED_TO.rglob("koloTrainTargets.cmake")):
        public |= {p.relative_to(args.source / "train/include") for p in (args.source / "train/include").rglob("*.hpp")}
    there = {p.relative_to(MOVED_TO / "include") for p in (MOVED_TO / "include").rglob("*") if p.is_file()}
    assert there == public, f"installed headers differ from the public ones: {there ^ public}"
    for text in [*MOVED_TO.rglob("*.cmake"), *MOVED_TO.rglob("*.pc")]:
        for forbidden in (INSTALLED_AT, args.build, args.source):
            # As a path of its own: a tree in /kolo is none of lib/cmake/kolo.
            named = re.search(rf"(?:(?<![\w./-])|(?<=-[IL])){re.escape(str(forbidden))}(?![\w.-])", text.read_text())
            assert not named, f"{text} names {forbidden}"


def cmake_finds_it():
    build_and_run("core", MOVED_TO, "cmake-consumer")


def cmake_finds_train():
    build_and_run("train", MOVED_TO, "train-consumer")


def pkg_config_finds_it():
    work = fresh(args.work / "pkg-config-consumer")
    pc = only(MOVED_TO, "kolo.pc")
    environment = {**os.environ, "PKG_CONFIG_PATH": str(pc.parent)}
    flags = output_of("pkg-config", "--cflags", "--libs", "kolo", env=environment).split()
    if list(MOVED_TO.rglob("libkolo.a")):
        flags = output_of("pkg-config", "--static", "--cflags", "--libs", "kolo", env=environment).split()
    run(args.compiler, "-std=c++20", args.source / "tests/consumer/core/main.cpp", "-o", work / "consumer", *flags)
    run(work / "consumer", timeout=60, env={**os.environ, "LD_LIBRARY_PATH": str(pc.parent.parent)})


def tool_runs():
    """The installed tool finds its library by itself, and starts ranks."""
    environment = {k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"}
    text = output_of(MOVED_TO / "bin/kolo", "run", "-n", "2", "--", "sh", "-c", "echo I am $RANK of $WORLD_SIZE",
                     env=environment, timeout=60)
    for rank in range(2):
        assert f"I am {rank} of 2" in text, text


def deb_is_made():
    fresh(DEBS)
    # The build is complete when tests run, so CPack builds nothing.
    run("cpack", "--config", args.build / "CPackConfig.cmake", "-B", DEBS, cwd=args.build, stdout=subprocess.DEVNULL)
    # CPack's staging area holds copies that would be found beside the packages.
    shutil.rmtree(DEBS / "_CPack_Packages", ignore_errors=True)
    fields = {}
    for deb in DEBS.glob("*.deb"):
        fields[deb.name.split("_")[0]] = output_of("dpkg-deb", "--field", deb)
    assert {"libkolo0", "libkolo-dev", "kolo-tools"} <= set(fields), sorted(fields)
    for library in ("libc6", "libstdc++6", "libspdlog", "libssl"):
        assert re.search(rf"^Depends:.*\b{re.escape(library)}", fields["libkolo0"], re.MULTILINE), fields["libkolo0"]
    if "libkolo-train0" in fields:
        assert re.search(r"^Depends:.*\blibtorch", fields["libkolo-train0"], re.MULTILINE), fields["libkolo-train0"]
        assert re.search(r"^Depends:.*\blibtorch-dev", fields["libkolo-train-dev"], re.MULTILINE)
    for package in ("libkolo-dev", "kolo-tools"):
        assert re.search(r"^Depends:.*\blibkolo0 \(= ", fields[package], re.MULTILINE), fields[package]


def files_in(package):
    lines = output_of("dpkg-deb", "--contents", only(DEBS, f"{package}_*.deb")).splitlines()
    return [line.split()[5].lstrip(".") for line in lines if not line.startswith("d")]


def deb_holds_the_right_files():
    expected = {
        "libkolo0": [r"/usr/lib/(.+/)?libkolo\.so\.[0-9.]+"],
        "libkolo-dev": [r"/usr/include/kolo/\w+\.hpp", r"/usr/lib/(.+/)?libkolo\.so", r"/usr/lib/.*/kolo\.pc",
                        r"/usr/lib/(.+/)?cmake/kolo/kolo\w+(-\w+)?\.cmake"],
        "kolo-tools": [r"/usr/bin/kolo"],
    }
    if list(DEBS.glob("libkolo-train0_*.deb")):
        expected["libkolo-train0"] = [r"/usr/lib/(.+/)?libkolo_train\.so\.[0-9.]+"]
        expected["libkolo-train-dev"] = [r"/usr/include/kolo/train/\w+\.hpp", r"/usr/lib/(.+/)?libkolo_train\.so",
                                         r"/usr/lib/(.+/)?cmake/kolo/koloTrainTargets(-\w+)?\.cmake"]
    for package, patterns in expected.items():
        patterns = [*patterns, f"/usr/share/doc/{package}/copyright"]
        files = files_in(package)
        for pattern in patterns:
            assert any(re.fullmatch(pattern, f) for f in files), f"{package} lacks {pattern}: {files}"
        strangers = [f for f in files if not any(re.fullmatch(p, f) for p in patterns)]
        assert not strangers, f"{package} should not hold {strangers}"


def deb_is_usable():
    root = fresh(args.work / "deb-root")
    for package in ("libkolo0", "libkolo-dev", "kolo-tools"):
        run("dpkg-deb", "--extract", only(DEBS, f"{package}_*.deb"), root)
    build_and_run("core", root / "usr", "deb-consumer")
    run(root / "usr/bin/kolo", "--help", stdout=subprocess.DEVNULL, timeout=60)


try:
    globals()[args.test]()
except (AssertionError, subprocess.SubprocessError) as error:
    sys.exit(f"FAILED: {error}")
