# Calls that are left by exceptions, by cancellation and by the end of their thread: what the program
# does is what it does without probes, and each is counted for what it was.
load helpers

# probed PROGRAM PATTERN: what it prints while these functions are timed.
probed() {
  "$PINPRICK" latency --allow-missing --json -o "$work/records" "$2" -- "$TARGETS/$1" 300 \
    2>"$work/errors"
}

@test "exceptions, cancellation and pthread_exit pass through the timed functions of a program and its libraries" {
  local pattern
  "$TARGETS/thrower" 300 >"$work/bare"
  grep -q 'trace whole' "$work/bare"
  for pattern in 'thrower:*' 'libstdc++:*' '*'; do
    probed thrower "$pattern" >"$work/out"
    cmp "$work/bare" "$work/out"
    [ "$(field 'sum(x["unwound"] for x in r if x["type"] == "latency")')" -gt 0 ]
    ! grep -q '"type":"warning"' "$work/records"
  done
}

@test "exceptions pass where the unwinder is linked statically" {
  local program
  for program in thrower_static thrower_static_libgcc; do
    "$TARGETS/$program" 300 >"$work/bare"
    probed $program "$program:*" >"$work/out"
    # What backtrace() loads after arming, a second unwinder, knows nothing of slots.
    cmp <(sed 's/, trace.*//' "$work/bare") <(sed 's/, trace.*//' "$work/out")
    [ "$(field 'sum(x["unwound"] for x in r if x["type"] == "latency")')" -gt 0 ]
    ! grep -q '"type":"warning"' "$work/records"
  done
}

@test "calls that were left are counted apart from those that returned, each once" {
  probed thrower 'thrower:*' >"$work/out"
  python3 - "$work/records" <<'PYTHON'
import collections, json, sys
returned, left = collections.Counter(), collections.Counter()

def leaf(x):
    done = x % 3 == 2
    (returned if done else left)['leaf'] += 1
    return done
def through(name, done):
    (returned if done else left)[name] += 1
    return done
def middle(x): return through('middle', leaf(x))
def rethrows(x): return through('rethrows', middle(x))
def catches(x):
    rethrows(x)
    through('catches', True)

for i in range(300):
    for j in range(6): catches(i + j)
    through('nested', middle(3 * i))
    catches(i)
    left['deep'] += i % 50 + 1
left['waits'] = 20
for x in map(json.loads, open(sys.argv[1])):
    name = x.get('function')
    if x['type'] != 'latency' or not x['final'] or not (name in returned or name in left): continue
    assert x['missed'] == 0, x
    assert (x['count'], x['unwound']) == (returned[name], left[name]), \
        (name, x['count'], x['unwound'], returned[name], left[name])
    returned.pop(name, None), left.pop(name, None)
assert not returned and not left, (returned, left)
PYTHON
}

@test "slots come back from calls that were left" {
  "$TARGETS/thrower" 1000 >"$work/bare"
  "$PINPRICK" latency --slots 128 --allow-missing --json -o "$work/records" 'thrower:*' -- \
    "$TARGETS/thrower" 1000 >"$work/out" 2>"$work/errors"
  cmp "$work/bare" "$work/out"
  [ "$(field 'sum(x["unwound"] for x in r if x["type"] == "latency")')" -gt 20000 ]
  [ "$(field 'sum(x["missed"] for x in r if x["type"] == "latency")')" -eq 0 ]
}

# start_thrower: a round for each line it is sent, and a line of output for each round.
start_thrower() {
  mkfifo "$work/in"
  "$TARGETS/thrower" 1000000 lines <"$work/in" >"$work/out" 3>&- &
  thrower=$!
  ends_with_test $thrower
  exec 7>"$work/in"
  echo >&7
  until_line "$work/out" '^-?[0-9]+ [0-9]+$'
}

# What it has printed of its rounds is what it prints without probes.
threw_right() {
  local rounds
  grep -E '^-?[0-9]+ [0-9]+$' "$work/out" >"$work/probed"
  rounds=$(wc -l <"$work/probed")
  (yes '' || true) | "$TARGETS/thrower" "$rounds" lines | head -n "$rounds" >"$work/bare"
  cmp "$work/bare" "$work/probed"
}

