# `-o FILE.SUFFIX`: what other tools open, read by readers that are not pinprick's.
load helpers

setup_file() { bats_require_minimum_version 1.5.0; }

paths="$TARGETS/paths"

# check_export KIND FILE: runs Python on stdin with what the reader returned, as `x`.
check_export() {
  local modules=$BATS_FILE_TMPDIR/modules
  [ -d "$modules" ] || {
    mkdir "$modules"
    protoc -I "$BATS_TEST_DIRNAME/../export" --python_out="$modules" perfetto.proto pprof.proto
  }
  {
    printf 'import sys\nsys.path[:0] = [%s, %s]\nimport read_export\n' "'$modules'" "'$BATS_TEST_DIRNAME'"
    printf 'x = read_export.read_%s(sys.argv[1])\n' "$1"
    cat
  } >"$work/check.py"
  python3 "$work/check.py" "$2"
}

@test "Perfetto: calls lie within their callers, with arguments, on the tracks of named threads" {
  "$PINPRICK" trace -o "$work/x.pftrace" --tree 'paths:outer $arg1' paths:middle 'paths:leaf $arg1 $retval' \
    -- "$paths" 2>"$work/notes"
  grep -q "x.pftrace is a trace for Perfetto: open it at https://ui.perfetto.dev" "$work/notes"
  # The program's own numbers: outer() is called 1,000 times, and calls middle(), which calls leaf().
  check_export perfetto "$work/x.pftrace" <<'PYTHON'
outer = [s for s in x['slices'] if s['name'] == 'outer']
assert len(outer) == 1000 and [s['args']['$arg1'] for s in outer] == list(range(1000))
within = [s for s in x['slices'] if s['name'] == 'leaf' and s['in'] == ['outer', 'middle']]
assert len(within) == 1000, len(within)
assert all(s['args']['$arg1'] == s['args']['$retval'] for s in within)
assert not x['open'] and not x['dropped']
track = outer[0]['track']
assert track.thread.thread_name == 'paths' and track.thread.pid == track.thread.tid
assert x['tracks'][track.parent_uuid].process.process_name == 'paths'
PYTHON
}

@test "Perfetto: a recording becomes the trace that would have been written" {
  "$PINPRICK" record -o "$work/x.rec" --tree 'paths:outer $arg1' paths:middle 'paths:leaf $arg1 $retval' \
    -- "$paths" 2>"$work/notes"
  "$PINPRICK" report "$work/x.rec" -o "$work/x.pftrace"
  check_export perfetto "$work/x.pftrace" <<'PYTHON'
outer = [s for s in x['slices'] if s['name'] == 'outer']
assert [s['args']['$arg1'] for s in outer] == list(range(1000))
within = [s for s in x['slices'] if s['name'] == 'leaf' and s['in'] == ['outer', 'middle']]
assert len(within) == 1000, len(within)
assert outer[0]['track'].thread.thread_name == 'paths'
assert not x['open'] and not x['dropped']
PYTHON
}

@test "Perfetto: calls at their returns are slices, hits are instants with stacks, at the system's time" {
  cat >"$work/sleeper.py" <<'PYTHON'
import time
print(time.clock_gettime_ns(time.CLOCK_BOOTTIME))
for i in range(3): time.sleep(0.05)
print(time.clock_gettime_ns(time.CLOCK_BOOTTIME))
PYTHON
  "$PINPRICK" trace -o "$work/x.pftrace" 'libc:clock_nanosleep%return' -- \
    python3 -S "$work/sleeper.py" >"$work/times" 2>/dev/null
  check_export perfetto "$work/x.pftrace" <<PYTHON
first, last = map(int, open('$work/times').read().split())
# Each sleeps until a time that was computed before the call: so it may take less than 50 ms.
naps = [s for s in x['slices'] if s['duration'] >= 25_000_000]
assert len(naps) == 3, x['slices']
# The clocks are compared within a millisecond.
assert all(first - 1e6 < s['time'] and s['time'] + s['duration'] < last + 1e6 for s in naps)
assert set(x['clocks']) == {1, 3, 6}
PYTHON
  "$PINPRICK" trace --stack -o "$work/x.pftrace" paths:leaf -- "$paths" 2>/dev/null
  check_export perfetto "$work/x.pftrace" <<'PYTHON'
import re
frames = [[re.sub(r'\+0x.*', '', name) for name in i['frames']] for i in x['instants']]
assert sum(f[-3:] == ['main', 'outer', 'middle'] for f in frames) == 1000
PYTHON
}

