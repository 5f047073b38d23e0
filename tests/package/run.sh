#!/bin/sh
# Installs the library of a build folder, builds another project against it and runs its programs.
# Usage: run.sh BUILD_FOLDER [COMPILER]
set -eu
build=$1
compiler=${2:-c++}
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
work=$build/package-test
rm -rf "$work"
cmake --install "$build" --prefix "$work/prefix" --component library >/dev/null
cmake -S "$here" -B "$work/build" -DCMAKE_PREFIX_PATH="$work/prefix" \
  -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_BUILD_TYPE=Release \
  -DEXAMPLE="$root/examples/crash_and_recover.cpp" \
  -DOWN_INDEX="$root/examples/adding-an-index/chained_hash" >/dev/null
cmake --build "$work/build" -j2
if grep -rl --include='*.cmake' "$root/src" "$work/prefix"; then
  echo "the installed package points into the source tree" >&2
  exit 1
fi
"$work/build/own_index"
"$work/build/example"
