# Coverage: with --once, what was executed has its own bytes again while the process is measured, and
# the report says what was executed and what was not.
load helpers

# changed PID FILE: the functions of the file whose text in the process is not the file's, in order.
changed() {
  python3 - "$1" "$(realpath "$2")" <<'PYTHON'
import bisect, re, struct, subprocess, sys
pid, path = sys.argv[1:]
data = open(path, 'rb').read()
first, = struct.unpack_from('<Q', data, 32)
count, = struct.unpack_from('<H', data, 56)
loads = []
for i in range(count):
    kind, _, offset, address, _, size = struct.unpack_from('<IIQQQQ', data, first + 56 * i)
    if kind == 1:
        loads.append((offset, size, address - offset))
functions = []
for line in subprocess.run(['nm', '-S', path], capture_output=True, text=True, check=True).stdout.split('\n'):
    words = line.split()
    if len(words) == 4 and words[2] in 'tTwW':
        functions.append((int(words[0], 16), int(words[1], 16), words[3]))
functions.sort()
found = set()
for line in open(f'/proc/{pid}/maps'):
    m = re.match(r'(\w+)-(\w+) ..x. (\w+) \S+ \d+\s+(.*)', line)
    if not m or m[4] != path:
        continue
    begin, end, offset = (int(m[i], 16) for i in (1, 2, 3))
    with open(f'/proc/{pid}/mem', 'rb') as memory:
        memory.seek(begin)
        text = memory.read(end - begin)
    own = data[offset:offset + len(text)].ljust(len(text), b'\0')
    for i in range(0, len(text), 16):
        if text[i:i + 16] == own[i:i + 16]:
            continue
        for at in range(i, min(i + 16, len(text))):
            if text[at] == own[at]:
                continue
            bias = next(b for o, s, b in loads if o <= offset + at < o + s)
            address = offset + at + bias
            # A jump may reach into the padding after its function.
            n = bisect.bisect(functions, (address, 1 << 64)) - 1
            found.add(functions[n][2] if n >= 0 else hex(address))
print('\n'.join(sorted(found)))
PYTHON
}
has_changed() { [ "$(changed "$1" "$2")" = "$3" ]; }
has_no_change() { has_changed "$1" "$2" ''; }

# executed [RECORDS]: the functions of the last report that were executed, in order.
executed() {
  python3 -c '
import json, sys
r = [json.loads(line) for line in open(sys.argv[1])]
print("\n".join(sorted(x["function"] for x in r
    if x["type"] == "coverage" and x["final"] and x["executed"])))' "${1:-$work/records}"
}

# in_common RECORDS...: of each function in the last reports of several runs, by what says that it is
# the same one: was it executed in any of them? Also of counts.
in_common() {
  python3 -c '
import json, sys
all = {}
for path in sys.argv[1:]:
    for x in map(json.loads, open(path)):
        if x["type"] in ("coverage", "count") and x["final"]:
            key = x["file"], x["address"], x["function"]
            all[key] = all.get(key, False) or x.get("executed", x.get("hits", 0) != 0)
print("\n".join(sorted(f"{f} {a:#x} {n} {e}" for (f, a, n), e in all.items())))' "$@"
}

# called_bees N: the functions that hive calls when it reads N.
called_bees() { python3 -c "print('\n'.join(sorted(f'hive_{i * (70000 // $1)}' for i in range($1))))"; }
all_bees() { python3 -c "print('\n'.join(sorted(f'hive_{i}' for i in range(70000))))"; }

@test "what was executed has its own bytes again, and what was not keeps its probe" {
  start_fed hive
  watch count --once -p $fed 'hive:hive_*'
  has_changed $fed "$TARGETS/hive" "$(all_bees)"
  tell 500 called
  patiently has_changed $fed "$TARGETS/hive" "$(comm -23 <(all_bees) <(called_bees 500))"
  # The others are still there.
  tell 700 called
  patiently has_changed $fed "$TARGETS/hive" \
    "$(comm -23 <(comm -23 <(all_bees) <(called_bees 500)) <(called_bees 700))"
  end_watch
  diff <(executed) <(sort -u <(called_bees 500) <(called_bees 700))
  [ "$(field 'sum(1 for x in r if x["type"] == "coverage")')" -eq 70000 ]
  no_trace $fed
  tell 500 called
}

