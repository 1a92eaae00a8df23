# Several pinpricks in one process: each sees its own hits, and the last to leave leaves nothing.
load helpers

# owner NAME VERB ARGUMENTS...: a pinprick in the background, armed, whose records are $work/NAME.
owner() {
  local name=$1
  : >"$work/$name"
  "$PINPRICK" "${@:2}" --json >"$work/$name" 2>"$work/$name.errors" 3>&- 7>&- &
  owner_pid[$name]=$!
  ends_with_test $!
  until_line "$work/$name" '"type":"armed"' || { cat "$work/$name.errors" >&2; return 1; }
}
end_owner() {
  local status=0
  kill "-${2:-INT}" "${owner_pid[$1]}"
  wait "${owner_pid[$1]}" || status=$?
  [ $status -eq 0 ] || [ "${2:-INT}" = KILL ] || tail -n 3 "$work/$1" "$work/$1.errors" >&2
  return $status
}
# of NAME FUNCTION [FIELD]: of its last report.
of() {
  evaluate '
import json, sys
r = [json.loads(line) for line in open(sys.argv[1])]
x = [x for x in r if x.get("function") == sys.argv[2] and x.get("final")]
print(x[0].get(sys.argv[3]) if x else 0)' "$work/$1" "$2" "${3:-hits}"
}
left_nothing() { no_trace "$1" && [ -z "$(ls -A "$runtime/pinprick")" ]; }

setup_file() { bats_require_minimum_version 1.5.0; }

@test "count and latency on the same functions, begun and ended in any order: each has its own calls" {
  declare -A owner_pid
  start_ticker 4
  for order in "A B C" "A C B" "B A C" "B C A" "C A B" "C B A"; do
    owner A count -p $ticker ticker:tick ticker:nap
    tell "tick 400" ticked
    owner B latency -p $ticker ticker:tick
    tell "tick 400" ticked
    owner C count -p $ticker 'ticker:tick' 'ticker:recurse'
    tell "tick 400" ticked
    tell "recurse 9" recursed
    declare -A ticks=([A]=1200 [B]=800 [C]=400)
    local left="A B C"
    for name in $order; do
      end_owner $name
      left=${left/$name/}
      tell "tick 400" ticked
      for other in $left; do ticks[$other]=$((ticks[$other] + 400)); done
    done
    [ "$(of A tick)" -eq ${ticks[A]} ]
    [ "$(of B tick count)" -eq ${ticks[B]} ]
    [ "$(of B tick missed)" -eq 0 ]
    [ "$(of C tick)" -eq ${ticks[C]} ]
    [ "$(of C recurse)" -eq 10 ]
    left_nothing $ticker
  done
  end_ticker
}

@test "one function is timed, counted and recorded by four at once" {
  declare -A owner_pid
  start_ticker 2
  owner A latency -p $ticker ticker:tick ticker:recurse
  owner B latency -p $ticker ticker:tick ticker:recurse
  owner C hist -p $ticker 'ticker:recurse $arg1'
  owner D count -p $ticker 'ticker:*'
  tell "tick 1000" ticked
  tell "recurse 99" recursed
  for name in B D A C; do
    end_owner $name
    tell "recurse 9" recursed
  done
  [ "$(of A tick count)" -eq 1000 ]
  [ "$(of B tick count)" -eq 1000 ]
  [ "$(of D tick)" -eq 1000 ]
  [ "$(of B recurse count)" -eq 100 ]
  [ "$(of D recurse)" -eq 110 ]
  [ "$(of A recurse count)" -eq 120 ]
  [ "$(of C recurse count)" -eq 130 ]
  [ "$(of A recurse missed)$(of B recurse missed)" = 00 ]
  left_nothing $ticker
  end_ticker
}

@test "calls that two are timing return home whichever of the two leaves first, and leave nothing" {
  declare -A owner_pid
  for first in A B; do
    start_ticker
    owner A latency -p $ticker ticker:nap
    owner B latency -p $ticker ticker:nap
    echo "nap 4000" >&7
    # In the call, whose slots are both in use.
    # clock_nanosleep, and what the kernel makes of it when it was interrupted.
    in_nap() { [[ "$(cat /proc/$ticker/syscall)" =~ ^(230|219)\  ]]; }
    patiently in_nap
    end_owner $first
    in_nap
    end_owner $([ $first = A ] && echo B || echo A)
    left_nothing $ticker
    until_line "$work/out" napped
    tell "nap 1" napped
    end_ticker
    rm "$work/in" "$work/out"
  done
}

