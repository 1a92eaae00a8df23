# Hits that are counted by a value, on programs that know their own figures.
load helpers

# A Python program that writes to several files, in sizes that it chose, and says how often.
write_program() {
  cat >"$work/program.py" <<'PYTHON'
import collections, json, os, random, sys
random.seed(int(sys.argv[1]) if len(sys.argv) > 1 else 7)
null = os.open('/dev/null', os.O_WRONLY)
for fd in range(100, 110): os.dup2(null, fd)
by_file, by_size = collections.Counter(), collections.Counter()
for i in range(20000):
    to, size = random.choice(range(100, 110)), random.choice((0, 1, 2, 4096, 5000))
    os.write(to, bytes(size))
    by_file[to] += 1
    by_size[size] += to == 105
json.dump({'files': sorted(map(list, by_file.items())), 'sizes': sorted(map(list, by_size.items()))},
          open(os.environ['TALLY'], 'w'))
PYTHON
}

@test "writes of a Python program are counted exactly by file and by size" {
  write_program
  TALLY="$work/tally" "$PINPRICK" count --json -o "$work/records" --by '$arg1' \
    'libc:write if $arg1 in {100..109}' -- python3 "$work/program.py"
  [ "$(keyed write)" = "$(figure_of files)" ]
  TALLY="$work/tally" "$PINPRICK" count --json -o "$work/records" --by '$arg3' \
    'libc:write if $arg1==105' -- python3 "$work/program.py"
  [ "$(keyed write)" = "$(figure_of sizes)" ]
}

@test "several keys make a row for each list of values, of numbers, texts and callers, in status too" {
  write_program
  TALLY="$work/tally" "$PINPRICK" count --json -o "$work/records" --by fd --by count \
    'libc:write if fd in {100..109}' -- python3 "$work/program.py"
  python3 - "$work/records" "$work/tally" <<'PYTHON'
import collections, json, sys
rows = [x for x in map(json.loads, open(sys.argv[1])) if x['type'] == 'count' and x['final'] and x['hits']]
tally = json.load(open(sys.argv[2]))
assert {x['by'] for x in rows} == {'fd,count'}
by_file = collections.Counter()
for x in rows: by_file[x['key'][0]] += x['hits']
assert sorted(map(list, by_file.items())) == tally['files'], by_file
assert sorted([x['key'][1], x['hits']] for x in rows if x['key'][0] == 105) == tally['sizes']
PYTHON
  start_ticker 4
  watch count -p "$ticker" --by '$arg1%3-1, $arg1%2,caller' --sum '$arg1%3' ticker:tick
  tell "tick 60000" ticked
  "$PINPRICK" status -p "$ticker" --json >"$work/status"
  end_watch
  python3 - "$work/records" "$work/status" <<'PYTHON'
import collections, json, sys
rows = [x for x in map(json.loads, open(sys.argv[1])) if x['type'] == 'count' and x['final']]
known = {(a, b): [10000, 10000 * (a + 1)] for a in (-1, 0, 1) for b in (0, 1)}
figures = collections.defaultdict(lambda: [0, 0])
for x in rows:
    figures[tuple(x['key'][:2])][0] += x['hits']
    figures[tuple(x['key'][:2])][1] += x['sum']
assert figures == known, figures
# The main thread calls from elsewhere than the others.
callers = {x['key'][2] for x in rows}
assert len(callers) == 2 and all('+0x' in one for one in callers), callers
probes = json.load(open(sys.argv[2]))['probes']
figures = collections.defaultdict(int)
for p in probes: figures[tuple(p['key'][:2])] += p['hits']
assert figures == {key: hits for key, (hits, _) in known.items()}, figures
PYTHON
  no_trace "$ticker"
  end_ticker
  printf 'a\0b, c\0a\0' >"$work/texts"
  "$PINPRICK" count -o "$work/table" --by '$arg1:string,1+$arg1-$arg1' reads:take -- "$TARGETS/reads" texts "$work/texts" >/dev/null
  grep -E '^ +2 .* a, 1 +take' "$work/table"
  grep -E '^ +1 .* b, c, 1 +take' "$work/table"
}

