#!/bin/bash
# traced.sh TOOL PROGRAM: TOOL runs PROGRAM, which probes itself.
#   gdb      the probes count exactly, and come and go
#   calls    gdb has stopped the program between two instructions, and calls functions of it that
#            place probes there and elsewhere
#   strace   as gdb
set -euo pipefail
tool=$1 program=$2
needs() { command -v "$1" >/dev/null || { echo "$1 is not installed"; exit 77; }; }

has() {
  grep -q -- "$1" <<<"$output" || { echo "no line with: $1" >&2; echo "$output" >&2; exit 1; }
}
has_not() {
  if grep -E "$1" <<<"$output"; then exit 1; fi
}

case $tool in
  gdb)
    needs gdb
    output=$(timeout 100 gdb -nx -batch -ex run "$program" 2>&1)
    has 'exited normally'
    ;;
  strace)
    needs strace
    output=$(timeout 100 strace -f -o /dev/null "$program" 2>&1)
    ;;
  calls)
    needs gdb
    output=$(timeout 100 gdb -nx -batch -ex 'break *((char*)self_steps + 3)' -ex 'run called' \
      -ex delete -ex 'print ((int (*)())place_between)()' \
      -ex 'print ((int (*)())place_single)()' -ex continue \
      "$program" 2>&1)
    # gdb 13 knows no processor whose extended state is larger than that of AVX-512, such as with AMX.
    if grep -q "^Couldn't write extended state status" <<<"$output"; then
      echo 'gdb cannot write the registers of this processor, so it calls no function'
      exit 77
    fi
    has 'a debugger holds this process, and the thread may go on between'
    has '^\$1 = 0'
    has '^\$2 = 1'
    has '^counted 1000$'
    has 'exited normally'
    has_not 'SIGTRAP|a wrong result'
    exit
    ;;
esac
has '^counted 2000 2000$'
has '^text restored$'
has_not 'SIGTRAP|a wrong result'
