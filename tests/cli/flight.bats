# pinprick trace --overwrite as a flight recorder: several dumps, and what a killed one has left.
load helpers

dumps() { field "[$1 for x in r if x['type'] == 'dump']"; }
values() { field "[x['values']['x'] for x in r if x['type'] == 'event' and 'x' in x['values']]"; }
has_dumps() { [ "$(grep -c '"type":"dump"' "$work/records")" -eq "$1" ]; }

# record_ticker PATTERNS AND OPTIONS..., and kill_recorder: its probes stay.
record_ticker() { watch trace -p "$ticker" --overwrite 64K "$@"; }
kill_recorder() {
  kill -KILL "$watcher"
  wait "$watcher" || true
}

@test "--repeat makes a dump at each hit, in which each event is once, and ends with the last hit" {
  start_ticker
  watch trace -p $ticker --overwrite 64K --until 'ticker:nap' --repeat 2 'ticker:tick x=$arg1'
  tell "tick 3" ticked
  tell "nap 1" napped
  patiently has_dumps 1
  tell "tick 5000" ticked
  tell "nap 1" napped
  wait $watcher
  [ "$(dumps "(x['number'], x['cause'], x['until']['function'], 'older_overwritten' in x)")" = \
    "[(1, 'until', 'nap', False), (2, 'until', 'nap', True)]" ]
  [ "$(dumps "x['pause_ns'] is None")" = '[False, True]' ]
  # The events of a dump come before its record, the hit among them.
  [ "$(field "[x['values'].get('x', 'until') for x in r if x['type'] == 'event'][:4]")" = "[0, 1, 2, 'until']" ]
  field "(lambda v: v == list(range(5000))[-len(v):] and len(v) > 1000)(
           [x['values']['x'] for x in r if x['type'] == 'event' and 'x' in x['values']][3:])" | grep True
  [ "$(field "sum(x['events'] for x in r if x['type'] == 'dump') == len([x for x in r if x['type'] == 'event'])")" = True ]
  no_trace $ticker
  end_ticker
}

@test "SIGUSR1 makes a dump, with --repeat or without, and ends nothing" {
  start_ticker
  local options number requests="('request', 1), ('request', 2)"
  for options in '' '--until ticker:nap --repeat 1'; do
    # shellcheck disable=SC2086
    watch trace -p $ticker --overwrite 64K $options 'ticker:tick x=$arg1'
    for number in 1 2; do
      tell "tick $number" ticked
      kill -USR1 $watcher
      patiently has_dumps $number
    done
    tell "tick 3" ticked
    end_watch
    # What is there at the end is a dump of --repeat.
    [ "$(dumps "(x['cause'], x['events'])")" = "[$requests${options:+, ('end', 3)}]" ]
    [ "$(values)" = '[0, 0, 1, 0, 1, 2]' ]
    [ "$(field "[x['events'] for x in r if x['type'] == 'events' and x['function'] == 'tick']")" = '[6]' ]
  done
  end_ticker
}

@test "dumps have files with numbers, and a line that says which one it is" {
  start_ticker
  watch_text "$work/errors" trace -p $ticker --overwrite 64K --until 'ticker:nap' --repeat all -o "$work/x.y.rec" \
    'ticker:tick x=$arg1'
  tell "tick 2" ticked
  tell "nap 1" napped
  until_line "$work/errors" 'x\.y\.1\.rec: until nap, [0-9:.]+, by ticker \([0-9]+\); 3 events; nothing was recorded for [0-9.]+.s then'
  tell "tick 4" ticked
  kill -INT $watcher
  wait $watcher
  grep -qE 'x\.y\.2\.rec: the end, [0-9:.]+; 4 events$' "$work/errors"
  [ ! -e "$work/x.y.rec" ]
  [ "$("$PINPRICK" report "$work/x.y.1.rec" | grep -cE 'tick\(x=[01]\)|until nap')" -eq 3 ]
  [ "$("$PINPRICK" report "$work/x.y.2.rec" | grep -c 'tick(x=')" -eq 4 ]
  end_ticker
}

@test "Enter on the terminal makes a dump, and Ctrl-D there ends nothing" {
  start_ticker
  echo 'import os, pty, sys, time
pid, fd = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], sys.argv[1:])
def read_until(text, seen=b""):
    while text not in seen:
        seen += os.read(fd, 4096)
read_until(b"armed")
os.write(fd, b"\n")
read_until(b"dump 1: Enter")
os.write(fd, b"\x04")  # the end of input ends nothing
os.write(fd, b"\x03")
read_until(b"detached cleanly")
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))' >"$work/terminal.py"
  timeout 60 python3 "$work/terminal.py" "$PINPRICK" trace -p $ticker --overwrite 64K ticker:tick
  no_trace $ticker
  end_ticker
}

@test "a dump that cannot be written ends the recording, with an error" {
  start_ticker
  mkdir "$work/folder"
  watch_text "$work/errors" trace -p $ticker --overwrite 64K -o "$work/folder/x.rec" ticker:tick
  mkdir "$work/folder/x.1.rec"
  kill -USR1 $watcher
  local exit=0
  wait $watcher || exit=$?
  [ $exit -eq 1 ]
  grep -q 'cannot write .*x.1.rec: Is a directory' "$work/errors"
  no_trace $ticker
  end_ticker
}

