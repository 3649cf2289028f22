# What quickstart and check share. Sourced by bash, from the project's root.
# shellcheck shell=bash

# The compiler's cache serves clones in other folders, too: it takes paths as relative to the clone.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1

# say TEXT: what happens now, with the seconds since the start.
say() { printf '\n== %3d s  %s\n' "$SECONDS" "$*"; }

# Compiler processes that fit: one a core, but a file that includes libtorch takes 1.3 GB of memory.
compile_jobs() {
  local cores memory_gb
  cores=$(nproc)
  memory_gb=$(awk '/^MemAvailable:/ {print int($2 / 1048576)}' /proc/meminfo)
  local fit=$((memory_gb / 2))
  ((fit >= 1)) || fit=1
  echo $((cores < fit ? cores : fit))
}

# configure FOLDER OPTIONS...: once for these options; afterwards ninja itself notices changed CMake files.
configure() {
  local folder=$1
  shift
  local options=(-G Ninja -D CMAKE_CXX_COMPILER_LAUNCHER=ccache "$@")
  local stamp=$folder/configured-with
  if [[ -f $folder/build.ninja && -f $stamp && $(<"$stamp") == "${options[*]}" ]]; then return; fi
  mkdir -p "$folder"
  rm -f "$stamp"
  cmake -S . -B "$folder" "${options[@]}" >"$folder/configure.log" 2>&1 || {
    cat "$folder/configure.log" >&2
    return 1
  }
  echo "${options[*]}" >"$stamp"
}

# environment_beside PYTHON FOLDER PACKAGES...: a virtual environment that sees the packages of PYTHON, and leaves them as they are.
environment_beside() {
  local python=$1 folder=$2 packages
  shift 2
  "$python" -m venv --clear "$folder" || return
  packages=$("$folder/bin/python" -c 'import site; print(site.getsitepackages()[0])')
  "$python" -c 'import sys; print(*(path for path in sys.path if path.endswith("-packages")), sep="\n")' >"$packages/beside.pth"
  "$folder/bin/pip" install --quiet --disable-pip-version-check "$@"
}

# tool_for_docs: builds the kolo tool, without what only training needs, and prints its path.
tool_for_docs() {
  {
    scripts/install-dependencies --for build &&
      configure build/docs -D KOLO_TRAIN=OFF -D KOLO_BENCH=OFF -D KOLO_TESTS=OFF &&
      cmake --build build/docs -j "$(compile_jobs)" --target kolo_cli
  } >&2 || return
  echo build/docs/bin/kolo
}
