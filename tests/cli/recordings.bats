# pinprick record and report: what was seen, later.
load helpers

# as_records COMMAND...: what it prints is what field() looks at.
as_records() { "$@" --json >"$work/records"; }

# without_times FILE: lines of `trace`, but for their times and how long calls took.
without_times() { sed -E 's/^[0-9:.]+ +//; s/ <[^>]*>$//' "$1"; }
# calls_of_tree FILE: a tree, but for durations.
calls_of_tree() { sed -E 's/^[^|]*\|//' "$1"; }

# record_beside OPTIONS...: the same is traced into $work/traced, by another pinprick, and recorded.
record_beside() {
  local traced
  watch_text "$work/errors" trace -p $ticker -o "$work/traced" "$@"
  traced=$watcher
  watch_text "$work/recorded" record -p $ticker -o "$work/run.rec" "$@"
  tell "recurse 3" recursed
  tell "tick 50" ticked
  tell "nap 20" napped
  kill -INT $watcher $traced
  wait $watcher
  wait $traced
}

@test "report prints what trace has printed" {
  start_ticker
  record_beside 'ticker:recurse depth=$arg1' 'ticker:recurse%return $retval "{$retval} is it"' \
    'ticker:tick x=$arg1 $tid if $arg1>40'
  [ "$(grep -c 'tick(' "$work/traced")" -eq 9 ]
  "$PINPRICK" report "$work/run.rec" >"$work/reported"
  diff <(without_times "$work/traced") <(without_times "$work/reported")
  no_trace $ticker
  end_ticker
}

@test "report prints the tree that trace --tree has printed, or a part of it" {
  start_ticker
  record_beside --tree 'ticker:recurse depth=$arg1' ticker:tick ticker:nap
  "$PINPRICK" report "$work/run.rec" >"$work/reported"
  diff <(calls_of_tree "$work/traced") <(calls_of_tree "$work/reported")
  "$PINPRICK" report --slower 15ms "$work/run.rec" | grep -cE '\| nap\(\)' | grep -x 1
  [ "$("$PINPRICK" report --slower 15ms "$work/run.rec" | wc -l)" -eq 2 ]
  [ "$("$PINPRICK" report --in recurse --depth 2 "$work/run.rec" | grep -c 'recurse(')" -eq 2 ]
  [ "$("$PINPRICK" report --not-in recurse "$work/run.rec" | grep -c recurse)" -eq 0 ]
  no_trace $ticker
  end_ticker
}

@test "a recording has values, losses and times as records, too" {
  start_ticker
  watch_text "$work/recorded" record -p $ticker -o "$work/run.rec" --every 10 'ticker:tick x=$arg1'
  local before after
  before=$(date +%s%N)
  tell "tick 1000" ticked
  after=$(date +%s%N)
  end_watch
  grep -F "$work/run.rec is a recording: \`pinprick report $work/run.rec\` shows it" "$work/recorded"
  as_records "$PINPRICK" report "$work/run.rec"
  field "[x['hits'] for x in r if x['type'] == 'events']" | grep -F '[1000]'
  [ "$(field "len([x for x in r if x['type'] == 'event'])")" -eq "$(field "[x['events'] for x in r if x['type'] == 'events'][0]")" ]
  field "{$before - 10**6 <= x['time_ns'] <= $after + 10**6 for x in r if x['type'] == 'event'}" | grep -F '{True}'
  field "{(x['pid'], x['tid'], x['command'], x['object'], x['file']) for x in r if x['type'] == 'event'}" |
    grep -F "{($ticker, $ticker, 'ticker', 'ticker', '$TARGETS/ticker')}"
  end_ticker
}

@test "a recording becomes a table, with the columns of what was recorded" {
  start_ticker
  record_beside 'ticker:tick x=$arg1'
  "$PINPRICK" report "$work/run.rec" -o "$work/run.csv"
  [ "$(head -n 1 "$work/run.csv")" = time,pid,tid,command,function,duration_ns,x,text,other_values ]
  [ "$(tail -n 1 "$work/run.csv" | cut -d, -f5,7)" = tick,49 ]
  end_ticker
}

