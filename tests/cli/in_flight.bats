# pinprick calls: the timed calls that are in flight, of all owners, without touching the process.
load helpers

now() { evaluate 'import time; print(time.monotonic_ns())'; }

# start_waits THREADS: tests/targets/nested_waits.c; talk to it with `tell` and `answer`.
start_waits() {
  start_fed "${PROGRAM:-nested_waits}" "$1"
  tell ready ready
}

# watch_waits: latency of its functions, by a pinprick in the background, $watcher.
watch_waits() { watch latency -p "$fed" "${PROGRAM:-nested_waits}:serve" descend hold jumps; }

# calls_are_right CALLS: those of the threads are just the ones that the program has noted.
calls_are_right() {
  local before after
  before=$(now)
  "$PINPRICK" calls -p "$fed" --json >"$work/calls"
  after=$(now)
  [ "$(python3 "$BATS_TEST_DIRNAME/in_flight.py" "$TARGETS/${PROGRAM:-nested_waits}" "$work/out" \
    "$work/calls" "$before" "$after")" -eq "$1" ]
}

# of EXPRESSION: of the calls, of which `c` is the list. Prints the value.
of() {
  evaluate '
import json, sys
c = [json.loads(line) for line in open(sys.argv[1])]
print(eval(sys.argv[2]))' "$work/calls" "$1"
}

need_objdump() { command -v objdump >/dev/null || skip "objdump is not installed"; }

setup_file() { bats_require_minimum_version 1.5.0; }

@test "20 threads in nested calls: function, thread, caller and age of each; left by longjmp is none" {
  need_objdump
  start_waits 20
  watch_waits
  tell go waiting
  calls_are_right 70 # 5 times 2, 3, 4 and 5
  [ "$(of 'sum(x["function"] == "jumps" for x in c)')" -eq 0 ]
  tell release released
  end_watch
  end_fed
}

@test "the call in which the first thread reads a line has that thread, and main calls it" {
  start_waits 0
  watch_waits
  tell ready ready
  patiently serves
  end_watch
  end_fed
}
serves() {
  "$PINPRICK" calls -p "$fed" serve --json >"$work/calls"
  [ "$(of '[(x["function"], x["tid"], x["thread"], x["caller"]["name"][:5]) for x in c]')" = \
    "[('serve', $fed, 'nested_waits', 'main+')]" ]
}

@test "it works on a process that is stopped, traced by another, and left by its pinprick" {
  need_objdump
  start_waits 9
  watch_waits
  tell go waiting
  kill -STOP "$fed"
  patiently grep -q '^State:.T' "/proc/$fed/status"
  calls_are_right 30
  kill -KILL "$watcher"
  wait "$watcher" || true
  calls_are_right 30
  kill -CONT "$fed"
  "$TARGETS/tracer" "$fed" >"$work/tracer" 3>&- 7>&- &
  local tracer=$! # until_line starts others
  ends_with_test $tracer
  until_line "$work/tracer" '^traced'
  calls_are_right 30
  kill -KILL $tracer
  wait $tracer || true
  tell release released
  "$PINPRICK" detach -p "$fed"
  end_fed
}

@test "it makes no system call that could stop or change a process" {
  command -v strace >/dev/null || skip "strace is not installed"
  start_waits 3
  watch_waits
  tell go waiting
  strace -f -o "$work/trace" -e trace=ptrace,kill,tkill,tgkill,flock,pwrite64,pwritev,process_vm_writev \
    "$PINPRICK" calls -p "$fed" --no-cache >"$work/text" || skip "strace cannot trace here"
  grep -q 'waiter-2' "$work/text"
  [ "$(grep -cE '^[0-9]+ +(ptrace|kill|tkill|tgkill|flock|pwrite|process_vm)' "$work/trace")" -eq 0 ]
  tell release released
  end_watch
  end_fed
}

