# What is counted, timed and recorded at the return of calls: by their result, by how long they took,
# and by what they had at their entry. Programs that know their own figures say what is right.
load helpers

# figure FIELD FUNCTION CONDITION [VALUE]: of the last report, at the return; None if nothing was hit.
figure() {
  field "([x['$1'] for x in r if x.get('final') and x.get('function') == '$2' and x.get('at') == 'return'
           and x.get('if', '') == '$3' and x.get('value', '') == '${4:-}'] or [None])[0]"
}

# A Python program that writes by os.write alone, to files and to a pipe that takes less than it is given,
# and sleeps, and says how often it did what.
write_program() {
  cat >"$work/program.py" <<'PYTHON'
import collections, os, random, time
random.seed(11)
null = os.open('/dev/null', os.O_WRONLY)
os.dup2(null, 100)
reads, full = os.pipe()
os.set_blocking(full, False)
os.dup2(full, 102)
zero = os.open('/dev/zero', os.O_RDONLY)
os.dup2(zero, 103)
tally, in_pipe = collections.Counter(), 0
for i in range(3000):
    to, size = random.choice((100, 102, 199)), random.choice((0, 1, 3, 5000, 200000))
    try:
        wrote = os.write(to, bytes(size))
    except OSError:
        wrote = -1
    tally['calls'] += 1
    tally['failed'] += wrote < 0
    tally['failed to 102'] += wrote < 0 and to == 102
    tally['nothing'] += wrote == 0
    tally['short'] += 0 <= wrote < size
    tally['missing bytes'] += size - wrote if 0 <= wrote < size else 0
    tally['bytes'] += max(wrote, 0)
    tally['bytes to 100'] += max(wrote, 0) if to == 100 else 0
    in_pipe += max(wrote, 0) if to == 102 else 0
    if i % 3 == 0 and in_pipe:
        in_pipe -= len(os.read(reads, 1 << 20))
for i in range(4):
    time.sleep(0.3)
for i in range(40):
    time.sleep(0.001)
open(os.environ['TALLY'], 'w').write('\n'.join(f'{name}={n}' for name, n in tally.items()))
PYTHON
}
tally() { sed -n "s/^$1=//p" "$work/tally"; }
# program VERB ARGUMENTS...: measures it from its start.
program() {
  write_program
  TALLY="$work/tally" "$PINPRICK" "$@" --json -o "$work/records" -- python3 "$work/program.py"
}

@test "calls are counted by their result, exactly as a Python program knows it" {
  local own='$arg1 in {100,102,199}'
  program count "libc:write%return if $own" "libc:write%return if $own && \$retval<0" \
    "libc:write%return if $own && \$retval==0" "libc:write%return if \$retval<0 && \$arg1==102"
  [ "$(figure hits write "$own")" = "$(tally calls)" ]
  [ "$(figure hits write "$own && \$retval<0")" = "$(tally failed)" ]
  [ "$(figure hits write "$own && \$retval==0")" = "$(tally nothing)" ]
  [ "$(figure hits write '$retval<0 && $arg1==102')" = "$(tally 'failed to 102')" ]
  [ "$(figure missed write "$own")" = 0 ]
}

@test "a result is recorded, and what a call had at its entry is still known" {
  local own='$arg1 in {100,102,199}' short='$arg1 in {100,102} && $retval>=0 && $retval<$arg3'
  program measure --bits 5 "hist libc:write%return \$retval if $own" \
    "hist libc:write%return \$retval if \$arg1==100" \
    "hist libc:write%return \$arg3-\$retval if $short" "count libc:write%return if $short"
  local sum='int([x["sum"] for x in r if x.get("final") and x["type"] == "hist"'
  [ "$(figure negative write "$own" '$retval')" = "$(tally failed)" ]
  [ "$(figure count write "$own" '$retval')" = "$(tally calls)" ]
  [ "$(field "$sum and x['if'] == '$own'][0])")" = "$(tally bytes)" ]
  [ "$(field "$sum and x['if'] == '\$arg1==100'][0])")" = "$(tally 'bytes to 100')" ]
  [ "$(figure count write "$short" '$arg3-$retval')" = "$(tally short)" ]
  [ "$(figure hits write "$short")" = "$(tally short)" ]
  [ "$(field "$sum and x['if'] == '$short'][0])")" = "$(tally 'missing bytes')" ]
}

