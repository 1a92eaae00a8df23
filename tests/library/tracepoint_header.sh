#!/bin/bash
# tracepoint_header.sh BUILD SOURCE CLAIM: what compilers and linkers make of pinprick/tracepoint.h.
# Each claim is a test.
set -euo pipefail
build=$1 source=$2
here=$source/tests/library/header
include=(-I"$source/include" -I"$source/tests/library")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cc=(gcc) cxx=(g++)
# Debian's clang-14 alone installs none without the version.
for version in -14 ""; do
  command -v "clang$version" >/dev/null || continue
  cc+=("clang$version") cxx+=("clang++$version")
  break
done
strict=(-Wall -Wextra -pedantic -Werror)

fail() { echo "$*"; exit 1; }

# The instructions of a function, up to its first return.
usual_path() { # OBJECT FUNCTION
  objdump -d --no-show-raw-insn --disassemble="$2" "$1" |
    sed -n "/<$2>:/,\$p" | sed 1d | cut -f2- | sed '/^ret/q' | tr -s ' '
}

off_is_one_nop() {
  local compiler language options
  for compiler in "${cc[@]/%/ -x c}" "${cxx[@]/%/ -x c++ -std=c++20}"; do
    for options in -O2 "-O3 -fPIC" "-O2 -g -fcf-protection=none"; do
      language="$compiler $options"
      # shellcheck disable=SC2086  # words on purpose
      {
        $language "${include[@]}" -c "$here/golden.c" -o "$work/without.o"
        $language "${include[@]}" -DWITH_POINT -c "$here/golden.c" -o "$work/with.o"
      }
      usual_path "$work/without.o" small >"$work/without"
      usual_path "$work/with.o" small >"$work/with"
      grep -q '^ret' "$work/without" || fail "$language: no function"
      [ "$(diff "$work/without" "$work/with")" = "0a1
> nopl 0x0(%rax,%rax,1)" ] ||
        { echo "$language"; diff "$work/without" "$work/with"; exit 1; }
    done
  done
}

# With one function, a hit takes no branch but for calls and returns: most of the time is theirs.
one_function_is_called_in_a_straight_line() {
  local compiler options
  for compiler in "${cc[@]}"; do
    for options in -O2 "-O3 -fPIC"; do
      # shellcheck disable=SC2086
      $compiler $options -std=gnu11 "${include[@]}" -DWITH_POINT -c "$here/golden.c" -o "$work/on.o"
      usual_path "$work/on.o" pinprick_point_visit_golden__small >"$work/on"
      grep -q '^call \*' "$work/on" || fail "$compiler $options: no call"
      ! grep '^jmp' "$work/on" || { echo "$compiler $options"; cat "$work/on"; exit 1; }
      # The branch after the call is the one back, for more functions.
      sed -n '/^call \*/,$p' "$work/on" | grep -q '^jne' || fail "$compiler $options: no way back"
    done
  done
}

compiles_everywhere() {
  local compiler options
  for options in -O0 -O1 -O2 -O3 -Os -fPIC "-O2 -fno-pie" "-O2 -flto" "-O2 -fstack-protector-strong" \
    "-O2 -mavx512f"; do
    for compiler in "${cc[@]}"; do
      # shellcheck disable=SC2086
      $compiler $options -std=c11 "${strict[@]}" "${include[@]}" -c \
        "$source/tests/library/tracepoint_user.c" -o "$work/user.o"
    done
    for compiler in "${cxx[@]}"; do
      # shellcheck disable=SC2086
      $compiler $options -std=c++20 "${strict[@]}" -Wshadow -Wconversion -Wold-style-cast \
        "${include[@]}" -c "$here/sites.cc" -o "$work/sites.o"
    done
  done
}

links_everywhere() {
  local compiler options ran
  local library=(-DPINPRICK_POINTS_NEED_LIBRARY -L"$build" -lpinprick "-Wl,-rpath,$build")
  for compiler in "${cxx[@]}"; do
    for options in -O0 -O2 "-O2 -flto" "-O3 -fPIE -pie" "-O2 -no-pie -fno-pie" \
      "-O2 -ffunction-sections -Wl,--gc-sections" "-O2 -static"; do
      # shellcheck disable=SC2086
      $compiler -std=c++20 $options "${include[@]}" "$here/sites.cc" "$here/other_file.cc" \
        -o "$work/alone"
      "$work/alone" >"$work/out" || fail "$compiler $options, without the library: $?"
      [ ! -s "$work/out" ] || fail "$compiler $options: attached without the library"
      [ "$options" != "-O2 -static" ] || continue
      # shellcheck disable=SC2086
      $compiler -std=c++20 $options "${include[@]}" "$here/sites.cc" "$here/other_file.cc" \
        "${library[@]}" -o "$work/with"
      ran=$("$work/with") || fail "$compiler $options, with the library: $?"
      [ "$ran" = attached ] || fail "$compiler $options: $ran"
    done
  done
}

unused_functions_take_their_records_along() {
  local options=(-std=c++20 -O2 -ffunction-sections "${include[@]}" "$here/sites.cc" "$here/other_file.cc")
  g++ "${options[@]}" -o "$work/all"
  g++ "${options[@]}" -Wl,--gc-sections -o "$work/some"
  nm "$work/all" | grep -q unused_function || fail "the function is not there without the option"
  ! nm "$work/some" | grep -q unused_function || fail "the function is kept"
  local all some
  all=$(readelf -n "$work/all" | grep -c '^  pinprick ')
  some=$(readelf -n "$work/some" | grep -c '^  pinprick ')
  [ "$some" -gt 0 ] && [ "$some" -lt "$all" ] || fail "records: $all, then $some"
}

wrong_prototypes_do_not_compile() {
  local compiler
  for compiler in "${cc[@]/%/ -std=c11 -x c}" "${cxx[@]/%/ -std=c++20}"; do
    # shellcheck disable=SC2086
    $compiler -w -DRIGHT "${include[@]}" -c "$here/wrong.cc" -o "$work/right.o"
    # shellcheck disable=SC2086
    ! $compiler -w "${include[@]}" -c "$here/wrong.cc" -o "$work/wrong.o" 2>/dev/null ||
      fail "$compiler takes another prototype"
  done
}

notes_tell_where_arguments_are() {
  local compiler sizes most="Arguments:"
  for sizes in -4 -8 8 8f 4f 8 -1 -2 4 8 8f -1; do most+=" $sizes@[^ ]+"; done
  for compiler in "${cc[@]}"; do
    $compiler -std=gnu11 -O2 "${include[@]}" "$here/notes.c" -o "$work/notes"
    readelf -n "$work/notes" >"$work/text"
    grep -A3 'Name: plain' "$work/text" |
      grep -Eq 'Arguments: -4@[^ ]+ 8@[^ ]+ 8f@[^ ]+ 1@[^ ]+ -2@[^ ]+$' ||
      fail "$compiler: $(cat "$work/text")"
    [ "$(grep -A3 'Name: most' "$work/text" | grep -Ec "$most")" = 2 ] ||
      fail "$compiler: $(cat "$work/text")"
    grep -A1 'Name: plain' "$work/text" | grep -q 'Semaphore: 0x0*$' || fail "plain has a semaphore"
    ! grep -A1 'Name: wanted' "$work/text" | grep -q 'Semaphore: 0x0*$' || fail "no semaphore"
  done
}

gdb_turns_the_form_with_a_semaphore_on() {
  command -v gdb >/dev/null || { echo "gdb is not installed"; exit 77; }
  gcc -std=gnu11 -O2 "${include[@]}" "$here/notes.c" -o "$work/notes"
  gdb -nx -batch -ex 'info probes stap notes' -ex 'break -probe-stap notes:wanted' -ex run \
    -ex 'print $_probe_argc' -ex 'print $_probe_arg0' -ex continue "$work/notes" >"$work/log" 2>&1 ||
    { cat "$work/log"; exit 1; }
  grep -q 'stap *notes *plain' "$work/log" && grep -q '= 1$' "$work/log" &&
    grep -q '= 4711$' "$work/log" && grep -q '^passed' "$work/log" ||
    { cat "$work/log"; exit 1; }
}

"$3"
