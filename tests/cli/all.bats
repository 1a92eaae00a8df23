# pinprick count --all FILE: every process that has the file mapped, and every one that executes it
# later, from its first instruction.
load helpers

# follow ARGUMENTS...: as `watch`, with $file as the file, of which later executions are followed.
follow() {
  [ "$(id -u)" -eq 0 ] || skip "needs root, to hold executions"
  watch "$@" --all "$file"
  local why
  why=$(field 'r[0]["why_not_followed"]')
  [ -z "$why" ] || { end_watch || true; skip "executions are not held here: $why"; }
}

# The file of a test is its own, as others may run the target.
copy_of_target() {
  file=$work/ruled
  cp "$TARGETS/ruled" "$file"
  export TALLY=$work/tally
  : >"$TALLY"
}

setup_file() { export BATS_TEST_TIMEOUT=240; }

# The calls that the programs themselves have counted.
told() { awk '{ sum += $2 } END { print sum + 0 }' "$TALLY"; }
processes() { wc -l <"$TALLY"; }
detached() { field "[x['$1'] for x in r if x['type'] == 'detached'][0]"; }
has_told() { (($(processes) >= $1)); }

@test "of 600 short processes, 8 at once, no call is missed" {
  copy_of_target
  follow count probed
  seq 600 | xargs -P8 -I{} "$file" 3
  end_watch
  [ "$(processes)" -eq 600 ]
  [ "$(told)" -eq 3600 ]
  [ "$(hits probed)" -eq 3600 ]
  [ "$(detached late)" -eq 0 ]
}

@test "by a hard link, a descriptor, a thread, after a failed execution: each call is counted" {
  copy_of_target
  ln "$file" "$work/link"
  follow count probed
  "$work/link" 5
  "$file" fd "$file"
  "$file" thread "$file"
  "$file" fail "$file"
  end_watch
  [ "$(processes)" -eq 7 ]
  [ "$(hits probed)" -eq "$(told)" ]
  [ "$(detached late)" -eq 0 ]
}

@test "in another mount namespace, by a bind mount" {
  copy_of_target
  mkdir "$work/there"
  unshare -m true 2>/dev/null || skip "cannot unshare mounts here"
  follow count probed
  unshare -m bash -c "mount --bind '$work' '$work/there' && '$work/there/ruled' 4"
  end_watch
  [ "$(told)" -eq 7 ]
  [ "$(hits probed)" -eq 7 ]
}

@test "as the interpreter of scripts; what ran before the probes were in is said" {
  copy_of_target
  printf '#!%s 3\n' "$file" >"$work/script"
  chmod 755 "$work/script"
  follow count probed
  for _ in $(seq 20); do "$work/script"; done
  end_watch
  [ "$(told)" -eq 120 ]
  # Where the file system cannot hold the kernel as it maps the program, some may be late.
  [ "$(hits probed)" -eq 120 ] || [ "$(detached late)" -gt 0 ]
}

@test "processes that run already are attached to, those of ended ones are kept, by pid and summed" {
  copy_of_target
  mkfifo "$work/one" "$work/two"
  "$file" 2 wait <"$work/one" >"$work/out1" 3>&- &
  one=$!
  ends_with_test $one
  "$file" 2 wait <"$work/two" >"$work/out2" 3>&- &
  two=$!
  ends_with_test $two
  exec 8>"$work/one" 9>"$work/two"
  until_line "$work/out1" ready
  until_line "$work/out2" ready
  follow count probed --by pid
  [ "$(field 'r[0]["processes"]')" -eq 2 ]
  echo >&8
  wait $one
  "$file" 5 8>&- 9>&-
  echo >&9
  wait $two
  end_watch
  [ "$(field '[x["hits"] for x in r if x["type"] == "count" and x["pid"] == 0]')" = "[10]" ]
  [ "$(field 'sorted(x["hits"] for x in r if x["type"] == "count" and x["pid"] != 0)')" = "[1, 1, 8]" ]
  exec 8>&- 9>&-
}

@test "--comm, --uid and --exclude-pid leave processes out" {
  copy_of_target
  ln "$file" "$work/other"
  mkfifo "$work/one"
  "$file" 1 wait <"$work/one" >"$work/out1" 3>&- &
  one=$!
  ends_with_test $one
  exec 8>"$work/one"
  until_line "$work/out1" ready
  follow count probed --comm 'rul*' --exclude-pid $one
  [ "$(field 'r[0]["processes"]')" -eq 0 ]
  "$work/other" 5
  "$file" 5
  end_watch
  [ "$(hits probed)" -eq 8 ]
  [ "$(detached processes)" -eq 1 ]
  follow count probed --uid 65534
  "$file" 5
  end_watch
  [ "$(detached processes)" -eq 0 ]
  echo >&8
  wait $one
  exec 8>&-
}

@test "latency times the calls of processes that start later, constructors included" {
  copy_of_target
  follow latency probed
  "$file" 5
  "$file" 5
  end_watch
  [ "$(field '[x["count"] for x in r if x["type"] == "latency"][0]')" -ge 14 ]
}