@test "each call once, however many time it, with slots and a statistic at once" {
  need_objdump
  start_waits 6
  watch_waits
  local first=$watcher
  watch_waits
  "$PINPRICK" kstats -p "$fed" trace hold
  tell go waiting
  calls_are_right 19 # 2, 3, 4, 5, 2 and 3
  # What a reset forgets is in flight all the same, and as old.
  "$PINPRICK" kstats -p "$fed" RESET hold
  calls_are_right 19 # 2, 3, 4, 5, 2 and 3
  end_watch
  watcher=$first
  end_watch
  "$PINPRICK" calls -p "$fed" --json >"$work/calls" # those of the statistic
  [ "$(of '[x["function"] for x in c]')" = "['hold', 'hold', 'hold', 'hold', 'hold', 'hold']" ]
  tell release released
  "$PINPRICK" kstats -p "$fed" remove hold
  end_fed
}

@test "--older and patterns leave out the others, and a process without any says so" {
  start_waits 2
  watch_waits
  tell go waiting
  "$PINPRICK" calls -p "$fed" --older 1h 2>&1 | grep -q "'1h' is no time, such as 1s or 20ms"
  for older in 1000 1000s 1000000ms 1e12ns; do
    run --separate-stderr "$PINPRICK" calls -p "$fed" --older $older
    [ "$status" -eq 0 ]
    [ -z "$output" ]
    [[ "$stderr" == "$fed (nested_waits): no timed call has been in flight for 1000s or longer" ]]
  done
  "$PINPRICK" calls -p "$fed" --older 1us hold --json >"$work/calls"
  [ "$(of 'sorted(x["thread"] for x in c)')" = "['waiter-0', 'waiter-1']" ]
  "$PINPRICK" calls -p "$fed" 'other:hold' 'nested_waits:des*' --json >"$work/calls"
  [ "$(of 'sorted(x["thread"] for x in c)')" = "['waiter-0', 'waiter-1', 'waiter-1']" ]
  tell release released
  run --separate-stderr "$PINPRICK" calls -p "$fed" hold
  [ "$status" -eq 0 ]
  [ -z "$output" ]
  [[ "$stderr" == "$fed (nested_waits): no timed call is in flight" ]]
  [ -z "$("$PINPRICK" calls -p "$fed" --json hold)" ]
  end_watch
  end_fed
}

@test "where nothing is timed, and where nothing can be known, the status says which" {
  start_waits 0
  run "$PINPRICK" calls
  [ "$status" -eq 3 ]
  [[ "$output" == *"no process has calls or spans that are timed"* ]]
  watch count -p "$fed" hold
  run "$PINPRICK" calls -p "$fed"
  [ "$status" -eq 3 ]
  [[ "$output" == *"nothing times calls in process $fed; \`pinprick latency -p $fed\` times them"* ]]
  end_watch
  run "$PINPRICK" calls -p "$fed" --json
  [ "$status" -eq 3 ]
  [[ "$output" == '{"type":"error","cause":"nothing_matched",'* ]]
  run "$PINPRICK" calls -p 4194305
  [ "$status" -eq 4 ]
  [[ "$output" == *"no such process"* ]]
  # One of several that cannot be looked at does not hide the others.
  watch_waits
  tell ready ready
  patiently serves
  run --separate-stderr "$PINPRICK" calls -p 4194305 -p "$fed" serve
  [ "$status" -eq 4 ]
  [[ "$output" == *"$fed (nested_waits)"*serve* ]]
  [[ "$("$PINPRICK" calls)" == *"$fed (nested_waits)"*serve* ]]
  end_watch
  end_fed
}

@test "another user's process is refused" {
  become_nobody "$PINPRICK"
  start_waits 0
  run "${as_nobody[@]}" "$work/pinprick" calls -p "$fed"
  [ "$status" -eq 4 ]
  [[ "$output" == *"not permitted"* ]]
  end_fed
}

