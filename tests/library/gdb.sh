#!/bin/bash
# gdb.sh PROGRAM: gdb, attached to a process that probes itself, finds the program's frames: in a
# thread that waits in a return-probed and timed call, and after each instruction in the probes.
set -euo pipefail
command -v gdb >/dev/null || { echo "gdb is not installed"; exit 77; }
work=$(mktemp -d)
trap 'exec 7>&-; kill $program 2>/dev/null || true; rm -rf "$work"' EXIT
mkfifo "$work/in" "$work/out"
# A thread that is stopped in a restartable sequence starts it again, and so would never leave it.
GLIBC_TUNABLES=glibc.pthread.rseq=0 "$1" <"$work/in" >"$work/out" &
program=$!
exec 7>"$work/in" 8<"$work/out"
read -r ready <&8
[ "$ready" = ready ]

cat >"$work/steps.py" <<'PYTHON'
import gdb, os

gdb.execute('set pagination off')

def names():
    frame, all = gdb.newest_frame(), []
    while frame is not None:
        all.append(frame.name() or '?')
        frame = frame.older()
    return all

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
gdb.execute('detach')
PYTHON
IN=$work/in timeout 100 gdb -nx -batch -p $program -x "$work/steps.py" >"$work/log" 2>&1 ||
  { cat "$work/log"; exit 1; }
grep -E '^(WAITING|STEPPED) ' "$work/log"
exec 7>&-
wait $program
