#!/bin/sh
# unwinder.sh PROGRAM: runs it, if there was what it is built with.
if [ ! -x "$1" ]; then
  echo "skipped: $(basename "$1") needs an unwinder that is not installed here"
  exit 77
fi
exec "$1"
