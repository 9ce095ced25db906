#!/usr/bin/env bash
# Builds (once) and caches the Horovod wheel for the Python and torch of an environment; prints the wheel's path.
#
#   build.sh PYTHON CACHE_DIR
#
# Horovod 0.28.1 asks for C++14 while torch 2.13 needs C++17: the compiler wrapper appends the standard last, and has what
# only a debugger reads left out, which Horovod asks for as well: more than a quarter of the compiler's time. It names the
# headers that Horovod and Gloo use without saying so: up to GCC 12 others of the standard library bring them.
# wake.patch has its thread wake for each message and its wait sleep until a sum is there, where HOROVOD_WAKE_ON_ENQUEUE
# is set (docs/decisions/008-*). compiler.patch has what GCC 14 refuses; what comes out is the same without it.
# operations.py says whether NCCL goes in, and cuda.patch has that work; wheels without it do not depend on that patch.
set -euo pipefail
python=$1
cache=$2
version=0.28.1
here=$(realpath "$(dirname "$0")")
tag=$("$python" -c 'import platform, sys, torch; print(f"cp{sys.version_info[0]}{sys.version_info[1]}-torch{torch.__version__}-{platform.machine()}")')
found=$("$python" "$here/operations.py")
IFS=$'\t' read -r operations nccl_header nccl_library cuda <<<"$found"
changes=("$here/wake.patch")
if [ "$operations" = nccl ]; then changes+=("$here/cuda.patch"); fi
folder=$cache/horovod-$version-$tag-$operations-$(cat "${changes[@]}" | sha256sum | cut -c1-8)
if ls "$folder"/horovod-*.whl >/dev/null 2>&1; then ls "$folder"/horovod-*.whl; exit 0; fi
command -v g++ >/dev/null 2>&1 || { echo "set-up: g++ is needed to build Horovod (Debian: apt-get install g++)" >&2; exit 1; }
command -v patch >/dev/null 2>&1 || command -v git >/dev/null 2>&1 || {
  echo "set-up: patch is needed to build Horovod (Debian: apt-get install patch)" >&2
  exit 1
}
mkdir -p "$folder"
building=$(mktemp -d)
trap 'rm -rf "$building"' EXIT
printf '#!/bin/sh\nexec g++ "$@" -std=c++17 -g0 -include cstdint -include stdexcept -include string\n' >"$building/cxx"
chmod +x "$building/cxx"
if [ "$operations" = nccl ]; then
  export HOROVOD_GPU_OPERATIONS=NCCL HOROVOD_NCCL_LINK=SHARED
  export HOROVOD_NCCL_INCLUDE=$nccl_header HOROVOD_NCCL_LIB=$nccl_library HOROVOD_CUDA_HOME=$cuda CUDA_HOME=$cuda
fi
# Said here: Horovod compiles eight files at once, whatever the machine, and one where `make` that runs this has options.
jobs=$(nproc)
jobs=$((jobs < 8 ? jobs : 8))
echo "set-up: building Horovod $version, about 2 minutes (only once for this torch)" >&2
build() {
  "$python" -m pip download --no-build-isolation --no-deps --no-binary horovod -d "$building" "horovod==$version"
  tar -xzf "$building/horovod-$version.tar.gz" -C "$building"
  for change in "$here"/compiler.patch "$here"/wake.patch "$here"/cuda.patch; do
    (cd "$building/horovod-$version" && if command -v patch; then patch -p1 <"$change"; else git apply "$change"; fi)
  done
  grep -q HOROVOD_WAKE_ON_ENQUEUE "$building/horovod-$version/horovod/common/operations.cc"
  CXX=$building/cxx PATH="$(dirname "$python"):${cuda:+$cuda/bin:}$PATH" \
  MAKEFLAGS=-j$jobs \
  HOROVOD_WITH_PYTORCH=1 HOROVOD_WITHOUT_TENSORFLOW=1 HOROVOD_WITHOUT_MXNET=1 HOROVOD_WITH_GLOO=1 HOROVOD_WITHOUT_MPI=1 \
    "$python" -m pip wheel --no-build-isolation --no-deps -w "$building" "$building/horovod-$version"
}
# In a shell of its own: `set -e` does not hold inside a condition.
set +e
(set -e; build) >"$folder/build.log" 2>&1
built=$?
set -e
if [ $built -ne 0 ]; then
  echo "set-up: Horovod did not build; the last lines of $folder/build.log:" >&2
  tail -n 20 "$folder/build.log" >&2
  exit 1
fi
# First onto the disk of the cache, then by its name: who is stopped in between leaves no half of a wheel to be found.
arriving=$(mktemp -d "$folder/arriving.XXXXXX")
trap 'rm -rf "$building" "$arriving"' EXIT
mv "$building"/horovod-*.whl "$arriving/"
mv "$arriving"/horovod-*.whl "$folder/"
ls "$folder"/horovod-*.whl
