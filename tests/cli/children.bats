# pinprick count --children=follow: what a process and its children execute, from the first
# instruction of each program, by the process's own calls of execve.
load helpers

setup_file() { export BATS_TEST_TIMEOUT=240; }

# The file of a test is its own, as others may run the target.
copy_of_target() {
  file=$work/ruled
  cp "$TARGETS/ruled" "$file"
  export TALLY=$work/tally
  : >"$TALLY"
  chmod 666 "$TALLY"
}

# The calls that the programs themselves have counted.
told() { awk '{ sum += $2 } END { print sum + 0 }' "$TALLY"; }
processes() { wc -l <"$TALLY"; }
detached() { field "[x['$1'] for x in r if x['type'] == 'files_detached'][0]"; }
has_told() { (($(processes) >= $1)); }

# follow COMMAND...: measures it, and all that it executes.
follow() {
  "$PINPRICK" count --children=follow --json -o "$work/records" ruled:probed -- "$@" \
    >"$work/out" 2>"$work/errors" || { cat "$work/out" "$work/errors" >&2; return 1; }
}

# all_counted PROCESSES: this number of processes have ended, and each of their calls was counted.
all_counted() {
  cat "$work/errors" >&2
  [ "$(processes)" -eq "$1" ]
  # A program that was executed by a descriptor has a row of its own.
  [ "$(field 'sum(x["hits"] for x in r if x["type"] == "count" and x["final"])')" -eq "$(told)" ]
  [ "$(detached let_through)" -eq 0 ]
}

@test "by fork, vfork and posix_spawn, after failed executions: each call is counted" {
  copy_of_target
  follow "$file" start "$file" 10
  all_counted 31
  [ "$(detached executed)" -eq 30 ]
}

@test "through shells, as deep as they go" {
  copy_of_target
  follow sh -c "sh -c '$file 3; sh -c \"$file 2; $file 1\"; (sh -c \"exec $file 5\")' & wait; exec $file 4"
  all_counted 5
  [ "$(told)" -eq 30 ]
}

@test "a program that executes another one by a thread, by a descriptor, as a script" {
  copy_of_target
  printf '#!%s 3\n' "$file" >"$work/script"
  chmod 755 "$work/script"
  follow sh -c "$file thread $file; $file fail $file; $file fd $file; $work/script"
  all_counted 7
}

@test "a pattern that no program had is an error at the end, and --allow-missing accepts it" {
  run "$PINPRICK" count --children=follow no_such_function -- sh -c "true; exit 7"
  [ "$status" -eq 125 ]
  [[ "$output" == *"no function matches 'no_such_function'"* ]]
  run "$PINPRICK" count --children=follow --allow-missing no_such_function -- sh -c "true; exit 7"
  [ "$status" -eq 7 ]
}

@test "of several patterns, the one that no program had is named, but not one that cannot be probed" {
  run "$PINPRICK" count --children=follow 'libc:getpid' no_such_function -- sh -c "true; exit 7"
  [ "$status" -eq 125 ]
  [[ "$output" == *"no function matches 'no_such_function'"* ]]
  run "$PINPRICK" latency --children=follow libc:setjmp -- sh -c "true; exit 7"
  [ "$status" -eq 125 ]
  [[ "$output" == *"none of the functions can be probed"* ]]
  [[ "$output" != *"no function matches"* ]]
}

@test "a pattern that means only what another one means has matched" {
  run "$PINPRICK" count --children=follow libc:getpid 'libc:getpi?' 'libc:getpi*' -- \
    sh -c "true; exit 7"
  [ "$status" -eq 7 ]
  [[ "$output" != *"no function matches"* ]]
}

@test "what make -j2 starts" {
  type make >/dev/null || skip "make is not installed"
  copy_of_target
  {
    printf 'all:'; printf ' t%d' {1..30}; printf '\n'
    printf 't%%:\n\t@sh -c "%s 3 && %s 2"\n' "$file" "$file"
  } >"$work/Makefile"
  follow make -C "$work" -j2
  all_counted 60
  [ "$(told)" -eq 330 ]
}

@test "--by pid has each program; calls are timed, too" {
  copy_of_target
  "$PINPRICK" latency --children=follow --by pid --json -o "$work/records" ruled:probed -- \
    sh -c "$file 3; $file 2" >"$work/out" 2>"$work/errors"
  [ "$(field 'len({x["pid"] for x in r if x["type"] == "latency" and x["final"] and x["pid"]})')" -eq 2 ]
  # Timed functions are probed when the loader has mapped all libraries. The resolver of each of the
  # two programs has run by then.
  [ "$(field '[x["count"] for x in r if x["type"] == "latency" and x["final"] and x["pid"] == 0][0]')" -eq $(($(told) - 2)) ]
}

