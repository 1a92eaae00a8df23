# --budget, on a program whose load grows a hundredfold from one millisecond to the next (tides.c).
# What the probes add is measured from outside by scripts/check-budget, which needs a quiet machine.
load helpers

calm=200      # calls in a millisecond of CPU time: the probes cost some 0.1% of it
burst=20000   # more than 10%

start_tides() { start_fed tides; }
# surge MS RATE: the command is over when this is. Prints how often it has called surge() so far.
surge() { answer "surge $1 $2"; }
# until_out COMMAND...: repeats the command until the probes are out, for 40 seconds at most. How soon that
# is, on a machine that does other things, is no matter of a test.
until_out() {
  local deadline=$((SECONDS + 40))
  until has_record out; do
    ((SECONDS < deadline)) || return 1
    "$@" >/dev/null
  done
}
has_record() { grep -qE "\"type\":\"budget\".*\"change\":\"$1\"" "$work/records"; }
are_back() { grep '"type":"budget"' "$work/records" | tail -n 1 | grep -q '"change":"back"'; }
# Goes on calling with a low rate until all is back, for 40 seconds at most.
calm_until_back() {
  local deadline=$((SECONDS + 40))
  until are_back; do
    ((SECONDS < deadline)) || return 1
    surge 50 $calm >/dev/null
  done
}
# The jumps of probes are out of the program's own text. (Hooks in libraries stay.)
own_text_is_original() {
  evaluate - "$1" "$TARGETS/tides" <<'PYTHON'
import sys
pid, path = sys.argv[1:]
for line in open(f'/proc/{pid}/maps'):
    words = line.split()
    if 'x' not in words[1] or words[-1] != path: continue
    begin, end = (int(n, 16) for n in words[0].split('-'))
    with open(f'/proc/{pid}/mem', 'rb') as memory, open(path, 'rb') as file:
        memory.seek(begin)
        file.seek(int(words[2], 16))
        assert memory.read(end - begin) == file.read(end - begin)
PYTHON
}
# hits_by_status FUNCTION: the hits of all sessions by now.
hits_by_status() {
  "$PINPRICK" status -a -p "$fed" --json | python3 -c '
import json, sys
rows = [p for line in sys.stdin for p in json.loads(line)["probes"]]
print(sum(p["hits"] for p in rows if p["function"] == sys.argv[1]))' "$1"
}

@test "probes go when the load grows a hundredfold and come back when it is quiet, and the report says when" {
  start_tides
  watch count -p $fed -i 0.2 --budget 2% 'tides:surge' 'tides:rarely'
  local own before after
  own=$(surge 100 $calm)
  [ "$own" -eq $((100 * calm)) ]
  [ "$(hits_by_status surge)" -eq "$own" ]
  ! has_record out
  until_out surge 700 $burst
  calm_until_back
  # What is counted while the probes are in is exact.
  before=$(hits_by_status surge)
  surge 10 $calm >/dev/null
  after=$(hits_by_status surge)
  [ $((after - before)) -eq $((10 * calm)) ]
  own=$(answer counts)
  end_watch
  [ "$(hits surge)" -le "$own" ]
  [ "$(hits surge)" -ge "$after" ]
  [ "$(field "sum(x['hits'] for x in r if x['type'] == 'count' and not x['final'] and x['function'] == 'surge')")" -eq "$(hits surge)" ]
  # The other probe costs next to nothing, and stays in.
  [ "$(field "[[f['function'] for f in x['functions']] for x in r if x['type'] == 'budget'][:2]")" = \
    "[['surge'], ['surge']]" ]
  [ "$(field "[('partial' in x) for x in r if x['type'] == 'count' and x['final'] and x['function'] == 'rarely'][0]")" = False ]
  [ "$(field "[x['partial'] for x in r if x['type'] == 'count' and x['final'] and x['function'] == 'surge'][0]")" = True ]
  # The row has the times of the events.
  [ "$(field "[x['out'] for x in r if x['type'] == 'count' and x['final'] and x['function'] == 'surge'][0][0] == [x['seconds'] for x in r if x['type'] == 'budget'][:2]")" = True ]
  [ "$(field "[x['share'] > 0.02 and x['limit'] == 0.02 for x in r if x['type'] == 'budget' and x['change'] == 'out'][0]")" = True ]
  [ "$(field "[(x['limit'], x['partial']) for x in r if x['type'] == 'budget_total']")" = "[(0.02, 1)]" ]
  no_trace $fed
  end_fed
}

