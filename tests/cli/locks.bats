# Who takes which locks, waits for them and holds them, and who waits for ever: of a program that knows
# what it does, and of real ones.
load helpers

setup_file() { bats_require_minimum_version 1.5.0; }

# start_locker [PROGRAM]: it has started a thread before, so that all that this allocates is there.
start_locker() {
  start_fed "${1:-locker}"
  tell 'hold 1 0' hold
}

# of_lock NAME FIELD: of the last report; of all locks of a name that the program has given.
of_lock() { field "[x['$2'] for x in r if x['type'] == 'lock' and x['final'] and x['name'] == '$1'][0]"; }

# of_stack NAME FUNCTION FIELD: the sum of what callers of the lock had, whose stack has the function.
of_stack() {
  field "sum(s['$3'] for x in r if x['type'] == 'lock' and x['final'] and x['name'] == '$1'
             for s in x['stacks'] if any(f.startswith('$2+') for f in s['stack']))"
}

# total FIELD: of the last report.
total() { field "[x['$1'] for x in r if x['type'] == 'locks'][-1]"; }

# none PATTERN: no record is like that.
none() {
  run -1 grep "$1" "$work/records"
}

# A call may take as long as a wait although nothing is in its way, as when its CPU goes to another one.
# So how often a thread waited is compared only where it has to wait.
@test "takes, waits and holds are told by lock and by the stack that took it" {
  local program
  for program in locker locker_musl; do
    [ -x "$TARGETS/$program" ] || continue
    start_locker $program
    watch locks -p "$fed"
    tell 'hold 5 3' hold
    tell 'quick 1000' quick
    tell 'nest 10' nest
    tell 'try 4' try
    tell 'share 6' share
    tell 'wait 7 2' wait
    end_watch
    [ "$(of_lock held_lock kind)" = mutex ]
    [ "$(of_lock held_lock taken)" -eq 14 ]
    [ "$(of_lock held_lock not_taken)" -eq 8 ]
    [ "$(of_stack held_lock waits waits)" -eq 5 ]
    [ "$(of_stack held_lock waits waited_ns)" -ge 15000000 ]
    [ "$(of_stack held_lock holds holds)" -eq 5 ]
    [ "$(of_stack held_lock holds held_ns)" -ge 15000000 ]
    [ "$(of_stack held_lock holds longest_hold_ns)" -ge 3000000 ]
    # One try fails at once, and one waits for a millisecond; neither takes the lock.
    [ "$(of_stack held_lock tries not_taken)" -eq 8 ]
    [ "$(of_stack held_lock tries taken)" -eq 0 ]
    [ "$(of_stack held_lock tries waits)" -eq 4 ]
    [ "$(of_stack held_lock tries waited_ns)" -ge 4000000 ]
    [ "$(of_lock quick_lock taken)" -eq 1000 ]
    [ "$(of_lock quick_lock holds)" -eq 1000 ]
    # It is recursive, which musl keeps elsewhere.
    [ $program = locker_musl ] || [ "$(of_lock nested_lock taken)" -eq 20 ]
    [ "$(of_lock nested_lock holds)" -eq 10 ]
    # Readers have it at the same time.
    [ "$(of_lock shared_lock kind)" = rwlock ]
    [ "$(of_stack shared_lock reads taken)" -eq 12 ]
    [ "$(of_lock shared_lock taken)" -eq 18 ]
    [ "$(of_lock shared_lock holds)" -eq 18 ]
    # Who waits for the condition does not hold the mutex meanwhile, but the other one does.
    [ "$(of_lock condition kind)" = condition ]
    [ "$(of_lock condition waits)" -eq 7 ]
    [ "$(of_lock condition signals)" -eq 7 ]
    [ "$(of_stack condition waits_for_signal waited_ns)" -ge 14000000 ]
    [ "$(of_stack wait_lock signals held_ns)" -ge 14000000 ]
    [ "$(of_stack wait_lock waits_for_signal holds)" -eq 14 ]
    [ "$(of_stack wait_lock waits_for_signal held_ns)" -lt "$(of_stack wait_lock signals held_ns)" ]
    [ "$(of_lock wait_lock taken)" -eq 14 ]
    [ "$(total unseen_releases)" -eq 0 ]
    [ "$(total dropped)" -eq 0 ]
    [ "$(total no_room)" -eq 0 ]
    no_trace "$fed"
    end_fed
    rm "$work/in"
  done
}