@test "calls are timed, and values recorded, by several keys of their return" {
  start_ticker
  watch measure -p "$ticker" --by '$arg1,$retval' 'count ticker:recurse%return' 'latency ticker:recurse' \
    'hist ticker:recurse%return $arg1'
  tell "recurse 2" recursed
  end_watch
  [ "$(field "sorted([x['type'], x['key'], x.get('hits', x.get('count'))] for x in r if x.get('final') and x['key'])")" = \
    "$(field "[[t, [n, n + 1], 1] for t in ('count', 'hist', 'latency') for n in range(3)]")" ]
  end_ticker
}

@test "keys are counted exactly on eight threads, at an instruction, and by a computed value" {
  start_ticker 8
  watch count -p "$ticker" --by '$arg1&3' 'ticker:tick'
  tell "tick 4000000" ticked
  end_watch
  [ "$(field "sum(x['hits'] for x in r if x['type'] == 'count' and x['final'])")" = 4000000 ]
  [ "$(field "sorted(x['key'] for x in r if x['type'] == 'count' and x['final'])")" = "[0, 1, 2, 3]" ]
  no_trace "$ticker"
  end_ticker
  # This program ends with 1 if a register has changed.
  "$PINPRICK" count --json -o "$work/records" --by '%rbx' 'registers:here+0xa' -- "$TARGETS/registers"
  [ "$(field "[x['hits'] for x in r if x['type'] == 'count' and x['key'] == 4000]")" = "[1000]" ]
}

@test "two pinpricks count the hits of one function by keys of their own" {
  start_ticker 4
  watch count -p "$ticker" --by '$arg1&1' ticker:tick
  local first=$watcher
  mv "$work/records" "$work/first"
  watch count -p "$ticker" --by '$arg1%3' --sum '$arg1%3' ticker:tick
  tell "tick 400000" ticked
  end_watch
  [ "$(field "sum(x['hits'] for x in r if x['type'] == 'count' and x['final'])")" = 400000 ]
  [ "$(field "all(x['sum'] == x['key'] * x['hits'] for x in r if x['type'] == 'count' and x['final'])")" = True ]
  kill -INT "$first"
  wait "$first"
  mv "$work/first" "$work/records"
  [ "$(field "sum(x['hits'] for x in r if x['type'] == 'count' and x['final'])")" = 400000 ]
  [ "$(field "sorted(x['key'] for x in r if x['type'] == 'count' and x['final'])")" = "[0, 1]" ]
  no_trace "$ticker"
  end_ticker
}

@test "keys that find no room are counted in a row of their own, and none gets lost" {
  start_ticker 2
  watch count -p "$ticker" --keys 64 --by '$arg1&4095' ticker:tick
  tell "tick 1000000" ticked
  end_watch
  [ "$(field "sum(x['hits'] for x in r if x['type'] == 'count' and x['final'])")" = 1000000 ]
  [ "$(field "[x['other'] for x in r if x['type'] == 'count' and x['final'] and x['key'] is None]")" = "[True]" ]
  [ "$(field "len([x for x in r if x['type'] == 'count' and x['final']]) > 64")" = True ]
  end_ticker
}

@test "of intervals, each has what was hit in it, and all together make the whole" {
  start_ticker 2
  watch count -p "$ticker" -i 0.1 --by '$arg1%7' ticker:tick
  for _ in {1..5}; do tell "tick 100000" ticked; done
  end_watch
  python3 - "$work/records" <<'PYTHON'
import collections, json, sys
parts, whole = collections.Counter(), collections.Counter()
for line in open(sys.argv[1]):
    record = json.loads(line)
    if record['type'] != 'count': continue
    (whole if record['final'] else parts)[record['key']] += record['hits']
del parts[None], whole[None]
assert parts == whole and sum(whole.values()) == 500000 and len(whole) == 7, (parts, whole)
PYTHON
  end_ticker
}

@test "numbers are added up exactly, by key and without one" {
  write_program
  local sums='sorted([[k, n * k] for k, n in json.load(open(sys.argv[1]))["sizes"]])'
  TALLY="$work/tally" "$PINPRICK" count --json -o "$work/records" --by '$arg3' --sum '$arg3' \
    'libc:write if $arg1==105' -- python3 "$work/program.py"
  [ "$(field "sorted([x['key'], x['sum']] for x in r if x['type'] == 'count' and x['final'])")" = \
    "$(python3 -c "import json, sys; print($sums)" "$work/tally")" ]
  TALLY="$work/tally" "$PINPRICK" count --json -o "$work/records" --sum '-$arg3' \
    'libc:write if $arg1==105' -- python3 "$work/program.py"
  [ "$(field "[x['sum'] for x in r if x['type'] == 'count' and x['final']]")" = \
    "$(python3 -c "import json, sys; print([-sum(s for k, s in $sums)])" "$work/tally")" ]
  [ "$(field "['key' in x for x in r if x['type'] == 'count']")" = "[False]" ]
}