@test "a tail call that two are timing: its calls are none that longjmp has left, and leave nothing" {
  declare -A owner_pid
  local first other dozes
  for first in A B; do
    start_ticker
    owner A latency -p $ticker ticker:doze ticker:nap
    owner B latency -p $ticker ticker:doze ticker:nap
    # The first one comes to know the slots of the other one by a call from there.
    dozes=0
    both_time_nap() {
      dozes=$((dozes + 1))
      tell "doze 1" dozed
      [ "$("$PINPRICK" status -p $ticker --json | grep -o '"function":"nap",[^}]*"count":[1-9]' | wc -l)" -eq 2 ]
    }
    patiently both_time_nap
    dozes=$((dozes + 1))
    echo "doze 4000" >&7
    in_nap() { [[ "$(cat /proc/$ticker/syscall)" =~ ^(230|219)\  ]]; }
    patiently in_nap
    # Four slots in a line: of both owners for nap(), and of both for doze().
    "$PINPRICK" status -p $ticker --json >"$work/status"
    [ "$(grep -c '"slots":{[^}]*"abandoned":0' "$work/status")" -eq 2 ]
    end_owner $first
    in_nap
    other=$([ $first = A ] && echo B || echo A)
    [ "$(of $first doze abandoned)$(of $first nap abandoned)" = 00 ]
    all_have_dozed() { [ "$(grep -c '^dozed$' "$work/out")" -eq $dozes ]; }
    patiently all_have_dozed
    end_owner $other
    [ "$(of $other doze count)" -eq $dozes ]
    [ $(($(of $other nap count) + $(of $other nap from_generated))) -eq $dozes ]
    left_nothing $ticker
    end_ticker
    rm "$work/in" "$work/out"
  done
}

@test "six that come at the same moment all get in, one after the other" {
  declare -A owner_pid
  start_ticker 2
  local i verbs=(count latency count latency count latency)
  for i in 0 1 2 3 4 5; do
    "$PINPRICK" "${verbs[$i]}" -p $ticker ticker:tick --json >"$work/$i" 2>&1 3>&- 7>&- &
    owner_pid[$i]=$!
    ends_with_test $!
  done
  for i in 0 1 2 3 4 5; do until_line "$work/$i" '"type":"armed"'; done
  tell "tick 500" ticked
  # All of them at once again.
  kill -INT "${owner_pid[@]}"
  for i in 0 1 2 3 4 5; do wait ${owner_pid[$i]}; done
  for i in 0 2 4; do [ "$(of $i tick)" -eq 500 ]; done
  for i in 1 3 5; do [ "$(of $i tick count)" -eq 500 ]; done
  left_nothing $ticker
  end_ticker
}

@test "killed with -9 in any order: the others go on, and a newcomer cleans up after those that are gone" {
  declare -A owner_pid
  start_ticker 2
  owner A latency -p $ticker ticker:tick
  owner B count -p $ticker ticker:tick ticker:nap
  owner C latency -p $ticker ticker:tick ticker:nap
  tell "tick 100" ticked
  end_owner A KILL || true
  tell "tick 100" ticked
  "$PINPRICK" status -p $ticker --json >"$work/status"
  [ "$(grep -c '"state":"live"' "$work/status")" -eq 2 ]
  grep '"state":"orphaned"' "$work/status" | grep -q "\"controller\":${owner_pid[A]}\\b"
  owner D count -p $ticker ticker:tick
  [ "$("$PINPRICK" status -p $ticker --json | grep -c '"state":"orphaned"')" -eq 0 ]
  tell "tick 100" ticked
  end_owner B KILL || true
  run "$PINPRICK" detach -p $ticker --owner ${owner_pid[B]}
  [ "$status" -eq 0 ]
  tell "tick 100" ticked
  run "$PINPRICK" detach -p $ticker
  [ "$status" -eq 4 ]
  [[ "$output" == *"pinprick ${owner_pid[C]} is still measuring"* ]]
  end_owner C
  [ "$(of C tick count)" -eq 400 ]
  end_owner D
  [ "$(of D tick)" -eq 200 ]
  left_nothing $ticker
  end_ticker
}