@test "two threads that wait for one another are told while it measures, and with their stacks at the end" {
  start_locker
  watch locks -p "$fed"
  tell deadlock deadlock
  until_line "$work/records" '"type":"warning","message":"deadlock in [0-9]+ locker: thread '
  end_watch
  [ "$(field 'sum("deadlock in" in x["message"] for x in r if x["type"] == "warning")')" -eq 1 ]
  [ "$(field '[[sorted((t["lock"], [f.split("+")[0] for f in t["stack"]][-4]) for t in x["threads"]),
                len({t["thread"] for t in x["threads"]} & {t["owner"] for t in x["threads"]})]
               for x in r if x["type"] == "deadlock"]')" = \
    "[[[('first_lock', 'takes_in_order'), ('second_lock', 'takes_in_order')], 2]]" ]
  grep -q '"goes_forwards+0x' "$work/records"
  grep -q '"goes_backwards+0x' "$work/records"
  # What waits has no event, as no thread has got the lock.
  [ "$(of_lock first_lock taken)" -eq 1 ]
  text_is_original "$fed"
}

# rings: the locks of each deadlock.
rings() { field 'sorted(sorted(t["lock"] for t in x["threads"]) for x in r if x["type"] == "deadlock")'; }

@test "what hangs already is told without a probe: rings of one to three threads, and of a lock for writing" {
  local word
  start_locker
  "$PINPRICK" locks --now --json -p "$fed" >"$work/records"
  [ "$(field '[(x["type"], x["waits"], x["deadlocks"]) for x in r]')" = "[('lock_waits', 0, 0)]" ]
  for word in deadlock again round mixed orphan reader hand_over; do tell $word $word; done
  run -1 --separate-stderr "$PINPRICK" locks --now --json -p "$fed"
  echo "$output" >"$work/records"
  [ "$(rings)" = "[['again_lock'], ['first_lock', 'second_lock'], ['ring', 'ring+0x28', 'ring+0x50'], ['shared_lock', 'wait_lock']]" ]
  [ "$(field '[(x["lock"], x["owner_has_ended"], x["owner"] is None) for x in r if x["type"] == "lock_wait"
               and x["lock"] in ("orphan_lock", "read_lock")]')" = \
    "[('orphan_lock', True, False), ('read_lock', False, True)]" ]
  # Its owner is the one that has it now, not the one that had it when the wait began.
  [ "$(field '[(x["owner_stack"] or [""])[1].split("+")[0] for x in r if x.get("lock") == "robust_lock"]')" = \
    "['keeps_robust']" ]
  run -1 --separate-stderr "$PINPRICK" locks --now -p "$fed"
  [[ "$output" == *"deadlock in $fed locker: 3 threads wait for one another, for ever"* ]]
  [[ "$output" == *'waits for mutex again_lock, which it holds itself'* ]]
  [[ "$output" =~ 'waits for mutex orphan_lock, which thread '[0-9]+' held when it ended' ]]
  [[ "$output" == *'waits for rwlock read_lock, which readers hold'* ]]
  [[ "$output" == *"$fed locker: 12 of 15 threads wait for a lock that is held"* ]]
}

@test "threads that wait in turn, and go on, are no deadlock" {
  start_locker
  watch locks -p "$fed"
  tell 'hold 400 1' hold
  tell 'wait 400 1' wait
  for word in 1 2 3 4 5; do
    tell 'quick 1' quick
    "$PINPRICK" locks --now -p "$fed" >/dev/null
  done
  end_watch
  none '"deadlock in\|"type":"deadlock"'
  end_fed
}

