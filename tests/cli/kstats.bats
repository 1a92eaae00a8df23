# pinprick kstats: statistics that stay in a process. Most on tests/targets/spans.c, which comes to
# its points as it is told.
load helpers

start_spans() {
  start_fed "${SPANS:-spans}" "${1:-1}"
  spans=$fed
  tell ready "done"
}

kstats() { "$PINPRICK" kstats -p "$spans" "$@"; }

# figure NAME EXPRESSION: of its record `x`.
figure() {
  kstats --json show "$1" >"$work/figure"
  evaluate '
import json, sys
x = [json.loads(line) for line in open(sys.argv[1])]
x = [r for r in x if r["type"] == "statistic"][0]
print(eval(sys.argv[2]))' "$work/figure" "$2"
}

# fails NAME STATUS COMMAND...: with this errno and this exit status, in one line.
fails() {
  local name=$1 expected=$2
  shift 2
  run kstats "$@"
  echo "$output"
  [ "$status" -eq "$expected" ]
  [ "${#lines[@]}" -eq 1 ]
  [[ "$output" == "pinprick: $name: "* ]]
}

@test "a statistic stays when pinprick has ended, and goes when it is removed" {
  start_spans 2
  [ "$(kstats list)" = "" ]
  kstats trace begin
  kstats trace pair bits 5 start begin end end
  [ "$(kstats list)" = "begin GAP-begin pair GAP-pair" ]
  tell "pairs 100000" "done"
  [ "$(figure begin 'x["count"]')" -eq 200000 ]
  [ "$(figure pair '(x["count"], x["bits"], x["repeated_starts"], x["unmatched_ends"], x["missed"])')" = "(200000, 5, 0, 0, 0)" ]
  kstats remove begin
  [ "$(kstats list)" = "pair GAP-pair" ]
  tell "pairs 10" "done"
  [ "$(figure pair 'x["count"]')" -eq 200020 ]
  kstats remove pair
  no_trace "$spans"
  end_fed
}

@test "each command that cannot be done fails with its errno, and changes nothing" {
  start_spans
  kstats trace begin
  fails EEXIST 1 trace begin
  fails ENOENT 3 remove other
  fails ENOENT 3 trace other
  fails ENOENT 3 trace other start begin end other
  fails ENOENT 3 show other
  fails ENOENT 3 STOP other
  fails EINVAL 2 trace other bits 6 start begin
  fails EINVAL 2 trace other start begin end end junk
  fails EINVAL 2 trace other a b c d e f g h i
  fails EINVAL 2 trace other start 'spans:*'
  fails EINVAL 2 frobnicate other
  # Readers of session files refuse such a name, and with it all that is in the process.
  fails EINVAL 2 trace $'a\xc2\x85b' start begin
  [ "$(kstats list)" = "begin GAP-begin" ]
  kstats remove begin
  no_trace "$spans"
  end_fed
}

@test "keywords may be in any case, and a function may be named with its object" {
  start_spans
  kstats TRACE one BITS 4 START spans:begin END spans:end
  kstats Trace spans:turn
  [ "$(kstats List)" = "one GAP-one spans:turn GAP-spans:turn" ]
  kstats Remove spans:turn
  kstats remove one
  end_fed
}


@test "a condition decides which calls a statistic times" {
  start_ticker 2
  spans=$ticker
  kstats trace odd start ticker:tick if '$arg1&1'
  kstats trace even start ticker:tick if '!($arg1 & 1)'
  kstats trace all start ticker:tick
  tell "tick 10000" ticked
  local odd even
  odd=$(figure odd 'x["count"]') even=$(figure even 'x["count"]')
  [ "$(figure all 'x["count"]')" -eq 10000 ]
  [ "$odd" -gt 0 ] && [ "$even" -gt 0 ] && [ $((odd + even)) -eq 10000 ]
  fails EINVAL 2 trace span start ticker:tick end libc:read if '$arg1&1'
  [[ "$output" == *"a span has no condition yet"* ]]
  for name in odd even all; do kstats remove $name; done
  no_trace "$ticker"
  end_ticker
}