@test "what was taken out counts no more, in a loop of four threads" {
  start_ticker 4
  watch count --once -p $ticker ticker:tick
  tell "tick 4000000" ticked
  patiently has_no_change $ticker "$TARGETS/ticker"
  local before
  before=$("$PINPRICK" status -p $ticker --json)
  tell "tick 4000000" ticked
  evaluate '
import json, sys
before, after = ([(p["function"], p["hits"]) for p in json.loads(s)["probes"]] for s in sys.argv[1:])
print(before, after)
sys.exit(before != after or before[0][0] != "tick" or before[0][1] == 0)' \
    "$before" "$("$PINPRICK" status -p $ticker --json)"
  end_watch
  [ "$(executed)" = tick ]
  no_trace $ticker
  end_ticker
}

# news: the functions of the intervals, in the order of these.
news() { field '" ".join(x["function"] for x in r if x["type"] == "coverage" and not x["final"])'; }
has_news() { [ "$(news 2>/dev/null)" = "$1" ]; }

@test "-i reports what was executed for the first time" {
  start_ticker
  watch count --once -i 0.05 -p $ticker ticker:tick ticker:nap ticker:recurse
  tell "tick 1000" ticked
  patiently has_news tick
  tell "nap 1" napped
  tell "tick 1000" ticked
  patiently has_news "tick nap"
  tell "nap 1" napped
  end_watch
  has_news "tick nap"
  diff <(executed) <(printf 'nap\ntick\n')
  end_ticker
}

# switches PID: how often its only thread has gone to sleep, or was made to.
switches() { awk '/ctxt_switches/ { n += $2 } END { print n }' "/proc/$1/status"; }
# has_intervals N: there are so many reports, and each comes after a look.
has_intervals() { (($(grep -c 'so far$' "$work/table") >= $1)); }

@test "while nothing new is executed, the process is not stopped" {
  start_ticker
  "$PINPRICK" count --once -i 0.05 -p $ticker ticker:tick ticker:nap >"$work/table" \
    2>"$work/notes" 3>&- 7>&- &
  watcher=$!
  ends_with_test $watcher
  until_line "$work/notes" '^armed'
  local before intervals
  before=$(switches $ticker)
  tell "tick 10" ticked
  patiently has_changed $ticker "$TARGETS/ticker" nap
  until_line "$work/table" ' tick$'
  # It was stopped for that, and has waited for its input again.
  (($(switches $ticker) > before + 1))
  intervals=$(grep -c 'so far$' "$work/table" || true)
  before=$(switches $ticker)
  patiently has_intervals $((intervals + 10))
  [ "$(switches $ticker)" -eq "$before" ]
  end_watch
  end_ticker
}

@test "a probe that another owner shares stays, is right, and goes when it is alone" {
  start_ticker
  watch count -p $ticker ticker:tick
  local other=$watcher
  mv "$work/records" "$work/other"
  watch count --once -i 0.05 -p $ticker ticker:tick ticker:nap
  for _ in 1 2 3; do
    tell "tick 1000" ticked
    patiently has_news tick
  done
  [ "$(changed $ticker "$TARGETS/ticker")" = "$(printf 'nap\ntick')" ]
  kill -INT $other
  wait $other
  [ "$(records_of other hits)" -eq 3000 ]
  patiently has_changed $ticker "$TARGETS/ticker" nap
  tell "tick 1000" ticked
  end_watch
  has_news tick
  [ "$(executed)" = tick ]
  no_trace $ticker
  end_ticker
}
records_of() {
  evaluate '
import json, sys
print(sum(x[sys.argv[2]] for x in map(json.loads, open(sys.argv[1])) if x["type"] == "count" and x["final"]))' \
    "$work/$1" "$2"
}

# runs NAME INPUT OPTION...: the ticker with that input; its records are in $work/NAME.
runs() {
  "$PINPRICK" count "${@:3}" --json -o "$work/$1" 'ticker:*' -- "$TARGETS/ticker" <<<"$2" >"$work/out"
}

@test "a process that has ended before anyone looked has lost nothing" {
  runs once "tick 1" --once
  runs counted "tick 1"
  diff <(in_common "$work/once") <(in_common "$work/counted")
  executed "$work/once" | grep -x tick
  ! executed "$work/once" | grep -x nap
}

