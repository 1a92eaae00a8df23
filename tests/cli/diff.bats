# pinprick diff: two measurements of programs whose calls are known. Their times are not, so what is
# made of times is tested with records that are made from distributions, in tests/compare.
load helpers

setup_file() { bats_require_minimum_version 1.5.0; }

# counted FILE STEADY LEFT RIGHT [OPTION...]: the calls of a run of `compared`, as records.
counted() {
  local file=$1 steady=$2 left=$3 right=$4
  shift 4
  "$PINPRICK" count --json -o "$work/$file" "$@" compared:steady compared:shared compared:left \
    compared:right -- "$TARGETS/compared" "$steady" "$left" "$right"
}

# verdicts: of all rows that `diff --json` has printed to $work/changes.
verdicts() {
  evaluate "import json
rows = [json.loads(line) for line in open('$work/changes')]
print(*sorted(f\"{r['function']}:{r['verdict']}\" for r in rows if r['type'] == 'change'))"
}

@test "two runs of the same program have no change, whatever their PIDs and their speed" {
  counted a 1000 200 300
  counted b 1000 200 300
  run -0 "$PINPRICK" diff "$work/a" "$work/b"
  grep -q 'no change, 4 rows within noise' <<<"$output"
  [ -z "$(grep steady <<<"$output")" ]
  run -0 "$PINPRICK" diff --all "$work/a" "$work/b"
  grep -Eq '^ +1,000 +1,000 +\+0.0%  steady$' <<<"$output"
}

@test "of repeated runs, the function that is called 5% more often is found, and no other" {
  local i
  for i in 1 2; do
    counted "a$i" 1000 200 300
    counted "b$i" 1050 200 300
  done
  "$PINPRICK" diff --json --before "$work/a1" "$work/a2" --after "$work/b1" "$work/b2" >"$work/changes"
  [ "$(verdicts)" = 'left:same right:same shared:same steady:changed' ]
  run -0 "$PINPRICK" diff --before "$work/a1" "$work/a2" --after "$work/b1" "$work/b2"
  grep -Eq '^ +1,000 +1,050 +\+5.0%  steady$' <<<"$output"
  run -0 "$PINPRICK" diff --least 10% --before "$work/a1" "$work/a2" --after "$work/b1" "$work/b2"
  grep -q 'no change' <<<"$output"
}

@test "functions that came and went are told, unless they were never called" {
  "$PINPRICK" count --json -o "$work/a" compared:left compared:shared compared:main -- "$TARGETS/compared" 1 2 3
  "$PINPRICK" count --json -o "$work/b" compared:steady compared:shared compared:main -- "$TARGETS/compared" 1 2 3
  "$PINPRICK" diff --json "$work/a" "$work/b" >"$work/changes"
  [ "$(verdicts)" = 'left:gone main:same shared:same steady:new' ]
  "$PINPRICK" count --json -o "$work/b" compared:left compared:shared compared:main compared:steady -- \
    "$TARGETS/compared" 0 2 3
  run -0 "$PINPRICK" diff "$work/a" "$work/b"
  grep -q 'no change, 3 rows within noise, 1 row without a hit' <<<"$output"
}

# recorded FILE SECOND: the calls of a run of `weighed`, whose second() has this length, as a recording.
recorded() {
  "$PINPRICK" record --tree -o "$work/$1.rec" weighed:first weighed:second weighed:work -- \
    "$TARGETS/weighed" 300 3000 "$2" 100 100 2>"$work/notes"
}

@test "a recording has the calls that latency has, per run of a program" {
  recorded a 4000
  "$PINPRICK" latency --json -o "$work/a.json" weighed:first weighed:second weighed:work -- \
    "$TARGETS/weighed" 300 3000 4000 100 100
  "$PINPRICK" diff --json "$work/a.json" "$work/a.rec" >"$work/changes"
  evaluate "import json
rows = [json.loads(line) for line in open('$work/changes')]
calls = {r['function']: r for r in rows if r['type'] == 'change' and 'measure' not in r}
assert set(calls) == {'first', 'second', 'work'}, calls
for r in calls.values():
    assert r['before']['count'] == r['after']['count'] == r['after']['per_run'] == 300, r
    # Of the mean this would not hold: one switch of the CPU to others is longer than all calls.
    assert 0.5 < r['after']['p50_ns'] / r['before']['p50_ns'] < 2, r
own = {r['function']: r['after'] for r in rows if r.get('measure') == 'self'}
# What lies in work(), but for third(), fourth() and rest(), is told of it. If the thread loses the
# CPU between the end of a call of work() and its event, calls in it may be taken for calls before it.
inner = calls['first']['after']['sum_ns'] + calls['second']['after']['sum_ns']
taken_for_own = own['work']['sum_ns'] - (calls['work']['after']['sum_ns'] - inner)
assert -3 <= taken_for_own < 0.05 * inner, (taken_for_own, inner, own)
assert own['first']['sum_ns'] == calls['first']['after']['sum_ns']
assert rows[-1]['per_run']"
}

@test "of recordings, the function that became slower is told, and by itself no other" {
  local i
  for i in 1 2 3; do
    recorded "a$i" 4000
    recorded "b$i" 8000
  done
  "$PINPRICK" diff --json --before "$work"/a?.rec --after "$work"/b?.rec >"$work/changes"
  evaluate "import json
rows = [json.loads(line) for line in open('$work/changes')]
found = {(r.get('measure', ''), r['function']): r['verdict'] for r in rows if r['type'] == 'change'}
assert found['self', 'second'] == found['', 'second'] == found['', 'work'] == 'changed', found
assert found['self', 'first'] == found['', 'first'] == 'same', found
assert found['self', 'work'] == 'same', found"
  # Twice as long a loop.
  run -0 "$PINPRICK" diff --before "$work"/a?.rec --after "$work"/b?.rec
  grep -q second <<<"$output"
}

@test "functions that one recording alone has are told, and hits of points are counted" {
  "$PINPRICK" record -o "$work/a.rec" weighed:first 'weighed:second%return' -- "$TARGETS/weighed" 20 9 9 9 9 2>"$work/notes"
  "$PINPRICK" record -o "$work/b.rec" weighed:first 'weighed:third%return' -- "$TARGETS/weighed" 20 9 9 9 9 2>"$work/notes"
  "$PINPRICK" diff --json "$work/a.rec" "$work/b.rec" >"$work/changes"
  [ "$(verdicts)" = 'first:same second:gone third:new' ]
  evaluate "import json
rows = {r['function']: r for r in map(json.loads, open('$work/changes')) if r['type'] == 'change'}
assert rows['first']['of'] == 'count' and rows['first']['before']['per_run'] == 20, rows
assert rows['second']['of'] == 'latency' and rows['second']['before']['count'] == 20, rows"
}

@test "seconds of a recording are its intervals, and one that is damaged or has no end is told" {
  start_ticker
  watch_text "$work/recorded" record -p "$ticker" -o "$work/x.rec" 'ticker:tick%return'
  tell "tick 500" ticked
  is_recorded() { [ "$("$PINPRICK" report --json "$work/x.rec" 2>/dev/null | grep -c '"function":"tick"')" -eq 500 ]; }
  patiently is_recorded
  cp "$work/x.rec" "$work/open.rec"
  end_watch
  run -0 --separate-stderr "$PINPRICK" diff --json "$work/x.rec" "$work/open.rec"
  grep -q 'before it wrote the sums' <<<"$output"
  evaluate "import json, sys
total = json.loads(sys.argv[1])
assert not total['per_run'] and total['before']['seconds'] > 0, total" "$(tail -n 1 <<<"$output")"
  head -c 30 "$work/x.rec" >"$work/cut.rec"
  printf 'pinprick recording\n\1' >"$work/old.rec"
  run -1 "$PINPRICK" diff "$work/x.rec" "$work/old.rec"
  grep -q 'was recorded by another version of pinprick' <<<"$output"
  end_ticker
}

@test "rates are compared, as one measurement took longer" {
  redis-server --port 0 --unixsocket "$work/socket" --save '' --appendonly no --dir "$work" \
    >"$work/redis.log" 2>&1 3>&- &
  local server=$!
  ends_with_test $server
  until_line "$work/redis.log" 'Ready to accept|ready to accept'
  # Ten times a second, by a timer.
  "$PINPRICK" count -p $server -d 1 --json -o "$work/a" redis-server:serverCron
  "$PINPRICK" count -p $server -d 2 --json -o "$work/b" redis-server:serverCron
  "$PINPRICK" diff --json "$work/a" "$work/b" >"$work/changes"
  [ "$(verdicts)" = serverCron:same ]
  evaluate "import json
row, total = [json.loads(line) for line in open('$work/changes')]
assert row['after']['count'] > 1.5 * row['before']['count'] > 0, row
assert not total['per_run'] and total['after']['seconds'] > 1.5 * total['before']['seconds'], total"
}

@test "each measure of one run is compared with that of its name" {
  local i
  for i in 1 2; do
    "$PINPRICK" measure --json -o "$work/$i" 'all = count compared:shared' \
      'few = count compared:shared if $arg1<100' 'values = hist compared:left $arg1' \
      'latency compared:right' -- "$TARGETS/compared" 1 $((300 * i)) 50
  done
  "$PINPRICK" diff --json "$work/1" "$work/2" >"$work/changes"
  evaluate "import json
rows = {r['measure']: r for r in map(json.loads, open('$work/changes')) if r['type'] == 'change'}
assert rows['all']['before']['count'] == 350 and rows['all']['after']['count'] == 650, rows['all']
assert rows['all']['verdict'] == 'changed' and rows['few']['verdict'] == 'same', rows
assert rows['few']['if'] == '\$arg1<100' and rows['few']['after']['count'] == 150, rows['few']
assert (rows['values']['before']['mean'], rows['values']['after']['mean']) == (300, 600), rows['values']
assert rows['latency compared:right']['before']['count'] == 1, rows"
}

@test "stacks of two measurements are what flamegraph.pl reads" {
  counted a 10 200 300 --by stack
  counted b 10 200 450 --by stack
  run -0 "$PINPRICK" diff -o "$work/x.folded" "$work/a" "$work/b"
  grep -q 'differential flame graph' <<<"$output"
  # Frames, a blank, and two numbers.
  [ -z "$(grep -Ev '^[^ ].* [0-9]+ [0-9]+$' "$work/x.folded")" ]
  grep -Eq ';main;left;shared 200 200$' "$work/x.folded"
  grep -Eq ';main;right;shared 300 450$' "$work/x.folded"
  grep -Eq ';main;steady 10 10$' "$work/x.folded"
  # Two runs before, and one after: what is before is that of one run.
  run -0 "$PINPRICK" diff -o "$work/x.folded" --before "$work/a" "$work/a" --after "$work/b"
  grep -Eq ';main;right;shared 300 450$' "$work/x.folded"
}

@test "what a writer that was killed has left is compared, and the rest is said" {
  counted a 1000 200 300
  counted b 1000 200 300
  truncate -s -20 "$work/a"
  run -0 --separate-stderr "$PINPRICK" diff "$work/a" "$work/b"
  # shellcheck disable=SC2154
  grep -q 'the last line is cut short' <<<"$stderr"
  start_ticker
  watch count -p "$ticker" -i 0.02 ticker:tick
  tell "tick 40" ticked
  until_line "$work/records" '"hits":40'
  kill -KILL "$watcher"
  wait "$watcher" || true
  run -0 --separate-stderr "$PINPRICK" diff --json "$work/records" "$work/records"
  grep -q 'before it wrote the sums' <<<"$output"
  grep -q '"before":{"count":40,' <<<"$output"
  "$PINPRICK" detach -p "$ticker"
  end_ticker
}

@test "losses are said once for each file" {
  counted a 10 5 5
  # Of steady() and shared(), each of which is called ten times.
  sed 's/"hits":10,/"hits":10,"missed":1234,/' "$work/a" >"$work/b"
  run -0 --separate-stderr "$PINPRICK" diff "$work/a" "$work/b"
  [ "$stderr" = "pinprick: warning: $work/b: its figures lack hits and calls: missed 2,468" ]
}

@test "a file that cannot be compared is refused with its reason" {
  counted good 1 1 1
  local file
  : >"$work/empty"
  echo 'hits per second' >"$work/text"
  echo '{"traceEvents":[]}' >"$work/foreign"
  echo '{"type":"event","pid":1,"version":1}' >"$work/events"
  { cat "$work/good"; echo oops; cat "$work/good"; } >"$work/mixed"
  sed 's/"version":1/"version":9/' "$work/good" >"$work/newer"
  sed 's/"hits":1/"hits":"many"/' "$work/good" >"$work/changed"
  for file in 'missing No such file' 'empty is empty' 'text no file of records' \
    'foreign JSON of another program' "events has no figures" 'mixed others follow' \
    'newer another version' 'changed a field of this record'; do
    run -2 "$PINPRICK" diff "$work/good" "$work/${file%% *}"
    grep -q "^pinprick: .*${file%% *}.*${file#* }" <<<"$output"
    [ "$(wc -l <<<"$output")" -eq 1 ]
  done
  "$PINPRICK" latency --json -o "$work/times" compared:steady -- "$TARGETS/compared" 1 1 1
  run -3 "$PINPRICK" diff "$work/good" "$work/times"
  grep -q 'has figures of count, and .* of latency' <<<"$output"
  run -2 "$PINPRICK" diff -o "$work/x.folded" "$work/good" "$work/good"
  grep -q 'no stacks' <<<"$output"
}

@test "the command line says what goes together" {
  local words
  for words in '' 'a' 'a b c' '--before a' 'a b --before c --after d' '--least 5 a b' '-o x.csv a b' \
    '--json --top 3 a b'; do
    # shellcheck disable=SC2086
    run -2 "$PINPRICK" diff $words
    grep -q 'see `pinprick diff --help`' <<<"$output"
  done
}

@test "a file may come through a pipe, and be the one that is written" {
  counted a 1000 200 300
  counted b 2000 200 300
  run -0 "$PINPRICK" diff <(cat "$work/a") <(cat "$work/b")
  grep -Eq '^ +1,000 +2,000 +x2  steady$' <<<"$output"
  "$PINPRICK" diff -o "$work/b" "$work/a" "$work/b"
  grep -Eq '^ +1,000 +2,000 +x2  steady$' "$work/b"
}
