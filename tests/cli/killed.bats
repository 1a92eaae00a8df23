# pinprick is killed or stopped while it follows a file, or what a process executes: at moments spread
# over the time that this takes. PINPRICK_KILLS says how often, for each of the tests.
load helpers

setup_file() { export BATS_TEST_TIMEOUT=1800; }
rounds=${PINPRICK_KILLS:-4}

copy_of_target() {
  file=$work/ruled
  cp "$TARGETS/ruled" "$file"
  export TALLY=$work/tally
}

# programs_are_right COUNT: COUNT programs have ended, and each has made all of its calls.
programs_are_right() {
  [ "$(wc -l <"$TALLY")" -eq "$1" ] || { echo "$(wc -l <"$TALLY") of $1 programs" >&2; return 1; }
  ! grep -vE ' (6|23|3)$' "$TALLY"
}

# later ROUND STEP_US: sleeps for ROUND steps.
later() {
  local seconds
  printf -v seconds '0.%06d' $(($1 * $2))
  nap "$seconds"
}

# The sessions that are left are those that status finds, and they can be taken out.
all_can_be_detached() {
  local pid found
  found=$("$PINPRICK" status --json)
  for pid in "$@"; do
    grep -q "/$pid-[0-9-]*.session" "/proc/$pid/maps" || continue
    grep -q "\"pid\":$pid," <<<"$found" || { echo "status does not know $pid" >&2; return 1; }
    "$PINPRICK" detach -p "$pid" 2>&1 | grep 'detached cleanly'
  done
  for pid in "$@"; do no_trace "$pid" || return; done
}

# by_file SIGNAL ROUND: of a storm of short programs, and two that go on.
by_file() {
  local pids=() fed=() i
  : >"$TALLY"
  rm -f "$work"/go*
  mkfifo "$work/go"
  exec 8<>"$work/go"
  for i in 1 2; do
    "$file" 3 wait <"$work/go" >"$work/out$i" 3>&- 8>&- &
    fed+=($!)
    ends_with_test $!
    until_line "$work/out$i" ready
  done
  watch count --all "$file" probed
  for i in 1 2 3; do
    seq 4 | xargs -P2 -I{} "$file" 20 3>&- 8>&- &
    pids+=($!)
  done
  later "$2" 4000
  kill "-$1" $watcher
  for i in "${pids[@]}"; do wait "$i"; done
  programs_are_right 12
  # One that is stopped ends by itself after a second.
  wait $watcher || true
  all_can_be_detached "${fed[@]}"
  echo >&8
  echo >&8
  for i in "${fed[@]}"; do wait "$i"; done
  [ "$(grep -c ' 7$' "$TALLY")" -eq 2 ]
  exec 8>&-
}

# what_is_executed SIGNAL ROUND: by a shell and by what that starts.
what_is_executed() {
  : >"$TALLY"
  rm -f "$work/go"
  mkfifo "$work/go"
  sh <"$work/go" >"$work/out" 2>&1 3>&- &
  local shell=$!
  ends_with_test $shell
  exec 7>"$work/go"
  patiently has_begun $shell "$(command -v sh)"
  watch count --children=follow ruled:probed -p $shell
  echo "$file 20 & $file 20 & $file start $file 3; echo status \$?; wait; echo all" >&7
  later "$2" 3000
  kill "-$1" $watcher
  until_line "$work/out" all
  grep '^status 0$' "$work/out"
  programs_are_right 12
  if [ "$1" = STOP ]; then
    kill -CONT $watcher
    kill -INT $watcher
  fi
  wait $watcher || true
  all_can_be_detached $shell
  exec 7>&-
  wait $shell
}

each_round() {
  local round
  for ((round = 0; round < rounds; ++round)); do
    # Over the same time, however many there are.
    "$1" "$2" $((round * 60 / rounds)) || { echo "round $round" >&2; return 1; }
  done
}

@test "killed while it follows a file, programs are right, and what is left can be found and detached" {
  [ "$(id -u)" -eq 0 ] || skip "needs root, to hold executions"
  copy_of_target
  each_round by_file KILL
}

@test "stopped while it follows a file, all that is held goes on, and the rest as if killed" {
  [ "$(id -u)" -eq 0 ] || skip "needs root, to hold executions"
  copy_of_target
  each_round by_file STOP
}

@test "killed while it follows what a process executes, programs are right, and what is left can be detached" {
  copy_of_target
  each_round what_is_executed KILL
}

@test "stopped while it follows what a process executes, programs are right, and it goes on later" {
  copy_of_target
  each_round what_is_executed STOP
}