@test "calls that are timed by exits, of two owners, and after one was killed" {
  need_objdump
  [ -n "$clang" ] || skip "clang is not installed"
  "$clang" -O2 -fxray-instrument -fxray-instruction-threshold=1 -pthread -o "$work/nested_waits" \
    "$BATS_TEST_DIRNAME/../targets/nested_waits.c" 2>"$work/warnings" ||
    skip "clang does not take -fxray-instrument here"
  TARGETS=$work
  start_waits 9
  watch_waits
  tell go waiting
  "$PINPRICK" list -p "$fed" hold | grep -q 'timed by exits'
  calls_are_right 30
  [ "$(of 'sum(x["function"] == "jumps" for x in c)')" -eq 0 ]
  kill -STOP "$fed"
  calls_are_right 30
  kill -KILL "$watcher"
  wait "$watcher" || true
  calls_are_right 30
  kill -CONT "$fed"
  tell release released
  watch_waits
  local first=$watcher
  watch_waits
  tell go waiting
  calls_are_right 30
  tell release released
  end_watch
  watcher=$first
  end_watch
  end_fed
}

@test "threads of static programs, with glibc and with musl" {
  need_objdump
  local tried=0
  for PROGRAM in nested_waits_static nested_waits_musl; do
    [ -x "$TARGETS/$PROGRAM" ] || continue
    rm -f "$work/in"
    start_waits 9
    watch_waits
    tell go waiting
    calls_are_right 30
    kill -STOP "$fed"
    calls_are_right 30
    kill -CONT "$fed"
    tell release released
    end_watch
    end_fed
    tried=$((tried + 1))
  done
  unset PROGRAM
  ((tried == 2)) || skip "musl-gcc is not installed; glibc is right"
}

@test "on a stack that the program has made, the thread is not known" {
  start_waits 0
  watch latency -p "$fed" suspends
  tell context switched
  "$PINPRICK" calls -p "$fed" --json >"$work/calls"
  [ "$(of '[(x["function"], x["caller"]["name"].split("+")[0], "tid" in x) for x in c]')" = \
    "[('suspends', 'on_context', False)]" ]
  "$PINPRICK" calls -p "$fed" | grep -qE ' \? +suspends +on_context\+0x'
  end_watch
  end_fed
}

@test "a call whose thread has ended in it is none in flight" {
  start_waits 0
  watch latency -p "$fed" ends
  tell dies died
  [ -z "$("$PINPRICK" calls -p "$fed" --json)" ]
  end_watch
  end_fed
}

@test "a forked child has only the calls of the thread that has forked" {
  start_waits 4
  watch latency -p "$fed" fork_in_call hold descend
  tell go waiting
  child=$(answer fork)
  "$PINPRICK" calls -p "$child" --json >"$work/calls"
  [ "$(of '[(x["function"], x["tid"]) for x in c]')" = "[('fork_in_call', $child)]" ]
  tell release released
  kill -KILL "$child"
  end_watch
  end_fed
}

@test "a span that has started is in flight, on its thread, and has no caller" {
  start_fed spans
  tell "pairs 1" "done"
  watch latency -p "$fed" 'begin..end'
  tell "begins 1" "done"
  "$PINPRICK" calls -p "$fed" --json >"$work/calls"
  [ "$(of '[(x["function"], x["span"], x["tid"], x["thread"], "caller" in x) for x in c]')" = \
    "[('begin..end', True, $fed, 'spans', False)]" ]
  "$PINPRICK" calls -p "$fed" | grep -qE "$fed spans +begin\.\.end +-"
  tell "ends 1" "done"
  [ -z "$("$PINPRICK" calls -p "$fed" --json)" ]
  end_watch
  end_fed
}

@test "calls that a program times itself, alone and beside a pinprick" {
  [ -x "$TARGETS/probed" ] || skip "this build has no program with libpinprick"
  start_fed probed
  [ "$(answer "time wait_for_line")" = placed ]
  echo nap >&7
  patiently naps
  watch latency -p "$fed" nap
  [ "$(answer x)" = napped ]
  echo nap >&7
  patiently naps nap
  [ "$(answer x)" = napped ]
  end_watch
  end_fed
}
# naps [FUNCTION...]: these are in flight, and wait_for_line.
naps() {
  "$PINPRICK" calls -p "$fed" --json >"$work/calls"
  [ "$(of 'sorted((x["function"], x["tid"]) for x in c)')" = \
    "$(python3 -c 'import sys; print(sorted((f, int(sys.argv[1])) for f in sys.argv[2:]))' \
      "$fed" wait_for_line "$@")" ]
}
