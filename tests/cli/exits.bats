# Calls that are timed without slots, by jumps at the function's entry and at all its exits: those that
# clang's XRay has left sleds for, and those of any program with --ends=exits.
load helpers

setup_file() {
  export PLAIN=$BATS_FILE_TMPDIR/plain/own_calls
  mkdir "$BATS_FILE_TMPDIR/plain" "$BATS_FILE_TMPDIR/xray"
  gcc -O2 -pthread -o "$PLAIN" "$BATS_TEST_DIRNAME/../targets/own_calls.c"
  [ -n "$clang" ] || return 0
  export SLEDS=$BATS_FILE_TMPDIR/xray/own_calls
  "$clang" -O2 -fxray-instrument -fxray-instruction-threshold=1 -pthread \
    -o "$SLEDS" "$BATS_TEST_DIRNAME/../targets/own_calls.c" 2>"$BATS_FILE_TMPDIR/warnings" || unset SLEDS
}

functions='leaf several recurse tail jumps waits splits'

# both_ways COMMAND...: runs it with the program that has sleds, if clang can make one, and with one
# that has none.
both_ways() {
  if [ -n "${SLEDS:-}" ]; then
    program=$SLEDS
    ends=()
    "$@"
    rm -f "$work/in" "$work/out"
  else
    echo "# without sleds: clang is not installed, or does not take -fxray-instrument" >&3
  fi
  program=$PLAIN
  ends=(--ends=exits)
  "$@"
}

# start_program: $program, as $fed; talk to it with `tell` and `answer`.
start_program() {
  TARGETS=$(dirname "$program")
  start_fed own_calls
  until_line "$work/out" ready
}

# own_calls: what the program has counted, as `name=calls` in the order of $functions.
own_calls() { answer calls; }

start_sleds() {
  [ -n "${SLEDS:-}" ] || skip "clang is not installed, or does not take -fxray-instrument"
  program=$SLEDS
  ends=()
  start_program
}

# watch_all: latency of all its functions, from here on.
watch_all() {
  # shellcheck disable=SC2086
  watch latency "${ends[@]}" -p "$fed" $functions
}

# figures FIELD: of the last report, as own_calls has them.
figures() {
  local name
  for name in $functions; do
    printf '%s=%s ' "$name" \
      "$(field "[x['$1'] for x in r if x['type'] == 'latency' and x['final'] and x['function'] == '$name'][0]")"
  done
}

# calls_were_counted: each call since watch_all, when the program had not called any: those that
# were left by longjmp, of which there are as many as the program made, are not recorded.
calls_were_counted() {
  local left=$1
  evaluate - "$(figures count)" "$(figures abandoned)" "$(own_calls)" "$left" <<'END_OF_CODE'
import sys
count, abandoned, own = ({k: int(v) for k, v in (p.split('=') for p in a.split())} for a in sys.argv[1:4])
left = int(sys.argv[4])
assert abandoned['jumps'] == left, (abandoned, left)
assert all(v == 0 for k, v in abandoned.items() if k != 'jumps'), abandoned
assert all(count[k] + abandoned[k] == own[k] for k in own), (count, abandoned, own)
END_OF_CODE
  [ "$(figures missed)" = "leaf=0 several=0 recurse=0 tail=0 jumps=0 waits=0 splits=0 " ]
  [ "$(figures from_generated)" = "leaf=0 several=0 recurse=0 tail=0 jumps=0 waits=0 splits=0 " ]
}

timed_by() {
  "$PINPRICK" list "${ends[@]}" --json -f "$1" "${@:2}" >"$work/records"
  field "sorted((x['function'], x.get('timed_by')) for x in r if x['type'] == 'function')"
}

@test "--ends=exits times functions that leave by jumps, too, and says that these end a call" {
  "$PINPRICK" list --ends=exits --json -f "$PLAIN" leaf several recurse tail jumps waits splits main >"$work/records"
  [ "$(field "sorted(x['function'] for x in r if x.get('timed_by') == 'exits')")" = \
    "['jumps', 'leaf', 'main', 'recurse', 'several', 'splits', 'tail', 'waits']" ]
  [[ "$(field "[x['function'] for x in r if x.get('ends_at_tail_jumps')]")" == *"'tail'"* ]]
  run "$PINPRICK" list --ends=exits -f "$PLAIN" tail
  [[ "$output" == *" tail  timed by exits, without what it jumps to"* ]]
  [ "$("$PINPRICK" list --json -f "$PLAIN" leaf | grep -c '"timed_by":"slots"')" -eq 1 ]
}