@test "locks that are taken in orders that contradict one another are told with the stacks" {
  start_locker
  watch locks -p "$fed"
  tell invert invert
  tell ring ring
  end_watch
  [ "$(field 'sorted([sorted((s["held"], s["taken"]) for s in x["steps"]),
                      len({s["thread"] for s in x["steps"]})] for x in r if x["type"] == "lock_order")')" = \
    "[[[('first_lock', 'second_lock'), ('second_lock', 'first_lock')], 2], [[('ring', 'ring+0x28'), ('ring+0x28', 'ring+0x50'), ('ring+0x50', 'ring')], 3]]" ]
  [ "$(field 'sorted(s["taken_stack"][1].split("+")[0] for x in r if x["type"] == "lock_order"
                     for s in x["steps"] if "first_lock" in s.values())')" = "['goes_backwards', 'goes_forwards']" ]
  # One order alone contradicts nothing, nor does one that is not known to be over.
  watch locks -p "$fed"
  tell 'hold 2 0' hold
  tell 'nest 2' nest
  end_watch
  none '"type":"lock_order"'
  watch locks -p "$fed" --slower 1us
  tell invert invert
  end_watch
  none '"type":"lock_order"'
  end_fed
}

@test "a table has the worst locks, who waits and who holds, and what goes on at its end" {
  start_locker
  "$PINPRICK" locks -p "$fed" --top 2 -o "$work/table" 2>"$work/notes" 3>&- 7>&- &
  watcher=$!
  ends_with_test $watcher
  until_line "$work/notes" '^armed'
  tell 'hold 3 5' hold
  tell 'wait 2 2' wait
  tell 'quick 5' quick
  tell orphan orphan
  end_watch
  grep -qE '^ +waited +waits +average +longest +taken +held +average +longest  lock$' "$work/table"
  grep -qE '^ +[0-9.]+m?s .* 6 +[0-9.]+m?s .*  held_lock \(mutex\)$' "$work/table"
  grep -A1 -E '    pthread_mutex_lock$' "$work/table" | grep -qE '^ {17}waits\+0x'
  grep -A1 -E '    pthread_mutex_lock$' "$work/table" | grep -qE '^ {17}holds\+0x'
  grep -qE '^ {17}[0-9]+ other locks$' "$work/table"
  grep -qE '^ +waited .* signals +condition$' "$work/table"
  grep -qE '^ +[0-9.]+m?s +2 .* 2 +condition \(condition\)$' "$work/table"
  grep -qE '^[0-9]+ locks taken [0-9]+ times, with [0-9]+ waits of 1\.00us or longer, ' "$work/table"
  grep -qE '^thread [0-9]+ \(locker\) waits for mutex orphan_lock, which thread [0-9]+ held when it ended$' "$work/table"
  grep -qE "^$fed locker: 1 of 2 threads waits for a lock that is held$" "$work/table"
}

@test "only long waits are told with --slower, and nothing is said of holding" {
  start_locker
  watch locks -p "$fed" --slower 2ms
  tell 'hold 3 4' hold
  tell 'quick 100' quick
  tell 'try 3' try
  end_watch
  [ "$(of_stack held_lock waits waits)" -eq 3 ]
  [ "$(of_lock held_lock holds)" = None ]
  [ "$(total least_wait_ns)" -eq 2000000 ]
  [ "$(field 'sum(x["events"] for x in r if x["type"] == "events")')" -lt 10 ]
  none '"type":"warning"'
  end_fed
}

@test "locks of a program's own are named by the functions that take and release them" {
  start_locker
  watch locks -p "$fed" --lock 'own_lock $arg2' --unlock 'locker:own_unlock $arg2'
  tell 'own 7' own
  tell 'hold 2 1' hold
  end_watch
  [ "$(field '[(x["name"], x["kind"], x["taken"], x["holds"]) for x in r if x["type"] == "lock"]')" = \
    "[('own', 'lock', 7, 7)]" ]
  # Nothing releases what was taken: the mistake is said.
  watch locks -p "$fed" --lock 'own_lock $arg2' --unlock 'own_unlock $arg1'
  for word in 1 2 3; do tell 'own 1' own; done
  end_watch
  grep -q 'was taken while it seemed to be held: .*--unlock' "$work/records"
  end_fed
}

