# pinprick trace: each hit, as it happens.
load helpers

# events [FUNCTION]: the values of the events in their order, as JSON.
events() { field "json.dumps([x['values'] for x in r if x['type'] == 'event' and x['function'] == '$1'])"; }
# last FUNCTION FIELD: of the figures at the end.
last() { field "[x['$2'] for x in r if x['type'] == 'events' and x['function'] == '$1'][0]"; }

@test "each call is told once, in the order of time, with its values, its thread and its return" {
  start_ticker
  watch trace -p $ticker 'ticker:recurse depth=$arg1' 'ticker:recurse%return depth=$arg1 $retval'
  tell "recurse 3" recursed
  end_watch
  [ "$(events recurse)" = '[{"depth": 3}, {"depth": 2}, {"depth": 1}, {"depth": 0},'\
' {"depth": 0, "$retval": 1}, {"depth": 1, "$retval": 2}, {"depth": 2, "$retval": 3}, {"depth": 3, "$retval": 4}]' ]
  field "{(x['pid'], x['tid'], x['command']) for x in r if x['type'] == 'event'}" |
    grep -F "{($ticker, $ticker, 'ticker')}"
  # An outer call takes longer than those in it, and all have ended when they were told.
  field "all(a['latency_ns'] < b['latency_ns'] and a['time_ns'] <= b['time_ns']
             for e in [[x for x in r if 'latency_ns' in x]] for a, b in zip(e, e[1:]))" | grep True
  [ "$(last recurse events)" -eq 4 ]
  no_trace $ticker
  end_ticker
}

@test "the time of an event is that of the clock" {
  start_ticker
  watch trace -p $ticker 'ticker:tick'
  local before=$(($(date +%s%N) - 1000000)) after
  tell "tick 1" ticked
  after=$(($(date +%s%N) + 1000000))
  end_watch
  field "[$before <= x['time_ns'] <= $after for x in r if x['type'] == 'event']" | grep -F '[True]'
  end_ticker
}

@test "a condition, --slower and --limit choose among the hits" {
  start_ticker
  watch trace -p $ticker 'ticker:tick x=$arg1 if $arg1%100==7' --slower 20ms ticker:nap
  tell "nap 1" napped
  tell "nap 30" napped
  tell "tick 1000" ticked
  end_watch
  [ "$(events nap)" = '[{}]' ]
  field "[x['latency_ns'] >= 30e6 for x in r if x['type'] == 'event']" | grep -F '[True]'
  rm "$work/records"
  "$PINPRICK" trace --json -o "$work/records" --limit 3 -p $ticker 'ticker:tick x=$arg1 if $arg1%100==7' 7>&- &
  ends_with_test $!
  until_line "$work/records" '"type":"armed"'
  tell "tick 1000" ticked
  wait $!
  [ "$(events tick)" = '[{"x": 7}, {"x": 107}, {"x": 207}]' ]
  no_trace $ticker
  end_ticker
}

@test "eight threads tell each of their calls, and what is dropped is counted" {
  start_ticker 8
  watch trace -p $ticker --buffer 4M 'ticker:tick $arg1'
  local i
  for i in 1 2 3 4; do tell "tick 20000" ticked; done
  end_watch
  [ "$(last tick events)" -eq 80000 ]
  [ "$(last tick dropped)" -eq 0 ]
  [ "$(field "len([x for x in r if x['type'] == 'event'])")" -eq 80000 ]
  # Of the eight, seven are new for each command.
  [ "$(field "len({x['tid'] for x in r if x['type'] == 'event'})")" -eq 29 ]
  field "(lambda t: t == sorted(t))([x['time_ns'] // 1000 for x in r if x['type'] == 'event'])" | grep True
  watch trace --fail-on-loss -p $ticker --buffer 64K 'ticker:tick x=$arg1'
  kill -STOP $watcher
  tell "tick 100000" ticked
  kill -CONT $watcher
  local status=0
  end_watch || status=$?
  [ $status -eq 5 ]
  [ "$(last tick dropped)" -gt 0 ]
  [ $(($(last tick events) + $(last tick dropped))) -eq 100000 ]
  [ "$(field "len([x for x in r if x['type'] == 'event'])")" -eq "$(last tick events)" ]
  no_trace $ticker
  end_ticker
}

@test "without rseq, threads share a ring, and nothing is lost" {
  export GLIBC_TUNABLES=glibc.pthread.rseq=0
  start_ticker 4
  unset GLIBC_TUNABLES
  watch trace -p $ticker 'ticker:tick x=$arg1' 'ticker:tick%return $retval'
  tell "tick 8000" ticked
  end_watch
  [ "$(field "[x['events'] for x in r if x['type'] == 'events']")" = '[8000, 8000]' ]
  [ "$(field "len({x['tid'] for x in r if x['type'] == 'event'})")" -eq 4 ]
  end_ticker
}