@test "keep provides slots for probes whose pinprick is gone, and newcomers leave them alone" {
  declare -A owner_pid
  start_ticker
  owner A latency -p $ticker ticker:recurse
  end_owner A KILL || true
  run "$PINPRICK" keep -p $$
  [ "$status" -eq 3 ]
  "$PINPRICK" keep -p $ticker --json >"$work/keep" 7>&- 3>&- &
  local keep=$!
  ends_with_test $keep
  until_line "$work/keep" '"type":"kept".*"probe_count":1'
  "$PINPRICK" status -p $ticker --json | grep '"state":"live"' | grep -q "\"controller\":$keep\b"
  missed() { "$PINPRICK" status -p $ticker --json | grep -oE '"missed":[0-9]+' | cut -d: -f2; }
  # More at once than there are at first, and soon none of them is missed.
  tell "recurse 60000" recursed
  deep_calls_are_recorded() {
    local before
    before=$(missed)
    tell "recurse 60000" recursed
    [ "$(missed)" -eq "$before" ]
  }
  patiently deep_calls_are_recorded
  owner B count -p $ticker ticker:recurse
  tell "recurse 9" recursed
  end_owner B
  [ "$(of B recurse)" -eq 10 ]
  "$PINPRICK" status -p $ticker --json | grep -q '"state":"live"'
  kill -INT $keep
  wait $keep
  "$PINPRICK" status -p $ticker --json | grep -q '"state":"orphaned"'
  "$PINPRICK" detach -p $ticker --owner $keep
  left_nothing $ticker
  end_ticker
}

@test "spans share their points with calls that others time and count" {
  declare -A owner_pid
  start_ticker
  owner A latency -p $ticker ticker:tick ticker:nap
  owner B latency -p $ticker ticker:nap..ticker:tick
  owner C count -p $ticker ticker:tick
  owner D latency -p $ticker ticker:nap..ticker:tick ticker:tick..ticker:tick
  tell "nap 0" napped
  tell "tick 5" ticked
  end_owner A
  tell "nap 0" napped
  tell "nap 0" napped
  tell "tick 2" ticked
  for name in D B C; do end_owner $name; done
  local span=ticker:nap..ticker:tick
  for name in B D; do
    [ "$(of $name $span count)" -eq 2 ]
    [ "$(of $name $span repeated_starts)" -eq 1 ]
    [ "$(of $name $span unmatched_ends)" -eq 5 ]
  done
  [ "$(of D ticker:tick..ticker:tick count)" -eq 6 ]
  [ "$(of A tick count)" -eq 5 ]
  [ "$(of A nap count)" -eq 1 ]
  [ "$(of C tick)" -eq 7 ]
  left_nothing $ticker
  end_ticker
}

@test "exceptions pass through functions that two are timing, in whatever order they leave" {
  declare -A owner_pid
  local expected
  expected=$(seq 40 | "$TARGETS/thrower" 40 lines)
  for first in A B; do
    start_fed thrower 40 lines
    owner A latency -p $fed 'thrower:*'
    owner B latency -p $fed 'thrower:*' 'libstdc++:__cxa_throw'
    for i in $(seq 20); do echo >&7; done
    end_owner $first
    for i in $(seq 20); do echo >&7; done
    end_fed
    for name in A B; do [ $name = $first ] || wait ${owner_pid[$name]}; done
    [ "$(cat "$work/out")" = "$expected" ]
    rm "$work/in" "$work/out"
  done
}

@test "two that follow what is loaded both have the library's calls, constructors included" {
  declare -A owner_pid
  start_fed dlhost
  owner A count -p $fed plugin:plugin_* libc:strlen --allow-missing
  owner B latency -p $fed plugin:plugin_* --allow-missing
  tell "load $TARGETS/plugin.so" load
  tell "call 10" call
  end_owner A
  tell unload unload
  tell "load $TARGETS/plugin.so" load
  end_owner B
  [ "$(of A plugin_step)" -eq 15 ]
  [ "$(of B plugin_step count)" -eq 20 ]
  left_nothing $fed
  end_fed
}