@test "--functions has calls and total as the events have, and self is without the calls inside" {
  start_ticker
  record_beside --tree ticker:recurse ticker:tick ticker:nap
  as_records "$PINPRICK" report "$work/run.rec"
  mv "$work/records" "$work/events"
  as_records "$PINPRICK" report --functions "$work/run.rec"
  evaluate '
import json, sys
events = [e for e in map(json.loads, open(sys.argv[1])) if e["type"] == "event"]
rows = {x["function"]: x for x in map(json.loads, open(sys.argv[2])) if x["type"] == "function_time"}
assert set(rows) == {"recurse", "tick", "nap"}
stack, calls, total, own = [], {}, {}, {}
for e in events:
    f = e["function"]
    if "latency_ns" not in e:
        stack.append(0)
        continue
    inner = stack.pop()
    if stack: stack[-1] += e["latency_ns"]
    calls[f] = calls.get(f, 0) + 1
    total[f] = total.get(f, 0) + e["latency_ns"]
    own[f] = own.get(f, 0) + max(e["latency_ns"] - inner, 0)
for f, x in rows.items():
    assert (x["calls"], x["total_ns"], x["self_ns"]) == (calls[f], total[f], own[f]), (f, x, own[f])
print("same")' "$work/events" "$work/records" | grep -x same
  "$PINPRICK" report --functions --top 1 "$work/run.rec" | tail -n 1 | grep -x '2 other functions'
  end_ticker
}

@test "spans and --until are as they were to be" {
  start_ticker
  watch_text "$work/recorded" record -p $ticker -o "$work/run.rec" --slower 20ms --until 'ticker:tick x=$arg1 if $arg1==5' \
    'ticker:recurse..ticker:tick n=$arg1'
  tell "recurse 0" recursed
  tell "nap 30" napped
  tell "tick 10" ticked
  wait $watcher
  as_records "$PINPRICK" report "$work/run.rec"
  field "[(x['function'], x.get('until', False)) for x in r if x['type'] == 'event']" |
    grep -F "[('recurse..tick', False), ('tick', True)]"
  end_ticker
}

@test "a recording with --until ends there in all that is made of it" {
  start_ticker
  watch_text "$work/recorded" record -p $ticker -o "$work/run.rec" --until 'ticker:recurse' 'ticker:tick%return x=$arg1'
  tell "tick 7" ticked
  tell "recurse 0" recursed
  # Mostly recorded, as pinprick has not come to the hit yet.
  tell "tick 5" ticked
  wait $watcher
  "$PINPRICK" report "$work/run.rec" -o "$work/run.csv"
  [ "$(head -n 1 "$work/run.csv")" = time,pid,tid,command,function,duration_ns,x,text,other_values ]
  "$PINPRICK" report --functions "$work/run.rec" | grep -E '^ +7 .* tick$'
  "$PINPRICK" report --graph tick "$work/run.rec" | grep -E '^ +7 .* tick$'
  "$PINPRICK" report --limit 3 "$work/run.rec" 2>"$work/errors" | wc -l | grep -x 3
  ! grep -q 'was not hit' "$work/errors"
  [ "$("$PINPRICK" report --slower 10s "$work/run.rec" 2>/dev/null | wc -l)" -eq 1 ]
  run "$PINPRICK" report --depth 2 "$work/run.rec"
  [ $status -eq 2 ]
  [[ $output == *"is no recording of a tree"* ]]
  end_ticker
}

@test "what was recorded before kill -9 can be read, and that it has no end is said" {
  start_ticker
  watch_text "$work/recorded" record -p $ticker -o "$work/run.rec" 'ticker:tick x=$arg1'
  tell "tick 30" ticked
  # What is older than a second is in the file.
  has_events() { "$PINPRICK" report --json "$work/run.rec" 2>/dev/null | grep -q '"x":29'; }
  patiently has_events
  kill -KILL $watcher
  wait $watcher || true
  as_records "$PINPRICK" report "$work/run.rec"
  [ "$(field "[x['values']['x'] for x in r if x['type'] == 'event']")" = "$(python3 -c 'print(list(range(30)))')" ]
  field "[x['message'] for x in r if x['type'] == 'warning']" | grep -F 'the recording has no end'
  "$PINPRICK" detach -p $ticker
  tell "tick 5" ticked
  no_trace $ticker
  end_ticker
}

@test "what is no recording, and what does not go with one, is said" {
  echo text >"$work/text.rec"
  run "$PINPRICK" report "$work/text.rec"
  [ $status -eq 1 ]
  [[ $output == *"$work/text.rec is no recording: give a file that \`pinprick record\` has written"* ]]
  run "$PINPRICK" report "$work/none.rec"
  [ $status -eq 1 ]
  [[ $output == *"cannot read $work/none.rec: No such file or directory"* ]]
  run "$PINPRICK" count -p $$ -o "$work/x.rec" bash:f
  [ $status -eq 2 ]
  [[ $output == *"a recording (.rec) has events: use trace or record"* ]]
  run "$PINPRICK" record -p $$ -o "$work/x.csv" bash:f
  [ $status -eq 2 ]
  [[ $output == *"a recording's name ends with .rec"* ]]
  run "$PINPRICK" report -o "$work/y.rec" "$work/text.rec"
  [ $status -eq 2 ]
  [[ $output == *"it is a recording already"* ]]
}