# On one CPU, it is known which hits these are.
@test "--every records each Nth hit for which the condition holds, and counts all of them" {
  start_ticker
  taskset -pc 0 $ticker >/dev/null || skip "cannot bind a process to a CPU here"
  watch trace -p $ticker --every 7 'ticker:tick x=$arg1 if $arg1%2==1' 'ticker:tick%return y=$arg1'
  tell "tick 100" ticked
  end_watch
  [ "$(field "[x['values']['x'] for x in r if x['type'] == 'event' and 'x' in x['values']]")" = \
    "[1, 15, 29, 43, 57, 71, 85, 99]" ]
  [ "$(field "[x['values']['y'] for x in r if x['type'] == 'event' and 'y' in x['values']]")" = \
    "$(python3 -c 'print(list(range(100))[::7])')" ]
  [ "$(field "sorted([x['hits'], x['events'], x['every']] for x in r if x['type'] == 'events')")" = \
    "[[50, 8, 7], [100, 15, 7]]" ]
  no_trace $ticker
  end_ticker
}

@test "--every counts exactly on eight threads, with rseq and without, and changes nothing" {
  local tunables
  for tunables in '' glibc.pthread.rseq=0; do
    GLIBC_TUNABLES=$tunables start_ticker 8
    watch trace -p $ticker --every 100 'ticker:tick x=$arg1' 'ticker:tick%return $retval'
    tell "tick 200000" ticked
    tell "tick 200000" ticked
    end_watch
    # Each CPU, and each part of the area that threads share, may have one more.
    field "[x['hits'] == 400000 and 4000 <= x['events'] <= 4000 + $(nproc) + 8
            for x in r if x['type'] == 'events']" | grep -F '[True, True]'
    [ "$(field "sum(x['type'] == 'event' for x in r)")" -eq \
      "$(field "sum(x['events'] for x in r if x['type'] == 'events')")" ]
    no_trace $ticker
    end_ticker
    rm "$work/in"
  done
}

@test "texts are told whole or cut, what cannot be read is null, and their number is not" {
  start_fed reads
  watch trace -p "$fed" 'reads:take text=$arg1:string' 'reads:look $arg1+0 wide=*(u64*)($arg1+8)'
  echo edges >&7
  until_line "$work/out" '^\['
  echo numbers >&7
  patiently has_more_lines 1
  end_watch
  python3 - "$work/records" "$work/out" <<'PYTHON'
import collections, json, sys
records = [json.loads(line) for line in open(sys.argv[1])]
said = [json.loads(line) for line in open(sys.argv[2]) if line.startswith('[')]
taken = [e for e in records if e['type'] == 'event' and e['function'] == 'take']
told = collections.Counter((e['values']['text'], e.get('cut', [])  == ['text']) for e in taken)
known = collections.Counter()
for text, times in said[0]:
    known[text if text is None else text[:64], text is not None and len(text) > 64] += times
assert told == known, (told, known)
# Not at address 0, where there is none.
assert any('unreadable' in e for e in taken)
assert all(e['values']['text'] is None for e in taken if 'unreadable' in e)
PYTHON
  field "[x['unread'] for x in r if x['type'] == 'events' and x['function'] == 'look'] == [
         len([x for x in r if x['type'] == 'event' and x['values'].get('wide', 0) is None])]" | grep True
  [ "$(last look unread)" -gt 0 ]
  no_trace "$fed"
  end_fed
}

@test "--args tells what the functions of libc are called with, as strace sees it" {
  command -v strace >/dev/null || skip "needs strace"
  cd "$work"
  for i in 1 2 3; do echo "text $i" >"file $i"; done
  "$PINPRICK" trace --args --json -o "$work/records" 'libc:openat%return' 'libc:open%return' 'libc:read%return' \
    -- cat "file 1" "file 2" "none" "file 3" >/dev/null 2>&1 || true
  strace -o "$work/said" -e trace=openat,read cat "file 1" "file 2" "none" "file 3" >/dev/null 2>&1 || true
  python3 - "$work/records" "$work/said" <<'PYTHON'
import json, re, sys
events = [x for x in map(json.loads, open(sys.argv[1])) if x['type'] == 'event']
told = [(e['values']['pathname'], e['values']['$retval']) for e in events if e['function'].startswith('open')]
said = [(m[1], int(m[2])) for m in re.finditer(r'openat\(AT_FDCWD, "([^"]*)", .*\)\s+= (-?\d+)', open(sys.argv[2]).read())
        if m[1].startswith(('file', 'none'))]
assert [t for t in told if t[0].startswith(('file', 'none'))] == said and len(said) == 4, (told, said)
reads = [(e['values']['fd'], e['values']['count'], e['values']['$retval']) for e in events if e['function'] == 'read']
said = [(int(m[1]), int(m[2]), int(m[3]))
        for m in re.finditer(r'read\((\d+), .*, (\d+)\)\s+= (\d+)', open(sys.argv[2]).read())]
assert reads and reads == said[-len(reads):], (reads, said)
PYTHON
}

