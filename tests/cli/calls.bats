# Calls that do not simply return to where they were made, or pass values in uncommon ways: with all
# functions of the program and of its libraries timed it prints what it prints without, and the calls
# it tells of are counted for what they were.
load helpers

# timed PROGRAM ARGUMENT [PATTERN...]: its output is in $work/out, as it is without probes.
timed() {
  local program=$1 argument=$2 bare=0 status=0
  shift 2
  "$TARGETS/$program" "$argument" >"$work/bare" || bare=$?
  "$PINPRICK" latency --allow-missing --json -o "$work/records" "${@:-*}" -- \
    "$TARGETS/$program" "$argument" >"$work/out" 2>"$work/errors" || status=$?
  [ $status -eq $bare ] || { cat "$work/errors"; return 1; }
}
same() { cmp "$work/bare" "$work/out"; }

# What the program says, and what was seen: of one function.
said() { awk -v name="$1" '$1 == name { print $2 }' "$work/out"; }
seen() { field "[x['$2'] for x in r if x['type'] == 'latency' and x['final'] and x['function'] == '$1'][0]"; }

@test "setjmp and longjmp, on the stack and out of a signal handler: slots are used again, and none is missed" {
  timed jumper 20000 --slots 1024 '*'
  same
  [ "$(said leap)" -eq 20000 ]
  [ "$(seen leap count)" -eq 0 ]
  [ "$(seen arrives count)" -eq 20000 ]
  [ "$(field 'sum(x["missed"] for x in r if x["type"] == "latency" and x["final"])')" -eq 0 ]
}

@test "longjmp: what was left is told apart, in status and when the probes go" {
  local slots
  start_fed jumper 100 lines
  local jumper=$fed
  watch latency -p $jumper jumper:leap
  echo >&7
  until_line "$work/out" '^leap 100$'
  slots=$("$PINPRICK" status -p $jumper --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["slots"])')
  [[ "$slots" == "{'in_use': 0, 'abandoned': 100, 'most': 1"* ]]
  end_watch
  [ "$(field '[x["calls_abandoned"] for x in r if x["type"] == "detached"][0]')" -eq 100 ]
  [ "$(seen leap abandoned)" -eq 100 ]
  text_is_original $jumper
  echo >&7
  until_line "$work/out" '^leap 200$'
  exec 7>&-
  wait $jumper
}

@test "longjmp: calls whose slots were used again are counted when the probes go, and the program goes on" {
  start_fed jumper 5000 lines
  local jumper=$fed
  watch latency --slots 256 -p $jumper jumper:leap jumper:arrives
  echo >&7
  until_line "$work/out" '^leap 5000$'
  slots=$("$PINPRICK" status -p $jumper --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["slots"]["abandoned"])')
  [ "$slots" -lt 128 ]
  end_watch
  [ "$(field '[(x["calls_abandoned"], x["memory_left"]) for x in r if x["type"] == "detached"][0]')" = '(5000, False)' ]
  [ "$(seen leap abandoned)" -eq 5000 ]
  [ "$(seen arrives count)" -eq 5000 ]
  [ "$(seen arrives abandoned)" -eq 0 ]
  text_is_original $jumper
  echo >&7
  until_line "$work/out" '^leap 10000$'
  exec 7>&-
  wait $jumper
}

@test "swapcontext between open calls" {
  timed contexts 5000
  same
  [ "$(said turn)" -eq 15000 ]
  # The last turn of each leads into a context that has ended its own.
  [ $(($(said turn) - $(seen turn count))) -le 3 ]
  [ "$(seen turn missed)" -eq 0 ]
}

@test "C++20 coroutines that change threads, throw, and are destroyed halfway" {
  local yields
  timed coroutines 2000
  same
  # With its signature, if the compiler made more than one function of it.
  yields=$(field "[x['function'] for x in r if x.get('final') and x['function'].split('(')[0] == 'yields'][0]")
  [ "$(seen "$yields" unwound)" -gt 0 ]
  [ $(($(seen "$yields" count) + $(seen "$yields" unwound))) -eq "$(said yields)" ]
}

@test "a signal at 10 kHz, handled on a stack of its own, that interrupts stubs and leaves calls" {
  local never_returned
  timed interrupted 3000 'interrupted:*' 'libc:*'
  [ "$(head -n 1 "$work/out")" = right ]
  # For the log, if it is not so: a call that finds no slot is missed, which a busy machine may bring.
  echo "handled $(said handled): $(field "[x for x in r if x.get('function') == 'handled']")"
  [ $(($(seen handled count) + $(seen handled missed))) -eq "$(said handled)" ]
  never_returned=$(($(said spin) - $(seen spin count) - $(seen spin missed)))
  [ $never_returned -ge 0 ]
  [ $never_returned -le $(($(said handled) / 10)) ]
}

@test "a recursion of a million frames: what finds no slot is missed, the result is right" {
  ulimit -s 1048576 || skip "no right to a stack of 1 GB"
  "$PINPRICK" latency --json -o "$work/records" ticker:recurse -- "$TARGETS/ticker" \
    <<<'recurse 999999' >"$work/out"
  [ "$(cat "$work/out")" = recursed ]
  [ $(($(seen recurse count) + $(seen recurse missed))) -eq 1000000 ]
  [ "$(seen recurse count)" -gt 4000 ]
}

