# pinprick trace --overwrite and --until: what happened before it became interesting.
load helpers

# values [FUNCTION]: what `x` was, in the order of the events.
values() { field "[x['values']['x'] for x in r if x['type'] == 'event' and 'x' in x['values']]"; }
last() { field "[x['$2'] for x in r if x['type'] == 'events' and x['function'] == '$1'][0]"; }
# Is the list of numbers one without gaps, up to the last one?
ends_without_gap_at() {
  field "(lambda v: v == list(range($1 + 1))[-len(v):] and len(v))(
           [x['values']['x'] for x in r if x['type'] == 'event' and 'x' in x['values']])"
}

# On one CPU, the last events are those of its ring.
bind_ticker() { taskset -apc 0 $ticker >/dev/null || skip "cannot bind a process to a CPU here"; }

@test "--overwrite keeps the newest events, with rseq and without, and prints them at the end" {
  local tunables
  for tunables in '' glibc.pthread.rseq=0; do
    GLIBC_TUNABLES=$tunables start_ticker
    bind_ticker
    watch trace -p $ticker --overwrite 64K 'ticker:tick x=$arg1'
    tell "tick 100000" ticked
    ! grep -q '"type":"event"' "$work/records"
    end_watch
    # An event of a value takes 24 bytes; of 64 parts of the ring, the oldest one may be missing.
    local kept
    kept=$(ends_without_gap_at 99999)
    ((kept >= 62 * 1024 / 24 - 60 && kept <= 64 * 1024 / 24))
    [ "$(last tick events)" -eq "$kept" ]
    [ "$(last tick dropped)" -eq 0 ]
    [ "$(last tick older_overwritten)" = True ]
    no_trace $ticker
    end_ticker
    rm "$work/in"
  done
}

@test "what fits is all there, of eight threads, and nothing is said to be overwritten" {
  start_ticker 8
  watch trace -p $ticker --overwrite 8M 'ticker:tick x=$arg1' 'ticker:tick%return y=$retval'
  tell "tick 8000" ticked
  end_watch
  [ "$(field "[(x['events'], 'older_overwritten' in x) for x in r if x['type'] == 'events']")" = \
    "[(8000, False), (8000, False)]" ]
  [ "$(field "len([x for x in r if x['type'] == 'event'])")" -eq 16000 ]
  field "(lambda t: t == sorted(t))([x['time_ns'] // 1000 for x in r if x['type'] == 'event'])" | grep True
  end_ticker
}

@test "--until ends the recording at a hit, whose event is the last one" {
  start_ticker
  bind_ticker
  watch trace -p $ticker --overwrite 64K --until 'ticker:tick at=$arg1 if $arg1==70000' 'ticker:tick x=$arg1'
  tell "tick 100000" ticked
  wait $watcher
  # Two probes are at one place: the other event of that hit may come before the end, or not.
  field "[x for x in r if x['type'] == 'event'][-1]['values']" | grep -F "{'at': 70000}"
  [ "$(field "[x.get('until') for x in r if x['type'] == 'event'].count(True)")" -eq 1 ]
  [ "$(ends_without_gap_at "$(field "[x['values']['x'] for x in r if x['type'] == 'event' and 'x' in x['values']][-1]")")" -gt 1000 ]
  [ "$(values | grep -oE '[0-9]+' | tail -1)" -ge 69999 ]
  no_trace $ticker
  end_ticker
}

@test "--until ends a trace that is printed as it comes, too" {
  start_ticker
  watch trace -p $ticker --until 'ticker:nap if $latency>=20ms' 'ticker:tick x=$arg1' ticker:nap
  tell "tick 3" ticked
  tell "nap 1" napped
  tell "tick 4" ticked
  tell "nap 30" napped
  wait $watcher
  [ "$(field "[x['values'].get('x', x['function']) for x in r if x['type'] == 'event']")" = \
    "[0, 1, 2, 'nap', 0, 1, 2, 3, 'nap', 'nap']" ]
  [ "$(field "[x['latency_ns'] >= 20e6 for x in r if x.get('until')]")" = '[True]' ]
  tell "tick 5" ticked
  no_trace $ticker
  end_ticker
}

@test "--after goes on for a while after the hit" {
  start_ticker
  watch trace -p $ticker --overwrite 1M --until 'ticker:nap' --after 200ms 'ticker:tick x=$arg1'
  tell "tick 3" ticked
  tell "nap 1" napped
  tell "tick 4" ticked
  tell "nap 300" napped
  wait $watcher
  [ "$(field "[x['values'].get('x', 'until') for x in r if x['type'] == 'event'][:4]")" = "[0, 1, 2, 'until']" ]
  # The second one is as far away as the time that was given, or nearly so.
  field "(lambda e: [x['time_ns'] - [y for y in e if 'until' in y][0]['time_ns'] <= 200e6 for x in e])(
           [x for x in r if x['type'] == 'event'])" | grep -v False
  tell ready ready
  end_ticker
}