@test "a line for people has the time, the thread, its command, and what was called" {
  "$PINPRICK" trace 'libc:getenv name:string from=$caller' 'libc:getenv%return name:string $retval' \
    -o "$work/out" -- env -i HOME='/a "b"' sh -c 'echo ~' >/dev/null
  grep -E '^[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6} +[0-9]+ sh +getenv\(name="[A-Z]+", from=[^)]+\)$' "$work/out"
  grep -E ' getenv\(name="[A-Z]+"\) = 0 <[0-9.]+[nu]s>$' "$work/out"
}

@test "the arguments of SDT points are told" {
  "$PINPRICK" trace --json -o "$work/records" 'usdt:python:function__return file=$arg1:string $arg2:string line=$arg3' \
    -- python3 -c 'def fine(x): pass
list(map(fine, [1]))' || skip "needs a python with SDT points"
  field "[x['values'] for x in r if x['type'] == 'event' and x['values']['\$arg2'] == 'fine']" |
    grep -F "[{'file': '<string>', '\$arg2': 'fine', 'line': 1}]"
}

@test "what a child calls is told with its own thread, followed or not" {
  cat >"$work/forks.sh" <<'SH'
echo one
(echo two)
/bin/echo three
SH
  "$PINPRICK" trace --json -o "$work/records" --children=follow 'libc:write fd count' -- sh "$work/forks.sh" >/dev/null
  [ "$(field "sorted([x['command'], x['values']['count']] for x in r if x['type'] == 'event')")" = \
    "[['echo', 6], ['sh', 4], ['sh', 4]]" ]
  [ "$(field "len({x['tid'] for x in r if x['type'] == 'event'})")" -eq 3 ]
  "$PINPRICK" trace --json -o "$work/records" 'libc:write fd count' -- sh "$work/forks.sh" >/dev/null
  [ "$(field "len({x['tid'] for x in r if x['type'] == 'event'})")" -eq 2 ]
  "$PINPRICK" trace --json -o "$work/records" --children=ignore 'libc:write fd count' -- sh "$work/forks.sh" >/dev/null
  [ "$(field "len({x['tid'] for x in r if x['type'] == 'event'})")" -eq 1 ]
}

@test "every process of a file is told of" {
  use_copy ticker
  start_ticker
  local first=$ticker
  watch trace --all "$work/ticker" 'ticker:tick x=$arg1'
  tell "tick 2" ticked
  echo 'tick 3' | "$work/ticker" 1 >/dev/null
  end_watch
  [ "$(field "[(x['pid'] == $first, x['values']['x']) for x in r if x['type'] == 'event']")" = \
    "[(True, 0), (True, 1), (False, 0), (False, 1), (False, 2)]" ]
  end_ticker
}

@test "after kill -9 the program runs on, and the next one takes the probes out" {
  start_ticker 2
  watch trace -p $ticker --buffer 64K 'ticker:tick x=$arg1' 'ticker:tick%return'
  kill -KILL "$watcher"
  wait "$watcher" || true
  tell "tick 20000" ticked
  "$PINPRICK" status -p $ticker | grep -q orphaned
  watch trace -p $ticker 'ticker:tick x=$arg1'
  tell "tick 10" ticked
  end_watch
  [ "$(last tick events)" -eq 10 ]
  no_trace $ticker
  end_ticker
}

@test "libraries that are loaded later are told of" {
  start_fed dlhost 1
  watch trace --allow-missing -p "$fed" 'plugin*:plugin_*%return $retval'
  tell "load $TARGETS/plugin.so" load
  tell "call 3" call
  tell unload unload
  end_watch
  [ "$(field "len([x for x in r if x['type'] == 'event'])")" -ge 3 ]
  no_trace "$fed"
  end_fed
}