@test "with once, probes that have gone stay out, and their figures stay what they were" {
  start_tides
  watch latency -p $fed --budget 2%,once tides:surge
  until_out surge 700 $burst
  local before own
  before=$("$PINPRICK" status -a -p "$fed" --json | grep -o '"count":[0-9]*')
  own=$(surge 1500 $calm)
  ! has_record back
  [ "$("$PINPRICK" status -a -p "$fed" --json | grep -o '"count":[0-9]*')" = "$before" ]
  # The text is the program's own again while pinprick still runs.
  own_text_is_original $fed
  end_watch
  [ "$(field "[x['count'] < $own and x['out'][0][1] is None for x in r if x['type'] == 'latency' and x['final']]")" = "[True]" ]
  no_trace $fed
  end_fed
}

@test "times, values and spans are held to a budget, too, and so is all that measure has in one attach" {
  start_tides
  local from
  for wanted in "latency tides:surge" "hist tides:surge \$arg1" "count tides:small_*"; do
    watch measure -p $fed --budget 4% "$wanted" 'count tides:rarely'
    answer "small 200 1000" >/dev/null
    until_out surge 400 $burst
    calm_until_back
    end_watch
    [ "$(field "'rarely' in str([x['functions'] for x in r if x['type'] == 'budget'])")" = False ]
    [ "$(field "any(x.get('partial') for x in r if x.get('final'))")" = True ]
    no_trace $fed
  done
  # A span does not come back.
  watch latency -p $fed --budget 4% 'enter..leave'
  until_out answer "pass 400 $burst"
  own_text_is_original $fed
  answer "pass 2000 $calm" >/dev/null
  ! has_record back
  end_watch
  [ "$(field "[x['partial'] for x in r if x['type'] == 'latency' and x['final']]")" = "[True]" ]
  no_trace $fed
  end_fed
}

@test "of many probes that are cheap alone, as many go as have to" {
  start_tides
  watch count -p $fed --budget 10%,once 'tides:small_*'
  answer "small 1500 600" >/dev/null
  has_record out
  end_watch
  [ "$(field "0 < sum(1 for x in r if x['type'] == 'count' and x['final'] and 'partial' in x) < 90")" = True ]
  # Those that stayed in have counted each call.
  [ "$(field "set(x['hits'] for x in r if x['type'] == 'count' and x['final'] and 'partial' not in x)")" = "{900000}" ]
  no_trace $fed
  end_fed
}

@test "every instruction of a function comes and goes with it" {
  start_tides
  watch count -p $fed --budget 2% --instructions tides:surge
  until_out surge 500 $burst
  calm_until_back
  local before after
  before=$(hits_by_status surge)
  surge 10 $calm >/dev/null
  after=$(hits_by_status surge)
  [ $((after - before)) -eq $((10 * calm)) ]
  end_watch
  no_trace $fed
  end_fed
}