@test "the records of two runs can be joined, by their build ID or file and their address" {
  runs first "tick 1" --once
  runs second "nap 1" --once
  runs both $'tick 1\nnap 1' --once
  ! cmp <(in_common "$work/first") <(in_common "$work/both")
  diff <(in_common "$work/first" "$work/second") <(in_common "$work/both")
  # All are of one file, and some objects have no build ID.
  [ "$(cat "$work/first" "$work/second" | python3 -c '
import json, sys
print(*{x["build_id"] for x in map(json.loads, sys.stdin) if x["type"] == "coverage"})')" = \
    "$(readelf -n "$TARGETS/ticker" | sed -n 's/.*Build ID: //p')" ]
}

@test "the table has what was executed, and how many were not" {
  start_fed hive
  "$PINPRICK" count --once -p $fed 'hive:hive_*' >"$work/table" 2>"$work/notes" 3>&- 7>&- &
  watcher=$!
  ends_with_test $watcher
  until_line "$work/notes" '^armed 70,000 functions'
  tell 500 called
  end_watch
  diff <(awk '$3 == "executed" { print $4 }' "$work/table" | sort) <(called_bees 500)
  [ "$(tail -n 1 "$work/table")" = '500 of 70,000 functions executed; --idle shows the others' ]
  [ "$(wc -l <"$work/table")" -eq 501 ]
}

@test "a table of few functions has all of them" {
  start_ticker
  "$PINPRICK" count --once -p $ticker ticker:tick ticker:nap libc:nanosleep >"$work/table" \
    2>"$work/notes" 3>&- 7>&- &
  watcher=$!
  ends_with_test $watcher
  until_line "$work/notes" '^armed'
  tell "tick 10" ticked
  end_watch
  cat "$work/table"
  grep -qE '^ +0x[0-9a-f]+  ticker +executed +tick$' "$work/table"
  grep -qE '^ +0x[0-9a-f]+  ticker +not executed nap$' "$work/table"
  grep -qE '^ +0x[0-9a-f]+  libc.so.6 +not executed .*nanosleep' "$work/table"
  [ "$(tail -n 3 "$work/table")" = "$(printf '%s\n' 'libc.so.6: 0 of 1 function executed' \
    'ticker: 1 of 2 functions executed' '1 of 3 functions executed')" ]
  end_ticker
}

@test "--once has no order by hits" {
  run "$PINPRICK" count --once --top 3 -p $$ main
  [ "$status" -eq 2 ]
  [[ "$output" == *--top* ]]
}

# --- Libraries, children, other processes

@test "a library that is loaded, unloaded and loaded again has each function once" {
  start_fed dlhost
  watch count --once --allow-missing -i 0.05 -p $fed 'plugin:plugin_*'
  for _ in 1 2; do
    tell "load $TARGETS/plugin.so" load
    tell "call 10" call
    patiently has_news_of plugin_main
    patiently lacks_change plugin_main
    tell unload unload
  done
  end_watch
  has_news_of plugin_main
  [ "$(field 'sum(x["function"] == "plugin_main" for x in r if x["type"] == "coverage" and x["final"])')" -eq 1 ]
  executed | grep -x plugin_main
  no_trace $fed
}
has_news_of() { [ "$(news 2>/dev/null | tr ' ' '\n' | grep -cx "$1")" -eq 1 ]; }
lacks_change() { ! changed $fed "$TARGETS/plugin.so" | grep -qx "$1"; }

@test "with --children=follow a child that was forked with the probe loses it, too" {
  start_fed forked
  watch count --once --children=follow -p $fed forked:probed forked:busy
  local child
  child=$(answer fork)
  child=${child#done }
  # Its parent's probe is out before the child has a measurement of its own, which begins later.
  answer "call 1" >/dev/null
  patiently has_changed $fed "$TARGETS/forked" busy
  patiently calls_without_probe "$child"
  end_watch
  [ "$(executed)" = probed ]
  no_trace $fed
  no_trace "$child"
  end_fed
}

calls_without_probe() { answer "call 1" >/dev/null; has_changed "$1" "$TARGETS/forked" busy; }

@test "--children=follow has what any of the programs has executed" {
  seq 1 2000 >"$work/numbers"
  gzip -c "$work/numbers" >"$work/compressed"
  "$PINPRICK" count --once --json -o "$work/in" gzip:* -- gzip -c "$work/numbers" >"$work/out"
  "$PINPRICK" count --once --json -o "$work/out" gzip:* -- gzip -dc <"$work/compressed" >"$work/same"
  cmp "$work/numbers" "$work/same"
  "$PINPRICK" count --once --children=follow --json -o "$work/both" gzip:* -- \
    sh -c 'gzip -c "$1"; gzip -dc <"$2"' sh "$work/numbers" "$work/compressed" >/dev/null
  ! cmp <(in_common "$work/in") <(in_common "$work/both")
  diff <(in_common "$work/in" "$work/out") <(in_common "$work/both")
}

@test "--all has what any of the processes has executed, and takes it out of each" {
  use_copy ticker
  start_ticker
  mkfifo "$work/in2"
  "$TARGETS/ticker" <"$work/in2" >"$work/out2" 3>&- 7>&- &
  local second=$!
  ends_with_test $second
  exec 8>"$work/in2"
  patiently has_begun $second "$TARGETS/ticker"
  watch count --once --all "$TARGETS/ticker" tick nap recurse
  tell "tick 10" ticked
  echo "nap 1" >&8
  patiently has_changed $ticker "$TARGETS/ticker" "$(printf 'nap\nrecurse')"
  patiently has_changed $second "$TARGETS/ticker" "$(printf 'recurse\ntick')"
  end_watch
  diff <(executed) <(printf 'nap\ntick\n')
  no_trace $ticker
  no_trace $second
  exec 8>&-
  end_ticker
}

# --- The same as counting all

# executed_offsets: of the instructions of mill, as in stepping
executed_offsets() {
  field '"\n".join("%#x" % int((x["function"] + "+0x0").split("+")[1], 16)
    for x in r if x["type"] == "coverage" and x["final"] and x["executed"] and x["function"].split("+")[0] == "mill")' |
    sort
}

@test "of every instruction it is known whether single-stepping reaches it" {
  local begin size
  read -r begin size < <(nm -S "$TARGETS/mill" | awk '$4 == "mill" { print $1, $2 }')
  "$TARGETS/stepped" "$begin" "$(printf %x $((0x$begin + 0x$size)))" "$TARGETS/mill" 1 <<<ready \
    9>"$work/steps" >/dev/null
  awk '{ print $1 }' "$work/steps" | sort >"$work/expected"
  [ "$(wc -l <"$work/expected")" -ge 40 ]
  # From its start, and on four threads at full speed.
  "$PINPRICK" count --once --instructions --json -o "$work/records" mill:mill -- "$TARGETS/mill" 1 \
    <<<ready >"$work/ready"
  diff "$work/expected" <(executed_offsets)
  start_fed mill 4
  tell ready ready
  tell spin spinning
  watch count --once --instructions -p $fed mill:mill
  tell rest rested
  tell "mill 400" milled
  tell spin spinning
  tell rest rested
  end_watch
  diff "$work/expected" <(executed_offsets)
  no_trace $fed
  tell "mill 400" milled
  end_fed
}

@test "python3 at its own tests: what counting all finds" {
  local python=/usr/bin/python3 modules
  [ -x $python ] || skip "needs Debian's python3"
  # What they execute depends on nothing but the order of their hashes.
  modules=(bisect textwrap struct fractions string json base64 difflib operator)
  "$python" -c "$(printf 'import test.test_%s\n' "${modules[@]}")" 2>/dev/null ||
    skip "needs python3's own tests (libpython3.*-testsuite)"
  local run
  for run in counted once; do
    options=()
    [ $run = counted ] || options=(--once)
    env -i HOME="$work" PATH=/usr/bin:/bin XDG_RUNTIME_DIR="$runtime" XDG_CACHE_HOME="$XDG_CACHE_HOME" \
      PYTHONHASHSEED=0 "$PINPRICK" count "${options[@]}" --json -o "$work/$run" 'python3*:*' -- \
      $python -B -m unittest -q "${modules[@]/#/test.test_}" >"$work/out" 2>&1 || { cat "$work/out"; return 1; }
    grep -q '^OK' "$work/out"
  done
  [ "$(executed "$work/once" | wc -l)" -gt 1000 ]
  diff <(in_common "$work/counted") <(in_common "$work/once")
}

# --- kill -9

@test "a pinprick that is killed while it takes probes out leaves what detach finds" {
  local round seconds
  start_fed hive
  for round in 0 1 2 3; do
    watch count --once -p $fed 'hive:hive_*'
    # Calls go on while it is killed, at another moment in each round.
    for _ in 1 2 3; do echo 700; done >&7
    printf -v seconds '0.%03d' $((round * 10))
    nap "$seconds"
    kill -KILL $watcher
    wait $watcher || true
    tell 500 called
    "$PINPRICK" detach -p $fed 2>&1 | grep 'detached cleanly'
    no_trace $fed
    tell 700 called
  done
}