@test "a library that comes back to the same address is probed again by all who follow it" {
  declare -A owner_pid
  start_fed dlhost
  owner A count -p $fed plugin:plugin_step --allow-missing
  owner B latency -p $fed plugin:plugin_step --allow-missing
  owner C count -p $fed plugin:plugin_step --allow-missing
  tell "cycle $TARGETS/plugin.so 12" cycle
  tell "load $TARGETS/plugin.so" load
  tell "call 10" call
  for name in B A C; do end_owner $name; done
  # Each time five from the constructor, and ten.
  [ "$(of A plugin_step)" -eq 195 ]
  [ "$(of B plugin_step count)" -eq 195 ]
  [ "$(of C plugin_step)" -eq 195 ]
  left_nothing $fed
  end_fed
}

@test "functions that a jump reaches by a trampoline alone are shared, too" {
  declare -A owner_pid
  start_fed crowded
  for order in "A B C" "B C A" "C A B"; do
    owner A count -p $fed 'crowded:one' 'crowded:two' 'crowded:three' 'crowded:four' 'crowded:roomy'
    owner B latency -p $fed 'crowded:one' 'crowded:three'
    owner C count -p $fed 'crowded:one' 'crowded:two' 'crowded:roomy'
    for name in A B C; do
      [ "$(grep -c '"type":"skipped"' "$work/$name")" -eq 0 ] || { cat "$work/$name" >&2; return 1; }
    done
    tell "call 500" called
    declare -A calls=([A]=1000 [B]=1000 [C]=1000)
    local left="A B C"
    for name in $order; do
      end_owner $name
      left=${left/$name/}
      tell "call 50" called
      for other in $left; do calls[$other]=$((calls[$other] + 100)); done
    done
    for name in one two three four roomy; do [ "$(of A $name)" -eq ${calls[A]} ]; done
    for name in one three; do [ "$(of B $name count)" -eq ${calls[B]} ]; done
    for name in one two roomy; do [ "$(of C $name)" -eq ${calls[C]} ]; done
    left_nothing $fed
  done
  end_fed
}

# random_changes PROGRAM/REASONS FUNCTION=COMMAND=CALLS...: CALLS of the function for each number in `COMMAND
# NUMBER`, plus the number after a plus sign.
random_changes() {
  python3 - "$PINPRICK" "$fed" "$work/in" "$work/out" "${STEPS:-250}" "$@" <<'PYTHON'
import json, os, random, signal, subprocess, sys, time
pinprick, pid, fifo, answers, steps = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5])
seed = int(os.environ.get("SEED") or random.randrange(1 << 32))
print('seed', seed)
choose = random.Random(seed)
to = open(fifo, 'w', buffering=1)
said = open(answers)
said.read()
def tell(line):
    to.write(line + '\n')
    while True:
        answer = said.readline()
        if answer.endswith('\n'): break
        time.sleep(0.001)
    assert 'WRONG' not in answer, answer
program, allowed = sys.argv[6].split('/')
commands = {}  # by their word: how many calls of each function they make, and how many more
for text in sys.argv[7:]:
    function, command, calls, more = text.split('=')
    commands.setdefault(command, {})[function] = int(calls), int(more)
functions = [function for of in commands.values() for function in of]
owners = {}
for step in range(steps):
    what = choose.choice(['begin', 'begin', 'end', 'kill', 'call', 'call'])
    if what == 'begin' and len(owners) < 6:
        verb = choose.choice(['count', 'latency'])
        mine = choose.sample(functions, choose.randint(1, len(functions)))
        out = subprocess.Popen([pinprick, verb, '-p', pid, '--json'] + [program + ':' + f for f in mine],
                               stdout=subprocess.PIPE, text=True)
        while (record := json.loads(out.stdout.readline()))['type'] != 'armed':
            # Where there is no room at the site itself, what others have there may be in the way.
            assert record['type'] == 'skipped' and record['reason'] in allowed, record
            mine.remove(record['function'])
        assert record['armed'] == len(mine), record
        if mine: owners[out] = (verb, {f: 0 for f in mine})
        else: assert out.wait() == 3
    elif what in ('end', 'kill') and owners:
        out = choose.choice(list(owners))
        verb, expected = owners.pop(out)
        if what == 'kill':
            out.kill(); out.wait()
            continue
        out.send_signal(signal.SIGINT)
        rest = [json.loads(line) for line in out.stdout]
        assert out.wait() in (0, 1), rest
        for record in rest:
            if record.get('final') and record['type'] in ('count', 'latency'):
                got = record['hits' if verb == 'count' else 'count'] + record.get('missed', 0)
                assert got == expected[record['function']], (step, verb, record, expected)
                assert record.get('missed', 0) == 0, record
    elif what == 'call':
        command = choose.choice(list(commands))
        n = 2 * choose.randint(0, 25)
        tell(f'{command} {n}')
        for verb, expected in owners.values():
            for f, (calls, more) in commands[command].items():
                if f in expected: expected[f] += calls * n + more