@test "a program is measured from its start to its end, and its exit status stays" {
  printf 'quick 100\nhold 2 1\n' |
    "$PINPRICK" locks --json -o "$work/records" -- "$TARGETS/locker" >"$work/said"
  [ "$(cat "$work/said")" = $'quick\nhold' ]
  [ "$(of_lock quick_lock taken)" -eq 100 ]
  [ "$(of_stack held_lock waits waits)" -eq 2 ]
  none '"type":"deadlock"'
}

@test "a program that ends in a deadlock had one, and one that is killed has its figures" {
  start_locker
  watch locks -p "$fed"
  tell 'quick 10' quick
  tell deadlock deadlock
  until_line "$work/records" '"message":"deadlock in '
  kill -KILL "$fed"
  wait "$watcher"
  [ "$(of_lock quick_lock taken)" -eq 10 ]
  [ "$(rings)" = "[['first_lock', 'second_lock']]" ]
}

@test "dropped events are told, and make no lock order" {
  start_locker
  watch locks -p "$fed" --buffer 64K --fail-on-loss
  kill -STOP "$watcher"
  tell 'quick 20000' quick
  tell invert invert
  kill -CONT "$watcher"
  local status=0
  end_watch || status=$?
  [ "$status" -eq 5 ]
  [ "$(total dropped)" -gt 10000 ]
  grep -q 'so the figures are unreliable, .*--slower .*--buffer' "$work/records"
  none '"type":"lock_order"'
  end_fed
}

@test "the global lock of Python is seen, with the calls that wait for it" {
  local program='
import threading
def work():
    for i in range(300): sum(range(2000))
threads = [threading.Thread(target=work) for i in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()'
  "$PINPRICK" locks --json -o "$work/records" -- python3 -S -I -c "$program"
  [ "$(field 'any(any(f.startswith("take_gil") for f in s["stack"]) and s["taken"] > 4
                  for x in r if x["type"] == "lock" and x["kind"] == "mutex" for s in x["stacks"])')" = True ]
  [ "$(total unseen_releases)" -eq 0 ]
}

@test "redis's I/O threads wait for locks that its main thread holds" {
  redis-server --port 0 --unixsocket "$work/socket" --save '' --io-threads 3 --dir "$work" \
    >"$work/redis.log" 2>&1 3>&- &
  redis=$!
  ends_with_test $redis
  until_line "$work/redis.log" 'ready to accept connections'
  watch locks -p $redis
  redis-benchmark -s "$work/socket" -q -n 3000 -c 20 -P 8 -t set >/dev/null
  end_watch
  [ "$(field 'any("IOThreadMain" in f for x in r for s in x.get("stacks", []) + [x]
                  for f in s.get("stack", []))')" = True ]
  none '"deadlock in\|"type":"deadlock"'
  no_trace $redis
}

@test "mistakes are said with what to do" {
  each_says locks <<'CASES'
|no process: give -p PID
-p 1 --lock f|--lock and --unlock go together
-p 1 --unlock f|--lock and --unlock go together
-p 1 --lock f%return --unlock g|'f%return': --lock takes a FUNCTION
-p 1 --holding --slower 1ms|leave --holding out
-p 1 --now -d 1|--now looks once
--now -- true|give -p PID
-p 1 --slower soon|'soon' is no time
-p 1 --top 5 --json|--json has all
CASES
  run "$PINPRICK" locks --lock no_such_function --unlock free -- true
  [ "$status" -eq 125 ]
  [[ "$output" == *no_such_function* ]]
  run -4 "$PINPRICK" locks --now -p 4194304
  [[ "$output" == *4194304* ]]
}