@test "Perfetto: dropped events are counted in the file, and mark it" {
  "$PINPRICK" trace --buffer 4K -o "$work/x.pftrace" 'libc:malloc $arg1' -- \
    python3 -S -c 'import json; [json.dumps([i] * 99) for i in range(30000)]' 2>"$work/notes"
  grep -q 'dropped [1-9]' "$work/notes" || skip "nothing was dropped"
  check_export perfetto "$work/x.pftrace" <<PYTHON
import re
told = int(re.search(r'dropped ([0-9,]+)', open('$work/notes').read())[1].replace(',', ''))
events = int(re.search(r'([0-9,]+) events? in', open('$work/notes').read())[1].replace(',', ''))
lost = [i for i in x['instants'] if i['track'].name == 'pinprick: what this trace lacks']
assert x['dropped'] and len(lost) == 1 and lost[0]['args']['dropped'] == told, (lost, told)
assert len(x['instants']) - 1 == events
PYTHON
}

# events_of_ctf FOLDER: what babeltrace2 prints of it, an event a line, without its clock.
events_of_ctf() { babeltrace2 --no-delta --clock-seconds --names context,payload "$1" 2>"$work/bt"; }

# same_as_ctf FOLDER: the events in $work/records are those of the folder, in their order.
same_as_ctf() {
  events_of_ctf "$1" >"$work/printed"
  python3 - "$work/records" "$work/printed" <<'PYTHON'
import json, re, sys
events = [e for e in map(json.loads, open(sys.argv[1])) if e['type'] == 'event']
printed = open(sys.argv[2]).read().splitlines()
assert len(events) == len(printed) > 0, (len(events), len(printed))
for e, line in zip(events, printed):
    time, name, rest = re.match(r'\[(\d+\.\d+)\] (\S.*?): (\{.*)', line).groups()
    context, _, payload = rest.partition(' }, { ')
    at_return = '%return' if e.get('at') == 'return' else ''
    assert name == e['function'] + at_return, (name, e)
    assert abs(float(time) * 1e9 - e['time_ns']) < 50e6, (time, e)
    assert f"vpid = {e['pid']}, vtid = {e['tid']}, procname = \"{e['command']}\"" in context, line
    for key, value in e['values'].items():
        field = re.search(r'\b' + key.lstrip('$') + r' = ("(?:[^"\\]|\\.)*"|[^, ]+)', payload)
        assert field, (key, line)
        found = field[1]
        if isinstance(value, str): assert found == json.dumps(value), (found, value)
        elif isinstance(value, float): assert float(found) == float('%g' % value), (found, value)  # as it prints them
        else: assert int(found, 0) == value, (found, value)
    if 'latency_ns' in e: assert f"latency_ns = {e['latency_ns']}" in payload, line
print('same')
PYTHON
}

@test "CTF: babeltrace2 prints the events of a recording, with what --json has of them" {
  "$PINPRICK" record -o "$work/x.rec" --tree 'paths:outer $arg1' paths:middle 'paths:leaf n=$arg1:s32 $retval' \
    -- "$paths" 2>/dev/null
  "$PINPRICK" report --json "$work/x.rec" >"$work/records"
  "$PINPRICK" report "$work/x.rec" -o "$work/x.ctf"
  same_as_ctf "$work/x.ctf" | grep -x same
  # Those of main() alone: 1,000 calls of outer(), each with an entry and a return.
  [ "$(grep -c ' outer: ' "$work/printed")" -eq 1000 ]
  [ "$(grep -c ' outer%return: ' "$work/printed")" -eq 1000 ]
}