@test "attaching and detaching while exceptions fly leaves the program right, and nothing behind" {
  start_thrower
  (yes '' || true) >&7 3>&- &
  ends_with_test $!
  # Timed as well: what the unwinder calls itself, on its way.
  for _ in $(seq 30); do
    "$PINPRICK" latency -p $thrower --allow-missing -d 0.001 'thrower:*' 'libstdc++:__gxx_p*' \
      'libstdc++:*do_catch*' 'libstdc++:__cxa*' 'libc:*strlen*' 'libc:*memset*' >"$work/table" 2>&1
    "$PINPRICK" detach -p $thrower >/dev/null 2>&1 || true
  done
  kill -0 $thrower
  no_trace $thrower
  exec 7>&-
  kill $thrower
  wait $thrower || true
  threw_right
}

@test "an orphaned session goes on letting exceptions through, and detach puts the unwinder back" {
  start_thrower
  watch latency -p $thrower --allow-missing 'thrower:*'
  kill -KILL $watcher
  wait $watcher || true
  local round
  for round in $(seq 2 40); do echo >&7; done
  until (($(wc -l <"$work/out") >= 40)); do
    kill -0 $thrower
    read -rt 0.01 <> <(:) || true
  done
  "$PINPRICK" status -p $thrower --json >"$work/records"
  [ "$(field 'sum(p["unwound"] for x in r for p in x["probes"])')" -gt 100 ]
  "$PINPRICK" detach -p $thrower
  no_trace $thrower
  exec 7>&-
  wait $thrower
  threw_right
}

@test "a program whose unwinder cannot be found is warned of, others are not" {
  run "$PINPRICK" latency 'thrower_static_stripped:*' --allow-missing -- \
    "$TARGETS/thrower_static_stripped" 0
  [[ "$output" == *"can unwind its stack, but not with libgcc's unwinder"* ]]
  run "$PINPRICK" latency 'ticker_static:tick' -- "$TARGETS/ticker_static" </dev/null
  [[ "$output" != *"can unwind"* ]]
}

# What backtrace(), pthread_cancel and pthread_exit load when they are first needed.
loads_libgcc_late() {
  local out=$work/out.$1
  mkfifo "$work/in.$1"
  "$TARGETS/$1" <"$work/in.$1" >"$out" 3>&- &
  local canceller=$!
  ends_with_test $canceller
  exec 7>"$work/in.$1"
  patiently has_begun $canceller "$TARGETS/$1"
  watch latency -p $canceller --allow-missing "$1:*" 'libc:*'
  echo >&7
  until_line "$out" 'cleaned 5555, trace whole$'
  end_watch || true
  text_is_original $canceller
  echo >&7
  until_line "$out" 'cleaned 11110, trace whole$'
  exec 7>&-
  wait $canceller
}

@test "cancellation and backtraces pass the timed functions of programs that load libgcc later" {
  local program
  for program in canceller canceller_with_cleanup; do
    loads_libgcc_late $program
  done
}

@test "gdb's backtrace leads through timed calls, with the file that status writes" {
  command -v gdb >/dev/null || skip "gdb is not installed"
  start_ticker
  watch latency --allow-missing -p "$ticker" 'ticker:*' 'libc:*nanosleep'
  echo 'nap 600000' >&7
  patiently grep -q nanosleep "/proc/$ticker/wchan"
  "$PINPRICK" status -p "$ticker" --symbols "$work/symbols" >/dev/null
  gdb -nx -batch -p "$ticker" -ex "add-symbol-file $work/symbols" -ex bt >"$work/bt" 2>"$work/gdb"
  cat "$work/bt"
  sed -nE 's/^#[0-9]+ +(0x[0-9a-f]+ in )?([^ ]+) \(.*/\2/p' "$work/bt" >"$work/frames"
  grep -q nanosleep "$work/frames"
  [ "$(tail -4 "$work/frames" | tr '\n' ' ')" = 'pinprick_timed_call nap pinprick_timed_call main ' ]
  end_watch
}

@test "status writes symbols only where calls are timed" {
  start_ticker
  run "$PINPRICK" status -p "$ticker" --symbols "$work/symbols"
  [ "$status" -eq 3 ]
  [[ "$output" =~ 'no calls are timed in process' ]]
  [ ! -e "$work/symbols" ]
  end_ticker
}
