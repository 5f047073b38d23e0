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

# The crash explorer, where the build folder has one: a structure with a planted defect and its twin.
if find "$work/prefix" -name libperdure_crash.a | grep -q .; then
  cmake -S "$root/examples/crash-test" -B "$work/crash-test" -DCMAKE_PREFIX_PATH="$work/prefix" \
    -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_BUILD_TYPE=Release >/dev/null
  cmake --build "$work/crash-test" -j2
  ctest --test-dir "$work/crash-test" --output-on-failure --no-tests=error
  cd "$work/crash-test"
  code=0
  ./small_table_forgetful --quiet --budget 5 --domain adr --threads 1 >found.txt || code=$?
  for expected in "violation: durable linearizability" "examples/crash-test/small_table.h:" \
    "repair: a flush of what is stored at"; do
    if [ "$code" != 5 ] || ! grep -q "$expected" found.txt; then
      cat found.txt
      echo "exit code $code; not found: $expected" >&2
      exit 1
    fi
  done
  cd "$here"
fi
"$work/build/example"