@test "slow calls alone are recorded, or fast ones, and the others are no losses" {
  write_program
  local limit slow fast all
  TALLY="$work/tally" "$PINPRICK" measure --json -o "$work/records" \
    'latency libc:clock_nanosleep --slower 150ms' 'latency libc:clock_nanosleep --faster=150ms' \
    'latency libc:clock_nanosleep' 'slow = latency libc:clock_nanosleep%return if $latency>=150ms' \
    -- python3 "$work/program.py"
  slow=$(figure count clock_nanosleep '$latency>=150ms')
  fast=$(figure count clock_nanosleep '$latency<=150ms')
  all=$(field "[x['count'] for x in r if x.get('final') and 'if' not in x][0]")
  [ "$slow" -ge 4 ]
  [ "$fast" -ge 1 ]
  [ $((slow + fast)) -eq 44 ]
  [ "$all" -eq 44 ]
  [ "$(field "[x['count'] for x in r if x.get('measure') == 'slow'][0]")" = "$slow" ]
  [ "$(field "min(s[0] for x in r if x.get('if') == '\$latency>=150ms' for s in x['slots'])")" -ge 140000000 ]
  [ "$(field "sum(x[k] for x in r if 'unwound' in x for k in ('missed', 'unwound', 'abandoned', 'ended'))")" = 0 ]
}

@test "--slower and --faster hold for all patterns of latency, beside their own conditions" {
  program latency --slower 150ms --faster 10s 'libc:clock_nanosleep' 'libc:write if $arg1==100'
  [ "$(figure count clock_nanosleep '$latency>=150ms && $latency<=10s')" -ge 4 ]
  [[ "$(figure count write '$arg1==100 && $latency>=150ms && $latency<=10s')" == @(None|0) ]]
}

@test "registers at a return are as the call has left them" {
  start_ticker 1
  watch measure -p "$ticker" 'hist ticker:tick%return %rax' 'hist ticker:tick%return $retval' \
    'count ticker:tick%return if %rax==$arg1*3+1 && $retval==%rax' \
    'count ticker:tick%return if %rsp%16==8' 'count ticker:tick%return if %rsp%16==0'
  tell "tick 1000" ticked
  end_watch
  [ "$(figure count tick '' '%rax')" = 1000 ]
  [ "$(figure sum tick '' '$retval')" = 1499500.0 ]
  [ "$(figure hits tick '%rax==$arg1*3+1 && $retval==%rax')" = 1000 ]
  # After the return, the stack is as before the call.
  [ "$(figure hits tick '%rsp%16==0')" = 1000 ]
  [[ "$(figure hits tick '%rsp%16==8')" == @(None|0) ]]
  no_trace "$ticker"
  end_ticker
}

@test "of all returns in eight threads, those for which a condition holds and the others make the whole" {
  start_ticker 8
  watch count -p "$ticker" 'ticker:tick' 'ticker:tick%return' 'ticker:tick%return if $retval&1' \
    'ticker:tick%return if !($retval & 1)' 'ticker:tick%return if $retval!=$arg1*3+1'
  tell "tick 4000000" ticked
  end_watch
  [ "$(field "[x['hits'] for x in r if x.get('final') and 'at' not in x and x['type'] == 'count'][0]")" = 4000000 ]
  [ "$(figure hits tick '')" = 4000000 ]
  [ "$(figure hits tick '$retval&1')" = 2000000 ]
  [ "$(figure hits tick '!($retval & 1)')" = 2000000 ]
  [[ "$(figure hits tick '$retval!=$arg1*3+1')" == @(None|0) ]]
  no_trace "$ticker"
  end_ticker
}

@test "each return of a recursion knows what its own call had at its entry" {
  start_ticker 1
  watch measure -p "$ticker" 'hist ticker:recurse%return $arg1' \
    'count ticker:recurse%return if $retval==$arg1+1'
  tell "recurse 500" "recursed.*"
  end_watch
  [ "$(figure count recurse '' '$arg1')" = 501 ]
  [ "$(figure sum recurse '' '$arg1')" = 125250.0 ]
  [ "$(figure hits recurse '$retval==$arg1+1')" = 501 ]
  end_ticker
}