@test "the text of a report names what is partial, and when it was out" {
  start_tides
  watch_text "$work/errors" count -p $fed --budget 2%,once tides:surge tides:rarely >"$work/text"
  for _ in {1..200}; do
    ! grep -q 'took them out' "$work/errors" || break
    surge 100 $burst >/dev/null
  done
  end_watch
  cat "$work/errors" "$work/text"
  grep -qE '^[0-9.]+ s: the probes cost [0-9.]+% of the CPU time, more than 2.0%; took them out of 1 function \(surge\), whose figures are partial$' "$work/errors"
  grep -qE ' surge \(partial\)$' "$work/text"
  grep -qE ' rarely$' "$work/text"
  grep -qE '^  surge: from [0-9.]+ s on$' "$work/text"
  grep -qE '^budget 2.0%: the probes added [0-9.]+% to [0-9.]+m?s of CPU time, as computed; 1 function is partial$' "$work/text"
  # Also as the tables of top.
  watch_text "$work/errors" top -p $fed --budget 2%,once -i 0.2 tides:surge >"$work/text"
  for _ in {1..200}; do
    ! grep -qE ' \(out\) surge$' "$work/text" || break
    surge 100 $burst >/dev/null
  done
  end_watch
  grep -qE ' \(out\) surge$' "$work/text"
  end_fed
}

@test "a program that is started, and what it executes, is held to the budget" {
  printf 'surge 1500 %s\n' $burst >"$work/commands"
  run "$PINPRICK" count --budget 2%,once --json -o "$work/records" tides:surge -- \
    "$TARGETS/tides" <"$work/commands"
  [ "$status" -eq 0 ]
  has_record out
  rm "$work/records"
  run "$PINPRICK" count --budget 2%,once --children=follow --allow-missing --json \
    -o "$work/records" tides:surge -- sh -c "$TARGETS/tides; :" <"$work/commands"
  [ "$status" -eq 0 ]
  has_record out
  [ "$(field "[x['partial'] for x in r if x['type'] == 'count' and x['final']]")" = "[True]" ]
}

@test "a child that was forked while probes were out gets them back when it is quiet" {
  start_tides
  watch count -p $fed --children=follow --by pid --budget 2% tides:surge
  local deadline=$((SECONDS + 60))
  until grep '"change":"back"' "$work/records" | grep -qv "\"pid\":$fed,"; do
    ((SECONDS < deadline))
    until_out surge 100 $burst
    surge 100 $burst >/dev/null
    answer "fork 2500 $calm" >/dev/null
  done
  end_watch
  no_trace $fed
  end_fed
}

@test "what shares its jump with a span comes back, and the span does not" {
  start_tides
  watch measure -p $fed --budget 4% 'count enter' 'latency enter..leave'
  until_out answer "pass 400 $burst"
  local deadline=$((SECONDS + 60))
  until has_record back; do
    ((SECONDS < deadline))
    answer "pass 100 $calm" >/dev/null
  done
  end_watch
  [ "$(field "{f['function'] for x in r if x['type'] == 'budget' and x['change'] == 'back' for f in x['functions']}")" = "{'enter'}" ]
  no_trace $fed
  end_fed
}

@test "each process of a file has a budget of its own" {
  use_copy tides
  start_tides
  watch count --all "$TARGETS/tides" --budget 2%,once surge
  until_out surge 700 $burst
  end_watch
  [ "$(field "[x['pid'] for x in r if x['type'] == 'budget']")" = "[$fed]" ]
  no_trace $fed
  end_fed
}

@test "the next pinprick cleans up after one that was killed while its probes were out" {
  start_tides
  watch count -p $fed --budget 2% tides:surge tides:rarely
  until_out surge 500 $burst
  kill -KILL $watcher
  wait $watcher || true
  surge 10 $calm >/dev/null
  "$PINPRICK" detach -p $fed
  no_trace $fed
  end_fed
}

@test "a budget that is none, or that cannot be held, is refused" {
  for budget in 2 % 0% 101% 2%,twice x% -1%; do
    run "$PINPRICK" count -p 1 --budget "$budget" main
    [ "$status" -eq 2 ]
    [[ "$output" == *"'$budget' is no budget"* ]]
  done
  run "$PINPRICK" count -p 1 --budget 2% --trap main
  [ "$status" -eq 2 ]
  run "$PINPRICK" count -p 1 --budget 2% --children=count main
  [ "$status" -eq 2 ]
  run "$PINPRICK" top -p 1 --budget 2%
  [ "$status" -eq 2 ]
}
