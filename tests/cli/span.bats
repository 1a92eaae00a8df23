# pinprick latency with spans, on tests/targets/spans.c, which comes to its points as it is told.
load helpers

start_spans() {
  start_fed "${SPANS:-spans}" "${1:-1}"
  spans=$fed
  tell ready "done"
}

# span_row NAME: what the last report says of it: spans, repeated starts, unmatched ends, missed.
span_row() {
  field "[(x['count'], x['repeated_starts'], x['unmatched_ends'], x['missed']) for x in r
          if x['type'] == 'latency' and x['final'] and x['function'] == '$1'][0]"
}

# is_row NAME ROW
is_row() {
  local row
  row=$(span_row "$1")
  echo "$1: $row"
  [ "$row" = "$2" ]
}

@test "four threads lose no span, and nothing is left in the program" {
  start_spans 4
  watch latency -p "$spans" begin..end
  tell "pairs 500000" "done"
  end_watch
  is_row begin..end "(2000000, 0, 0, 0)"
  no_trace "$spans"
  end_fed
}

@test "the first start counts; others, and ends without one, are counted apart" {
  start_spans
  watch latency -p "$spans" begin..end
  tell "ends 3" "done"
  tell "begins 5" "done"
  tell "ends 2" "done"
  tell "begins 2" "done"
  end_watch
  is_row begin..end "(1, 5, 4, 0)"
  end_fed
}

@test "a span lasts from its first start to its end" {
  start_spans
  watch latency -p "$spans" begin..end
  tell "nap 40" "done"
  end_watch
  [ "$(field "[40e6 * 0.999 <= x['sum_ns'] < 20e9 for x in r if x['type'] == 'latency']")" = "[True]" ]
  end_fed
}

@test "from a point to itself each hit ends a span and begins the next" {
  start_spans
  watch latency -p "$spans" turn..turn
  tell "turns 1000" "done"
  end_watch
  is_row turn..turn "(999, 0, 1, 0)"
  end_fed
}

@test "one point ends a span and begins others" {
  start_spans
  watch latency -p "$spans" first..second second..third third..first first..third third..third
  tell "ring 1000" "done"
  end_watch
  is_row first..second "(1000, 0, 0, 0)"
  is_row second..third "(1000, 0, 0, 0)"
  is_row third..first "(999, 0, 1, 0)"
  is_row first..third "(1000, 0, 0, 0)"
  is_row third..third "(999, 0, 1, 0)"
  [ "$(field "[x['armed'] for x in r if x['type'] == 'armed']")" = "[5]" ]
  end_fed
}

@test "a thread that takes over another's stack does not end its span" {
  start_spans
  watch latency -p "$spans" begin..end
  tell "heirs 1000" "done"
  end_watch
  is_row begin..end "(1000, 0, 1000, 0)"
  end_fed
}

# The table has 8,192 entries. What ended threads had is free again a quarter of a second later.
@test "more threads come and go than there is room for" {
  start_spans
  watch latency -p "$spans" -i 0.1 begin..end
  local reports round
  reports() { grep -c '"final":false' "$work/records" || true; }
  more_reports() { (($(reports) > $1)); }
  for round in 1 2 3 4; do
    tell "short 3000" "done"
    reports=$(reports)
    patiently more_reports $((reports + 5))
  done
  end_watch
  local figures
  figures=$(span_row begin..end)
  echo "$figures"
  evaluate "spans, repeated, unmatched, missed = $figures
assert spans + missed == 12000 and missed == unmatched and missed < 200 and repeated == 0"
  end_fed
}

# A thread may be about to return into the bytes of the jump just then: that is refused for once.
measured() {
  "$PINPRICK" latency --json -p "$1" -d 0.1 -o "$work/records" work..work && return
  cat "$work/records" >&2
  grep -q '"reason":"thread_inside"' "$work/records" || touch "$work/refused_otherwise"
  return 1
}

# Each thread calls work() 200 times.
@test "while threads are born and die all the time none is taken for another" {
  "$TARGETS/thread_storm" >"$work/out" 3>&- &
  local storm=$! round
  ends_with_test $storm
  until_line "$work/out" ready
  for round in 1 2 3 4 5; do
    patiently measured $storm
    [ ! -e "$work/refused_otherwise" ]
    span_row work..work >"$work/figures"
    cat "$work/figures"
    # Of threads that the probes met or left at their work there are a few.
    evaluate "import sys
spans, repeated, unmatched, missed = eval(open(sys.argv[1]).read())
assert repeated == missed == 0 < spans <= 199 * unmatched
assert spans > 199 * (unmatched - 32)" "$work/figures"
  done
  no_trace $storm
  kill $storm
  wait $storm
  grep -qx ok "$work/out"
}

@test "a signal handler that comes to the same points ends what it interrupted" {
  start_spans
  watch latency -p "$spans" begin..end
  tell handler "done"
  end_watch
  is_row begin..end "(1, 1, 1, 0)"
  end_fed
}