@test "sums of intervals make the whole, and status has them after a kill" {
  start_ticker 2
  watch count -p "$ticker" -i 0.1 --by '$arg1&1' --sum '2*($arg1&1)-1' ticker:tick
  for _ in {1..3}; do tell "tick 100000" ticked; done
  end_watch
  python3 - "$work/records" <<'PYTHON'
import collections, json, sys
parts, whole, hits = collections.Counter(), collections.Counter(), collections.Counter()
for line in open(sys.argv[1]):
    record = json.loads(line)
    if record['type'] != 'count' or record['key'] is None: continue
    (whole if record['final'] else parts)[record['key']] += record['sum']
    hits[record['key']] += record['hits'] * record['final']
assert parts == whole == {0: -hits[0], 1: hits[1]}, (parts, whole, hits)
PYTHON
  watch count -p "$ticker" --sum 7 ticker:tick
  tell "tick 100000" ticked
  kill -KILL "$watcher"
  wait "$watcher" || true
  "$PINPRICK" status -p "$ticker" --json >"$work/records"
  [ "$(field "[p['sum'] for x in r if x['type'] == 'session' for p in x['probes']]")" = "[700000]" ]
  "$PINPRICK" detach -p "$ticker"
  no_trace "$ticker"
  end_ticker
}

# Python computes the averages, and has their order.
@test "--avg shows averages alone, the greatest first, with signs and decimals" {
  use_program() { "$PINPRICK" count "$@" libc:lseek -- python3 -c 'import os, sys
fds = [os.open("/dev/null", os.O_RDONLY) for _ in range(3)]
for fd, offsets in zip(fds, ([1, 2], [-7], [100, 101, 101])):
    fd, = [os.dup2(fd, 50 + fds.index(fd))]
    for offset in offsets:
        try: os.lseek(fd, offset, os.SEEK_CUR)
        except OSError: pass'; }
  use_program -o "$work/table" --by fd:s32 --avg offset
  grep -q 'hits per second *fd:s32 *avg offset  function' "$work/table"
  ! grep -q sum "$work/table"
  [ "$(awk '$3 >= 50 && $3 < 53 { print $1, $3, $4 }' "$work/table")" = \
    $'3 52 100.67\n2 50 1.50\n1 51 -7' ]
  use_program --json -o "$work/records" --by fd:s32 --avg offset
  [ "$(field "sorted([x['key'], x['sum'], round(x['avg'], 4)] for x in r if x['type'] == 'count' and
    x['final'] and 50 <= (x['key'] or 0) < 53)")" = "[[50, 3, 1.5], [51, -7, -7.0], [52, 302, 100.6667]]" ]
}

# Python keeps the extremes itself.
@test "--min and --max show the least and the greatest value, by key, of the whole and of each interval" {
  cat >"$work/program.py" <<'PYTHON'
import json, os, random, sys
random.seed(11)
null = os.open('/dev/null', os.O_WRONLY)
for fd in (100, 101, 102): os.dup2(null, fd)
known, rounds = {}, []
for _ in range(4):
    sizes = {}
    for _ in range(3000):
        fd = random.choice((100, 101, 102))
        size = random.randrange(2, 3000) * (fd - 99)
        os.write(fd, bytes(size))
        sizes.setdefault(fd, []).append(size)
    for fd, own in sizes.items(): known.setdefault(fd, []).extend(own)
    rounds.append(max(max(own) for own in sizes.values()))
    if len(sys.argv) > 1:
        print('round', flush=True)
        sys.stdin.readline()
json.dump(sorted([fd, -3 + min(own), -3 + max(own)] for fd, own in known.items()), open(os.environ['TALLY'], 'w'))
PYTHON
  for form in '' '%return'; do
    TALLY=$work/tally "$PINPRICK" count --json -o "$work/records" --by fd:s32 --min count:s64-3 \
      --max count:s64-3 --sum count:s64-3 "libc:write$form if fd:s32 in {100..102}" -- \
      python3 "$work/program.py"
    [ "$(field "sorted([x['key'], x['min'], x['max']] for x in r if x.get('final'))")" = \
      "$(python3 -c "import json; print(json.load(open('$work/tally')))")" ]
  done
  # The least is first where it alone is shown, and what has no hit has a dash.
  TALLY=$work/tally "$PINPRICK" count -o "$work/table" --by '$arg1' --min '$arg3' \
    'libc:write if $arg1 in {100..102}' 'libc:gets if $arg1<0' -- python3 "$work/program.py"
  [ "$(awk '$3 >= 100 && $3 < 103 { print $4 }' "$work/table")" = \
    "$(python3 -c "import json
for one in sorted(x[1] + 3 for x in json.load(open('$work/tally'))): print(one)")" ]
  grep -Eq '^ +0 .* -  gets if' "$work/table"
}

# reported HITS: waits until the intervals so far have that many hits.
reported() {
  local deadline=$((SECONDS + 60))
  until [ "$(field "sum(x['hits'] for x in r if x['type'] == 'count')")" = "$1" ]; do
    ((SECONDS < deadline))
    nap
  done
}

@test "floating-point numbers are keys, and are added up, also at returns" {
  cat >"$work/real.c" <<'C'
#include <stdio.h>
__attribute__((noinline)) double half(double x) { __asm__ volatile(""); return x / 2; }
int main(void) {
  for (int i = 0; i < 9; i++) half(i % 3 - 0.5);
  puts("called");
  fflush(stdout);
  return getchar() == 0;
}
C
  gcc -O1 -o "$work/real" "$work/real.c"
  local figures='sorted([x["key"], x["hits"], x["sum"], x["avg"], x["min"], x["max"]] for x in r
                        if x["type"] == "count" and x["final"])'
  "$PINPRICK" count --json -o "$work/records" --by '$farg1*2' --sum '$farg1' --min '$farg1' --max '$farg1' half \
    -- "$work/real" </dev/null >/dev/null
  [ "$(field "$figures")" = '[[-1.0, 3, -1.5, -0.5, -0.5, -0.5], [1.0, 3, 1.5, 0.5, 0.5, 0.5], [3.0, 3, 4.5, 1.5, 1.5, 1.5]]' ]
  "$PINPRICK" count --json -o "$work/records" --by '$fretval>0' --sum '$fretval' --min '$fretval' --max '$fretval' \
    half%return -- "$work/real" </dev/null >/dev/null
  [ "$(field "$figures")" = '[[0, 3, -0.75, -0.25, -0.25, -0.25], [1, 6, 3.0, 0.5, 0.25, 0.75]]' ]
  "$PINPRICK" count -o "$work/t.csv" --by '$farg1' --sum '$farg1' half -- "$work/real" </dev/null >/dev/null
  grep -q ',1.5,3,[^,]*,4.5,' "$work/t.csv"
}

