#!/usr/bin/env python3
"""Installs and packages the build, then uses the result from outside. One function a ctest; see CMakeLists.txt."""
import argparse
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("test")
for option in ("source", "build", "work", "prefix"):
    parser.add_argument("--" + option, type=Path, required=True)
for option in ("cmake", "generator", "compiler"):
    parser.add_argument("--" + option, required=True)
parser.add_argument("--python")
args = parser.parse_args()

# The installation is moved, so no file may contain its first path.
INSTALLED_AT = args.work / "installed-at"
MOVED_TO = args.work / "moved-to"
DEBS = args.work / "deb"
# Before 1.0 each minor version has an interface of its own, and packages of libraries are named by their interface.
ABI = re.search(r'KOLO_VERSION "(\d+\.\d+)', (args.source / "include/kolo/version.hpp").read_text())[1]
LIBRARY, TRAIN_LIBRARY, PYTHON_PACKAGE = f"libkolo{ABI}", f"libkolo-train{ABI}", "python3-kolo-torch"


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


def kolo_of(prefix):
    return only(prefix / "bin", "kolo")


def run_ranks(kolo, program, **more):
    """The ranks find each other through what `kolo run` sets."""
    run(kolo, "run", "-n", "3", "--", program, timeout=100, **more)


def configure(project, name, *options):
    """Configures examples/consumer/PROJECT, copied to a place that knows nothing of this tree."""
    folder = fresh(args.work / name)
    shutil.copytree(args.source / "examples/consumer", folder / "projects")
    build = folder / "build"
    run(args.cmake, "-S", folder / "projects" / project, "-B", build, "-G", args.generator,
        f"-DCMAKE_CXX_COMPILER={args.compiler}", *options)
    return build


