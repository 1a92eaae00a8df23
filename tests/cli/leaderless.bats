# A process whose first thread has ended, while others go on: what /proc/PID shows of it is nothing.
load helpers

start_leaderless() {
  start_fed leaderless
  until_line "$work/out" '^ready'
  [ ! -s "/proc/$fed/maps" ]
  # Where the rest of it is to be seen.
  local task
  for task in "/proc/$fed/task/"*; do
    [ "${task##*/}" = "$fed" ] || living=$task
  done
}

# Nothing of pinprick is mapped, and the text is the file's.
no_trace_of_living() {
  if grep -E '/pinprick[^/]*/[0-9.-]+\.session' "$living/maps"; then return 1; fi
  text_is_original "$fed/task/${living##*/}"
  [ "$("$PINPRICK" status -p "$fed" --json | wc -l)" -eq 0 ]
}

@test "a process whose first thread has ended is counted and timed, and gets its text back" {
  start_leaderless
  for verb in count latency; do
    watch $verb -p "$fed" leaderless:tick
    tell 1000 ticked
    "$PINPRICK" status -p "$fed" --json | grep -q '"state":"live"'
    end_watch
    grep -qE '"(hits|count)":1000' "$work/records"
    no_trace_of_living
  done
  tell 1000 ticked
  end_fed
}

@test "detach takes the probes out of a process whose first thread has ended" {
  start_leaderless
  watch count -p "$fed" leaderless:tick
  tell 1000 ticked
  kill -KILL "$watcher"
  wait "$watcher" || true
  "$PINPRICK" status -p "$fed" --json >"$work/status"
  grep -q '"state":"orphaned"' "$work/status"
  grep -q '"function":"tick",.*"hits":1000' "$work/status"
  run "$PINPRICK" detach -p "$fed"
  echo "$output"
  [ "$status" -eq 0 ]
  no_trace_of_living
  tell 1000 ticked
  end_fed
}

@test "probes come out although the first thread has ended since they came in" {
  start_fed leaderless held
  until_line "$work/out" '^held'
  watch count -p "$fed" leaderless:tick
  echo 0 >&7
  until_line "$work/out" '^ready'
  living=$(for task in "/proc/$fed/task/"*; do [ "${task##*/}" = "$fed" ] || echo "$task"; done)
  [ ! -s "/proc/$fed/maps" ]
  tell 1000 ticked
  end_watch
  [ "$(hits tick)" -eq 1000 ]
  no_trace_of_living
  tell 1000 ticked
  end_fed
}