@test "a forked child does not end what its parent began" {
  start_spans
  watch latency -p "$spans" begin..end
  tell child "done"
  end_watch
  is_row begin..end "(2, 0, 1, 0)"
  watch latency -p "$spans" --children ignore begin..end
  tell child "done"
  end_watch
  is_row begin..end "(1, 0, 0, 0)"
  no_trace "$spans"
  end_fed
}

# That program ends with 1 if a register, a flag or the red zone is not what it was.
@test "within a function registers, flags and the red zone stay as they are" {
  local span
  for span in here..here+0xd here+0xa..here+0xd here+0xd..here; do
    "$PINPRICK" latency --json -o "$work/records" "registers:${span%..*}..registers:${span#*..}" -- \
      "$TARGETS/registers"
    field "[(x['count'], x['repeated_starts'], x['unmatched_ends']) for x in r if x['type'] == 'latency']" \
      >"$work/figures"
    echo "$span: $(cat "$work/figures")"
    if [ "$span" = here+0xd..here ]; then
      [ "$(cat "$work/figures")" = "[(999, 0, 1)]" ]
    else
      [ "$(cat "$work/figures")" = "[(1000, 0, 0)]" ]
    fi
  done
}

# An endbr64 stays where it is, in front of the probe.
@test "a function's entry and what comes after its endbr64 are one point" {
  SPANS=spans_endbr start_spans
  watch latency -p "$spans" begin..begin+0x4 begin+0x4..end
  tell "pairs 100" "done"
  end_watch
  is_row begin..begin+0x4 "(99, 0, 1, 0)"
  is_row begin+0x4..end "(100, 0, 0, 0)"
  end_fed
}

@test "a program without rseq (static, musl) has spans, too" {
  local span
  for SPANS in spans_static spans_musl spans_musl_dynamic; do
    [ -x "$TARGETS/$SPANS" ] || continue
    rm -f "$work/in"
    start_spans 4
    watch latency -p "$spans" "$SPANS:begin..$SPANS:end"
    tell "pairs 50000" "done"
    tell "heirs 100" "done"
    end_watch
    is_row "$SPANS:begin..$SPANS:end" "(200100, 0, 100, 0)"
    no_trace "$spans"
    end_fed
  done
}

# Threads have other TIDs there than here, and theirs are in the table.
@test "a program in a PID namespace of its own has spans, too" {
  unshare --pid --fork true 2>/dev/null || skip "cannot make a PID namespace here"
  mkfifo "$work/in"
  unshare --pid --fork --kill-child "$TARGETS/spans" <"$work/in" >"$work/out" 3>&- &
  fed=$!
  ends_with_test $fed
  exec 7>"$work/in"
  tell ready "done"
  local spans reports
  spans=$(tr -d ' ' <"/proc/$fed/task/$fed/children")
  watch latency -p "$spans" -i 0.1 begin..end
  tell "heirs 100" "done"
  tell "begins 1" "done"
  # The controller has looked for threads that have ended; the first one has not.
  reports=$(grep -c '"final":false' "$work/records" || true)
  has_reported() { (($(grep -c '"final":false' "$work/records") > reports + 5)); }
  patiently has_reported
  tell "short 36000" "done"
  tell "ends 1" "done"
  end_watch
  field "[x['count'] + x['missed'] for x in r if x['type'] == 'latency' and x['final']]" >"$work/figures"
  cat "$work/figures"
  [ "$(cat "$work/figures")" = "[36101]" ]
  end_fed
}

@test "a static program that has not begun is refused, and has not run" {
  run "$PINPRICK" latency begin..end -- "$TARGETS/spans_static" <<<ready
  echo "$output"
  [ "$status" -eq 125 ]
  [[ $output == *"have to tell its threads apart"*"attach with -p"* ]]
  [[ $output != *done* ]]
}

@test "-i reports the spans since the last report" {
  start_spans
  watch latency -p "$spans" -i 0.1 begin..end
  reported() {
    field "sum(x['count'] + x['repeated_starts'] for x in r if x['type'] == 'latency' and not x['final'])"
  }
  have_reported() { [ "$(reported 2>/dev/null)" = "$1" ]; }
  tell "pairs 1000" "done"
  tell "begins 3" "done"
  patiently have_reported 1002
  tell "begins 500" "done"
  patiently have_reported 1502
  end_watch
  is_row begin..end "(1000, 502, 0, 0)"
  end_fed
}

@test "text has the counts of a span, in a histogram and in the last line" {
  start_spans
  "$PINPRICK" latency -p "$spans" begin..end >"$work/text" 2>"$work/errors" &
  watcher=$!
  ends_with_test $watcher
  until_line "$work/errors" '^armed 1 span in'
  tell "ends 2" "done"
  tell "begins 4" "done"
  tell "ends 1" "done"
  end_watch
  cat "$work/text"
  grep -q '^begin\.\.end .* spans/s$' "$work/text"
  grep -q ' n=1$' "$work/text"
  grep -qx 'repeated starts 3: the first one counts' "$work/text"
  grep -qx 'ends without a start 2' "$work/text"
  [ "$(tail -n 1 "$work/text")" = "missed 0  repeated starts 3  ends without a start 2" ]
  end_fed
}