@test "extremes of an interval are those of its own hits, and one without a hit has none" {
  start_ticker 2
  watch count -p "$ticker" -i 0.1 --min '5-$arg1' --max '5-$arg1' ticker:tick
  tell "tick 2000" ticked
  reported 2000
  tell "tick 8" ticked
  reported 2008
  end_watch
  # Each thread calls with 0, 1 and so on.
  [ "$(field "[[x['min'], x['max']] for x in r if x['type'] == 'count' and x['final']]")" = "[[-994, 5]]" ]
  [ "$(field "min(x['min'] for x in r if x['type'] == 'count' and not x['final'] and x['hits'])")" = -994 ]
  [ "$(field "max(x['min'] for x in r if x['type'] == 'count' and not x['final'] and x['hits'])")" = 2 ]
  [ "$(field "all((x['min'] is None) == (x['hits'] == 0) for x in r if x['type'] == 'count')")" = True ]
  end_ticker
}

@test "negative keys are shown as such, and the table names the value" {
  "$PINPRICK" count --by '$arg1:s32' -o "$work/table" 'libc:close' -- python3 -c 'import os
for fd in (-1, -1, -7):
    try: os.close(fd)
    except OSError: pass'
  grep -q 'hits per second *$arg1:s32  function' "$work/table"
  grep -Eq '^ +2 .* -1  close$' "$work/table"
  grep -Eq '^ +1 .* -7  close$' "$work/table"
}