@test "a value is named by its whole expression, but for a type that ends it" {
  start_ticker
  watch trace -p $ticker 'ticker:tick $arg1:s32==2 $arg1:s32+1 $arg1:u8 ($arg1 - 3) if $arg1==2'
  tell "tick 3" ticked
  end_watch
  [ "$(events tick)" = '[{"$arg1:s32==2": 1, "$arg1:s32+1": 3, "$arg1": 2, "($arg1 - 3)": -1}]' ]
  end_ticker
}

@test "each byte of a text can be told from others, and a line stays a line" {
  printf 'a\001\377b\0line\nquote"\0\303\251\0' >"$work/texts"
  "$PINPRICK" trace -o "$work/out" 'reads:take $arg1:string' -- "$TARGETS/reads" texts "$work/texts" >/dev/null
  [ "$(sed -n 's/.* take(\(.*\))$/\1/p' "$work/out")" = '$arg1="a\x01\xffb"
$arg1="line\nquote\""
$arg1="é"' ]
}

@test "a reader of the output that takes nothing holds up neither the end nor the program" {
  start_ticker
  mkfifo "$work/slow"
  exec 9<>"$work/slow"
  "$PINPRICK" trace -p $ticker 'ticker:tick x=$arg1' >"$work/slow" 2>"$work/errors" 3>&- 7>&- 9>&- &
  local tracer=$! status=0
  ends_with_test $tracer
  until_line "$work/errors" '^armed'
  tell "tick 100000" ticked
  tell "tick 100000" ticked
  kill -INT $tracer
  wait $tracer || status=$?
  [ $status -eq 1 ]
  grep -E '^pinprick: .*[0-9]+ events were not printed' "$work/errors"
  no_trace $ticker
  exec 9>&-
  end_ticker
}

@test "mistakes are said with the place" {
  run "$PINPRICK" trace -p $$ 'libc:write $arg0'
  [ "$status" -eq 2 ]
  [[ $output == *"'libc:write \$arg0'"* ]]
  run "$PINPRICK" trace -p $$ --tree 'a..b'
  [ "$status" -eq 2 ]
  [[ $output == *'a span (START..END) goes without it'* ]]
  run "$PINPRICK" trace -p $$ "libc:write $(printf '$arg1+%d ' $(seq 61))"
  [ "$status" -eq 2 ]
  [[ $output == *'60 values at most'* ]]
  run "$PINPRICK" trace -p $$ --buffer 3X libc:write
  [ "$status" -eq 2 ]
  [[ $output == *"'3X' is no size"* ]]
}

@test "threads whose fs base points elsewhere are told without a number, and their stacks as they are" {
  "$PINPRICK" trace --json -o "$work/records" --stack=2 'foreign_fs:leaf $arg1' -- "$TARGETS/foreign_fs"
  [ "$(field 'sorted({(x["values"]["$arg1"], x["tid"] == x["pid"], x["tid"] == 0, x["values"]["$stack"][1][:4])
        for x in r if x["type"] == "event"})')" = \
    "[(1, True, False, '__li'), (2, False, True, 'main')]" ]
  [ "$(field 'sum(x["type"] == "event" for x in r)')" -eq 200 ]
}

@test "a line in the user's words, with values in it" {
  printf '%s\n' 'tick 3' | "$PINPRICK" trace -o "$work/out" \
    'ticker:tick "{$arg1} of {{{$arg1:x32}}}, a \"tick\" if {$arg1 in {0,2}}\n" n=$arg1 if $arg1!=1' \
    'ticker:tick%return "here" $retval' -- "$TARGETS/ticker"
  sed -E 's/^[0-9:.]+ +[0-9]+ ticker +//; s/ <.*>$//' "$work/out" >"$work/lines"
  diff - "$work/lines" <<'LINES'
0 of {0}, a "tick" if 1 (n=0)
here = 1
here = 4
2 of {0x2}, a "tick" if 1 (n=2)
here = 7
LINES
  "$PINPRICK" trace --json -o "$work/records" 'libc:fopen* "reads {$arg1:string}, {$arg2:string}"' -- \
    python3 -S -E -c 'import ctypes, sys; ctypes.CDLL(None).fopen(sys.argv[1].encode(), b"r+e")' "$work/a b"
  [ "$(field "[(x['text'], x['values']) for x in r if x['type'] == 'event' and 'a b' in x['text']]")" = \
    "[('reads $work/a b, r+e', {'\$arg1': '$work/a b', '\$arg2': 'r+e'})]" ]
  "$PINPRICK" trace --tree -o "$work/out" 'paths:outer "number {$arg1}" "got {$retval}"' \
    'paths:middle "plus {$retval}"' -- "$TARGETS/paths"
  [ "$(sed -n 's/^.*[0-9] | //p' "$work/out" | head -n 3)" = 'number 0 {
  middle(): plus 1;
} outer: got 2' ]
  run "$PINPRICK" count 'libc:read "x"' -- true
  [ "$status" -eq 2 ]
  run "$PINPRICK" trace 'libc:read "fd {fd"' -- true
  [ "$status" -eq 2 ]
  [[ "${lines[1]}" == *'"fd {fd"' ]]
  [[ "${lines[2]}" == *'      ^' ]]
}