@test "static points are named as for the kernel's kstats, and all their sites count" {
  start_fed points
  spans=$fed
  kstats trace work start __tracepoint_begin end points:__tracepoint_end
  kstats trace taking start __tracepoint_shop__order end __tracepoint_till__order
  answer 1281
  [ "$(figure work '(x["count"], x["repeated_starts"], x["unmatched_ends"])')" = "(1281, 0, 0)" ]
  [ "$(figure taking '(x["count"], x["repeated_starts"], x["unmatched_ends"])')" = "(1281, 0, 0)" ]
  kstats remove work
  kstats remove taking
  no_trace "$spans"
}

@test "points of pinprick/tracepoint.h are turned on by statistics, in all files that have them" {
  start_fed shop
  spans=$fed
  kstats trace work start __tracepoint_taken end __tracepoint_shop__sent
  kstats trace between start __tracepoint_sent end __tracepoint_taken
  [ "$(answer 1001)" = "done" ]
  [ "$(figure work '(x["count"], x["repeated_starts"], x["unmatched_ends"])')" = "(1001, 0, 0)" ]
  [ "$(figure between '(x["count"], x["repeated_starts"], x["unmatched_ends"])')" = "(1000, 0, 1)" ]
  kstats remove work
  kstats remove between
  no_trace "$spans"
}

@test "a static point that is none, several, or has no end is an error that says so" {
  start_fed points
  spans=$fed
  fails ENOENT 3 trace other start __tracepoint_nowhere end __tracepoint_end
  [[ "$output" == *"no SDT point matches '__tracepoint_nowhere'"* ]]
  fails EINVAL 2 trace other start __tracepoint_order end __tracepoint_end
  [[ "$output" == *"usdt:points:shop:order, usdt:points:till:order"* ]]
  fails EINVAL 2 trace other start __tracepoint_begin
  [[ "$output" == *"say with \`end\` where the times end"* ]]
  fails EINVAL 2 trace other start usdt:shop:order
  fails EINVAL 2 trace other start __tracepoint_ end __tracepoint_end
  [ "$(kstats list)" = "" ]
  no_trace "$spans"
}

@test "there are no gaps from a point to itself, however it is named" {
  start_fed points
  spans=$fed
  kstats trace turn start __tracepoint_begin end usdt:points:shop:begin
  [ "$(kstats list)" = "turn" ]
  kstats remove turn
}

@test "each start ends a gap, or is counted as one that follows no end" {
  start_spans
  kstats trace pair start begin end end gap thread
  kstats trace begin gap cpu
  tell "begins 3" "done"
  tell "ends 1" "done"
  tell "begins 1" "done"
  tell "ends 1" "done"
  tell "begins 1" "done"
  # The first three starts follow no end, and the other two one each.
  [ "$(figure GAP-pair '(x["count"], x["unmatched_starts"], x["missed"], x["unmatched_ends"])')" = "(2, 3, 0, 0)" ]
  [ "$(figure pair '(x["count"], x["unmatched_starts"], x["repeated_starts"])')" = "(2, 0, 2)" ]
  [ "$(figure GAP-begin 'x["count"] + x["unmatched_starts"]')" -eq 5 ]
  kstats list 2>&1 | grep "GAP-pair: 3 starts ended no gap: .* on the thread"
  kstats show GAP-pair 2>&1 | grep "GAP-pair: 3 starts ended no gap: .* on the thread"
  kstats RESET pair
  [ "$(figure GAP-pair '(x["count"], x["unmatched_starts"])')" = "(0, 0)" ]
  tell "begins 1" "done"
  tell "ends 1" "done"
  tell "begins 1" "done"
  [ "$(figure GAP-pair '(x["count"], x["unmatched_starts"])')" = "(1, 1)" ]
  kstats remove pair
  kstats remove begin
  no_trace "$spans"
  end_fed
}

