# pinprick ftrace: functions traced in the kernel's words, on programs that know their own calls.
load helpers

paths="$TARGETS/paths"

# functions: of the function tracer's lines in $work/out, FUNCTION <-CALLER.
functions() { sed -n 's/^.*: \(.* <-.*\)$/\1/p' "$work/out"; }
# graph: of the graph's lines, what is after the duration.
graph() { sed -n 's/^ *[-0-9]*) .*|  //p' "$work/out"; }

@test "a line for each call has task, CPU, time, function and caller, as the kernel's tracer prints them" {
  "$PINPRICK" ftrace -o "$work/out" --filter outer --filter 'mid*' --filter leaf --limit 6 -- "$paths"
  [ "$(head -n 1 "$work/out")" = '# tracer: function' ]
  grep -qx '#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION' "$work/out"
  [ "$(functions | head -n 6)" = 'outer <-main
middle <-outer
leaf <-middle
outer <-main
middle <-outer
leaf <-middle' ]
  [ "$(grep -cE '^ +paths-[0-9]+ +\[(---|[0-9]{3})\] \.{5} +[0-9]+\.[0-9]{6}: [a-z]+ <-[a-z]+$' "$work/out")" -eq 6 ]
}

@test "the graph has the calls in their callers, leaves as one line, and durations in the kernel's columns" {
  "$PINPRICK" ftrace -o "$work/out" --tracer function_graph --filter 'outer middle leaf' --limit 6 -- "$paths"
  [ "$(sed -n 1,4p "$work/out")" = '# tracer: function_graph
#
# CPU  DURATION                  FUNCTION CALLS
# |     |   |                     |   |   |   |' ]
  [ "$(graph | head -n 5)" = 'outer() {
  middle() {
    leaf();
  }
}' ]
  [ "$(sed -n '5,9p' "$work/out" | grep -cE '^ +[-0-9]+\) ( {14}|[ $@*#!+] [0-9.]{5,8} us +)\|  ')" -eq 5 ]
}

@test "graph functions, functions outside of it, and a depth select parts of the graph" {
  "$PINPRICK" ftrace -o "$work/out" --tracer function_graph --filter 'outer middle leaf other' \
    --graph middle -- "$paths"
  [ "$(graph | grep -c '^middle() {$')" -eq 1040 ]
  [ "$(graph | grep -cE 'outer|other')" -eq 0 ]
  "$PINPRICK" ftrace -o "$work/out" --tracer function_graph --filter 'outer middle leaf' \
    --graph-notrace middle --max-depth 1 -- "$paths"
  [ "$(graph | sort | uniq -c | tr -s ' ')" = ' 927 leaf();
 1000 outer();' ]
}

@test "filters add and remove in their order, from files, too, and notrace has the last word" {
  "$PINPRICK" ftrace -o "$work/out" --filter '*e*' --filter '!*th*' --filter '!deep' --filter '!m*' \
    --filter middle --notrace leaf --filter '!le*' --filter 'leaf' -- "$paths"
  functions | sed 's/ .*//' | sort -u >"$work/traced"
  grep -qx outer "$work/traced"
  grep -qx middle "$work/traced"
  ! grep -qxE 'leaf|other|deep|main' "$work/traced" || false
  printf '# as set_ftrace_filter has it\n#### all functions enabled ####\n\nouter middle\n  !outer\n' >"$work/filter"
  "$PINPRICK" ftrace -o "$work/out" --filter other --filter '' --filter-file "$work/filter" -- "$paths"
  [ "$(functions | sed 's/ .*//' | sort -u)" = middle ]
}

@test "modules are objects, and without a filter the program's own functions are traced" {
  "$PINPRICK" ftrace -o "$work/out" --filter ':mod:paths' --limit 500 -- "$paths"
  functions | sed 's/ .*//' | sort -u >"$work/of_program"
  grep -qx outer "$work/of_program"
  "$PINPRICK" ftrace -o "$work/out" --limit 500 -- "$paths"
  [ "$(functions | sed 's/ .*//' | sort -u)" = "$(cat "$work/of_program")" ]
  "$PINPRICK" ftrace -o "$work/out" --filter 'w*:mod:libc' -- "$TARGETS/levels"
  functions | grep -q '^write <-main'
  run "$PINPRICK" ftrace --filter 'write:mod:levels' -- "$TARGETS/levels"
  [ "$status" -eq 125 ]
}

@test "the profile has hits, times, averages and variances in the kernel's columns, the most time first" {
  "$PINPRICK" ftrace -o "$work/out" --profile --filter 'outer middle leaf' -- "$paths"
  [ "$(sed -n 1,2p "$work/out")" = '  Function                               Hit    Time            Avg             s^2
  --------                               ---    ----            ---             ---' ]
  python3 - "$work/out" <<'PYTHON'
import re, sys
rows = {}
for line in open(sys.argv[1]).readlines()[2:]:
    found = re.fullmatch(r'  (\S+) +(\d+)    ([\d.]+) us +([\d.]+) us +([\d.]+) us *\n', line)
    assert found, line
    rows[found[1]] = [float(x) for x in found.groups()[1:]]
assert list(rows)[0] == 'outer' and set(rows) == {'outer', 'middle', 'leaf'}, rows
assert rows['outer'][0] == 1000 and rows['middle'][0] == 1040, rows
for hit, time, average, _ in rows.values(): assert abs(time / hit - average) <= 0.002, rows
PYTHON
}

@test "with --self, a profile counts the time of a called function once" {
  echo '#include <unistd.h>
__attribute__((noinline)) void inner(void) { usleep(20000); }
__attribute__((noinline)) void around(void) { inner(); __asm__ volatile(""); }
int main(void) { around(); around(); }' >"$work/nested.c"
  gcc -O1 -o "$work/nested" "$work/nested.c"
  # first OPTION...: the function with the most time, and how many take 40 ms or longer.
  first() {
    "$PINPRICK" ftrace -o "$work/out" --profile "$@" --filter 'inner around' -- "$work/nested"
    awk 'NR == 3 { name = $1 } NR > 2 && $3 >= 40000 { long++ } END { print name, long }' "$work/out"
  }
  [ "$(first)" = 'around 2' ]
  [ "$(first --self)" = 'inner 1' ]
}

@test "what the kernel has and pinprick has not is refused with one line" {
  refused() {
    run "$PINPRICK" ftrace "$@" -- "$paths"
    [ "$status" -eq 2 ]
    [ "${#lines[@]}" -eq 1 ]
  }
  refused --filter 'outer:traceon:3'
  refused --filter 17
  refused --filter 'f:mod:'
  refused --filter-file "$work/none"
  refused --tracer irqsoff
  refused --max-depth 3 --tracer nop
  refused --max-depth 3
  refused --filter '!outer' --filter '!leaf'
  refused --profile --tracer function_graph
  refused --self
  refused $(printf -- "--tid %d " {1..17})
  run "$PINPRICK" ftrace --filter outer
  [ "$status" -eq 2 ]
  [[ $output == *'see `pinprick ftrace --help`' ]]
}

@test "a filter that matches nothing is refused, also where it looks like a pattern of other verbs" {
  for filter in no_such_function outer+0 outer%return outer..leaf usdt:mod:paths \
    __tracepoint_x 'out[a-c]r' 'x\*' 'leaf:mod:usdt'; do
    run "$PINPRICK" ftrace --filter outer --filter "$filter" -- "$paths"
    [ "$status" -eq 125 ]
    [[ $output == *" matches '$filter';"* ]]
  done
  # What has matched may be removed again.
  "$PINPRICK" ftrace -o "$work/out" --filter 'outer leaf' --filter '!out[e]r' -- "$paths"
  [ "$(functions | sed 's/ .*//' | sort -u)" = leaf ]
  "$PINPRICK" ftrace -o "$work/out" --allow-missing --filter 'no_such_function leaf' -- "$paths"
  [ "$(functions | sed 's/ .*//' | sort -u)" = leaf ]
}

@test "nop has an event for each call, as of kprobes at the functions" {
  "$PINPRICK" ftrace -o "$work/out" --tracer nop --filter 'outer middle' -- "$paths"
  [ "$(head -n 1 "$work/out")" = '# tracer: nop' ]
  [ "$(grep -cE '^ +paths-[0-9]+ .*: outer: \(0x[0-9a-f]+\)$' "$work/out")" -eq 1000 ]
  [ "$(grep -c ': middle: (0x' "$work/out")" -eq 1040 ]
}

# interrupted OPTION...: ends ftrace of the ticker by an interrupt while ticks are going on.
interrupted() {
  : >"$work/errors"
  "$PINPRICK" ftrace -p $ticker --filter tick -o "$work/traced" "$@" 2>"$work/errors" 3>&- 7>&- &
  local tracer=$!
  ends_with_test $tracer
  until_line "$work/errors" '^armed'
  tell "tick 100" ticked
  kill -INT $tracer
  wait $tracer
  until_line "$work/errors" '^detached cleanly'
  no_trace $ticker
}

@test "a thread is traced alone" {
  start_ticker 2
  interrupted --tid $ticker
  [ "$(grep -c "ticker-$ticker .*: tick <-" "$work/traced")" -ge 1 ]
  [ "$(grep ': tick <-' "$work/traced" | grep -vc "ticker-$ticker ")" -eq 0 ]
  end_ticker
}

@test "an interrupt ends each tracer, and the profile, with what they have by then" {
  start_ticker 1
  interrupted
  [ "$(grep -c ': tick <-' "$work/traced")" -eq 100 ]
  interrupted --tracer function_graph
  [ "$(grep -cE '\) .* us +\|  tick\(\);$' "$work/traced")" -eq 100 ]
  interrupted --tracer nop
  [ "$(grep -c ': tick: (0x' "$work/traced")" -eq 100 ]
  interrupted --profile
  [ "$(grep -cE '^  tick  +100    ' "$work/traced")" -eq 1 ]
  grep -q '^missed 0 ' "$work/errors"
  end_ticker
}

@test "a recording is shown as the kernel's tracers would have, with the times of the recording" {
  "$PINPRICK" record -o "$work/tree.rec" --tree outer middle leaf --limit 6 -- "$paths"
  "$PINPRICK" report --format=ftrace "$work/tree.rec" -o "$work/out"
  [ "$(sed -n 1p "$work/out")" = '# tracer: function_graph' ]
  [ "$(graph | head -n 5)" = 'outer() {
  middle() {
    leaf();
  }
}' ]
  "$PINPRICK" report --format=ftrace --in middle "$work/tree.rec" -o "$work/out"
  [ "$(graph | head -n 1)" = 'middle() {' ]
  read -r before _ </proc/uptime
  "$PINPRICK" record -o "$work/events.rec" outer 'middle $arg1:s32' --limit 4 -- "$paths"
  read -r after _ </proc/uptime
  "$PINPRICK" report --format=ftrace "$work/events.rec" -o "$work/out"
  [ "$(sed -n 1p "$work/out")" = '# tracer: nop' ]
  [ "$(sed -n 's/^ *paths-[0-9]* .*: \(outer\|middle\): (0x[0-9a-f]*)/\1/p' "$work/out")" = 'outer
middle arg1=0
outer
middle arg1=1' ]
  # CLOCK_MONOTONIC, which /proc/uptime is where the machine has not slept.
  sed -n 's/^ *paths-.* \([0-9.]*\): outer.*/\1/p' "$work/out" |
    awk -v before="$before" -v after="$after" '$1 < before - 1 || $1 > after + 1 { exit 1 }'
  "$PINPRICK" record -o "$work/spans.rec" outer..leaf -- "$paths"
  run "$PINPRICK" report --format=ftrace "$work/spans.rec"
  [ "$status" -eq 2 ]
  for other in --functions '--graph outer' --json; do
    run "$PINPRICK" report --format=ftrace $other "$work/tree.rec"
    [ "$status" -eq 2 ]
  done
}