@test "a span is one event, with what its start tells and the time to its end" {
  "$PINPRICK" trace --json -o "$work/records" 'usdt:paths:passed..paths:leaf' \
    'paths:outer..paths:leaf%return number=$arg1 "outer {$arg1}" if $arg1>=10&&$arg1<13' -- "$TARGETS/paths"
  # passed() is hit 60 times, and calls nothing; leaf() is called 1,967 times, hardly ever in a span.
  [ "$(field "[(x['function'], x['values'], x['text'], x['latency_ns'] > 0) for x in r if x['type'] == 'event' and 'text' in x]")" = \
    "[('outer..leaf', {'number': 10, '\$arg1': 10}, 'outer 10', True), ('outer..leaf', {'number': 11, '\$arg1': 11}, 'outer 11', True), ('outer..leaf', {'number': 12, '\$arg1': 12}, 'outer 12', True)]" ]
  [ "$(field "[(x['function'], x['values']) for x in r if x['type'] == 'event' and 'text' not in x]")" = \
    "[('paths:passed..leaf', {})]" ]
  [ "$(field "[(x['repeated_starts'], x['unmatched_ends'], x['open']) for x in r if x['type'] == 'spans']")" = \
    "[(59, $((1967 - 1 + 1967 - 3)), 0)]" ]
  # From each hit of one point to the next one.
  echo 'tick 4' | "$PINPRICK" trace --json -o "$work/records" 'ticker:tick..ticker:tick $arg1' -- "$TARGETS/ticker"
  [ "$(field "[x['values']['\$arg1'] for x in r if x['type'] == 'event']")" = '[0, 1, 2]' ]
  [ "$(field "[(x['repeated_starts'], x['unmatched_ends'], x['open']) for x in r if x['type'] == 'spans']")" = '[(0, 1, 1)]' ]
  start_ticker 4
  watch trace -p "$ticker" --limit 100 'ticker:tick..ticker:tick%return n=$arg1' 'ticker:tick%return $arg1'
  tell "tick 4000" ticked
  end_watch || true
  # Of each two events with the same argument, one is the span around the call, and the other one the call.
  evaluate - "$work/records" <<'PYTHON'
import json, sys
events = [x for x in map(json.loads, open(sys.argv[1])) if x['type'] == 'event']
assert len(events) == 100
calls = {(x['tid'], x['values']['$arg1']): x['latency_ns'] for x in events if '..' not in x['function']}
spans = {(x['tid'], x['values']['n']): x['latency_ns'] for x in events if '..' in x['function']}
assert len(calls) + len(spans) == 100, (len(calls), len(spans))
both = calls.keys() & spans.keys()
assert len(both) >= 45, len(both)
PYTHON
  end_ticker
}

@test "spans that are slow are shown, with the stack of their start" {
  cat >"$work/slow.py" <<'PYTHON'
import ctypes
libc = ctypes.CDLL(None)
for i in range(20):
    libc.getppid()
    if i % 10 == 7: libc.usleep(60000 + i)
    libc.getpid()
PYTHON
  "$PINPRICK" trace --slower 50ms --stack=2 -o "$work/out" libc:getppid..libc:getpid \
    -- python3 -S -E "$work/slow.py" 2>"$work/errors"
  [ "$(grep -cE '^[0-9:.]+ +[0-9]+ python3 +getppid\.\.getpid\(\) <[0-9.]+ms>$' "$work/out")" -eq 2 ]
  [ "$(wc -l <"$work/out")" -eq 6 ]
  "$PINPRICK" trace --faster 50ms -o "$work/out" libc:getppid..libc:getpid -- python3 -S -E "$work/slow.py"
  [ "$(wc -l <"$work/out")" -eq 18 ]
  local wrong
  for wrong in ..libc:getpid libc:getppid.. a..b..c; do
    run "$PINPRICK" trace "$wrong" -- true
    [ "$status" -eq 2 ]
  done
  run "$PINPRICK" trace --tree libc:getppid..libc:getpid -- true
  [ "$status" -eq 2 ]
}
