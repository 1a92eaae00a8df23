# Hits by the stacks from which they come, on programs that know their own calls.
load helpers

paths="$TARGETS/paths"

# stacks FUNCTION: of the last report, the frames of each stack up to main or the start of a thread,
# without distances, and how often it came; as JSON.
stacks() {
  python3 - "$work/records" "$1" <<'PYTHON'
import collections, json, re, sys
counts = collections.Counter()
for x in map(json.loads, open(sys.argv[1])):
    if x.get('final') and x.get('function') == sys.argv[2] and x.get('key') is not None:
        names = [re.sub(r'\+0x[0-9a-f]+$', '', name) for name in x['key']]
        if 'main' in names: names = names[:names.index('main') + 1]
        counts[','.join(names)] += x.get('hits', x.get('count', 0))
print(json.dumps(sorted(counts.items())))
PYTHON
}

@test "calls are counted by their callers, through frames of all kinds, libraries and signals" {
  for program in paths paths_static; do
    "$PINPRICK" count --json -o "$work/records" --by stack "$program:leaf" -- "$TARGETS/$program"
    python3 - "$work/records" "$program" <<'PYTHON'
import collections, json, re, sys
rows = [x for x in map(json.loads, open(sys.argv[1])) if x['type'] == 'count' and x['final']]
assert all(x['by'] == 'stack' for x in rows), rows
counts = collections.Counter()
for x in rows:
    names = [re.sub(r'\+0x[0-9a-f]+$', '', name) for name in x['key']]
    assert '[unknown]' not in names and '...' not in names, names
    # Only the object is known of what has no symbol.
    ours = [n for n in names if re.match(r'(middle|outer|other|deep|roomy|compare|handle|in_thread|main)$', n)]
    counts[','.join(ours)] += x['hits']
expected = {'middle,outer,main': 1000, 'other,main': 500, ','.join(['deep'] * 21 + ['main']): 7,
            'roomy,main': 300, 'compare,main': 90, 'handle,main': 30, 'middle,in_thread': 40}
assert counts == expected, counts
PYTHON
  done
}

@test "a stack has as many frames as were asked for, and can be one of several keys" {
  "$PINPRICK" count --json -o "$work/records" --by 'stack:1,$arg1%2' --sum '$arg1' paths:leaf -- "$paths"
  python3 - "$work/records" <<'PYTHON'
import collections, json, re, sys
rows = [x for x in map(json.loads, open(sys.argv[1])) if x['type'] == 'count' and x['final']]
counts, sums = collections.Counter(), collections.Counter()
for x in rows:
    (frame,), odd = x['key']
    name = re.sub(r'\+0x[0-9a-f]+$', '', frame)
    counts[name, odd] += x['hits']
    sums[name, odd] += x['sum']
assert counts['other', 0] == counts['other', 1] == 250, counts
assert sums['other', 1] - sums['other', 0] == 250, sums
assert counts['middle', 0] == counts['middle', 1] == 520 and counts['deep', 0] == 7, counts
PYTHON
}

@test "timed callers are seen through, and times and values are told apart by stack" {
  "$PINPRICK" latency --json -o "$work/records" --by stack 'paths:outer' 'paths:middle' 'paths:leaf' -- "$paths"
  [[ "$(stacks leaf)" == *'["middle,outer,main", 1000]'* ]]
  [[ "$(stacks leaf)" == *'["other,main", 500]'* ]]
  [[ "$(stacks middle)" == *'["outer,main", 1000]'* ]]
  [ "$(stacks outer)" = '[["main", 1000]]' ]
  "$PINPRICK" hist --json -o "$work/records" --by stack 'paths:leaf $arg1' -- "$paths"
  python3 - "$work/records" <<'PYTHON'
import json, sys
rows = [x for x in map(json.loads, open(sys.argv[1])) if x['type'] == 'hist' and x['final']]
by = {x['key'][0].split('+')[0]: x for x in rows if len(x['key']) > 1 and 'main' in x['key'][1]}
assert by['other']['count'] == 500 and by['other']['sum'] == 499 * 500 / 2, by
PYTHON
}