@test "a statistic says that its library was unloaded, and the library runs on without it" {
  start_fed dlhost
  spans=$fed
  fails ENOENT 3 trace plugin_main
  tell "load $TARGETS/plugin.so" load
  kstats trace plugin_main
  tell "call 10" call
  [ "$(figure plugin_main '(x["count"], x["gone"])')" = "(1, False)" ]
  tell unload unload
  [ "$(figure plugin_main '(x["count"], x["gone"])')" = "(1, True)" ]
  kstats list 2>&1 | grep "plugin_main: its code was unloaded"
  kstats STOP plugin_main
  tell "load $TARGETS/plugin.so" load
  kstats START plugin_main
  tell "call 10" call
  kstats RESET plugin_main
  tell "call 10" call
  [ "$(figure plugin_main '(x["count"], x["gone"])')" = "(0, True)" ]
  # Again, beside what is left of the first.
  kstats trace again start plugin_main
  tell "call 10" call
  [ "$(figure again '(x["count"], x["gone"])')" = "(1, False)" ]
  kstats remove plugin_main
  tell "call 10" call
  [ "$(figure again '(x["count"], x["gone"])')" = "(2, False)" ]
  kstats remove again
  tell "call 10" call
  no_trace "$spans"
}

@test "the text is that of kstats, line by line" {
  start_spans
  kstats trace begin
  tell "pairs 1000" "done"
  kstats show begin >"$work/text"
  evaluate - "$work/text" <<'PYTHON'
import os, re, sys
total = 0
for line in open(sys.argv[1]):
    m = re.fullmatch(r'slot (\d+) +CPU([ S]) (\d+) +count +(\d+) avg +(\d+) p ([01])\.(\d{6})\n', line)
    assert m, line
    slot, is_sum, cpu, count, avg = int(m[1]), m[2] == 'S', int(m[3]), int(m[4]), int(m[5])
    form = 'slot %-3d CPU%s %-4d count %8d avg %8d p %s.%s\n'
    assert line == form % (slot, m[2], cpu, count, avg, m[6], m[7]), line
    if is_sum:
        total += count
        assert cpu == os.sysconf('SC_NPROCESSORS_CONF')
        assert int(m[6] + m[7]) == total * 10**6 // 1000
assert total == 1000, total
PYTHON
  kstats remove begin
  end_fed
}

@test "a stopped statistic counts nothing, and goes on with what it had" {
  start_spans 2
  kstats trace begin
  kstats trace pair start begin end end
  tell "pairs 100" "done"
  kstats STOP begin
  kstats STOP pair
  tell "pairs 1000" "done"
  [ "$(figure begin '(x["count"], x["running"])')" = "(200, False)" ]
  [ "$(figure pair '(x["count"], x["running"])')" = "(200, False)" ]
  [ "$(figure GAP-pair 'x["count"]')" -le 200 ]
  kstats START begin
  kstats START pair
  tell "pairs 10" "done"
  [ "$(figure begin '(x["count"], x["running"])')" = "(220, True)" ]
  [ "$(figure pair '(x["count"], x["repeated_starts"], x["unmatched_ends"])')" = "(220, 0, 0)" ]
  kstats remove begin
  kstats remove pair
  no_trace "$spans"
  end_fed
}

@test "a start from before a stop, or before a reset, has no end after it" {
  start_spans
  kstats trace pair start begin end end
  tell "begins 1" "done"
  kstats STOP pair
  kstats START pair
  tell "ends 1" "done"
  [ "$(figure pair '(x["count"], x["unmatched_ends"])')" = "(0, 1)" ]
  tell "begins 1" "done"
  kstats RESET pair
  [ "$(figure pair '(x["count"], x["unmatched_ends"])')" = "(0, 0)" ]
  tell "ends 1" "done"
  [ "$(figure pair '(x["count"], x["unmatched_ends"])')" = "(0, 1)" ]
  tell "pairs 5" "done"
  [ "$(figure pair '(x["count"], x["unmatched_ends"])')" = "(5, 1)" ]
  kstats remove pair
  end_fed
}

@test "a call that runs during a reset is not recorded, and returns" {
  start_spans
  kstats trace held
  tell held held
  kstats RESET held
  tell go "done"
  [ "$(figure held '(x["count"], x["missed"])')" = "(0, 0)" ]
  tell held held
  tell go "done"
  [ "$(figure held 'x["count"]')" -eq 1 ]
  kstats remove held
  no_trace "$spans"
  end_fed
}