@test "by file, the keys of all processes are added up, and by process each has its own" {
  use_copy registers
  for by in '' '--by pid'; do
    # The text is one word, or two.
    # shellcheck disable=SC2086
    watch count --all "$TARGETS/registers" $by --by '%rbx' here
    "$TARGETS/registers"
    "$TARGETS/registers"
    end_watch
    local rows
    rows=$(field "sorted([x['key'], x['hits']] for x in r if x['type'] == 'count' and x['final']
                         and x['hits'] and (x['pid'] != 0) == bool('$by'))")
    [ "$rows" = "$([ -n "$by" ] && echo '[[4000, 1000], [4000, 1000]]' || echo '[[4000, 2000]]')" ]
  done
}

@test "a child counts into its parent's keys, or with --children=ignore nothing at all" {
  write_program
  cat >"$work/parent.py" <<PYTHON
import os
if os.fork() == 0:
    exec(open('$work/program.py').read())
    os._exit(0)
os.wait()
PYTHON
  TALLY="$work/tally" "$PINPRICK" count --json -o "$work/records" --by '$arg1' \
    'libc:write if $arg1 in {100..109}' -- python3 "$work/parent.py"
  [ "$(keyed write)" = "$(figure_of files)" ]
  TALLY="$work/tally" "$PINPRICK" count --children=ignore --json -o "$work/records" --by '$arg1' \
    'libc:write if $arg1 in {100..109}' -- python3 "$work/parent.py"
  [ "$(keyed write)" = "[]" ]
}

@test "what a controller has counted by keys when it is killed, status still shows" {
  start_ticker 2
  watch count -p "$ticker" --by '$arg1&1' ticker:tick
  tell "tick 100000" ticked
  kill -KILL "$watcher"
  wait "$watcher" || true
  "$PINPRICK" status -p "$ticker" --json >"$work/records"
  [ "$(field "sum(p['hits'] for x in r if x['type'] == 'session' for p in x['probes'])")" = 100000 ]
  [ "$(field "sorted(p['key'] for x in r if x['type'] == 'session' for p in x['probes'])")" = "[0, 1]" ]
  "$PINPRICK" detach -p "$ticker"
  no_trace "$ticker"
  end_ticker
}

@test "arguments of static points are keys" {
  start_fed orders
  watch count -p $fed --by '$arg1%10' usdt:shop:order
  answer 100 >/dev/null
  end_watch
  [ "$(field "sorted([x['key'], x['hits']] for x in r if x['type'] == 'count' and x['final'])")" = \
    "[[0, 10], [1, 10], [2, 10], [3, 10], [4, 10], [5, 10], [6, 10], [7, 10], [8, 10], [9, 10]]" ]
  end_fed
}

@test "what makes no sense with keys is refused with the reason" {
  run "$PINPRICK" count -p $$ --by 'fd,,count' libc:write
  [ "$status" -eq 2 ]
  run "$PINPRICK" count -p $$ --by '$arg1,$arg2,$arg3,$arg4,$arg5' libc:write
  [ "$status" -eq 2 ]
  [[ $output == *'a key has 4 parts at most'* ]]
  run "$PINPRICK" count --by '$arg0' libc:write -- true
  [[ "$output" == *"'libc:write --by \$arg0'"*'these are $arg1, $arg2 and so on'* ]]
  run "$PINPRICK" count --by '' libc:write -- true
  [ "$status" -ne 0 ]
  run "$PINPRICK" latency --by '$arg1' libc:read..libc:write -- true
  [[ "$output" == *"the times of a span have no key yet"* ]]
  run "$PINPRICK" latency --keys 40000 --by '$arg1' libc:write -- true
  [[ "$output" == *"--keys 32768 at most"* ]]
  run "$PINPRICK" count --by '$retval' libc:write -- true
  [[ "$output" == *"is known at the return alone; write 'libc:write%return --by \$retval'"* ]]
  run "$PINPRICK" count --sum 'bytes' libc:write -- true
  [[ "$output" == *"'libc:write --sum bytes'"* ]]
  run "$PINPRICK" count --sum '' libc:write -- true
  [[ "$output" == *"single quotes"* ]]
  for other in --once --trap '--budget 1%'; do
    # The text is one word, or two.
    # shellcheck disable=SC2086
    run "$PINPRICK" count --by '$arg1' $other libc:write -- true
    [ "$status" -ne 0 ]
    [[ "$output" == *"--by"* || "$output" == *"--budget"* ]]
  done
}