@test "what a killed recorder has left is collected with names, texts and times, and its probes go" {
  start_ticker
  record_ticker 'ticker:tick x=$arg1 who=$comm' 'ticker:nap%return $latency>=1ms' 
  tell "tick 2" ticked
  tell "nap 2" napped
  kill_recorder
  tell "tick 1" ticked
  [[ "$("$PINPRICK" status -p $ticker)" == *"its newest events: \`pinprick trace --collect -p $ticker\` prints them"* ]]
  "$PINPRICK" status -p $ticker --json >"$work/records"
  [ "$(field "[(x['state'], x['has_events']) for x in r]")" = "[('orphaned', True)]" ]
  "$PINPRICK" trace --collect -p $ticker --json >"$work/records"
  [ "$(field "[(x['function'], x['values'].get('x'), x['values'].get('who')) for x in r if x['type'] == 'event']")" = \
    "[('tick', 0, 'ticker'), ('tick', 1, 'ticker'), ('nap', None, None), ('tick', 0, 'ticker')]" ]
  [ "$(field "[x['latency_ns'] >= 2e6 for x in r if x['type'] == 'event' and x['function'] == 'nap']")" = '[True]' ]
  [ "$(dumps "(x['cause'], x['events'], x['controller'] == $watcher)")" = "[('left', 4, True)]" ]
  [ "$(field "{x['function']: x['events'] for x in r if x['type'] == 'events'}")" = "{'tick': 3, 'nap': 1}" ]
  no_trace $ticker
  run "$PINPRICK" trace --collect -p $ticker
  [ $status -eq 3 ]
  end_ticker
}

@test "another pinprick leaves a killed recorder's events alone, and detach says that they go" {
  start_ticker
  record_ticker 'ticker:tick x=$arg1'
  tell "tick 2" ticked
  run "$PINPRICK" trace --collect -p $ticker
  [ $status -eq 4 ]
  [[ $output == *"pinprick $watcher still records process $ticker"* ]]
  kill_recorder
  run "$PINPRICK" count -p $ticker -d 0.01 ticker:tick
  [ $status -eq 0 ]
  [[ $output == *"pinprick $watcher, which was killed, has left its newest events"*"--collect -p $ticker"* ]]
  tell "tick 1" ticked
  [ "$("$PINPRICK" trace --collect -p $ticker 2>"$work/errors" | grep -c 'tick(x=')" -eq 3 ]
  record_ticker 'ticker:tick x=$arg1'
  kill_recorder
  run "$PINPRICK" detach -p $ticker
  [ $status -eq 0 ]
  [[ $output == *"the newest events that pinprick $watcher had recorded in ticker ($ticker) were thrown away"* ]]
  no_trace $ticker
  end_ticker
}

@test "the rings of a killed recorder outlive the program, and become a recording of a tree" {
  start_ticker
  record_ticker --tree ticker:tick ticker:nap
  tell "tick 2" ticked
  kill_recorder
  end_ticker
  # Verbs that remove the files of dead processes leave this one.
  "$PINPRICK" count -p $$ --dry-run bash:main >/dev/null
  [[ "$("$PINPRICK" status -p $ticker)" == *"the program has ended"*"--collect"* ]]
  "$PINPRICK" record --collect -p $ticker -o "$work/left.rec"
  [ "$("$PINPRICK" report "$work/left.rec" | grep -c '| tick();')" -eq 2 ]
  [ -z "$("$PINPRICK" status --json | grep "\"pid\":$ticker,")" ]
}

@test "a file of rings with nonsense in it is collected without harm" {
  start_ticker
  record_ticker 'ticker:tick x=$arg1 who=$comm'
  tell "tick 1000" ticked
  kill_recorder
  local file
  file=$("$PINPRICK" status -p $ticker --json | grep -oE '/[^"]*\.session')
  end_ticker
  cp "$file" "$work/left"
  local round exit
  for round in {1..40}; do
    python3 - "$work/left" "$file" $round <<'END'
import random, sys
round = int(sys.argv[3])
random.seed(round)
data = bytearray(open(sys.argv[1], 'rb').read())
areas = int.from_bytes(data[360:368], 'little')  # docs/data.md
# In each second round, some bytes of the tables change, else much of what the hits have written.
begin, end, changes = (816, areas, 5) if round % 2 else (areas, len(data), 20000)
for _ in range(changes):
    data[random.randrange(begin, end)] = random.randrange(256)
open(sys.argv[2], 'wb').write(data)
END
    exit=0
    timeout 20 "$PINPRICK" trace --collect -p $ticker --json >"$work/records" 2>&1 || exit=$?
    [[ $exit == [0134] ]] || { echo "round $round: $exit" >&2; return 1; }
    ! grep -q dump "$work/records" || echo told >>"$work/told"
  done
  # Most rounds have found something to tell.
  [ "$(wc -l <"$work/told")" -ge 20 ]
  rm -f "$file"
}

@test "what makes no sense with --repeat and --collect is said" {
  run "$PINPRICK" trace -p $$ --overwrite 1M --repeat 2 bash:f
  [ $status -eq 2 ]
  [[ $output == *"--repeat goes with --overwrite SIZE and --until POINT"* ]]
  run "$PINPRICK" trace -p $$ --overwrite 1M --until bash:f --repeat 0 bash:f
  [ $status -eq 2 ]
  [[ $output == *"'0' is no number, and not all"* ]]
  run "$PINPRICK" trace --collect
  [ $status -eq 2 ]
  [[ $output == *"--collect is for one process: give -p PID"* ]]
  local option
  for option in bash:f '--repeat 2' '--after 1s' '--limit 1'; do
    # shellcheck disable=SC2086
    run "$PINPRICK" trace --collect -p $$ $option
    [ $status -eq 2 ]
    [[ $output == *"--collect prints all that is there"* ]]
  done
}