@test "resets follow one another, under load, and no count is lost between them" {
  start_spans 2
  kstats trace pair start begin end end
  for _ in 1 2 3 4 5; do
    echo "pairs 200000" >&7
    kstats RESET pair
    patiently is_idle
    [ "$(figure pair 'x["count"] <= 400000')" = True ]
    kstats RESET pair
    tell "pairs 1000" "done"
    [ "$(figure pair '(x["count"], x["unmatched_ends"])')" = "(2000, 0)" ]
  done
  [ "$(figure GAP-pair '1900 <= x["count"] <= 2000')" = True ]
  kstats remove pair
  end_fed
}
# It has answered all lines: each test tells it `ready` and five times `pairs`, twice.
is_idle() { tell ready "done"; }

@test "spans that end on another CPU, calls in calls, and calls in signal handlers are exact" {
  start_spans
  kstats trace pair start begin end end
  kstats trace held_by
  tell "roam 100" "done"
  [ "$(figure pair '(x["count"], x["repeated_starts"], x["unmatched_ends"])')" = "(100, 0, 0)" ]
  tell "deep 50" "done"
  tell "deep 1" "done"
  [ "$(figure held_by '(x["count"], x["missed"])')" = "(51, 0)" ]
  tell handler "done"
  [ "$(figure pair '(x["count"], x["repeated_starts"], x["unmatched_ends"])')" = "(101, 1, 1)" ]
  kstats remove pair
  kstats remove held_by
  no_trace "$spans"
  end_fed
}

@test "calls that an exception leaves are counted apart" {
  start_fed thrower 300 by-line
  spans=$fed
  kstats trace leaf
  yes | head -n 400 >&7 || true
  exec 7>&-
  wait $spans
  run figure leaf '(x["count"] > 0, x["unwound"] > 0, x["missed"])'
  [ "$output" = "(True, True, 0)" ]
}

@test "a gap lasts from an end to the next start on the same CPU" {
  start_spans
  kstats trace pair start begin end end
  kstats trace turn
  tell "rest 30" "done"
  [ "$(figure GAP-pair '(x["count"], 30e6 * 0.999 <= x["max_ns"] < 20e9)')" = "(1, True)" ]
  tell "turns 10" "done"
  [ "$(figure GAP-turn '(x["count"], x["kind"])')" = "(9, 'gap')" ]
  kstats remove pair
  kstats remove turn
  end_fed
}

@test "a gap of a thread goes with it to another CPU, one of a CPU does not" {
  [ "$(nproc)" -ge 2 ] || skip "has one CPU"
  start_spans
  kstats trace cpu start begin end end gap cpu
  kstats trace thread start begin end end gap thread
  kstats trace none start begin end end gap none
  kstats trace call start begin gap thread
  [ "$(kstats list)" = "cpu GAP-cpu thread GAP-thread none call GAP-call" ]
  tell "move 30" "done"
  [ "$(figure GAP-cpu 'x["count"]')" -eq 0 ]
  [ "$(figure GAP-thread '(x["count"], 30e6 * 0.999 <= x["max_ns"] < 20e9)')" = "(1, True)" ]
  [ "$(figure GAP-call '(x["count"], 30e6 * 0.999 <= x["max_ns"] < 20e9)')" = "(1, True)" ]
  fails ENOENT 3 show GAP-none
  for one in cpu thread none call; do kstats remove $one; done
  no_trace "$spans"
  end_fed
}