def build_and_run(project, prefix, name):
    """The same, built and run with the installation in PREFIX."""
    build = configure(project, name, f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_BUILD_TYPE=Release")
    found = re.search(r"^kolo_DIR:PATH=(.*)$", (build / "CMakeCache.txt").read_text(), re.MULTILINE)
    assert found and Path(found[1]).is_relative_to(prefix), f"found another kolo: {found and found[1]}"
    run(args.cmake, "--build", build)
    run_ranks(kolo_of(prefix), build / "program")


def compile_and_run(module, project):
    """One call of the compiler, with what pkg-config says of the moved installation."""
    work = fresh(args.work / f"pkg-config-{project}")
    pc = only(MOVED_TO, f"{module}.pc")
    static = ["--static"] if list(MOVED_TO.rglob("libkolo.a")) else []
    flags = output_of("pkg-config", *static, "--cflags", "--libs", module,
                      env={**os.environ, "PKG_CONFIG_PATH": str(pc.parent)}).split()
    main = args.source / "examples/consumer" / project / "main.cpp"
    run(args.compiler, "-std=c++20", main, "-o", work / "program", *flags)
    run_ranks(kolo_of(MOVED_TO), work / "program", env={**os.environ, "LD_LIBRARY_PATH": str(pc.parent.parent)})


def install():
    fresh(INSTALLED_AT)
    shutil.rmtree(MOVED_TO, ignore_errors=True)
    run(args.cmake, "--install", args.build, "--prefix", INSTALLED_AT, stdout=subprocess.DEVNULL)
    INSTALLED_AT.rename(MOVED_TO)
    public = {p.relative_to(args.source / "include") for p in (args.source / "include").rglob("*.h*")}
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


def c_finds_it():
    build_and_run("c", MOVED_TO, "c-consumer")


def pkg_config_finds_it():
    compile_and_run("kolo", "core")


def pkg_config_finds_train():
    compile_and_run("kolo-train", "train")


def subproject_configures():
    """A project that compiles kolo from its sources. It gets the library and nothing else of this tree."""
    build = configure("source", "subproject", f"-DFETCHCONTENT_SOURCE_DIR_KOLO={args.source}", "-DKOLO_JOIN=ON",
                      *(["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []))
    cache = (build / "CMakeCache.txt").read_text()
    assert re.search(r"^CMAKE_BUILD_TYPE:STRING=$", cache, re.MULTILINE), "kolo has chosen the build type of its user"
    assert "BUILD_SHARED_LIBS" not in cache, "kolo has chosen the kind of libraries of its user"
    targets = output_of(args.cmake, "--build", build, "--target", "help")
    for word in ("kolo_cli", "kolo_train", "gtest", "test_base", "bench_call", "package"):
        assert not re.search(rf"\b{word}\b", targets), f"kolo adds {word} to the project that contains it"


def subproject_runs():
    build = args.work / "subproject/build"
    run(args.cmake, "--build", build)
    run_ranks(args.build / "bin/kolo", build / "program")


def tool_runs():
    """The installed tool finds its library by itself, and starts ranks."""
    environment = {k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"}
    text = output_of(kolo_of(MOVED_TO), "run", "-n", "2", "--", "sh", "-c", "echo I am $RANK of $WORLD_SIZE",
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
    assert {LIBRARY, "libkolo-dev", "kolo-tools"} <= set(fields), sorted(fields)
    for library in ("libc6", "libstdc++6", "libspdlog", "libssl"):
        assert re.search(rf"^Depends:.*\b{re.escape(library)}", fields[LIBRARY], re.MULTILINE), fields[LIBRARY]
    if TRAIN_LIBRARY in fields:
        assert re.search(r"^Depends:.*\blibtorch", fields[TRAIN_LIBRARY], re.MULTILINE), fields[TRAIN_LIBRARY]
        assert re.search(r"^Depends:.*\blibtorch-dev", fields["libkolo-train-dev"], re.MULTILINE)
    if PYTHON_PACKAGE in fields:  # PyTorch's minor version, and no other
        assert re.search(r"^Depends:.*\bpython3-torch \(>= \d+\.\d+~\), python3-torch \(<< \d+\.\d+~\)",
                         fields[PYTHON_PACKAGE], re.MULTILINE), fields[PYTHON_PACKAGE]
        assert not re.search(r"^Depends:.*\blibkolo", fields[PYTHON_PACKAGE], re.MULTILINE), fields[PYTHON_PACKAGE]
    for package in ("libkolo-dev", "kolo-tools"):
        assert re.search(rf"^Depends:.*\b{re.escape(LIBRARY)} \(= ", fields[package], re.MULTILINE), fields[package]


def files_in(package):
    lines = output_of("dpkg-deb", "--contents", only(DEBS, f"{package}_*.deb")).splitlines()
    return [line.split()[5].lstrip(".") for line in lines if not line.startswith("d")]


def deb_holds_the_right_files():
    expected = {
        LIBRARY: [r"/usr/lib/(.+/)?libkolo\.so\.[0-9.]+"],
        "libkolo-dev": [r"/usr/include/kolo/\w+\.h(pp)?", r"/usr/lib/(.+/)?libkolo\.so", r"/usr/lib/.*/kolo\.pc",
                        r"/usr/lib/(.+/)?cmake/kolo/kolo\w+(-\w+)?\.cmake"],
        "kolo-tools": [r"/usr/bin/kolo", r"/usr/share/man/man1/kolo(-[a-z-]+)?\.1",
                       r"/usr/share/bash-completion/completions/kolo", r"/usr/share/zsh/vendor-completions/_kolo",
                       r"/usr/share/fish/vendor_completions\.d/kolo\.fish"],
    }
    if list(DEBS.glob(f"{TRAIN_LIBRARY}_*.deb")):
        expected[TRAIN_LIBRARY] = [r"/usr/lib/(.+/)?libkolo_train\.so\.[0-9.]+"]
        expected["libkolo-train-dev"] = [r"/usr/include/kolo/train(/\w+)?\.hpp", r"/usr/lib/(.+/)?libkolo_train\.so",
                                         r"/usr/lib/.*/kolo-train\.pc",
                                         r"/usr/lib/(.+/)?cmake/kolo/koloT(rainTargets(-\w+)?|orch)\.cmake"]
    if list(DEBS.glob(f"{PYTHON_PACKAGE}_*.deb")):
        folder = "/usr/lib/python3/dist-packages"
        expected[PYTHON_PACKAGE] = [rf"{folder}/kolo_torch/\w+\.py", rf"{folder}/kolo_torch/_native\.cpython-[\w-]+\.so",
                                    rf"{folder}/kolo_torch_entry\.py",
                                    rf"{folder}/kolo_torch-[\d.]+\.dist-info/(METADATA|entry_points\.txt)"]
    for package, patterns in expected.items():
        patterns = [*patterns, f"/usr/share/doc/{package}/copyright"]
        files = files_in(package)
        for pattern in patterns:
            assert any(re.fullmatch(pattern, f) for f in files), f"{package} lacks {pattern}: {files}"
        strangers = [f for f in files if not any(re.fullmatch(p, f) for p in patterns)]
        assert not strangers, f"{package} should not hold {strangers}"


def deb_is_usable():
    root = fresh(args.work / "deb-root")
    for package in (LIBRARY, "libkolo-dev", "kolo-tools"):
        run("dpkg-deb", "--extract", only(DEBS, f"{package}_*.deb"), root)
    build_and_run("core", root / "usr", "deb-consumer")
    run(root / "usr/bin/kolo", "--help", stdout=subprocess.DEVNULL, timeout=60)


def python_deb_is_usable():
    """Two ranks under torchrun import the package from where it was unpacked."""
    root = fresh(args.work / "python-deb-root")
    run("dpkg-deb", "--extract", only(DEBS, f"{PYTHON_PACKAGE}_*.deb"), root)
    environment = {**os.environ, "PYTHONPATH": str(root / "usr/lib/python3/dist-packages"), "OMP_NUM_THREADS": "1"}
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    text = output_of(args.python, "-m", "torch.distributed.run", "--nproc_per_node", "2",
                     "--master_addr", "127.0.0.1", "--master_port", str(port),
                     "-r", "1", "-t", "1",  # the default fails with PyTorch 1.13 on Python 3.11
                     args.source / "examples/consumer/torch/main.py", env=environment, timeout=100)
    for rank in range(2):
        assert f"rank {rank} of 2: 3.0" in text, text


try:
    globals()[args.test]()
except (AssertionError, subprocess.SubprocessError) as error:
    sys.exit(f"FAILED: {error}")