# The numbers of paths: outer() is called 1,000 times, and calls middle(), which calls leaf(); a thread
# calls middle() 40 times; other() calls leaf() 500 times; deep() calls itself 20 times, 7 times.
record_paths() {
  "$PINPRICK" record -o "$work/paths.rec" "$@" -- "$TARGETS/paths" 2>"$work/recorded"
}

# own_times: makes Python's `own`, of each function, and `times`, of events in $work/events, by their
# order alone.
own_times='
own, times, open_calls = {}, {}, {}
for e in map(json.loads, open(sys.argv[1])):
    if e["type"] != "event": continue
    stack, f = open_calls.setdefault(e["tid"], []), e["function"]
    if "latency_ns" not in e:
        stack.append(0)
        continue
    inner = stack.pop()
    if stack: stack[-1] += e["latency_ns"]
    times.setdefault(f, []).append(e["latency_ns"])
    own[f] = own.get(f, 0) + max(e["latency_ns"] - inner, 0)
'

@test "--limit reads no more of a recording than it prints" {
  record_paths --tree 'paths:*'
  printf 'damage that is not read' >>"$work/paths.rec"
  run "$PINPRICK" report "$work/paths.rec"
  [ "$status" -eq 1 ]
  "$PINPRICK" report --json --limit 3 "$work/paths.rec" | grep -c '"type":"event"' | grep -x 3
}

@test "--graph and --functions say what was dropped" {
  "$PINPRICK" record --buffer 4K --tree -o "$work/x.rec" 'libc:malloc' -- \
    python3 -S -c 'import json; [json.dumps([i] * 99) for i in range(30000)]' 2>"$work/notes"
  local dropped
  dropped=$(sed -n 's/.*dropped \([0-9,]*\).*/\1/p' "$work/notes")
  [ -n "$dropped" ] || skip "nothing was dropped"
  for options in '--graph malloc' --functions; do
    # shellcheck disable=SC2086  # words on purpose
    "$PINPRICK" report $options "$work/x.rec" 2>"$work/warned" >"$work/text"
    grep -qF "x.rec: its figures lack hits and calls: dropped $dropped" "$work/warned"
  done
}

@test "--graph has the callers and the callees of a function, with the times of their calls" {
  record_paths --tree 'paths:*'
  as_records "$PINPRICK" report "$work/paths.rec"
  "$PINPRICK" report --graph paths:middle --json "$work/paths.rec" >"$work/graph"
  evaluate '
import json, sys
'"$own_times"'
graph = list(map(json.loads, open(sys.argv[2])))
[head] = [x for x in graph if x["type"] == "graph"]
up = {tuple(x["path"]): x for x in graph if x["type"] == "graph_caller"}
down = {tuple(x["path"]): x for x in graph if x["type"] == "graph_callee"}
assert (head["function"], head["object"], head["calls"]) == ("middle", "paths", 1040), head
assert head["total_ns"] == down["middle",]["total_ns"] == sum(times["middle"])
assert head["self_ns"] == down["middle",]["self_ns"] == own["middle"]
assert set(down) == {("middle",), ("middle", "leaf")} and down["middle", "leaf"]["calls"] == 1040, down
assert head["self_ns"] + down["middle", "leaf"]["total_ns"] == head["total_ns"]
assert up["outer", "middle"]["calls"] == up["main", "outer", "middle"]["calls"] == 1000, up
assert up["in_thread", "middle"]["calls"] == 40
assert sum(x["total_ns"] for p, x in up.items() if len(p) == 2) == head["total_ns"]
print("same")' "$work/records" "$work/graph" | grep -x same
  "$PINPRICK" report --graph middle "$work/paths.rec" >"$work/text"
  # Callers above, callees below; what calls outer() is two columns further to the right.
  evaluate '
import re, sys
above, below = open(sys.argv[1]).read().split("\n\n")
rows = [re.split(r"(?<=\S)  (?=\s*\S+$)", line.rstrip()) for line in above.split("\n")[1:]]
assert [r[-1] for r in rows][:2] == ["outer", "  main"] and "in_thread" in [r[-1] for r in rows], rows
assert re.search(r"^ +1,040 +\S+ +\S+  middle\n +1,040 +\S+ +\S+    leaf$", below.strip(), re.M), below
print("same")' "$work/text" | grep -x same
}