@test "each event tells its stack" {
  "$PINPRICK" trace -o "$work/out" --stack 'paths:leaf if $arg1==77' -- "$paths"
  [ "$(grep -c ' leaf()$' "$work/out")" -eq 3 ]
  grep -A3 ' leaf()$' "$work/out" | tr -s ' ' | sed 's/+0x[0-9a-f]*//' >"$work/frames"
  [[ "$(cat "$work/frames")" == *"leaf()
 middle
 outer
 main"* ]]
  "$PINPRICK" trace --json -o "$work/records" --stack=2 'paths:leaf%return $retval from=$stack:1 if $retval==77' -- "$paths"
  [ "$(field '[[len(x["values"]["$stack"]), x["values"]["from"][0].split("+")[0], x["values"]["$retval"]]
        for x in r if x["type"] == "event"]')" = "[[2, 'middle', 77], [2, 'other', 77], [2, 'roomy', 77]]" ]
}

@test "points and instructions tell the function in which they lie, and its callers" {
  "$PINPRICK" count --json -o "$work/records" --by stack usdt:paths:passed -- "$paths"
  [ "$(stacks paths:passed)" = '[["passed,passes,main", 60]]' ]
  # The second instruction.
  local at start
  at=$(objdump -d --no-show-raw-insn "$paths" |
    awk '/<passed>:/ { getline; getline; sub(":", "", $1); print $1; exit }')
  start=$(nm "$paths" | awk '$3 == "passed" { print $1 }')
  "$PINPRICK" count --json -o "$work/records" --by stack "paths:passed+$(printf '0x%x' $((0x$at - 0x$start)))" -- "$paths"
  [ "$(stacks "$(field 'r[-2]["function"]')")" = '[["passed,passes,main", 60]]' ]
}

@test "frames in libraries that were loaded later are known, also while they are called" {
  "$PINPRICK" count --json -o "$work/records" --by stack 'libc:getppid' -- python3 -c '
import ctypes, os, math, _ctypes
for i in range(50): os.getppid()
f = ctypes.CDLL(None).getppid
for i in range(20): f()'
  python3 - "$work/records" <<'PYTHON'
import json, sys
rows = [x for x in map(json.loads, open(sys.argv[1])) if x['type'] == 'count' and x['final'] and x['hits']]
assert sum(x['hits'] for x in rows) == 70, rows
assert all(x['key'][-1] != '[unknown]' for x in rows), rows
through = sum(x['hits'] for x in rows if any('libffi' in f or 'ffi_call' in f for f in x['key']))
assert through == 20, rows
PYTHON
}

@test "gdb finds the same frames" {
  command -v gdb >/dev/null || skip "gdb is not installed"
  cat >"$work/commands" <<'GDB'
set confirm off
set pagination off
set breakpoint pending on
break getppid
run
python
frame = gdb.newest_frame().older()
while frame is not None and frame.is_valid():
    # Where there is debug information, gdb takes inlined functions for frames of their own.
    if frame.type() != gdb.INLINE_FRAME: print('frame:', frame.name() or '?')
    frame = frame.older()
end
kill
GDB
  local program='import os, json; json.dumps({}); (lambda: [os.getppid() for i in range(1)])()'
  gdb -q -batch -nx -x "$work/commands" --args python3 -c "$program" >"$work/said" 2>&1 </dev/null || true
  grep -q '^frame:' "$work/said" || skip "gdb cannot run programs here"
  "$PINPRICK" count --json -o "$work/records" --by stack libc:getppid -- python3 -c "$program"
  python3 - "$work/records" "$work/said" <<'PYTHON'
import json, re, sys
(row,) = [x for x in map(json.loads, open(sys.argv[1])) if x['type'] == 'count' and x['final'] and x['hits']]
known = [line.split()[1] for line in open(sys.argv[2]) if line.startswith('frame:')]
ours = [re.sub(r'\+0x[0-9a-f]+$|\.(lto_priv|constprop|isra|part)\.[0-9]+', '', name) for name in row['key']]
known = [re.sub(r'\.(lto_priv|constprop|isra|part)\.[0-9]+', '', name) for name in known]
assert len(ours) == len(known), (ours, known)
# Without symbols, gdb names the nearest function before, and pinprick the object.
same = [a == b for a, b in zip(ours, known)]
assert sum(same) >= len(same) / 2, (ours, known)
PYTHON
}

@test "the most frequent stacks are printed below their lines" {
  run "$PINPRICK" count --by stack paths:leaf -- "$paths"
  [ "$status" -eq 0 ]
  [[ "$output" =~ \ 1,000\ [^$'\n']*leaf$'\n'\ +middle\+0x[0-9a-f]+$'\n'\ +outer\+0x[0-9a-f]+$'\n'\ +main\+0x ]]
}

@test "a stack is no number, and has at most 63 frames" {
  run "$PINPRICK" count --by 'stack:64' paths:leaf -- "$paths"
  [ "$status" -eq 2 ]
  [[ "$output" == *"'64' is no number of frames; write stack:1 to stack:63"* ]]
  run "$PINPRICK" count --by '$stack+1' paths:leaf -- "$paths"
  [ "$status" -eq 2 ]
  [[ "$output" == *"a stack is no number"* ]]
  run "$PINPRICK" count 'paths:leaf if $stack' -- "$paths"
  [ "$status" -eq 2 ]
}

@test "a file for flame graphs has a line for each stack, the outermost frame first" {
  "$PINPRICK" count --by stack -o "$work/hits.folded" paths:leaf -- "$paths" 2>/dev/null
  [ "$(grep -c ';main;outer;middle;leaf 1000$' "$work/hits.folded")" -eq 1 ]
  [ "$(grep -c ';main;other;leaf 500$' "$work/hits.folded")" -eq 1 ]
  [ "$(awk '{ sum += $NF } END { print sum }' "$work/hits.folded")" -eq 1967 ]
  "$PINPRICK" count --by stack --sum '$arg1' -o "$work/sums.folded" paths:leaf -- "$paths" 2>/dev/null
  [ "$(grep -c ";main;other;leaf $((499 * 500 / 2))\$" "$work/sums.folded")" -eq 1 ]
}

@test "allocations by stack add up to all of them, and none is unknown" {
  local program='import json, re; [json.dumps({str(i): [i] * 9}) for i in range(300)]'
  export PYTHONHASHSEED=0
  "$PINPRICK" count --json -o "$work/records" --sum '$arg1' libc:malloc -- python3 -S -I -c "$program"
  field '[(x["hits"], x["sum"]) for x in r if x["type"] == "count" and x["final"]][0]' >"$work/all"
  "$PINPRICK" count --json -o "$work/records" --by stack --sum '$arg1' libc:malloc -- python3 -S -I -c "$program"
  [ "$(field '(sum(x["hits"] for x in r if x["type"] == "count" and x["final"]),
               sum(x["sum"] for x in r if x["type"] == "count" and x["final"]))')" = "$(cat "$work/all")" ]
  [ "$(field 'sum(x["hits"] for x in r if x["type"] == "count" and x["final"]
                  and (x["key"] is None or x["key"][-1] == "[unknown]"))')" -eq 0 ]
  "$PINPRICK" hist --json -o "$work/records" --by stack:2 'libc:malloc $arg1' -- python3 -S -I -c "$program"
  [ "$(field '(sum(x["count"] for x in r if x["type"] == "hist" and x["final"]),
               int(sum(x["sum"] for x in r if x["type"] == "hist" and x["final"])))')" = "$(cat "$work/all")" ]
}

@test "under a filter of system calls, a walk makes none, and the program goes on" {
  "$PINPRICK" count --json -o "$work/records" --by stack filters:named -- "$TARGETS/filters" later prctl || local status=$?
  [ "$status" -eq 7 ]
  [ "$(field 'sum(x["hits"] for x in r if x["type"] == "count" and x["final"])')" -ge 12000 ]
  start_fed filters first kill
  watch count -p $fed --by stack filters:named
  tell x done
  tell x done
  end_watch
  [ "$(field 'sum(x["hits"] for x in r if x["type"] == "count" and x["final"])')" -eq 200 ]
  end_fed
}

@test "of libraries that come and go, each stack has the names and the rules of those that are there" {
  start_fed dlhost
  watch count -p $fed --by stack libc:getppid
  local library
  for library in one two; do
    # The same address, another function of another size.
    printf '%s\n' '#include <unistd.h>' "__attribute__((noinline)) int in_$library(int n) {" \
      "  volatile char room[$([ $library = one ] && echo 40 || echo 4000)]; room[0] = 1;" \
      '  return (int)getppid() * 0 + n + room[0] - 1; }' \
      "int plugin_main(int n) { return in_$library(n) * 1 + 0; }" >"$work/$library.c"
    gcc -O1 -fno-optimize-sibling-calls -shared -fPIC -o "$work/$library.so" "$work/$library.c"
  done
  for library in one two one; do
    tell "load $work/$library.so" load
    tell "call 5" call
    tell unload unload
  done
  end_watch
  evaluate - "$work/records" <<'PYTHON'
import json, re, sys
rows = [x for x in map(json.loads, open(sys.argv[1])) if x['type'] == 'count' and x['final'] and x['hits']]
stacks = {}
for x in rows:
    names = [re.sub(r'\+0x[0-9a-f]+$', '', name) for name in x['key']]
    assert names[-1] == '_start', names
    stacks[names[0]] = stacks.get(names[0], 0) + x['hits']
assert all(len(x['key']) == 7 for x in rows), rows
# The hit in `two` is named after `one`, if that came to the same place: it is there last.
assert sum(stacks.values()) == 3 and stacks['in_one'] >= 2, stacks
PYTHON
  end_fed
}
