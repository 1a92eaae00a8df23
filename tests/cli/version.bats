# `pinprick --version`: what one needs to know about a program whose bug is reported.
load helpers

sources=$BATS_TEST_DIRNAME/../../src

@test "--version says version, commit and build ID, each on a line" {
  run "$PINPRICK" --version
  [ "$status" -eq 0 ]
  [ "${#lines[@]}" -eq 3 ]
  [[ "${lines[0]}" =~ ^pinprick\ [0-9]+\.[0-9]+\.[0-9]+$ ]]
  [[ "${lines[1]}" =~ ^commit\ ([0-9a-f]{12,40}(-dirty)?|unknown|[-+.~_0-9A-Za-z]+)$ ]]
  local id
  id=$(readelf -n "$PINPRICK" 2>/dev/null | sed -n 's/^ *Build ID: //p')
  [ "${lines[2]}" = "build ID ${id:-none}" ]
  [ "$("$PINPRICK" -V)" = "$output" ]
}

@test "a program without a build ID says so" {
  objcopy --update-section .note.gnu.build-id=/dev/null "$PINPRICK" "$work/none" 2>/dev/null ||
    objcopy --remove-section .note.gnu.build-id "$PINPRICK" "$work/none"
  [ "$("$work/none" --version | tail -n 1)" = "build ID none" ]
}

@test "a static program knows its build ID, too, at a fixed address and at a random one" {
  cat >"$work/main.cc" <<'END'
#include "base/build_id.h"
#include <cstdio>
int main() { std::puts(pinprick::own_build_id().c_str()); }
END
  local kind id
  for kind in -static -static-pie; do
    g++ -std=c++20 $kind -Wl,--build-id -I"$sources" "$work/main.cc" "$sources/base/build_id.cc" \
      -o "$work/program" || skip "no static program can be linked here"
    id=$("$work/program")
    [ "${#id}" -eq 40 ]
    [ "$id" = "$(readelf -n "$work/program" | sed -n 's/^ *Build ID: //p')" ]
    g++ -std=c++20 $kind -Wl,--build-id=none -I"$sources" "$work/main.cc" \
      "$sources/base/build_id.cc" -o "$work/program"
    [ -z "$("$work/program")" ]
  done
}

# commit_of [COMMIT]: what a build of $work/tree would say.
commit_of() {
  cmake -D SOURCES="$work/tree" -D COMMIT="${1-}" -D OUTPUT="$work/commit.cc" \
    -P "$sources/cli/commit.cmake"
  sed -n 's/.*"\(.*\)";$/\1/p' "$work/commit.cc" | tail -n 1
}

@test "sources without git have the commit that the build or the file COMMIT names, or an unknown one" {
  mkdir "$work/tree"
  [ "$(commit_of)" = unknown ]
  [ "$(commit_of 0123456789ab)" = 0123456789ab ]
  echo 123456789abc >"$work/tree/COMMIT"
  [ "$(commit_of)" = 123456789abc ]
  [ "$(commit_of 0123456789ab)" = 0123456789ab ]
  # An archive whose keywords were not replaced, and what would end the string constant.
  local wrong
  for wrong in '$Format:%h$' 'a"; int x = "' 'a b' ''; do
    echo "$wrong" >"$work/tree/COMMIT"
    [ "$(commit_of)" = unknown ]
  done
  # A .git that git cannot read, or no git at all.
  echo 123456789abc >"$work/tree/COMMIT"
  echo 'gitdir: /nowhere' >"$work/tree/.git"
  [ "$(commit_of)" = 123456789abc ]
}

@test "sources under git have its commit, and are dirty when a file of it has changed" {
  command -v git >/dev/null || skip "git is not installed"
  mkdir "$work/tree"
  cd "$work/tree"
  git init -q .
  [ "$(commit_of)" = unknown ]  # there is no commit yet
  echo one >file
  git add file
  git -c user.name=n -c user.email=e commit -qm one
  local commit
  commit=$(git rev-parse HEAD)
  [ "$(commit_of)" = "${commit:0:12}" ]
  echo 123456789abc >COMMIT  # git knows better; and a new file is no change
  git -c user.name=n -c user.email=e tag -a v1 -m v1
  [ "$(commit_of)" = "${commit:0:12}" ]
  echo two >file
  [ "$(commit_of)" = "${commit:0:12}-dirty" ]
  # Another user's build says the same.
  if [ "$(id -u)" -eq 0 ]; then
    chmod 755 "$work"
    chown -R 65534 .
    [ "$(commit_of)" = "${commit:0:12}-dirty" ]
  fi
}

@test "a build that finds the commit unchanged leaves the file alone" {
  mkdir "$work/tree"
  commit_of 0123456789ab
  touch -d @1000 "$work/commit.cc"
  commit_of 0123456789ab
  [ "$(stat -c %Y "$work/commit.cc")" -eq 1000 ]
  commit_of 123456789abc
  [ "$(stat -c %Y "$work/commit.cc")" -ne 1000 ]
}