# A library of the test's own as $file, and processes that load it.
copy_of_library() {
  copy_of_target
  file=$work/libruled.so
  cp "$TARGETS/libruled.so" "$file"
}

@test "a library that is loaded later is probed before its IFUNC resolvers and constructors run" {
  copy_of_library
  for verb in count latency; do
    : >"$TALLY"
    follow $verb probed
    seq 40 | xargs -P8 -I{} "$TARGETS/ruled_user" "$file"
    for _ in 1 2 3 4 5; do "$TARGETS/ruled_user" "$file" thread; done
    seq 20 | LD_PRELOAD=$file xargs -P4 -I{} "$TARGETS/ruled_user" "$file"
    end_watch
    [ "$(processes)" -eq 65 ]
    # xargs has it as well, and runs its constructor.
    local calls
    calls=$(field 'sum(x.get("hits", x.get("count", 0)) for x in r if x["type"] in ("count", "latency"))')
    [ "$calls" -ge "$(told)" ]
    [ "$calls" -le $(($(told) + 50)) ]
    [ "$(detached late)" -eq 0 ]
  done
}

@test "who only reads a library is not attached to" {
  copy_of_library
  follow count probed
  cp "$file" "$work/copy"
  sha256sum "$file" >/dev/null
  end_watch
  cmp "$file" "$work/copy"
  [ "$(detached processes)" -eq 0 ]
  [ "$(detached left_alone)" = "{}" ]
}

@test "a controller killed while libraries are loaded hurts no program" {
  copy_of_library
  local round pids pid
  for round in $(seq 15); do
    follow count probed
    pids=()
    for _ in 1 2 3; do
      "$TARGETS/ruled_user" "$file" 3>&- &
      pids+=($!)
      "$TARGETS/ruled_user" "$file" thread 3>&- &
      pids+=($!)
    done
    for ((i = 0; i < round * 20; ++i)); do :; done
    kill -KILL $watcher
    for pid in "${pids[@]}"; do wait "$pid"; done
    wait $watcher || true
    [ "$(processes)" -eq $((round * 6)) ]
  done
}

@test "a traced process is let through untouched, and counted with the reason" {
  copy_of_target
  command -v strace >/dev/null || skip "strace is not installed"
  follow count probed
  strace -f -o "$work/trace" "$file" 5
  end_watch
  [ "$(told)" -eq 8 ]
  [ "$(detached left_alone)" = "{'already_traced': 1}" ]
}

@test "a controller killed at any moment hurts no program" {
  copy_of_target
  local round pids pid
  for round in $(seq 25); do
    follow count probed
    pids=()
    for _ in 1 2 3 4 5 6; do
      "$file" 50 3>&- &
      pids+=($!)
    done
    # Some are at the gate by now, some held, some being armed, some done.
    for ((i = 0; i < round * 12; ++i)); do :; done
    kill -KILL $watcher
    for pid in "${pids[@]}"; do wait "$pid"; done
    wait $watcher || true
    [ "$(processes)" -eq $((round * 6)) ]
  done
}

@test "a controller that is stopped ends after a second, and all that it held go on" {
  copy_of_target
  follow count probed
  kill -STOP $watcher
  pids=()
  for _ in 1 2 3 4; do
    "$file" 5 3>&- &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid"; done
  [ "$(processes)" -eq 4 ]
  status=0
  wait $watcher || status=$?
  [ "$status" -eq 137 ]
}

@test "without root, the processes that are there are measured, and why no others" {
  copy_of_target
  become_nobody "$PINPRICK"
  chmod 755 "$file"
  chmod 666 "$TALLY"
  mkfifo "$work/one"
  chmod 666 "$work/one"
  "${as_nobody[@]}" "$file" 2 wait <"$work/one" >"$work/out1" 3>&- &
  one=$!
  ends_with_test $one
  exec 8>"$work/one"
  until_line "$work/out1" ready
  "${as_nobody[@]}" "$work/pinprick" count --no-cache --all "$file" probed >"$work/table" \
    2>"$work/errors" 3>&- 8>&- &
  watcher=$!
  ends_with_test $watcher
  until_line "$work/errors" 'in 1 process .*new ones are not followed: .*root'
  echo >&8
  wait $one
  # The only process that it can measure has ended.
  wait $watcher
  grep -qE '^ +1 .*probed' "$work/table"
  exec 8>&-
}

@test "a file that no process has, without root; options that need --all" {
  copy_of_target
  become_nobody "$PINPRICK"
  run "${as_nobody[@]}" "$work/pinprick" count --no-cache --all "$file" probed
  [ "$status" -eq 3 ]
  [[ "$output" == *"no process has"*"not followed"*"root"* ]]
  run "$PINPRICK" count -p 1 --comm x probed
  [ "$status" -eq 2 ]
  run "$PINPRICK" count --all "$work/nothing" probed
  [ "$status" -eq 1 ]
  run "$PINPRICK" count --all "$file" no_such_function
  [ "$status" -eq 3 ]
}