@test "a call that longjmp leaves does not return" {
  start_ticker 1
  watch measure -p "$ticker" 'count ticker:leap' 'count ticker:leap%return' 'hist ticker:leap%return $arg1'
  tell "leap 300" leapt
  end_watch
  [ "$(field "[x['hits'] for x in r if x.get('final') and 'at' not in x and x['type'] == 'count'][0]")" = 300 ]
  [[ "$(figure hits leap '')" == @(None|0) ]]
  [[ "$(figure count leap '' '$arg1')" == @(None|0) ]]
  [ "$(figure abandoned leap '')" = 300 ]
  end_ticker
}

@test "probes at returns come and go while eight threads call, and the program is right" {
  start_ticker 8
  echo "tick 40000000" >&7
  local i
  for i in 1 2 3 4 5 6 7 8; do
    "$PINPRICK" measure -p "$ticker" -d 0.05 --json 'hist ticker:tick%return $retval-$arg1*3' \
      'latency ticker:tick --slower 1us' >"$work/records"
    [ "$(field "all(s[0] == 1 for x in r if x['type'] == 'hist' for s in x['slots'])")" = True ]
  done
  tell ready ready
  grep -q ticked "$work/out"
  no_trace "$ticker"
  end_ticker
}

@test "a program goes on when the controller is killed, and what it left can be taken out" {
  start_ticker 4
  watch measure -p "$ticker" 'hist ticker:tick%return $retval-$arg1*3' 'latency ticker:nap --slower 1ms'
  tell "tick 100000" ticked
  end_watch KILL || true
  tell "tick 100000" ticked
  tell "nap 2" napped
  "$PINPRICK" status -p "$ticker" >"$work/status"
  grep -q 'tick%return $retval-$arg1\*3' "$work/status"
  grep -q 'nap%return if $latency>=1ms' "$work/status"
  grep -qE 'n=200,000|200,000' "$work/status"
  "$PINPRICK" status -p "$ticker" --json >"$work/records"
  [ "$(field "sorted(x['at'] for s in r for x in s['probes'])")" = "['return', 'return']" ]
  "$PINPRICK" detach -p "$ticker"
  tell "tick 100000" ticked
  no_trace "$ticker"
  end_ticker
}

@test "forked children return through what they have inherited" {
  cat >"$work/forks.py" <<'PYTHON'
import os
null = os.open('/dev/null', os.O_WRONLY)
os.dup2(null, 100)
def writes():
    for i in range(500):
        os.write(100, bytes(i % 7))
for child in range(4):
    if os.fork() == 0:
        writes()
        os._exit(0)
writes()
for child in range(4):
    os.wait()
PYTHON
  "$PINPRICK" count --json -o "$work/records" 'libc:write%return if $arg1==100 && $retval==6' \
    'libc:fork%return if $retval==0' 'libc:fork%return if $retval>0' -- python3 "$work/forks.py"
  [ "$(figure hits write '$arg1==100 && $retval==6')" = $((5 * 71)) ]
  # A call that is under way when its process forks returns in both.
  [ "$(figure hits fork '$retval==0')" = 4 ]
  [ "$(figure hits fork '$retval>0')" = 4 ]
}

@test "two pinpricks decide about the returns of one function, each for itself" {
  start_ticker 2
  watch count -p "$ticker" 'ticker:tick%return if $retval%2==1 && $retval==$arg1*3+1'
  "$PINPRICK" count -p "$ticker" --json 'ticker:tick%return if $arg1<10 && $arg1<$retval' -o "$work/second" &
  local second=$!
  ends_with_test $second
  until_line "$work/second" '"type":"armed"'
  tell "tick 1000" ticked
  kill -INT $second
  wait $second
  tell "tick 1000" ticked
  end_watch
  [ "$(figure hits tick '$retval%2==1 && $retval==$arg1*3+1')" = 1000 ]
  cp "$work/second" "$work/records"
  [ "$(figure hits tick '$arg1<10 && $arg1<$retval')" = 20 ]
  no_trace "$ticker"
  end_ticker
}