@test "a process that runs already, and its children when it has ended" {
  copy_of_target
  mkfifo "$work/go"
  sh <"$work/go" >"$work/out" 2>&1 3>&- &
  local shell=$!
  ends_with_test $shell
  exec 7>"$work/go"
  patiently has_begun $shell "$(command -v sh)"
  watch count --children=follow ruled:probed -p $shell
  mkfifo "$work/late"
  # The subshell outlives the shell, and executes nothing before that.
  echo "$file 3; (read line; exec $file 2) <$work/late & exit" >&7
  exec 7>&-
  wait $shell
  patiently has_told 1
  echo go >"$work/late"
  wait $watcher
  all_counted 2
}

@test "with --follow-exec, what the process executes from its first instruction, and not its children" {
  copy_of_target
  "$PINPRICK" count --follow-exec --allow-missing --json -o "$work/records" ruled:probed -- \
    sh -c "$file 2; (exec $file 9) & wait; exec sh -c 'exec $file thread $file'" \
    >"$work/out" 2>"$work/errors"
  cat "$work/errors" >&2
  [ "$(processes)" -eq 4 ]
  # The last two: 3 calls before main, and then none, or three in main.
  [ "$(field 'sum(x["hits"] for x in r if x["type"] == "count" and x["final"])')" -eq 9 ]
  [ "$(tail -n 2 "$TALLY" | awk '{ sum += $2 } END { print sum }')" -eq 9 ]
}

@test "a setuid program is let go, and keeps its rights" {
  [ "$(id -u)" -eq 0 ] || skip "needs root, to make a setuid program"
  copy_of_target
  become_nobody "$PINPRICK"
  local private=$work/setuid
  cp "$(command -v id)" "$private"
  chown root "$private"
  chmod 4755 "$private"
  run "${as_nobody[@]}" "$private" -u
  [ "$output" = 0 ] || skip "setuid programs have no effect here"
  "${as_nobody[@]}" "$work/pinprick" count --no-cache --children=follow ruled:probed -- \
    sh -c "$private -u; $file 3" >"$work/table" 2>"$work/errors" || { cat "$work/errors"; false; }
  cat "$work/table" "$work/errors"
  grep -q '^0$' "$work/table"
  grep -q 'it may gain rights' "$work/errors"
  grep -qE "^ *6 .*probed" "$work/errors"
}

@test "without root" {
  [ "$(id -u)" -eq 0 ] || skip "all other tests are without root"
  copy_of_target
  become_nobody "$PINPRICK"
  "${as_nobody[@]}" "$work/pinprick" count --no-cache --children=follow ruled:probed -- \
    "$file" start "$file" 5 >"$work/table" 2>"$work/errors" || { cat "$work/errors"; false; }
  cat "$work/table" "$work/errors"
  [ "$(processes)" -eq 16 ]
  grep -qE "^ *$(told) .*probed" "$work/errors"
}

@test "a controller that is killed at any moment hurts no process" {
  copy_of_target
  local round
  for round in $(seq 10); do
    : >"$TALLY"
    mkfifo "$work/go$round"
    sh <"$work/go$round" >"$work/out" 2>&1 3>&- &
    local shell=$!
    ends_with_test $shell
    exec 7>"$work/go$round"
    patiently has_begun $shell "$(command -v sh)"
    watch count --children=follow ruled:probed -p $shell
    echo "$file start $file 4; echo status \$?; exit" >&7
    exec 7>&-
    # After one of the moments at which a child has told.
    patiently has_told $((1 + round % 9))
    kill -KILL $watcher
    wait $shell
    grep -q '^status 0$' "$work/out" || { cat "$work/out" >&2; return 1; }
    [ "$(processes)" -eq 13 ]
  done
}

@test "a controller that is stopped is waited for a second, once" {
  copy_of_target
  mkfifo "$work/go"
  sh <"$work/go" >"$work/out" 2>&1 3>&- &
  local shell=$!
  ends_with_test $shell
  exec 7>"$work/go"
  patiently has_begun $shell "$(command -v sh)"
  watch count --children=follow ruled:probed -p $shell
  kill -STOP $watcher
  echo "$file start $file 4; echo status \$?; exit" >&7
  exec 7>&-
  wait $shell
  grep -q '^status 0$' "$work/out"
  [ "$(processes)" -eq 13 ]
  kill -CONT $watcher
  wait $watcher
  [ "$(detached let_through)" -gt 0 ]
}