@test "exit from within a call, and a thread that never returns" {
  timed leaver ''
  same
  [ "$(seen last_words count)" -eq 0 ]
  [ "$(seen waits count)" -eq 0 ]
  [ "$(seen at_exit count)" -eq 1 ]
}

@test "tail calls: one return for many entries, each of them counted" {
  local depth
  for depth in 3000 1000000; do
    timed tail_calls $depth 'tail_calls:*'
    same
    [ $(($(seen even count) + $(seen even missed))) -eq "$(said even)" ]
    [ $(($(seen odd count) + $(seen odd missed))) -eq "$(said odd)" ]
  done
}

@test "variadic functions, large and mixed results, x87 and vector registers, arguments on the stack, -fipa-ra" {
  timed conventions 2000
  same
  [ "$(cat "$work/out")" = right ]
  local name
  for name in sums returns_large returns_mixed returns_pair returns_x87 returns_two_x87 returns_xmm \
    on_stack relies_on leaves_alone; do
    [ "$(seen $name count)" -eq 2000 ]
  done
}

@test "setjmp and longjmp in a static program without symbols: code that only leads to setjmp is known by where it jumps" {
  timed jumper_static_stripped 1000
  same
  [ "$(field 'len([x for x in r if x["type"] == "latency"]) > 100')" = True ]
}

# has_lines N: that the program has printed so far.
has_lines() { (($(wc -l <"$work/out") >= $1)); }

@test "calls of generated code run unmeasured and are counted, those of the program's own code are timed" {
  start_fed generated 1000
  watch latency -p $fed generated:visited generated:worked
  local line
  for line in 1 2 3; do
    echo >&7
    patiently has_lines $line
  done
  end_watch
  [ "$(seen visited count)" -eq 0 ]
  [ "$(seen visited from_generated)" -eq 3000 ]
  [ "$(seen worked count)" -eq 3000 ]
  [ "$(seen worked from_generated)" -eq 0 ]
  no_trace $fed
  echo >&7
  patiently has_lines 4
  [ "$(sort -u "$work/out")" = 'sum 1499500' ]
  exec 7>&-
  wait $fed
}

@test "generated code is named as the program lists it for perf" {
  start_fed generated 10 listed
  watch count -p $fed generated:visited --by caller
  echo >&7
  until_line "$work/out" sum
  end_watch
  rm -f "/tmp/perf-$fed.map"
  [ "$(field "[(x['key'], x['hits']) for x in r if x['type'] == 'count' and x['final']]")" = \
    "[('generated code of ours+0x9', 10)]" ]
  end_fed
}

@test "calls of generated code are named on the last line, and --fail-on-loss tells of them" {
  start_fed generated 10
  "$PINPRICK" latency --fail-on-loss -p $fed generated:visited >"$work/shown" 2>&1 3>&- &
  local watcher=$! status=0
  ends_with_test $watcher
  until_line "$work/shown" armed
  echo >&7
  until_line "$work/out" sum
  kill -INT $watcher
  wait $watcher || status=$?
  grep '^missed 0  .*  from generated code 10  ' "$work/shown"
  [ $status -eq 5 ]
  exec 7>&-
  wait $fed
}

@test "what a library calls that was loaded since is timed" {
  start_fed dlhost
  watch latency -p $fed libc:getppid
  echo "load $TARGETS/plugin_caller.so" >&7
  until_line "$work/out" load
  # Where the loader does not wait for us, the first calls tell of it.
  is_timed() {
    echo "call 1" >&7
    "$PINPRICK" status -p $fed --json >"$work/status"
    evaluate 'import json, sys; sys.exit(json.load(open(sys.argv[1]))["probes"][0]["count"] == 0)' "$work/status"
  }
  patiently is_timed
  end_watch
  exec 7>&-
  wait $fed
  ! grep -q WRONG "$work/out"
}

# profiled PROGRAM FUNCTIONS: from where which function was called, as the program's profiler saw it.
profiled() {
  timed "$1" 200 "$1:*"
  same
  grep -c ' -> ' "$work/out"
}

@test "-mfentry: the profiler sees the callers of timed functions" {
  profiled profiled_by_fentry
  [ "$(seen outer count)" -eq 200 ]
  [ "$(seen middle count)" -eq 100 ]
  [ "$(seen leaf count)" -eq 300 ]
}

@test "-pg: functions whose profiler finds the caller by their frame are timed by exits" {
  profiled profiled_by_mcount
  [ "$(seen outer count)" -eq 200 ]
  [ "$(seen middle count)" -eq 100 ]
  [ "$(seen leaf count)" -eq 300 ]
  local name
  "$PINPRICK" list --ends=slots --json -f "$TARGETS/profiled_by_mcount" outer middle leaf >"$work/records"
  for name in outer middle leaf; do
    [ "$(field "[x['latency_refused'] for x in r if x['type'] == 'function' and x['function'] == '$name']")" = "['reads_return_address']" ]
  done
}