for out in owners:
    out.send_signal(signal.SIGINT)
    out.stdout.read()
    assert out.wait() in (0, 1)
PYTHON
  "$PINPRICK" detach -p $fed || [ $? -eq 3 ]
  left_nothing $fed
}

@test "random changes by six at once: each counts what a simple model says" {
  start_ticker 2
  random_changes ticker/ tick=tick=1=0 recurse=recurse=1=1 nap=nap=0=1
  end_ticker
}

@test "random changes by six at once where trampolines are shared" {
  start_fed crowded
  random_changes crowded/neighbour,text_changed one=call=2=0 two=call=2=0 three=call=2=0 four=call=2=0 roomy=call=2=0
  end_fed
}

@test "many that come and go beside one that stays leave no more than that one has" {
  declare -A owner_pid
  start_ticker
  sizes() { wc -l <"/proc/$ticker/maps"; ls "/proc/$ticker/fd" | wc -l; awk '/^VmSize/ { print $2 }' "/proc/$ticker/status"; }
  owner A latency -p $ticker ticker:tick ticker:nap
  "$PINPRICK" latency -p $ticker -d 0.001 ticker:tick >/dev/null
  local before i
  before=$(sizes)
  for i in $(seq "${ROUNDS:-40}"); do
    "$PINPRICK" $([ $((i % 2)) -eq 0 ] && echo count || echo latency) -p $ticker -d 0.001 ticker:tick ticker:recurse >/dev/null
    tell "tick 10" ticked
  done
  [ "$(sizes)" = "$before" ]
  end_owner A
  [ "$(of A tick count)" -eq $((10 * ${ROUNDS:-40})) ]
  left_nothing $ticker
  end_ticker
}

start_waiters() { TICKER=waiters start_ticker; }

# The system call is the last instruction that the jump covers: it would be made again in the midst
# of the next owner's jump.
@test "threads that wait in a system call under the jump go on in the stub of the owner that stays" {
  declare -A owner_pid
  local first second
  start_waiters
  for first in count latency; do
    for second in count latency; do
      owner A $first -p $ticker waiters:waits
      owner B $second -p $ticker waiters:waits
      tell "read 3" read
      end_owner A
      tell go go
      end_owner B
      [ "$(of B waits "$([ $second = count ] && echo hits || echo count)")" -eq 3 ]
      left_nothing $ticker
    done
  done
  end_ticker
}

@test "a call is counted once, also if the owner in whose stub it is leaves" {
  declare -A owner_pid
  local second
  start_waiters
  for second in count latency; do
    owner A count -p $ticker waiters:faults
    owner B $second -p $ticker waiters:faults
    echo "fault 4" >&7
    until_line "$work/out" '^(fault|cannot)$'
    if grep -q cannot "$work/out"; then
      end_owner A
      end_owner B
      end_ticker
      skip "userfaultfd(2) is not permitted, or not there"
    fi
    end_owner A
    tell go go
    end_owner B
    [ "$(of B faults "$([ $second = count ] && echo hits || echo count)")" -eq 4 ]
    : >"$work/out"
    left_nothing $ticker
  done
  end_ticker
}

# An owner whose jump is not the one in the text took its sites for unloaded.
@test "several owners of a program that is renamed" {
  declare -A owner_pid
  cp "$TARGETS/dlhost" "$work/app"
  TARGETS=$work TICKER=app start_ticker
  owner A count -p $ticker call
  owner B latency -p $ticker call
  mv "$work/app" "$work/app.old"
  tell "load $TARGETS/plugin.so" load
  tell 'call 1' call
  end_owner A
  tell 'call 1' call
  end_owner B
  [ "$(of A call)" -eq 1 ]
  [ "$(of B call count)" -eq 2 ]
  tell 'call 1' call
  left_nothing $ticker
  end_ticker
}