@test "a killed pinprick's spans are shown by status, and detach removes the probes" {
  start_spans
  watch latency -p "$spans" begin..end turn..turn
  tell "pairs 1000" "done"
  kill -KILL "$watcher"
  wait "$watcher" || true
  tell "pairs 234" "done"
  tell "ends 1" "done"
  "$PINPRICK" status -p "$spans" --json >"$work/records"
  [ "$(field "[(p['function'], p['count'], p['unmatched_ends']) for x in r for p in x['probes']]")" = \
    "[('begin..end', 1234, 1), ('turn..turn', 0, 0)]" ]
  "$PINPRICK" detach -p "$spans"
  no_trace "$spans"
  end_fed
}

@test "what is no span is an error of one line that says why" {
  start_spans
  local words specs wanted
  while IFS='|' read -r specs wanted words; do
    read -ra specs <<<"$specs"
    run "$PINPRICK" latency -p "$spans" "${specs[@]}"
    echo "${specs[*]}: $output"
    [ "$status" -eq "$wanted" ]
    [[ $output == *"$words"* ]]
    [ "${#lines[@]}" -eq 1 ]
  done <<'END'
..end|2|the start is missing
begin..|2|the end is missing
begin..turn..end|2|a span has two points; write '?'
begin..end turn|2|'turn' is a function, but others are spans
begin..absent|3|no function matches 'absent'
absent..end|3|no function matches 'absent'
begin..nothing_such*|3|no function matches 'nothing_such*'
begin..spans:*r*|2|'begin..spans:*r*': 'spans:*r*' matches
begin..end+0x1|3|'begin..end+0x1': end+0x1 cannot be probed
END
  no_trace "$spans"
  end_fed
}

@test "with --allow-missing a span whose point is nowhere is left out" {
  start_spans
  watch latency -p "$spans" --allow-missing begin..end begin..absent
  tell "pairs 10" "done"
  end_watch
  is_row begin..end "(10, 0, 0, 0)"
  [ "$(field "sum(x['type'] == 'latency' for x in r)")" -eq 1 ]
  end_fed
}

@test "with --follow-exec the next program has spans that this one has not" {
  mkfifo "$work/in"
  sh -c 'read x; exec "$0"' "$TARGETS/spans" <"$work/in" >"$work/out" 3>&- &
  fed=$!
  ends_with_test $fed
  exec 7>"$work/in"
  patiently has_begun $fed /bin/sh
  watch latency -p "$fed" --allow-missing --follow-exec begin..end
  echo go >&7
  until_line "$work/records" '"type":"armed".*"armed":1,'
  tell "pairs 10" "done"
  end_watch
  is_row begin..end "(10, 0, 0, 0)"
  end_fed
}

@test "two dots in a regular expression are any two characters" {
  start_spans
  watch latency -p "$spans" --regex 'spans:t..n'
  tell "turns 10" "done"
  end_watch
  [ "$(field "[(x['function'], x['count']) for x in r if x['type'] == 'latency']")" = "[('turn', 10)]" ]
  end_fed
}

# Its own statistics are the oracle. Each command is one of processCommand and one of call.
@test "spans of redis-server under load are as many as its commands" {
  redis-server --port 0 --unixsocket "$work/socket" --save '' --appendonly no --dir "$work" \
    >"$work/redis.log" 2>&1 3>&- &
  local redis=$! before after
  ends_with_test $redis
  until_line "$work/redis.log" 'ready to accept connections'
  calls() {
    redis-cli -s "$work/socket" info commandstats |
      awk -F'[=,]' '/^cmdstat_/ { n += $2 } END { print n + 0 }'
  }
  watch latency -p $redis redis-server:processCommand..redis-server:call \
    redis-server:call..redis-server:call redis-server:readQueryFromClient..redis-server:writeToClient
  before=$(calls)
  redis-benchmark -s "$work/socket" -q -n 20000 -P 16 -t set,get >/dev/null 3>&-
  redis-benchmark -s "$work/socket" -q -n 1000 -c 1 -t set >/dev/null 3>&-
  after=$(calls)
  end_watch
  # An INFO is not yet in its own answer.
  local commands=$((after - before + 1))
  [ $commands -gt 41000 ]
  is_row redis-server:processCommand..redis-server:call "($commands, 0, 0, 0)"
  is_row redis-server:call..redis-server:call "($((commands - 1)), 0, 1, 0)"
  [ "$(field "[x['count'] > 1000 for x in r if x['type'] == 'latency'][2]")" = True ]
  no_trace $redis
}