@test "CTF: texts, doubles and spans are fields, and a folder is written anew" {
  printf 'a,b "quoted"\n\\' >"$work/text"
  "$PINPRICK" record -o "$work/x.rec" 'libc:setenv name=$arg1:string value=$arg2:string' -- \
    python3 -S -c 'import os, sys; os.environ["X"] = open(sys.argv[1]).read()' "$work/text" 2>/dev/null
  local i
  for i in 1 2; do
    "$PINPRICK" report "$work/x.rec" -o "$work/x.ctf"
    "$PINPRICK" report --json "$work/x.rec" >"$work/records"
    same_as_ctf "$work/x.ctf" | grep -x same
  done
  grep -q 'X' "$work/printed"
  # It starts with 0, and adds 1 to the half of each number.
  "$PINPRICK" record --args --limit 50 -o "$work/x.rec" 'steady:scale%return' -- "$TARGETS/steady" 1 <<<go 2>/dev/null
  "$PINPRICK" report --json "$work/x.rec" >"$work/records"
  "$PINPRICK" report "$work/x.rec" -o "$work/x.ctf"
  same_as_ctf "$work/x.ctf" | grep -x same
  sed -n 4p "$work/printed" | grep -F 'x = 1.75, retval = 1.875 }'
  "$PINPRICK" trace -o "$work/x.ctf" 'paths:outer..paths:leaf $arg1' -- "$paths" 2>/dev/null
  [ "$(events_of_ctf "$work/x.ctf" | grep -c 'outer..leaf: .*latency_ns = [0-9]*, arg1 = [0-9]*')" -eq 1000 ]
}

@test "CTF: babeltrace2 says how many events were dropped" {
  "$PINPRICK" trace --buffer 4K -o "$work/x.ctf" 'libc:malloc $arg1' -- \
    python3 -S -c 'import json; [json.dumps([i] * 99) for i in range(30000)]' 2>"$work/notes"
  grep -q 'dropped [1-9]' "$work/notes" || skip "nothing was dropped"
  events_of_ctf "$work/x.ctf" >"$work/printed"
  python3 - "$work" <<'PYTHON'
import re, sys
notes, said, printed = (open(sys.argv[1] + '/' + name).read() for name in ('notes', 'bt', 'printed'))
dropped = int(re.search(r'dropped ([0-9,]+)', notes)[1].replace(',', ''))
assert f'discarded {dropped} event' in said, said
assert f'dropped = {dropped}' in printed.splitlines()[-1]
events = int(re.search(r'([0-9,]+) events? in', notes)[1].replace(',', ''))
assert len(printed.splitlines()) == events + 1
PYTHON
}

@test "CTF: a folder with other files is left alone" {
  mkdir "$work/x.ctf"
  echo mine >"$work/x.ctf/mine"
  run "$PINPRICK" trace -o "$work/x.ctf" paths:leaf -- "$paths"
  [ "$status" -eq 125 ]
  [[ $output == *"cannot write $work/x.ctf: Directory not empty; give another file"* ]]
  [ "$(ls "$work/x.ctf")" = mine ]
}

@test "a table has the figures of the program, and texts that stay one cell" {
  "$PINPRICK" count -o "$work/x.csv" --by '$arg1' paths:deep paths:outer -- "$paths" 2>/dev/null
  python3 - "$work/x.csv" <<'PYTHON'
import csv, sys
rows = list(csv.DictReader(open(sys.argv[1], newline='')))
outer = [r for r in rows if r['function'] == 'outer']
assert sorted(int(r['$arg1']) for r in outer) == list(range(1000)) and all(r['hits'] == '1' for r in outer)
PYTHON
  printf 'a,b\n"=1+1"' >"$work/text"
  "$PINPRICK" trace -o "$work/x.csv" 'libc:getenv $arg1:string' 'libc:setenv name=$arg1:string value=$arg2:string' \
    -- python3 -S -c 'import os, sys; os.environ["=X,Y"[1:]] = open(sys.argv[1]).read(); os.environ["Z"] = "=1"' \
    "$work/text" 2>/dev/null
  python3 - "$work/x.csv" <<'PYTHON'
import csv, sys
rows = list(csv.DictReader(open(sys.argv[1], newline=''), strict=True))
values = {r['name']: r['value'] for r in rows if r['function'] == 'setenv'}
assert values == {'X,Y': 'a,b\n"=1+1"', 'Z': "'=1"}, values
assert all(None not in r and None not in r.values() for r in rows)
PYTHON
}

