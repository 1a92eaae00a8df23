#!/bin/bash
# installed.sh BUILD EXAMPLES COMPILER: installs the library, and builds the examples against it, by
# its CMake package and by pkg-config. What they print shows that handlers ran.
set -euo pipefail
build=$1 examples=$2 compiler=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cmake --install "$build" --prefix "$folder/installed" >/dev/null

cmake -S "$examples" -B "$folder/build" -G Ninja -DCMAKE_PREFIX_PATH="$folder/installed" \
  -DCMAKE_CXX_COMPILER="$compiler" >/dev/null
cmake --build "$folder/build" >/dev/null
"$folder/build/allocations" | grep '^below 2^7 '
timeout 60 "$folder/build/allocations_in_one_file" | grep '^below 2^7 '
[ "$("$folder/build/slow_calls" | wc -l)" = 5 ]
"$folder/build/request_times" | grep '^handled 10000 requests'
"$folder/build/orders" | grep '^sum 50.50'

PKG_CONFIG_PATH=$(dirname "$(find "$folder/installed" -name pinprick.pc)")
export PKG_CONFIG_PATH
libraries=$(pkg-config --variable=libdir pinprick)
# shellcheck disable=SC2046  # words on purpose
"$compiler" -std=c++20 -O2 "$examples/allocations.cc" $(pkg-config --cflags --libs pinprick) \
  -Wl,-rpath,"$libraries" -o "$folder/allocations"
"$folder/allocations" | grep '^below 2^7 '

# The same program with libpinprick.a, whose imports are the program's.
# shellcheck disable=SC2046
"$compiler" -std=c++20 -O2 "$examples/allocations.cc" $(pkg-config --cflags pinprick) \
  "$libraries/libpinprick.a" $(pkg-config --libs-only-l --static pinprick | sed 's/-lpinprick//') \
  -o "$folder/with_archive"
timeout 60 "$folder/with_archive" | grep '^below 2^7 '
