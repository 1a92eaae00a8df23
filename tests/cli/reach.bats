# Which kinds of programs can be probed, and how far: docs/reach.md, cell by cell.
load helpers

@test "a program whose code fills its last page" {
  local last
  last=$(readelf -lW "$TARGETS/ticker_full" | awk '$1 == "LOAD" && / R E / { print $3, $6 }')
  [ $(((${last% *} + ${last#* }) % 4096)) -eq 0 ]
  TICKER=ticker_full start_ticker
  watch count -p $ticker ticker_full:tick
  tell "tick 1000" ticked
  end_watch
  [ "$(hits tick)" -eq 1000 ]
  no_trace $ticker
  end_ticker
}

# Why functions cannot be probed, each reason once.
reasons() { field 'sorted({x["reason"] for x in r if x["type"] == "skipped"})'; }

@test "what Go has linked is known by its sections, symbols or not, and never timed" {
  local section
  for section in .gopclntab .go.buildinfo; do
    objcopy --add-section $section="$TARGETS/ticker" "$TARGETS/ticker_stripped" "$work/of_go"
    run "$PINPRICK" latency --allow-missing --json -o "$work/records" 'of_go:*' -- "$work/of_go" </dev/null
    [ "$status" -eq 125 ]
    [ "$(reasons)" = "['stack_moves']" ]
  done
}

needs_go() { [ -x "$TARGETS/goroutines" ] || skip "Go's compiler is not installed"; }

@test "Go: functions are counted from the start, under preemption, collection and moving stacks" {
  needs_go
  "$PINPRICK" count --allow-missing --json -o "$work/records" 'goroutines:*' -- \
    "$TARGETS/goroutines" 3 >"$work/out"
  [ "$(cat "$work/out")" = "right 24000" ]
  # Where it finds its stack too small it begins again: once for a goroutine and size of stack.
  [ "$(field '24000 <= sum(x["hits"] for x in r if x["type"] == "count" and x["final"] and x["function"] == "main.tick") < 24200')" = True ]
  [ "$(reasons | grep -c goroutine)" -eq 1 ]
}

@test "Go: probes come and go while it runs" {
  needs_go
  local went=0
  "$TARGETS/goroutines" 5 >"$work/out" 3>&- &
  local go=$!
  ends_with_test $go
  patiently has_begun $go "$TARGETS/goroutines"
  while ! has_ended $go; do
    "$PINPRICK" count -p $go --allow-missing -d 0.01 'goroutines:*' >/dev/null 2>"$work/errors" &&
      went=$((went + 1))
  done
  wait $go
  [ "$(cat "$work/out")" = "right 40000" ]
  [ $went -gt 2 ]
}

@test "Go: a function is not timed, and it says why" {
  needs_go
  run "$PINPRICK" latency 'goroutines:main.tick' -- "$TARGETS/goroutines" 1
  echo "$output"
  [ "$status" -eq 125 ]
  [[ "$output" == *"skipped main.tick: its stack may move during a call, as Go's do; \`count\` can probe it"* ]]
}