@test "metrics, tables and --json have the same figures of one program" {
  local program='import zlib; [zlib.crc32(bytes(i)) for i in range(500)]'
  export PYTHONHASHSEED=0
  "$PINPRICK" hist --json -o "$work/records" 'paths:leaf $arg1' -- "$paths"
  "$PINPRICK" hist -o "$work/x.prom" 'paths:leaf $arg1' -- "$paths" 2>/dev/null
  "$PINPRICK" hist -o "$work/x.csv" 'paths:leaf $arg1' -- "$paths" 2>/dev/null
  check_export prometheus "$work/x.prom" <<PYTHON
import csv, json
json_row = [r for r in map(json.loads, open('$work/records')) if r['type'] == 'hist' and r['final']][0]
labels, count = x['pinprick_values_count'][0]
assert (labels['function'], labels['comm'], labels['object']) == ('leaf', 'paths', 'paths')
assert count == json_row['count'] and x['pinprick_values_sum'][0][1] == json_row['sum']
bounds = [(int(float(l['le'])), v) for l, v in x['pinprick_values_bucket'] if l['le'] != '+Inf']
# Each slot's first value lies in the bucket that ends with it, and not in the one before.
slots, seen, before = json_row['slots'], 0, -1
assert len(bounds) == len(slots)
for (floor, n, _), (le, cumulative) in zip(slots, bounds):
    seen += n
    assert before < floor <= le and cumulative == seen, (floor, le)
    before = le
row = list(csv.DictReader(open('$work/x.csv', newline='')))[0]
assert int(row['count']) == json_row['count'] and float(row['sum']) == json_row['sum']
assert [int(row[q]) for q in ('p50', 'p90', 'p99', 'p999', 'max')] == \
    [json_row[q] for q in ('p50', 'p90', 'p99', 'p999', 'max')]
PYTHON
}

@test "a key that is a set or a list has a label for each part" {
  "$PINPRICK" count --by '$arg1 in {0,2},$arg1:s32/100' -o "$work/x.prom" paths:leaf -- "$paths" 2>/dev/null
  "$PINPRICK" count --json --by '$arg1 in {0,2},$arg1:s32/100' -o "$work/records" paths:leaf -- "$paths"
  check_export prometheus "$work/x.prom" <<PYTHON
import json
rows = [r for r in map(json.loads, open('$work/records')) if r['type'] == 'count' and r['final']]
hits = {(l['arg1_in_0_2'], l['arg1_s32_100']): v for l, v in x['pinprick_hits_total']}
assert hits == {tuple(map(str, r['key'])): r['hits'] for r in rows}, hits
PYTHON
}

@test "metrics are rewritten whole at each interval, with all that was counted, as redis counts it" {
  redis-server --port 0 --unixsocket "$work/socket" --save '' --appendonly no --dir "$work" \
    >"$work/redis.log" 2>&1 3>&- &
  local redis=$!
  ends_with_test $redis
  until_line "$work/redis.log" 'ready to accept connections'
  "$PINPRICK" latency -i 0.1 -o "$work/x.prom" -p $redis redis-server:call >"$work/notes" 2>&1 3>&- &
  local pinprick=$!
  ends_with_test $pinprick
  until_line "$work/x.prom" '_count'
  redis-benchmark -s "$work/socket" -q -n 5000 -t set,get >/dev/null 3>&-
  kill -INT $pinprick
  wait $pinprick
  redis-cli -s "$work/socket" info commandstats |
    awk -F'[=,]' '/^cmdstat_/ { n += $2 } END { print n + 0 }' >"$work/calls"
  check_export prometheus "$work/x.prom" <<PYTHON
# The INFO is not in its own answer, and was not measured.
labels, count = x['pinprick_call_duration_seconds_count'][0]
assert labels['pid'] == '$redis' and count == int(open('$work/calls').read()), (labels, count)
assert 0 < x['pinprick_call_duration_seconds_sum'][0][1] < 60
PYTHON
  [ "$(echo "$work"/x.prom*)" = "$work/x.prom" ]
}