@test "--graph of a recursion counts its time once, and has the inner calls below" {
  record_paths --tree paths:deep paths:leaf paths:main
  "$PINPRICK" report --graph deep --json "$work/paths.rec" >"$work/graph"
  evaluate '
import json, sys
graph = list(map(json.loads, open(sys.argv[1])))
head = graph[0]
assert (head["calls"], head["inner_calls"]) == (7, 140), head
deepest = max((x for x in graph if x["type"] == "graph_callee"), key=lambda x: len(x["path"]))
assert deepest["path"] == ["deep"] * 21 + ["leaf"] and deepest["calls"] == 7, deepest
print("same")' "$work/graph" | grep -x same
  # A level more than --depth says is marked.
  "$PINPRICK" report --graph deep --depth 2 "$work/paths.rec" | tail -n 2 | head -n 1 | grep -E '  {4}deep \.\.\.$'
}

@test "--graph knows callers by stacks, too, and calls by returns alone" {
  record_paths --stack paths:leaf
  "$PINPRICK" report --graph leaf --json "$work/paths.rec" >"$work/graph"
  evaluate '
import json, sys
up = {tuple(x["path"][-4:]): x["calls"] for x in map(json.loads, open(sys.argv[1])) if x["type"] == "graph_caller"}
assert up["main", "outer", "middle", "leaf"] == 1000 and up["main", "other", "leaf"] == 500, up
print("same")' "$work/graph" | grep -x same
  record_paths 'paths:outer%return' 'paths:leaf%return'
  "$PINPRICK" report --graph leaf --json "$work/paths.rec" >"$work/graph"
  evaluate '
import json, sys
rows = list(map(json.loads, open(sys.argv[1])))
[up] = [x for x in rows if x["type"] == "graph_caller"]
# An interrupt after the end of a call, and before its event, makes it seem to start later.
assert up["path"] == ["outer", "leaf"] and 990 <= up["calls"] <= 1000, up
assert up["calls"] + rows[0]["without_caller"] == rows[0]["calls"], rows
print("same")' "$work/graph" | grep -x same
}

@test "--functions becomes a flame graph of self times, or of stacks" {
  record_paths --tree 'paths:*'
  "$PINPRICK" report --functions -o "$work/x.folded" "$work/paths.rec"
  as_records "$PINPRICK" report "$work/paths.rec"
  evaluate '
import json, sys
'"$own_times"'
found = {}
for line in open(sys.argv[2]):
    stack, weight = line.rsplit(" ", 1)
    found[stack.split(";")[-1]] = found.get(stack.split(";")[-1], 0) + int(weight)
assert "main;outer;middle;leaf" in open(sys.argv[2]).read()
for f in ("leaf", "middle", "outer", "other"): assert own[f] == found[f], (f, own, found)
print("same")' "$work/records" "$work/x.folded" | grep -x same
  record_paths --stack paths:leaf
  "$PINPRICK" report --functions -o "$work/x.folded" "$work/paths.rec"
  grep -Eq '(^|;)main;outer;middle;leaf 1000$' "$work/x.folded"
  grep -Eq '(^|;)main;other;leaf 500$' "$work/x.folded"
}

@test "what --graph and flame graphs cannot be made of is said" {
  record_paths paths:leaf
  run "$PINPRICK" report --graph leaf "$work/paths.rec"
  [ $status -eq 2 ]
  [[ $output == *"has no call with a time or a stack: record with --tree"* ]]
  run "$PINPRICK" report --functions -o "$work/x.folded" "$work/paths.rec"
  [ $status -eq 2 ]
  record_paths --tree paths:leaf
  run "$PINPRICK" report --graph 'nothing*' "$work/paths.rec"
  [ $status -eq 3 ]
  [[ $output == *"'nothing*' is no function that was called"* ]]
  local options
  for options in '--graph leaf --functions' '--graph leaf --slower 1ms' '--graph usdt:paths:passed' \
    '--least 5%' '--graph leaf -o x.folded' '-o x.folded' '--functions -o x.csv'; do
    # shellcheck disable=SC2086  # words on purpose
    run "$PINPRICK" report $options "$work/paths.rec"
    [ $status -eq 2 ]
    [ "${#lines[@]}" -eq 1 ]
  done
}