@test "functions with sleds are timed by exits if they jump to no other" {
  start_sleds
  [ "$(timed_by "$SLEDS" leaf several recurse tail jumps)" = \
    "[('jumps', 'exits'), ('leaf', 'exits'), ('recurse', 'exits'), ('several', 'exits'), ('tail', 'slots')]" ]
  run "$PINPRICK" list -f "$SLEDS" leaf tail
  [[ "$output" == *" leaf  entry site: xray  timed by exits"* ]]
  [[ "$output" == *" tail  entry site: xray"* && "$output" != *"tail  entry site: xray  timed"* ]]
}

@test "counts are the program's own, with several threads, recursion, several returns, and longjmp" {
  both_ways counts_all
}
counts_all() {
  start_program
  watch_all
  tell "call 4 3000" done
  end_watch
  # Of 0..2999, a third.
  calls_were_counted 4000
  no_trace "$fed"
  tell "call 2 100" done
  end_fed
}

@test "a program that is started for it is counted from its first call on" {
  both_ways counts_from_the_start
}
counts_from_the_start() {
  printf 'call 2 1000\ncalls\n' |
    "$PINPRICK" latency "${ends[@]}" --json -o "$work/records" leaf several recurse tail -- \
      "$program" >"$work/out"
  local own
  own=$(grep leaf= "$work/out")
  for name in leaf several recurse tail; do
    [[ "$own" == *"$name=$(field "[x['count'] for x in r if x['type'] == 'latency' and x['final'] and x['function'] == '$name'][0]") "* ]]
  done
}

@test "a function with a probe at its return has slots, and is counted as exactly" {
  [ -n "$clang" ] || skip "clang is not installed"
  [ -n "${SLEDS:-}" ] || skip "clang does not take -fxray-instrument here"
  printf 'call 2 1000\ncalls\n' |
    "$PINPRICK" count --json -o "$work/records" leaf%return 'recurse%return if $latency>=0' \
      'several%return if $latency<0' -- "$SLEDS" >"$work/out"
  local own
  own=$(grep leaf= "$work/out")
  for name in leaf recurse; do
    [[ "$own" == *"$name=$(field "[x['hits'] for x in r if x['type'] == 'count' and x['final'] and x['function'] == '$name'][0]") "* ]]
  done
  [ "$(field "sum(x['hits'] + x['missed'] for x in r if x.get('function') == 'several')")" = 0 ]
}

@test "no slots are in use, and no return address is changed" {
  both_ways uses_no_slots
}
uses_no_slots() {
  start_program
  watch_all
  tell enter inside
  "$PINPRICK" status -p "$fed" --json >"$work/status"
  evaluate 'import json, sys
[one] = [r for r in map(json.loads, open(sys.argv[1])) if r["type"] == "session"]
assert one["slots"]["in_use"] == 0, one' "$work/status"
  tell leave done
  end_watch
  end_fed
}

@test "calls in flight when the probes come are not measured, nor those when they go" {
  both_ways leaves_calls_in_flight
}
leaves_calls_in_flight() {
  start_program
  tell enter inside
  watch_all
  tell leave done
  tell enter inside
  end_watch
  # Without sleds, the innermost of the four has ended with a jump.
  local in_flight=4 ended=0
  if [ "$program" = "$PLAIN" ]; then
    in_flight=3
    ended=1
  fi
  [ "$(field "[x['count'] for x in r if x['type'] == 'latency' and x['final'] and x['function'] == 'waits'][0]")" -eq $ended ]
  [ "$(field "[(x['released'], x['calls_abandoned']) for x in r if x['type'] == 'detached'][0]")" = "($in_flight, 0)" ]
  no_trace "$fed"
  tell leave done
  end_fed
}

@test "a child that is forked inside returns as its parent does, and is counted" {
  both_ways counts_children
}
counts_children() {
  start_program
  watch_all
  tell fork done
  tell fork done
  end_watch
  [[ "$(figures count)" == "leaf=400 "*" splits=4 " ]]
  [[ "$(own_calls)" == "leaf=200 "*" splits=2 " ]]
  [ "$(field "[(x['released'], x['calls_abandoned']) for x in r if x['type'] == 'detached'][0]")" = "(0, 0)" ]
  no_trace "$fed"
  end_fed
}