@test "a recording becomes a profile of its calls and their times" {
  "$PINPRICK" record -o "$work/x.rec" --tree 'paths:*' -- "$paths" 2>/dev/null
  "$PINPRICK" report --functions -o "$work/x.pb.gz" "$work/x.rec"
  check_export pprof "$work/x.pb.gz" <<'PYTHON'
profile, types, samples = x
assert types == [('calls', 'count'), ('time', 'nanoseconds')], types
found = [v for names, v, _ in samples if names[:4] == ['leaf', 'middle', 'outer', 'main']]
assert len(found) == 1 and found[0][0] == 1000 and found[0][1] > 0, found
assert profile.string_table[profile.mapping[0].filename].endswith('/paths')
assert profile.time_nanos > 0
PYTHON
}

@test "a profile has the stacks of the program, its object's build ID, and the sums" {
  "$PINPRICK" count --by stack --sum '$arg1' -o "$work/x.pb.gz" paths:leaf -- "$paths" 2>/dev/null
  local id
  id=$(readelf -n "$paths" | sed -n 's/.*Build ID: //p')
  check_export pprof "$work/x.pb.gz" <<PYTHON
profile, types, samples = x
assert types == [('calls', 'count'), ('\$arg1', 'sum')], types
other = [s for s in samples if s[0][:3] == ['leaf', 'other', 'main']]
assert [s[1] for s in other] == [[500, 499 * 500 // 2]], other
assert sum(s[1][0] for s in samples if s[0][:4] == ['leaf', 'middle', 'outer', 'main']) == 1000
mapping = profile.mapping[0]
assert profile.string_table[mapping.filename].endswith('/paths')
assert profile.string_table[mapping.build_id] == '$id'
PYTHON
  "$PINPRICK" latency -o "$work/x.pb.gz" paths:leaf paths:outer -- "$paths" 2>/dev/null
  check_export pprof "$work/x.pb.gz" <<'PYTHON'
profile, types, samples = x
assert types == [('calls', 'count'), ('time', 'nanoseconds')]
by_name = {names[0]: values for names, values, _ in samples}
assert by_name['outer'][0] == 1000 and by_name['outer'][1] > 1000
PYTHON
}

@test "a format that does not go with the verb is refused before anything is probed" {
  for arguments in 'count -o x.pftrace f' 'trace -o x.prom f' 'trace -o x.pb.gz f' 'trace -o x.folded f' \
    'hist -o x.pb.gz f' 'top -o x.csv f' 'count --json -o x.csv f' 'count --once -o x.csv f' \
    'count -o x.folded f' 'trace --tree -o x.csv f' 'trace --tree --slower 1ms -o x.pftrace f' \
    'latency --top 3 -o x.prom f' 'count -o x.ctf f' 'trace --tree --depth 2 -o x.ctf f'; do
    # shellcheck disable=SC2086  # words on purpose
    run --separate-stderr "$PINPRICK" $arguments -p 1
    [ "$status" -eq 2 ]
    [ "${#stderr_lines[@]}" -eq 1 ]
    [ ! -e x.csv ] && [ ! -e x.pftrace ] && [ ! -e x.ctf ]
  done
}

@test "a file for another tool stays as it was if nothing is probed, and says why it cannot be written" {
  for name in x.csv x.prom x.pftrace; do
    echo before >"$work/$name"
    verb=$([ $name = x.pftrace ] && echo trace || echo count)
    run "$PINPRICK" $verb -o "$work/$name" paths:no_such_function -- "$paths"
    [ "$status" -eq 125 ]
    [ "$(cat "$work/$name")" = before ]
  done
  run "$PINPRICK" count -o "$work/none/x.prom" paths:leaf -- "$paths"
  [ "$status" -eq 125 ]
  [[ $output == *"cannot write $work/none/x.prom: No such file or directory"* ]]
}
