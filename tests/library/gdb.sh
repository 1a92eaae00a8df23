#!/bin/bash
# gdb.sh attached|started PROGRAM: gdb finds the frames of a program that probes itself: in a thread
# that waits in a return-probed and timed call, and after each instruction in the probes.
#   attached   gdb comes when the probes are there
#   started    the program places them while gdb runs it
set -euo pipefail
command -v gdb >/dev/null || { echo "gdb is not installed"; exit 77; }
how=$1
work=$(mktemp -d)
program=
trap 'exec 7>&-; [ -z "$program" ] || kill $program 2>/dev/null || true; rm -rf "$work"' EXIT
mkfifo "$work/in" "$work/out"
# A thread that is stopped in a restartable sequence starts it again, and so would never leave it.
export GLIBC_TUNABLES=glibc.pthread.rseq=0
export STARTED=
if [ "$how" = attached ]; then
  "$2" <"$work/in" >"$work/out" &
  program=$!
  exec 7>"$work/in" 8<"$work/out"
  read -r ready <&8
  [ "$ready" = ready ]
  which=(-p $program)
else
  STARTED=1
  printf '\n\n' >"$work/lines"
  which=("$2")
fi

cat >"$work/steps.py" <<'PYTHON'
import gdb, os

gdb.execute('set pagination off')

def names():
    frame, all = gdb.newest_frame(), []
    while frame is not None:
        all.append(frame.name() or '?')
        frame = frame.older()
    return all

if os.environ['STARTED']:
    # A breakpoint in the function would keep the probes from being placed.
    gdb.execute('break puts')
    gdb.execute('run <' + os.environ['INPUT'])
    gdb.execute('delete')
    gdb.execute('break *waits')
else:
    while 'getchar' not in str(names()) and 'read' not in str(names()):
        gdb.execute('stepi', to_string=True)
    waiting = names()
    print('WAITING', *waiting)
    assert waiting[waiting.index('waits'):waiting.index('main') + 1] == \
        ['waits', 'pinprick_timed_call', 'pinprick_timed_call', 'main'], waiting
    gdb.execute('break *waits')
    with open(os.environ['IN'], 'w') as tell:
        tell.write('\n')
gdb.execute('continue')
gdb.execute('delete')
inside, displaced = 0, False
for step in range(2000):
    gdb.execute('stepi', to_string=True)
    all = names()
    assert 'main' in all, all
    own = all[:all.index('main') + 1]
    if own[0].startswith('pinprick') or own[0].startswith('pp_'): inside += 1
    elif own[0] != 'waits' and 'waits' in own and 'pp_hit' not in own: break
    assert 'waits' in own, own
print('STEPPED', inside)
assert inside > 150
gdb.execute('continue' if os.environ['STARTED'] else 'detach')
PYTHON
IN=$work/in INPUT=$work/lines \
  timeout 100 gdb -nx -batch "${which[@]}" -x "$work/steps.py" >"$work/log" 2>&1 ||
  { cat "$work/log"; exit 1; }
grep -E "^(WAITING|STEPPED) " "$work/log" || { cat "$work/log"; exit 1; }
if [ "$how" = started ]; then
  grep 'exited normally' "$work/log"
else
  exec 7>&-
  wait $program
fi