@test "that the point of --until was not hit is said" {
  start_ticker
  watch trace -p $ticker --overwrite 64K --until 'ticker:recurse' 'ticker:tick x=$arg1'
  tell "tick 3" ticked
  end_watch
  [ "$(values)" = '[0, 1, 2]' ]
  field "[x['message'] for x in r if x['type'] == 'warning']" | grep -F "the point of --until was not hit"
  end_ticker
}

# A slow command is caught with what was before it. Redis has its own list of slow ones.
@test "one slow command of redis among 100,000 is caught, with the tree of its past" {
  redis-server --port 0 --unixsocket "$work/socket" --save '' --appendonly no --dir "$work" \
    --slowlog-log-slower-than 150000 >"$work/redis.log" 2>&1 3>&- &
  redis=$!
  ends_with_test $redis
  until_line "$work/redis.log" 'ready to accept connections'
  "$PINPRICK" trace -p $redis --tree --overwrite 256K --until 'redis-server:call if $latency>150ms' \
    -o "$work/tree" 'redis-server:*Command' redis-server:call 2>"$work/errors" 3>&- &
  local traced=$!
  ends_with_test $traced
  until_line "$work/errors" armed
  redis-benchmark -s "$work/socket" -q -n 100000 -t set >/dev/null 3>&-
  redis-cli -s "$work/socket" eval '
    local function now() local t = redis.call("TIME") return t[1] * 1000000 + t[2] end
    local ends = now() + 400000
    while now() < ends do for i = 1, 100000 do end end' 0
  [ "$(redis-cli -s "$work/socket" slowlog len)" -ge 1 ]
  wait $traced
  tail -n 1 "$work/tree" | grep -E 'until call\(\) <'
  [ "$(grep -c 'until call' "$work/tree")" -eq 1 ]
  grep -q '} evalCommand' "$work/tree"
  [ "$(grep -c ' setCommand' "$work/tree")" -gt 100 ]
  no_trace $redis
}

@test "a hit of --until in one of several processes ends the recording, although that one has ended, too" {
  mkfifo "$work/idle"
  "$TARGETS/ticker" <"$work/idle" >/dev/null 3>&- &
  local other=$!
  ends_with_test $other
  exec 8>"$work/idle"
  start_fed ticker 1
  watch trace -p $other -p $fed --overwrite 64K --until 'ticker:recurse' 'ticker:tick x=$arg1'
  both_armed() { [ "$(grep -c '"type":"armed"' "$work/records")" -eq 2 ]; }
  patiently both_armed
  echo "recurse 0" >&7
  exec 7>&-
  wait $watcher
  field "[x['pid'] for x in r if x.get('until')]" | grep -Fx "[$fed]"
  no_trace $other
  exec 8>&-
}

@test "the events of a process that has ended and those of others are in order" {
  use_copy ticker
  mkfifo "$work/keep"
  "$TARGETS/ticker" <"$work/keep" >"$work/kept" 3>&- &
  local kept=$!
  ends_with_test $kept
  exec 8>"$work/keep"
  "$PINPRICK" trace --all "$TARGETS/ticker" --overwrite 1M --json -o "$work/records" 'ticker:tick x=$arg1' 3>&- 7>&- 8>&- &
  watcher=$!
  ends_with_test $watcher
  until_line "$work/records" '"type":"files_armed"'
  echo "tick 10" >&8
  until_line "$work/kept" ticked
  "$TARGETS/ticker" <<<"tick 20" | grep -x ticked
  echo "tick 30" >&8
  has_ticked_twice() { [ "$(grep -c ticked "$work/kept")" -eq 2 ]; }
  patiently has_ticked_twice
  end_watch
  [ "$(field "len([x for x in r if x['type'] == 'event'])")" -ge 40 ]
  field "(lambda t: t == sorted(t))([x['time_ns'] // 1000 for x in r if x['type'] == 'event'])" | grep True
  exec 8>&-
}

@test "what makes no sense with --overwrite and --until is said" {
  run "$PINPRICK" trace -p $$ --after 1s bash:f
  [ $status -eq 2 ]
  [[ $output == *"--after goes with --until POINT"* ]]
  run "$PINPRICK" trace -p $$ --overwrite 1M --limit 3 bash:f
  [ $status -eq 2 ]
  [[ $output == *"--limit would stop after the first ones"* ]]
  run "$PINPRICK" trace -p $$ --until 'bash:f..bash:g' bash:f
  [ $status -eq 2 ]
  [[ $output == *"--until is a hit of one point"* ]]
  run "$PINPRICK" trace -p $$ -x 'f*' --until 'bash:fun if $arg1==1' bash:g
  [ $status -eq 2 ]
  [[ $output == *"--exclude leaves out 'bash:fun if \$arg1==1', which is to end the trace"* ]]
  run "$PINPRICK" trace -p $$ --overwrite 2G bash:f
  [ $status -eq 2 ]
  [[ $output == *"'2G' is no size up to 256M"* ]]
}