@test "results are counted and added up by key at the return, as a Python program knows them" {
  cat >"$work/program.py" <<'PYTHON'
import collections, json, os, random
random.seed(3)
reads, full = os.pipe()
os.set_blocking(full, False)
os.dup2(full, 100)
os.dup2(os.open('/dev/null', os.O_WRONLY), 101)
results, taken = collections.Counter(), collections.Counter()
for i in range(5000):
    to = random.choice((100, 101, 102))
    try: wrote = os.write(to, bytes(random.choice((0, 3, 70000))))
    except OSError: wrote = -1
    results[wrote] += 1
    taken[to] += wrote
    if wrote < 0 and to == 100: os.read(reads, 100000)
json.dump({'results': sorted(map(list, results.items())), 'taken': sorted(map(list, taken.items()))},
          open(os.environ['TALLY'], 'w'))
PYTHON
  TALLY="$work/tally" "$PINPRICK" count --json -o "$work/records" --by '$retval' \
    'libc:write%return if $arg1 in {100..102}' -- python3 "$work/program.py"
  [ "$(keyed write)" = "$(figure_of results)" ]
  TALLY="$work/tally" "$PINPRICK" count --json -o "$work/records" --by '$arg1' --sum '$retval' \
    'libc:write%return if $arg1 in {100..102}' -- python3 "$work/program.py"
  [ "$(field "sorted([x['key'], x['sum']] for x in r if x['type'] == 'count' and x['final'])")" = "$(figure_of taken)" ]
  TALLY="$work/tally" "$PINPRICK" count --json -o "$work/records" --sum '$retval' \
    'libc:write%return if $arg1==101' -- python3 "$work/program.py"
  [ "$(field "[[101, x['sum']] for x in r if x['type'] == 'count' and x['final']]")" = \
    "$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["taken"][1:2])' "$work/tally")" ]
}

@test "calls are timed, and values recorded, by key" {
  write_program
  local own='if $arg1 in {100..109}'
  TALLY="$work/tally" "$PINPRICK" latency --json -o "$work/records" --by '$arg1' "libc:write $own" -- \
    python3 "$work/program.py"
  [ "$(field "sorted([x['key'], x['count']] for x in r if x['type'] == 'latency' and x['final'])")" = "$(figure_of files)" ]
  [ "$(field "{x['by'] for x in r if x['type'] == 'latency'}")" = "{'\$arg1'}" ]
  TALLY="$work/tally" "$PINPRICK" hist --json -o "$work/records" --by '$arg3' 'libc:write $arg3*2 if $arg1==105' -- \
    python3 "$work/program.py"
  [ "$(field "sorted([x['key'], x['count']] for x in r if x['type'] == 'hist' and x['final'])")" = "$(figure_of sizes)" ]
  [ "$(field "all(x['sum'] == 2 * x['key'] * x['count'] for x in r if x['type'] == 'hist' and x['final'])")" = True ]
  TALLY="$work/tally" "$PINPRICK" latency --json -o "$work/records" --by '$retval>100' "libc:write $own" -- \
    python3 "$work/program.py"
  [ "$(field "sorted(x['key'] for x in r if x['type'] == 'latency' and x['final'])")" = "[0, 1]" ]
  [ "$(field "sum(x['count'] for x in r if x['type'] == 'latency' and x['final'])")" = 20000 ]
}

@test "by key, calls and values of eight threads are exact in a table without room, and in status" {
  local verb what record
  start_ticker 8
  for verb in latency hist; do
    [ $verb = hist ] && what='ticker:tick $arg1&7' || what=ticker:tick
    watch $verb -p "$ticker" -i 0.1 --keys 64 --by '$arg1&4095' "$what"
    tell "tick 400000" ticked
    kill -KILL "$watcher"
    wait "$watcher" || true
    "$PINPRICK" status -p "$ticker" --json >"$work/status"
    "$PINPRICK" detach -p "$ticker"
    python3 - "$work/status" <<'PYTHON'
import json, sys
probes = json.load(open(sys.argv[1]))['probes']
assert sum(x['count'] for x in probes) == 400000, sum(x['count'] for x in probes)
assert [x['other'] for x in probes if x['key'] is None] == [True]
assert len(probes) > 64
PYTHON
    watch $verb -p "$ticker" -i 0.1 --by '$arg1&3' "$what"
    for _ in {1..3}; do tell "tick 100000" ticked; done
    end_watch
    python3 - "$work/records" <<'PYTHON'
import collections, json, sys
parts, whole = collections.Counter(), collections.Counter()
for line in open(sys.argv[1]):
    record = json.loads(line)
    if record['type'] not in ('latency', 'hist'): continue
    (whole if record['final'] else parts)[record['key']] += record['count']
del parts[None], whole[None]
assert parts == whole and sum(whole.values()) == 300000 and len(whole) == 4, (parts, whole)
PYTHON
    no_trace "$ticker"
  done
  end_ticker
}