@test "two at once have all calls, and one goes on when the other has gone" {
  start_sleds
  watch_all
  local first=$watcher
  mv "$work/records" "$work/records.first"
  watch_all
  tell "call 2 500" done
  end_watch
  calls_were_counted 334
  tell "call 2 500" done
  watcher=$first
  end_watch
  mv "$work/records.first" "$work/records"
  calls_were_counted 668
  no_trace "$fed"
  end_fed
}

# calls_were_recorded LEFT: as calls_were_counted, of the calls that have returned.
calls_were_recorded() {
  evaluate - "$(figures count)" "$(own_calls)" "$1" <<'END_OF_CODE'
import sys
count, own = ({k: int(v) for k, v in (p.split('=') for p in a.split())} for a in sys.argv[1:3])
own['jumps'] -= int(sys.argv[3])
assert count == own, (count, own)
END_OF_CODE
  [ "$(figures missed)" = "leaf=0 several=0 recurse=0 tail=0 jumps=0 waits=0 splits=0 " ]
}

@test "one by exits and one by slots have all calls, in either order, and one goes on when the other has gone" {
  local first ways
  program=$PLAIN
  for ways in '--ends=exits --ends=slots' '--ends=slots --ends=exits'; do
    start_program
    ends=("${ways% *}")
    watch_all
    first=$watcher
    mv "$work/records" "$work/records.first"
    ends=("${ways#* }")
    watch_all
    tell "call 2 500" done
    end_watch
    calls_were_recorded 334
    tell "call 2 500" done
    watcher=$first
    end_watch
    mv "$work/records.first" "$work/records"
    calls_were_recorded 668
    no_trace "$fed"
    end_fed
    rm -f "$work/in" "$work/out"
  done
}

@test "where something is probed at a return, calls are timed by slots" {
  start_sleds
  watch count -p "$fed" --instructions several waits
  local first=$watcher
  watch latency -p "$fed" several leaf waits
  tell "call 2 500" done
  tell enter inside
  "$PINPRICK" status -p "$fed" --json >"$work/status"
  evaluate 'import json, sys
slots = [r["slots"]["in_use"] for r in map(json.loads, open(sys.argv[1])) if r["type"] == "session" and "slots" in r]
assert sum(slots) == 4, slots' "$work/status"
  tell leave done
  local own
  own=$(own_calls)
  end_watch
  for name in several leaf; do
    [[ "$own" == *"$name=$(field "[x['count'] for x in r if x['type'] == 'latency' and x['final'] and x['function'] == '$name'][0]") "* ]]
  done
  kill -INT "$first"
  wait "$first"
  no_trace "$fed"
  end_fed
}

@test "a pinprick that was killed is taken out, and the program goes on" {
  both_ways is_taken_out
}
is_taken_out() {
  start_program
  watch_all
  tell "call 2 200" done
  tell enter inside
  kill -KILL "$watcher"
  wait "$watcher" || true
  tell "call 2 200" done
  run "$PINPRICK" detach -p "$fed"
  [ "$status" -eq 0 ]
  [[ "$output" == *"detached cleanly"* ]]
  no_trace "$fed"
  tell leave done
  tell "call 2 200" done
  end_fed
}

@test "one that is killed at any moment leaves a program that is right, and can be taken out" {
  both_ways survives_kills
}
survives_kills() {
  local round killed
  start_program
  for round in 1 2 3 4 5 6 7 8 9 10; do
    echo "call 2 20000" >&7
    # shellcheck disable=SC2086
    "$PINPRICK" latency "${ends[@]}" -p "$fed" -d 0.05 $functions >"$work/killed" 2>&1 3>&- 7>&- &
    killed=$!
    nap "0.0$((round % 10))$((round * 7 % 10))"
    kill -KILL $killed 2>/dev/null || true  # it may have ended
    wait $killed || true
    "$PINPRICK" detach -p "$fed" || true  # there may be nothing
    no_trace "$fed"
    patiently all_done "$round"
  done
  ! grep -q WRONG "$work/out"
  end_fed
}
all_done() { [ "$(grep -c done "$work/out")" -ge "$1" ]; }