@test "two kinds of work have two peaks, each within a slot of its length" {
  start_spans
  kstats trace pair bits 5 start begin end end
  tell "spin 20" "done"
  tell "spin 200" "done"
  # None is shorter than its work, and of a hundred one is hardly longer.
  run figure pair '(x["count"], x["slots"][0][0] >= 19000 and x["slots"][0][2] < 21000,
    sum(s[1] for s in x["slots"] if s[0] + s[0] // 32 >= 200000) >= 100,
    min(s[2] for s in x["slots"] if s[0] + s[0] // 32 >= 200000) < 210000)'
  echo "$output"
  [ "$output" = "(200, True, True, True)" ]
  kstats remove pair
  end_fed
}

@test "X to X times from one to the next, and has no gaps" {
  start_spans
  kstats trace again start turn end turn
  tell "turns 11" "done"
  [ "$(figure again '(x["count"], x["unmatched_ends"])')" = "(10, 1)" ]
  [ "$(kstats list)" = "again" ]
  kstats remove again
  end_fed
}

@test "statistics and other owners share functions, in any order of coming and going" {
  start_spans 2
  kstats trace first_one start begin end end
  watch count -p "$spans" begin end
  kstats trace second_one start begin
  tell "pairs 1000" "done"
  kstats remove first_one
  tell "pairs 1000" "done"
  end_watch
  [ "$(hits begin)" -eq 4000 ]
  tell "pairs 1000" "done"
  [ "$(figure second_one 'x["count"]')" -eq 6000 ]
  watch latency -p "$spans" begin
  kstats remove second_one
  tell "pairs 1000" "done"
  end_watch
  [ "$(field '[x["count"] for x in r if x["type"] == "latency" and x["final"]][0]')" -eq 2000 ]
  no_trace "$spans"
  end_fed
}

@test "status shows a statistic as kept; only detach of the process takes it out" {
  start_spans
  kstats trace begin
  tell "begins 3" "done"
  [ "$("$PINPRICK" status -p "$spans" --json | grep -c '"state":"kept".*"statistic":"begin"')" -eq 1 ]
  [[ "$("$PINPRICK" status -p "$spans")" == *"kept as the statistic begin; "* ]]
  kstats stop begin
  [[ "$("$PINPRICK" status -p "$spans")" == *"kept as the statistic begin, stopped; "* ]]
  [[ "$("$PINPRICK" status -p "$spans")" == *"calls/s"* ]]
  kstats start begin
  # When that was is not known to others, so there is no rate since.
  kstats reset begin
  tell "begins 3" "done"
  [[ "$("$PINPRICK" status -p "$spans")" == *" - calls/s"* ]]
  "$PINPRICK" detach --all
  [ "$(kstats list)" = "begin GAP-begin" ]
  "$PINPRICK" detach -p "$spans"
  no_trace "$spans"
  end_fed
}

@test "keep provides for statistics, and leaves them where they are" {
  start_spans
  kstats trace pair start begin end end
  "$PINPRICK" keep -p "$spans" --json >"$work/kept" 2>&1 3>&- 7>&- &
  keeper=$!
  ends_with_test $keeper
  until_line "$work/kept" '"type":"kept"'
  # More threads than there are entries for. They have ended, and the next ones find room again.
  tell "short 9000" "done"
  has_room() {
    local before
    before=$(figure pair 'x["count"]')
    tell "short 100" "done"
    [ "$(figure pair 'x["count"]')" -eq $((before + 100)) ]
  }
  patiently has_room
  kill -INT $keeper
  wait $keeper
  [ "$(kstats list)" = "pair GAP-pair" ]
  kstats remove pair
  end_fed
}

# loaded_caller: a statistic of getppid, and a library that calls it and was loaded since.
loaded_caller() {
  start_fed dlhost
  spans=$fed
  kstats trace asked start libc:getppid
  tell "load $TARGETS/plugin_caller.so" load
}
asked() { figure asked '(x["count"], x["from_generated"])'; }

@test "calls from a library that was loaded later are timed after the next pinprick came" {
  loaded_caller
  tell "call 5" call
  [ "$(asked)" = "(0, 5)" ]
  watch count -p "$spans" dlhost:call
  tell "call 7" call
  end_watch
  tell "call 1" call
  [ "$(asked)" = "(8, 5)" ]
  kstats trace other start dlhost:call
  kstats remove asked
  kstats remove other
  no_trace "$spans"
  end_fed
}

@test "keep times calls from a library that was loaded later" {
  loaded_caller
  "$PINPRICK" keep -p "$spans" --json >"$work/kept" 2>&1 3>&- 7>&- &
  keeper=$!
  ends_with_test $keeper
  until_line "$work/kept" '"type":"kept"'
  is_timed() {
    tell "call 1" call
    [ "$(figure asked 'x["count"] > 0')" = True ]
  }
  patiently is_timed
  kill -INT $keeper
  wait $keeper
  kstats remove asked
  end_fed
}

@test "the figures can be read when the process has ended, until they are removed" {
  start_spans
  kstats trace begin
  tell "begins 3" "done"
  end_fed
  "$PINPRICK" list --file "$TARGETS/spans" begin >/dev/null  # removes files that are of no use
  [ "$(figure begin 'x["count"]')" -eq 3 ]
  fails ESRCH 4 STOP begin
  kstats remove begin
  fails ESRCH 4 list
  [ -z "$(find "$runtime" -name '*.session')" ]
}

@test "status shows the statistics of ended processes, whatever they have in common" {
  start_spans
  kstats trace fine bits 5 start begin
  kstats trace coarse bits 0 start begin
  tell "begins 3" "done"
  end_fed
  local gone=$spans
  "$PINPRICK" status >"$work/status"
  cat "$work/status"
  [ "$(grep -c "^$gone " "$work/status")" -eq 2 ]
  grep -q "the program has ended; .pinprick kstats. shows the statistic fine, .pinprick detach -p $gone. removes it" \
    "$work/status"
  # How long the program has run is not known.
  [ "$(grep -c '^begin  .* - calls/s' "$work/status")" -eq 2 ]
  "$PINPRICK" status --json >"$work/records"
  [ "$(field "sorted((x['statistic'], x['state'], x['probes'][0]['count']) for x in r if x.get('pid') == $gone)")" = \
    "[('coarse', 'target_gone', 3), ('fine', 'target_gone', 3)]" ]
  kstats remove fine
  kstats remove coarse
}

@test "detach --all leaves the figures of processes that have ended" {
  start_spans
  kstats trace begin
  tell "begins 3" "done"
  watch count -p "$spans" spans:begin
  kill -KILL $watcher
  wait $watcher || true
  end_fed
  run "$PINPRICK" detach --all
  echo "$output"
  [ "$status" -eq 0 ]
  [ "$(figure begin 'x["count"]')" -eq 3 ]
  [ "$(find "$runtime" -name '*.session' | wc -l)" -eq 1 ]
  "$PINPRICK" detach -p "$spans"
  fails ESRCH 4 list
  [ -z "$(find "$runtime" -name '*.session')" ]
}

@test "bits are a number as the kernel reads it" {
  start_spans
  kstats trace begin bits 0x2
  [ "$(figure begin 'x["bits"]')" -eq 2 ]
  kstats remove begin
  end_fed
}

@test "a command that is refused exits as other verbs do for the same cause" {
  start_spans
  # What cannot be timed.
  fails EINVAL 3 trace jumps start libc:setjmp
  run "$PINPRICK" latency -p "$spans" -d 0.1 libc:setjmp
  [ "$status" -eq 3 ]
  # A session file that makes no sense.
  watch count -p "$spans" spans:begin
  kill -KILL $watcher
  wait $watcher || true
  local file
  file=$(find "$runtime" -name '*.session')
  cp "$file" "$work/whole"
  truncate -s 5000 "$file"
  fails EIO 4 trace begin
  [[ "$output" == *"it is truncated; restart the process before you probe it again"* ]]
  run "$PINPRICK" count -p "$spans" -d 0.1 spans:end
  [ "$status" -eq 4 ]
  # It is written to again, and by its own name: the process has it mapped.
  cp "$work/whole" "$file"
  "$PINPRICK" detach -p "$spans"
  # One that no process has is of no use.
  head -c 5000 "$work/whole" >"$file"
  fails EIO 4 trace begin
  [[ "$output" == *"it is truncated, and no process has it mapped; remove it"* ]]
  rm "$file"
  kstats trace begin
  kstats remove begin
  end_fed
}

@test "of a process that has ended and was not waited for, commands fail with ESRCH" {
  sh -c 'exit 0' 3>&- &
  local zombie=$!
  ends_with_test $zombie
  patiently has_ended $zombie
  run "$PINPRICK" kstats -p $zombie trace x start main
  echo "$output"
  [ "$status" -eq 4 ]
  [[ "$output" == "pinprick: ESRCH: "* ]]
}

@test "a program that the process executes instead has no statistics, and can have its own" {
  mkfifo "$work/in"
  sh -c "read line; exec $TARGETS/spans" <"$work/in" >"$work/out" 3>&- &
  spans=$!
  ends_with_test $spans
  exec 7>"$work/in"
  kstats trace begin start libc:read
  echo go >&7
  tell ready "done"
  # Nothing speaks of the old program's.
  [ -z "$(kstats list)" ]
  fails ENOENT 3 STOP begin
  fails ENOENT 3 show begin
  run "$PINPRICK" status -p "$spans"
  echo "$output"
  [[ "$output" == *"the process runs another program now; "* && "$output" != *kept* ]]
  run "$PINPRICK" keep -p "$spans" -d 0.1
  [ "$status" -eq 3 ]
  kstats trace begin
  [ "$(kstats list)" = "begin GAP-begin" ]
  tell "begins 3" "done"
  [ "$(figure begin 'x["count"]')" -eq 3 ]
  kstats remove begin
  no_trace "$spans"
  exec 7>&-
  wait "$spans"
}

@test "calls and spans of a forked child count, and its parent keeps its own" {
  start_spans
  kstats trace pair start begin end end
  kstats trace begin
  tell child "done"
  [ "$(figure pair '(x["count"], x["repeated_starts"], x["unmatched_ends"])')" = "(2, 0, 1)" ]
  [ "$(figure begin 'x["count"]')" -eq 2 ]
  kstats remove begin
  kstats remove pair
  end_fed
}

@test "statistics that a program records are listed, shown, stopped and reset like traced ones" {
  [ -x "$TARGETS/recorder" ] || skip "built with sanitizers: libpinprick is not"
  start_fed recorder
  spans=$fed
  tell "record 100" "done"
  [ "$(kstats list)" = "mine times" ]
  [ "$(figure mine '(x["count"], x["sum_ns"], x["bits"], x["kind"], x["running"])')" = "(100, 4950.0, 5, 'recorded', True)" ]
  kstats STOP mine
  tell "record 100" "done"
  [ "$(figure mine '(x["count"], x["running"])')" = "(100, False)" ]
  kstats START mine
  tell "record 10" "done"
  [ "$(figure mine 'x["count"]')" -eq 110 ]
  tell start "done"
  kstats RESET times
  tell end "done"
  tell end "done"
  tell "pairs 50" "done"
  [ "$(figure times '(x["count"], x["unmatched_ends"])')" = "(50, 1)" ]
  fails EEXIST 1 trace mine start begin
  fails EPERM 4 remove mine
  # Traced ones beside them, also of the program that links the library but has no probes.
  kstats trace begin
  tell "pairs 50" "done"
  [ "$(kstats list)" = "begin GAP-begin mine times" ]
  [ "$(figure begin 'x["count"]')" -eq 50 ]
  kstats remove begin
  tell drop "done"
  [ "$(kstats list)" = "times" ]
  end_fed
  fails ESRCH 4 list
}

@test "top without a pattern shows the statistics, and leaves them as they are" {
  start_spans
  run "$PINPRICK" top -p "$spans" -d 1
  [ "$status" -eq 3 ]
  [[ "$output" == *"there are no statistics to show; give a PATTERN"* ]]
  kstats trace pair start begin end end
  tell "pairs 100" "done"
  run "$PINPRICK" top --idle -p "$spans" -d 0.1 -i 0.1
  [[ "$output" == *" TIMES/S "*" STATISTIC"* ]]
  "$PINPRICK" top -i 0.1 --json >"$work/records" 2>"$work/errors" 3>&- 7>&- &
  top=$!
  ends_with_test $top
  until_line "$work/records" '"function":"pair"'
  tell "pairs 1000" "done"
  has_all() { [ "$(field 'sum(x["count"] for x in r if x["type"] == "latency" and x["function"] == "pair")')" -eq 1000 ]; }
  patiently has_all
  kstats RESET pair
  tell "pairs 10" "done"
  has_more() { [ "$(field 'sum(x["count"] for x in r if x["type"] == "latency" and x["function"] == "pair")')" -eq 1010 ]; }
  patiently has_more
  kill -INT $top
  wait $top
  run "$PINPRICK" top --idle -p "$spans" -d 0.1 -i 0.1
  [ "$status" -eq 0 ]
  [[ "$output" == *"pair"* ]]
  [ "$(figure pair 'x["count"]')" -eq 10 ]
  kstats remove pair
  no_trace "$spans"
  end_fed
}

@test "top shows what a program records, also after resets, and beside a traced statistic of that name" {
  [ -x "$TARGETS/recorder" ] || skip "built with sanitizers: libpinprick is not"
  start_fed recorder
  spans=$fed
  tell "record 1000" "done"
  "$PINPRICK" top -i 0.1 --json >"$work/records" 2>"$work/errors" 3>&- 7>&- &
  top=$!
  ends_with_test $top
  until_line "$work/records" '"function":"mine"'
  # shown: how many times of `mine` it has shown by now.
  shown() { field 'sum(x["count"] for x in r if x["type"] == "latency" and x["function"] == "mine")'; }
  has_shown() { [ "$(shown)" -eq "$1" ]; }
  tell "record 100" "done"
  patiently has_shown 100
  local i
  for i in 1 2 3; do
    kstats RESET mine
    tell "record 10" "done"
    patiently has_shown $((100 + 10 * i))
  done
  kstats STOP mine
  kstats START mine
  tell "record 5" "done"
  patiently has_shown 135
  # The program makes its own again, of the name that is traced meanwhile.
  tell drop "done"
  kstats trace mine start begin gap none
  tell "pairs 7" "done"
  patiently has_shown 142
  tell make "done"
  tell "record 20" "done"
  patiently has_shown 162
  tell "pairs 1" "done"
  patiently has_shown 163
  kill -INT $top
  wait $top
  [ "$(shown)" -eq 163 ]
  kstats remove mine
  end_fed
}

@test "a drawing has the fractions of the times, and no line of kstats" {
  start_spans
  kstats trace pair start begin end end
  tell "pairs 1000" "done"
  kstats --density show pair >"$work/drawing"
  cat "$work/drawing"
  ! grep -q slot "$work/drawing"
  [ "$(awk '{ sub("%", "", $NF); n += $NF } END { print (n > 99.5 && n < 100.5) }' "$work/drawing")" -eq 1 ]
  kstats remove pair
  end_fed
}

@test "another user's statistics are refused by their name" {
  become_nobody "$PINPRICK"
  start_spans
  kstats trace begin
  for command in list show "show begin" "trace turn" "STOP begin" "remove begin"; do
    run "${as_nobody[@]}" "$work/pinprick" kstats -p "$spans" $command
    echo "$command: $status: $output"
    [ "$status" -eq 4 ] || [[ "$status" -eq 3 && "$output" == *ENOENT* ]]
  done
  run "${as_nobody[@]}" "$work/pinprick" kstats -p "$spans" list
  [[ "$output" == "pinprick: EPERM: "* ]]
  [ "$(kstats list)" = "begin GAP-begin" ]
  kstats remove begin
  end_fed
}

@test "a trace that is killed at any moment leaves nothing that is taken for a statistic" {
  start_spans 2
  for delay in 0 0.001 0.002 0.003 0.004 0.005 0.006 0.008 0.01 0.015 0.02 0.03; do
    timeout -s KILL "$delay" "$PINPRICK" kstats -p "$spans" trace pair start begin end end || true
    tell "pairs 100" "done"
    kstats remove pair 2>/dev/null || true
    kstats trace other start begin
    tell "pairs 100" "done"
    [ "$(figure other 'x["count"]')" -eq 200 ]
    kstats remove other
    no_trace "$spans"
  done
  end_fed
}