@test "a call that an exception leaves does not return" {
  start_fed thrower 300 by-line
  watch count -p "$fed" thrower:leaf 'thrower:leaf%return'
  yes '' 2>/dev/null | head -n 300 >&7
  end_fed
  wait "$watcher"
  local called returned unwound
  called=$(field "[x['hits'] for x in r if x.get('final') and 'at' not in x and x['type'] == 'count'][0]")
  returned=$(figure hits leaf '') unwound=$(figure unwound leaf '')
  [ "$called" -gt 100 ]
  [ "$returned" -gt 0 ] && [ "$unwound" -gt 0 ]
  [ $((returned + unwound)) -eq "$called" ]
}

@test "conditions that say different things of the entry of one function are all decided" {
  start_ticker 1
  watch measure -p "$ticker" 'latency ticker:tick' 'count ticker:tick%return if $arg1<10 && $retval' \
    'count ticker:tick%return if $arg1==5' 'hist ticker:tick%return $arg1'
  tell "tick 1000" ticked
  end_watch
  [ "$(field "[x['count'] for x in r if x['type'] == 'latency' and x['final']][0]")" = 1000 ]
  [ "$(figure hits tick '$arg1<10 && $retval')" = 10 ]
  [ "$(figure hits tick '$arg1==5')" = 1 ]
  [ "$(figure sum tick '' '$arg1')" = 499500.0 ]
  # Nine values are too many.
  local one
  local -a nine=()
  for one in '$arg1' '$arg2' '$arg3' '$arg4' '$arg5' '$arg6' '*(u8*)$arg1' '*(u8*)$arg2' '*(u8*)$arg3'; do
    nine+=("ticker:tick%return if $one||\$retval")
  done
  "$PINPRICK" count --allow-missing --json -d 0.01 -p "$ticker" "${nine[@]}" >"$work/records"
  [ "$(field "[x['reason'] for x in r if x['type'] == 'skipped'] == ['too_many_kept']")" = True ]
  no_trace "$ticker"
  end_ticker
}

@test "calls are counted at their return under --budget, but not by a condition" {
  start_ticker 1
  watch count --budget 90% -p "$ticker" ticker:tick%return
  tell "tick 1000" ticked
  end_watch
  [ "$(figure hits tick '')" = 1000 ]
  run "$PINPRICK" latency --budget 2% -p "$ticker" --slower 1ms ticker:tick
  [ "$status" -eq 2 ]
  [[ "${lines[0]}" == *"give the budget or the condition" ]]
  end_ticker
}

@test "top shows slow calls alone" {
  start_ticker 1
  "$PINPRICK" top -p "$ticker" --slower 5ms --json -o "$work/records" ticker:nap ticker:tick 3>&- 7>&- &
  watcher=$!
  ends_with_test $watcher
  until_line "$work/records" '"type":"armed"'
  tell "nap 20" napped
  tell "nap 0" napped
  tell "tick 1000" ticked
  end_watch
  [ "$(figure count nap '$latency>=5ms')" = 1 ]
  [[ "$(figure count tick '$latency>=5ms')" == @(None|0) ]]
  end_ticker
}

@test "the kernel does not count returns" {
  "$PINPRICK" count --trap --json --allow-missing -o "$work/records" 'cramped:three%return' \
    -- "$TARGETS/cramped" 1 10 >/dev/null
  [[ "$(field "[x['trapped'] for x in r if x['type'] == 'armed']")" == @(\[0\]|\[\]) ]]
}

@test "what cannot be at a return is refused with the remedy" {
  refuses() {
    run "$PINPRICK" "${@:2}" -- true
    [ "$status" -eq 125 ] || [ "$status" -eq 2 ]
    [ "${lines[0]}" = "pinprick: $1" ] || { echo "${lines[0]}" >&2; return 1; }
  }
  refuses "'libc:write if \$retval<0': \$retval is known at the return alone; write 'libc:write%return if \$retval<0'" \
    count 'libc:write if $retval<0'
  refuses "'libc:write+4%return': only a function returns; leave out the offset" \
    count 'libc:write+4%return'
  refuses "'libc:read..libc:write%return': a span neither starts nor ends at a return yet" \
    latency 'libc:read..libc:write%return'
  refuses "'libc:read..libc:write': --slower and --faster are for calls; a span has no condition yet" \
    latency --slower 1ms 'libc:read..libc:write'
  refuses "'libc:write --slower 1ms': --slower and --faster go with \`latency\`; elsewhere, write 'FUNCTION%return if \$latency>=1ms'" \
    measure 'count libc:write --slower 1ms'
}