@test "measure shows all its measurements by one key" {
  write_program
  TALLY="$work/tally" "$PINPRICK" measure --json -o "$work/records" --by '$arg1' \
    'count libc:write if $arg1==105' 'latency libc:write%return if $arg1==106' 'hist libc:write $arg3 if $arg1==107' \
    'count libc:write%return if $arg1==108' -- python3 "$work/program.py"
  [ "$(field "sorted([x['key'], x.get('hits', x.get('count'))] for x in r if x.get('final') and x['key'] is not None)")" = \
    "$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["files"][5:9])' "$work/tally")" ]
}

@test "by key, a forked child's calls are timed with its own or its parent's, or not at all" {
  cat >"$work/forks.py" <<'PYTHON'
import os
os.dup2(os.open('/dev/null', os.O_WRONLY), 100)
def write(times):
    for i in range(times): os.write(100, bytes(i % 3))
write(300)
if os.fork() == 0:
    write(600)
    os._exit(0)
os.wait()
PYTHON
  local children expected
  for children in follow count ignore; do
    [ $children = ignore ] && expected=100 || expected=300
    "$PINPRICK" latency --json -o "$work/records" --children=$children --by count 'libc:write if fd==100' -- \
      python3 "$work/forks.py"
    [ "$(field "sorted([x['key'], x['count'], x['missed']] for x in r if x['type'] == 'latency' and x['final'])")" = \
      "[[0, $expected, 0], [1, $expected, 0], [2, $expected, 0]]" ]
  done
}

# A function that calls itself 20 times has 20 calls from there for each one from elsewhere.
@test "calls are told apart by the place that they come from, and timed calls by the same" {
  local verb of times from_itself
  for verb in count latency; do
    for of in steady:descend 'steady:descend%return'; do
      "$PINPRICK" $verb --json -o "$work/records" --by caller "$of" -- "$TARGETS/steady" 2 <<<once
      times=$(field "sum(x.get('hits', x.get('count')) for x in r if x.get('final') and not x['key'].startswith('descend+'))")
      from_itself=$(field "[x.get('hits', x.get('count')) for x in r if x.get('final') and x['key'].startswith('descend+')]")
      [ "$times" -gt 0 ]
      [ "$from_itself" = "[$((20 * times))]" ]
    done
  done
  for of in steady:descend+4 usdt:python:function__entry; do
    run "$PINPRICK" count --by caller "$of" -p $$
    [ "$status" -eq 2 ]
  done
}

@test "where the threads have no numbers yet, they are not told apart" {
  run "$PINPRICK" count --by tid 'ticker_static:tick' -- "$TARGETS/ticker_static" <<<'tick 3'
  [ "$status" -eq 125 ]
  [[ "$output" == *'$tid have to tell its threads apart'* ]]
  [[ "$output" != *ticked* ]]
  # What a pointer leads to is read all the same.
  "$PINPRICK" hist --json -o "$work/records" 'ticker_static:tick *(u8*)%rsp*0+7' -- "$TARGETS/ticker_static" <<<'tick 3'
  [ "$(field "[x['count'] for x in r if x['type'] == 'hist' and x['final']]")" = '[3]' ]
}