@test "a condition decides which calls are timed by exits, and the others end none" {
  program=$PLAIN
  start_program
  watch latency --ends=exits -p "$fed" 'jumps if $arg1%2==0' 'leaf if $arg1<0'
  tell "call 1 3000" done
  end_watch
  # Of 0..2999, every third one is left by longjmp.
  [ "$(field "sorted((x['function'], x['count'], x['abandoned'], x['missed']) for x in r if x['type'] == 'latency' and x['final'])")" = \
    "[('jumps', 1000, 500, 0), ('leaf', 0, 0, 0)]" ]
  no_trace "$fed"
  end_fed
}

@test "calls of generated code are timed by exits, which its runtime cannot see" {
  start_fed generated 1000
  watch latency --ends=exits -p "$fed" generated:visited generated:worked
  echo >&7
  until_line "$work/out" sum
  end_watch
  [ "$(field "sorted((x['function'], x['count'], x['from_generated']) for x in r if x['type'] == 'latency' and x['final'])")" = \
    "[('visited', 1000, 0), ('worked', 1000, 0)]" ]
  no_trace "$fed"
  end_fed
}

@test "it comes and goes while the program calls" {
  both_ways comes_and_goes
}
comes_and_goes() {
  start_program
  echo "call 4 30000" >&7
  for _ in 1 2 3 4 5; do
    watch_all
    end_watch
    text_is_original "$fed"
  done
  patiently grep -q done "$work/out"
  ! grep -q WRONG "$work/out"
  no_trace "$fed"
  end_fed
}

@test "a call that an exception of another object leaves is counted as left" {
  [ -n "$clang" ] && command -v g++ >/dev/null || skip "needs clang and g++"
  cat >"$work/passed.c" <<'END_OF_CODE'
long passed(long (*f)(long), long x) { return f(x) + 1; }
END_OF_CODE
  cat >"$work/program.cc" <<'END_OF_CODE'
#include <cstdio>
extern "C" long passed(long (*f)(long), long x);
int main() {
  long caught = 0, sum = 0;
  std::getchar();
  for (long i = 0; i < 1000; ++i) try {
      sum += passed([](long x) { return x % 4 == 0 ? throw x : x; }, i);
    } catch (long) {
      ++caught;
    }
  std::printf("%ld %ld\n", caught, sum);
  std::fflush(stdout);
  std::getchar();
}
END_OF_CODE
  "$clang" -O2 -fPIC -fxray-instrument -fxray-instruction-threshold=1 -fexceptions -c -o "$work/passed.o" "$work/passed.c"
  "$clang" -shared -o "$work/libpassed.so" "$work/passed.o"
  g++ -O2 -o "$work/program" "$work/program.cc" -L"$work" -lpassed -Wl,-rpath,"$work"
  [ "$(timed_by "$work/libpassed.so" passed)" = "[('passed', 'exits')]" ]
  TARGETS=$work
  start_fed program
  watch latency -p "$fed" passed
  echo >&7
  until_line "$work/out" '^250 375750$'
  end_watch
  [ "$(field "[(x['count'], x['abandoned'], x['missed']) for x in r if x['type'] == 'latency' and x['final']]")" = \
    "[(750, 250, 0)]" ]
  no_trace "$fed"
  end_fed
}

@test "in an object that throws, calls are timed by slots, and exceptions counted as what they are" {
  [ -n "$clangxx" ] || skip "clang++ is not installed"
  cat >"$work/program.cc" <<'END_OF_CODE'
#include <cstdio>
extern "C" __attribute__((noinline)) long throws(long x) {
  if (x % 4 == 0) throw x;
  return x;
}
int main() {
  long caught = 0;
  for (long i = 0; i < 1000; ++i) try {
      throws(i);
    } catch (long) {
      ++caught;
    }
  std::printf("%ld\n", caught);
}
END_OF_CODE
  "$clangxx" -O2 -fxray-instrument -fxray-instruction-threshold=1 -o "$work/program" "$work/program.cc" 2>"$work/warnings" ||
    skip "clang++ does not take -fxray-instrument here"
  [ "$(timed_by "$work/program" throws)" = "[('throws', 'slots')]" ]
  [ "$("$PINPRICK" latency --json -o "$work/records" throws -- "$work/program")" = 250 ]
  [ "$(field "[(x['count'], x['unwound'], x['abandoned']) for x in r if x['type'] == 'latency' and x['final']]")" = \
    "[(750, 250, 0)]" ]
}
