#!/bin/sh
# unwinder.sh PROGRAM: runs the program, if its unwinder was there to build it.
if [ ! -x "$1" ]; then
  echo "skipped: $(basename "$1") needs an unwinder that is not installed here"
  exit 77
fi
exec "$1"
