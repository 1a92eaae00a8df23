# Programs with many functions: 70,000 of them (tests/targets/hive.c), of which 500 are called.
load helpers

peak_of() { awk '/^VmHWM:/ { print $2 * 1024 }' "/proc/$1/status"; }

start_hive() {
  start_fed hive
  echo 1 >&7
  until_line "$work/out" '^called$'
}

# interrupted ARGUMENTS...: pinprick, with Ctrl-C pressed before it begins.
interrupted() {
  python3 -c '
import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
signal.signal(signal.SIGINT, signal.default_int_handler)
os.kill(os.getpid(), signal.SIGINT)
os.execv(sys.argv[1], sys.argv[1:])' "$PINPRICK" "$@"
}

@test "a report about functions of which few are called takes no memory for the others" {
  start_hive
  # Where there is an asan: it keeps what was freed.
  ASAN_OPTIONS=quarantine_size_mb=0:thread_local_quarantine_size_kb=0 \
    "$PINPRICK" latency -p $fed -i 0.2 'hive:hive_*' >"$work/table" 2>"$work/notes" 3>&- 7>&- &
  watcher=$!
  ends_with_test $watcher
  until_line "$work/notes" '^armed 70,000 functions'
  local before
  before=$(peak_of $watcher)
  tell 500 called
  # The first report has seen some of the calls or none, the second the rest.
  local reports
  reports=$(grep -c 'without a call' "$work/table" || true)
  patiently eval '[ "$(grep -c "without a call" "$work/table")" -gt '$((reports + 2))' ]'
  echo "$(($(peak_of $watcher) - before)) bytes more"
  (($(peak_of $watcher) - before < 50 << 20))
  end_watch
  # The last report is of all times.
  [ "$(tail -n 502 "$work/table" | grep -cE ' hive_[0-9]+$')" -eq 500 ]
  tail -n 2 "$work/table" | grep -qx '69,500 functions without a call'
  no_trace $fed
}

@test "Ctrl-C ends reports that take longer than their interval" {
  start_hive
  "$PINPRICK" latency -p $fed -i 0.001 'hive:hive_*' >"$work/table" 2>"$work/notes" 3>&- 7>&- &
  watcher=$!
  ends_with_test $watcher
  until_line "$work/table" '^70,000 functions without a call'
  kill -INT $watcher
  patiently eval '! kill -0 $watcher 2>/dev/null'
  wait $watcher
  no_trace $fed
}

@test "--top shows those with the most hits, and what the others add up to" {
  start_hive
  "$PINPRICK" count --top 3 -p $fed 'hive:hive_*' >"$work/table" 2>"$work/notes" 3>&- 7>&- &
  watcher=$!
  ends_with_test $watcher
  until_line "$work/notes" '^armed'
  tell 500 called
  end_watch
  # 500, 499 and 498 calls of 125,250.
  [ "$(awk 'NR > 1 { print $1 }' "$work/table" | paste -sd' ')" = '500 499 498 123,753' ]
  [ "$(awk 'NR > 1 { print $3, $4, $5 }' "$work/table" | paste -sd,)" = \
    'hive_69860  ,hive_69720  ,hive_69580  ,69,997 other functions' ]
}

@test "--top of times has two last lines: for what was called, and for what was not" {
  start_hive
  "$PINPRICK" latency --top 3 -p $fed 'hive:hive_*' >"$work/table" 2>"$work/notes" 3>&- 7>&- &
  watcher=$!
  ends_with_test $watcher
  until_line "$work/notes" '^armed'
  tell 500 called
  end_watch
  [ "$(grep -cE ' hive_[0-9]+$' "$work/table")" -eq 3 ]
  grep -qE '^497 other functions, [0-9,]+ calls$' "$work/table"
  grep -qx '69,500 functions without a call' "$work/table"
}

@test "--top goes with tables" {
  run "$PINPRICK" count --top 3 --json -p $$ main
  [ "$status" -eq 2 ]
  [[ "$output" == *--json* ]]
  run "$PINPRICK" count --top 0 -p $$ main
  [ "$status" -eq 2 ]
}

@test "Ctrl-C while probes are planned ends it, and nothing was changed" {
  start_hive
  run interrupted count --instructions -p $fed 'hive:*'
  [ "$status" -eq 130 ]
  [[ "$output" == *"nothing was changed"* ]]
  no_trace $fed
  [ -z "$(ls "$runtime/pinprick" 2>/dev/null)" ]
  tell 500 called
}

@test "Ctrl-C while probes are planned for a command ends the command, which has done nothing" {
  run interrupted count 'libc:*' -- touch "$work/touched"
  [ "$status" -eq 130 ]
  [ ! -e "$work/touched" ]
}

@test "instructions are named by their function, in the report and in the status" {
  start_hive
  "$PINPRICK" count --instructions -p $fed 'hive:hive_6986*' --json >"$work/records" 3>&- 7>&- &
  watcher=$!
  ends_with_test $watcher
  until_line "$work/records" '"type":"armed"'
  tell 500 called
  local status
  status=$("$PINPRICK" status -p $fed --json)
  end_watch
  [ "$(hits hive_69860)" -eq 500 ]
  [ "$(hits hive_69860+0x7)" -eq 500 ]
  [ "$(hits hive_69861+0x7)" -eq 0 ]
  evaluate '
import json, sys
probes = {p["function"]: p["hits"] for p in json.loads(sys.argv[1])["probes"]}
names = ["hive_6986"] + [f"hive_6986{i}" for i in range(10)]
assert set(probes) == {n + o for n in names for o in ("", "+0x7")}, probes
assert probes["hive_69860+0x7"] == 500, probes' "$status"
}