@test "threads have a row each, and a condition selects one" {
  start_ticker 8
  local verb figure
  # The main thread and seven others call, 250 times each.
  for verb in count:hits latency:count hist:count; do
    figure=${verb#*:} verb=${verb%:*}
    watch $verb -p "$ticker" --by tid "ticker:tick$([ $verb != hist ] || echo ' $arg1&3')"
    tell "tick 2000" ticked
    end_watch
    [ "$(field "sorted(x['$figure'] for x in r if x.get('final') and 'key' in x)")" = \
      "$(evaluate 'print(8 * [250])')" ]
    [ "$(field "$ticker in [x['key'] for x in r if x.get('final') and 'key' in x]")" = True ]
  done
  watch count -p "$ticker" --by "\$tid-$ticker" "ticker:tick if \$tid==$ticker" ticker:tick%return
  tell "tick 2000" ticked
  end_watch
  [ "$(field "[(x['key'], x['hits']) for x in r if x.get('final') and 'if' in x]")" = '[(0, 250)]' ]
  [ "$(field "sum(x['hits'] for x in r if x.get('final') and 'hits' in x and 'if' not in x)")" = 2000 ]
  watch trace -p "$ticker" 'ticker:tick%return thread=$tid'
  tell "tick 800" ticked
  end_watch
  [ "$(field "[x for x in r if x['type'] == 'event' and x['values']['thread'] != x['tid']]")" = '[]' ]
  [ "$(field "len([x for x in r if x['type'] == 'event'])")" = 800 ]
  end_ticker
}

# Each thread is named after what it does, and ends before the report.
@test "--by comm tells threads apart by their names, also when they have ended" {
  cat >"$work/threads.py" <<'PYTHON'
import ctypes, os, threading
libc = ctypes.CDLL(None)
go, named = threading.Barrier(6), threading.Event()
fd = os.dup2(os.open('/dev/null', os.O_WRONLY), 77)
def work(name, times):
    libc.prctl(15, name.encode())  # PR_SET_NAME
    go.wait()
    named.wait()
    for _ in range(times): os.write(fd, b'x')
jobs = [('reader', 100), ('reader', 20), ('writer', 7), ('a b', 3), ('writer', 1)]
threads = [threading.Thread(target=work, args=job) for job in jobs]
for one in threads: one.start()
go.wait()
print('named', flush=True)
input()
named.set()
for one in threads: one.join()
print('ended', flush=True)
input()
PYTHON
  mkfifo "$work/in"
  python3 -S -I "$work/threads.py" <"$work/in" >"$work/out" &
  local program=$!
  ends_with_test $program
  exec 9>"$work/in"
  until_line "$work/out" named
  watch count -p $program -i 0.1 --by comm 'libc:write if fd==77'
  until_line "$work/records" '"final":false'
  echo >&9
  until_line "$work/out" ended
  end_watch
  [ "$(field "sorted([x['key'], x['hits']] for x in r if x['type'] == 'count' and x['final'])")" = \
    "[['a b', 3], ['reader', 120], ['writer', 8]]" ]
  exec 9>&-
}

@test "comm is a part of a list, and threads of one name have one histogram" {
  cat >"$work/threads.py" <<'PYTHON'
import ctypes, os, threading, time
libc = ctypes.CDLL(None)
fd = os.dup2(os.open('/dev/null', os.O_WRONLY), 77)
end = threading.Barrier(4)
def work(name, length):
    libc.prctl(15, name.encode())
    for _ in range(10): os.write(fd, b'x' * length)
    end.wait()
    input_is_there.wait()
input_is_there = threading.Event()
threads = [threading.Thread(target=work, args=job) for job in [('one', 1), ('one', 2), ('two', 1)]]
for one in threads: one.start()
end.wait()
print('written', flush=True)
input()
input_is_there.set()
PYTHON
  local verb
  for verb in 'count --by count,comm' 'latency --by comm'; do
    mkfifo "$work/in"
    : >"$work/out"
    # shellcheck disable=SC2086
    "$PINPRICK" $verb -i 0.1 --json -o "$work/records" 'libc:write if fd==77' -- python3 -S -I "$work/threads.py" \
      <"$work/in" >"$work/out" &
    local program=$!
    ends_with_test $program
    exec 9>"$work/in"
    until_line "$work/out" written
    # Their names are seen before a report of an interval, but not before each.
    local reports
    reports=$(grep -c '"final":false' "$work/records") || true
    has_reports() { [ "$(grep -c '"final":false' "$work/records")" -gt $((reports + 12)) ]; }
    patiently has_reports
    echo >&9
    exec 9>&-
    wait $program
    rm "$work/in"
    if [ "$verb" = 'latency --by comm' ]; then
      [ "$(field "sorted([x['key'], x['count']] for x in r if x['type'] == 'latency' and x['final'])")" = \
        "[['one', 20], ['two', 10]]" ]
    else
      [ "$(field "sorted([x['key'], x['hits']] for x in r if x['type'] == 'count' and x['final'])")" = \
        "[[[1, 'one'], 10], [[1, 'two'], 10], [[2, 'one'], 10]]" ]
    fi
  done
}
