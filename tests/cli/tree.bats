# `trace --tree`: which calls lie within which, on programs that know their own calls.
load helpers

paths="$TARGETS/paths"

# tree: the calls of $work/out, without durations and threads.
tree() { sed -n 's/^.*[0-9] | //p' "$work/out"; }

@test "calls lie in their callers, with what they are called with and what they return" {
  "$PINPRICK" trace -o "$work/out" --tree --limit 30 'paths:outer $arg1' 'paths:middle $arg1' \
    'paths:leaf $arg1 $retval' paths:deep -- "$paths"
  [ "$(head -n 1 "$work/out")" = "    duration     TID | call" ]
  [ "$(tree | head -n 10)" = 'outer($arg1=0) {
  middle($arg1=0) {
    leaf($arg1=0) = 0;
  } middle
} outer
outer($arg1=1) {
  middle($arg1=1) {
    leaf($arg1=1) = 1;
  } middle
} outer' ]
  "$PINPRICK" trace -o "$work/out" --tree 'paths:deep if $arg1==18||$arg1==2' paths:other 'paths:leaf if $arg1==0' -- "$paths"
  [ "$(tree | grep -A 6 -m 1 '^deep')" = 'deep() {
  deep() {
    leaf();
  } deep
} deep
deep() {
  deep() {' ]
  # Each duration is at least that of what lies in it.
  python3 - "$work/out" <<'PYTHON'
import re, sys
units = {'ns': 1, 'us': 1e3, 'ms': 1e6, 's': 1e9}
inner = None
for line in open(sys.argv[1]):
    found = re.match(r'[ $@*#!+] +([\d.]+)(ns|us|ms|s) +\d+ \| ( *)(.*)', line)
    if not found: continue
    ns = float(found[1]) * units[found[2]]
    if found[4].startswith('leaf'): inner = ns
    elif inner is not None:
        assert ns * 1.01 >= inner, line
        inner = None
PYTHON
}

@test "trees of the kernel's words: as many levels as asked for, and slow calls with their callers" {
  "$PINPRICK" trace -o "$work/out" --tree --depth 2 paths:outer paths:middle paths:leaf -- "$paths"
  [ "$(tree | head -n 3)" = 'outer() {
  middle();
} outer' ]
  cat >"$work/slow.py" <<'PYTHON'
import select, os
for i in range(20): select.select([], [], [], 0.08 if i == 7 else 0)
PYTHON
  "$PINPRICK" trace -o "$work/out" --tree --slower 50ms 'libc:select' 'python3.11:Py_BytesMain' \
    -- /usr/bin/python3.11 -S -E "$work/slow.py" || skip "no python3.11 with symbols"
  [ "$(tree | grep -c select)" -eq 1 ]
  [ "$(tree | head -n 1)" = 'Py_BytesMain() {' ]
  grep -qE '^\* +[0-9.]+ms +[0-9]+ \|   select\(\);$' "$work/out"
}

@test "a part of the tree: what lies in some functions, and not in others" {
  "$PINPRICK" trace -o "$work/out" --tree --in middle --in 'oth?r' paths:outer paths:middle paths:other \
    paths:leaf -- "$paths"
  # Those of outer() and of the thread, and those of other(), three lines each.
  [ "$(tree | grep -c '^middle() {$')" -eq 1040 ]
  [ "$(tree | grep -c '^other() {$')" -eq 500 ]
  [ "$(tree | grep -c '^  leaf();$')" -eq 1540 ]
  [ "$(tree | grep -c .)" -eq $((3 * 1540)) ]
  "$PINPRICK" trace -o "$work/out" --tree --not-in 'mid*' paths:outer paths:middle paths:other \
    paths:leaf -- "$paths"
  [ "$(tree | grep -c middle)" -eq 0 ]
  [ "$(tree | grep -c '^outer();$')" -eq 1000 ]
  [ "$(tree | grep -A 1 '^other() {$' | grep -c '^  leaf();$')" -eq 500 ]
}

@test "calls that longjmp leaves end, and what cannot be timed lies in its caller as a line" {
  "$PINPRICK" trace -o "$work/out" --tree 'jumper:arrives $arg1' jumper:leap jumper:raises \
    libc:_setjmp -- "$TARGETS/jumper" 3
  # setjmp() is called by the program's start, too.
  [ "$(tree | sed -n '/arrives/,$p')" = 'arrives($arg1=0) {
  _setjmp();
  leap();
} arrives
raises();
arrives($arg1=1) {
  _setjmp();
  leap();
} arrives
raises();
arrives($arg1=2) {
  _setjmp();
  leap();
} arrives
raises();' ]
}

@test "calls that exceptions leave end, where nothing around them is probed" {
  "$PINPRICK" trace -o "$work/out" --tree thrower:leaf thrower:middle -- "$TARGETS/thrower" 30
  # However many exceptions there were, calls lie in a few others: those that destructors make.
  [ "$(tree | grep -c 'leaf()')" -ge 100 ]
  [ "$(tree | grep -c '^        ')" -eq 0 ]
}

@test "the records of --json are those of the events" {
  "$PINPRICK" trace --json -o "$work/records" --tree --limit 6 'paths:outer $arg1 $retval' paths:leaf -- "$paths"
  [ "$(field '[(x["function"], x.get("at"), x["values"]) for x in r if x["type"] == "event"][:4]')" = \
    "[('outer', None, {'\$arg1': 0}), ('leaf', None, {}), ('leaf', 'return', {}), ('outer', 'return', {'\$retval': 2})]" ]
}

@test "what cannot be in a tree is said" {
  run "$PINPRICK" trace --tree 'paths:leaf if $retval==1' -- "$paths"
  [ "$status" -eq 2 ]
  [[ "$output" == *"--tree shows a call before it has returned"* ]]
  run "$PINPRICK" trace --tree 'paths:leaf if %rdi==1' -- "$paths"
  [ "$status" -eq 2 ]
  run "$PINPRICK" trace --tree --json --slower 1ms paths:leaf -- "$paths"
  [ "$status" -eq 2 ]
  local option
  for option in --depth=2 --in=leaf --not-in=leaf; do
    run "$PINPRICK" trace "$option" paths:leaf -- "$paths"
    [ "$status" -eq 2 ]
    [[ "$output" == *'go with --tree'* ]]
  done
  run "$PINPRICK" trace --tree --faster 1ms paths:leaf -- "$paths"
  [ "$status" -eq 2 ]
}
