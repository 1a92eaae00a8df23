# What stays in a process after its probes are out, as a thread may still come there; and what stays
# of processes that have ended.
load helpers

# Executable memory without a file, in bytes.
generated_code() {
  local range rights offset device inode path sum=0
  while read -r range rights offset device inode path; do
    [[ "$rights" != *x* || "$inode" != 0 || -n "$path" ]] || sum=$((sum + 0x${range#*-} - 0x${range%-*}))
  done <"/proc/$1/maps"
  echo $sum
}

# All its mappings, and those in memory; in KB.
sizes() { awk '/^VmSize|^VmRSS/ { print $2 }' "/proc/$1/status" | paste -sd ' '; }

start_follower() {
  start_fed "${1:-follower}"
  follower=$fed
  tell bake baked
}

# Further sessions have left nothing more than the first one, which left $after_first.
end_as_after_first() {
  [ "$(generated_code $follower)" -eq "$after_first" ]
  text_is_original $follower
  no_trace $follower
  exec 7>&-
  wait $follower
}

@test "generated code that has followed a function's jump goes on when the probes are out" {
  start_follower
  watch count -p $follower follower:five follower:many
  tell bake baked
  tell "call 1000" "called -2000"
  end_watch
  [ "$(hits five)" -eq 1000 ]
  tell "call 1000" "called -2000"
  text_is_original $follower
  [ "$(field '[x["kept_stub_bytes"] for x in r if x["type"] == "detached"][0]')" -eq 4096 ]
  [ "$(field '[x["memory_left"] for x in r if x["type"] == "detached"][0]')" = False ]
  no_trace $follower
  exec 7>&-
  wait $follower
}

@test "nor does it follow a jump that has a byte to spare: its calls are counted" {
  start_follower
  watch count -p $follower follower:many
  tell bake baked
  tell "call 1000" "called -2000"
  end_watch
  [ "$(hits many)" -eq 1000 ]
  [ "$(field '[x["kept_stub_bytes"] for x in r if x["type"] == "detached"][0]')" -eq 0 ]
  tell "call 1000" "called -2000"
  exec 7>&-
  wait $follower
}

@test "one line says what stays, and the exit status is 0" {
  start_follower
  run "$PINPRICK" count -p $follower -d 0.01 follower:five
  [ "$status" -eq 0 ]
  [[ "$output" == *"detached; 4 KB of stubs stay mapped, as the program generates code that may have copied their address"* ]]
  run "$PINPRICK" count -p $follower -d 0.01 follower:many
  [ "$status" -eq 0 ]
  [[ "$output" == *"detached cleanly"* ]]
  exec 7>&-
  wait $follower
}

@test "later sessions lead through the stubs that stayed: these do not become more, and what comes by them counts" {
  local after_first
  start_follower
  for session in $(seq 20); do
    watch $([ $((session % 2)) -eq 0 ] && echo count || echo latency) -p $follower follower:five follower:many
    [ "$session" -ne 1 ] || tell bake baked
    tell "call 500" "called -1000"
    end_watch
    [ $((session % 2)) -eq 1 ] || [ "$(hits five)" -eq 500 ]
    tell "call 500" "called -1000"
    [ "$session" -ne 1 ] || after_first=$(generated_code $follower)
  done
  end_as_after_first
}

sessions_of_a_pun() { # PROGRAM TACTIC
  local program=$1 tactic=$2 after_first
  start_follower $program
  "$PINPRICK" list -p $follower $program:lone | grep -q " $tactic "
  for session in $(seq 10); do
    watch count -p $follower $program:lone
    [ "$session" -ne 1 ] || tell bake baked
    tell "call 500" "called -1000"
    if [ $((session % 3)) -eq 0 ]; then
      kill -KILL $watcher
      wait $watcher || true
      "$PINPRICK" detach -p $follower
    else
      end_watch
      [ "$(hits lone)" -eq 500 ]
    fi
    tell "call 500" "called -1000"
    [ "$session" -ne 1 ] || after_first=$(generated_code $follower)
  done
  end_as_after_first
}

@test "so it is with the stubs of thousands of functions, which lie in several pieces" {
  local after_first
  start_follower
  for session in 1 2 3; do
    watch count -p $follower 'follower:crowd*'
    [ "$(field '[x["armed"] for x in r if x["type"] == "armed"][0]')" -eq 3000 ]
    end_watch
    [ "$session" -ne 1 ] || after_first=$(generated_code $follower)
  done
  # Each has a stub that stays, of six bytes at least, and generated code has a page.
  [ "$after_first" -gt $((3000 * 6 + 4096)) ]
  end_as_after_first
}

@test "so it is where a pun led to the stub: its address is the only one that the pun can lead to" {
  sessions_of_a_pun follower pun
}

@test "and where the next instruction made room for a pun" {
  sessions_of_a_pun follower_nopie evict
}

@test "killed at any time, pinprick leaves jumps that generated code may follow" {
  start_follower
  for round in 1 2 3; do
    watch count -p $follower follower:five follower:many
    tell bake baked
    kill -KILL $watcher
    wait $watcher || true
    tell "call 100" "called -200"
    "$PINPRICK" detach -p $follower
    tell "call 100" "called -200"
  done
  text_is_original $follower
  no_trace $follower
  exec 7>&-
  wait $follower
}

@test "what longjmp leaves takes little more than the slots that were left, over any number of sessions" {
  local first last
  start_fed jumper 5000 lines
  local jumper=$fed leaps=0
  for session in $(seq 12); do
    watch latency -p $jumper jumper:leap jumper:arrives
    echo >&7
    leaps=$((leaps + 5000))
    until_line "$work/out" "^leap $leaps\$"
    end_watch
    [ "$(field '[x["calls_abandoned"] for x in r if x["type"] == "detached"][0]')" -eq 5000 ]
    [ "$(field '[x["memory_left"] for x in r if x["type"] == "detached"][0]')" = False ]
    # 64 bytes of data and 32 of code each; the rest of a page at either end.
    kept=$(field '[x["kept_slot_bytes"] for x in r if x["type"] == "detached"][0]')
    [ "$kept" -gt 0 ]
    [ "$kept" -le $((2048 * 96 + 4 * 4096)) ]
    [ "$session" -ne 1 ] || first=$(sizes $jumper)
  done
  last=$(sizes $jumper)
  echo "KB of address space and of memory: after 1 session $first, after 12 $last"
  [ $((${last% *} - ${first% *})) -le $((11 * (2048 * 96 / 1024 + 16))) ]
  [ $((${last#* } - ${first#* })) -le $((11 * (2048 * 96 / 1024 + 16) + 1024)) ]
  text_is_original $jumper
  no_trace $jumper
  [ -z "$(find "$XDG_RUNTIME_DIR" -name '*.session')" ]
  echo >&7
  until_line "$work/out" "^leap $((leaps + 5000))\$"
  exec 7>&-
  wait $jumper
}

@test "a call that longjmp seemed to have left comes back after the detach, and returns" {
  start_fed recalled
  local recalled=$fed
  "$PINPRICK" latency --json -p $recalled recalled:waits recalled:calls >"$work/records" 2>&1 &
  watcher=$!
  ends_with_test $watcher
  until_line "$work/records" '"type":"armed"'
  echo >&7
  until_line "$work/out" left
  end_watch
  [ "$(field '[x["calls_abandoned"] for x in r if x["type"] == "detached"][0]')" -eq 2 ]
  text_is_original $recalled
  no_trace $recalled
  # A page with the slots, one with their code.
  [ "$(field '[x["kept_slot_bytes"] for x in r if x["type"] == "detached"][0]')" -eq 8192 ]
  echo >&7
  until_line "$work/out" '^back$'
  exec 7>&-
  wait $recalled
}

@test "files of processes that ended under probes go at the next start" {
  start_ticker
  watch count -p $ticker ticker:tick
  kill -KILL $watcher $ticker
  wait $watcher $ticker || true
  [ "$(find "$XDG_RUNTIME_DIR" -name '*.session' | wc -l)" -eq 1 ]
  "$PINPRICK" status --json | grep -q target_gone
  "$PINPRICK" list --file "$TARGETS/ticker" ticker:tick
  [ -z "$(find "$XDG_RUNTIME_DIR" -name '*.session')" ]
}

@test "a file that a process has open is not removed" {
  start_ticker
  watch count -p $ticker ticker:tick
  kill -KILL $watcher $ticker
  wait $watcher $ticker || true
  local file
  file=$(find "$XDG_RUNTIME_DIR" -name '*.session')
  exec 8<"$file"
  "$PINPRICK" list --file "$TARGETS/ticker" ticker:tick
  [ -e "$file" ]
  exec 8<&-
  "$PINPRICK" list --file "$TARGETS/ticker" ticker:tick
  [ ! -e "$file" ]
}

@test "the last line names --slots where calls found none" {
  start_ticker
  "$PINPRICK" latency --slots 16 -p $ticker ticker:recurse >"$work/report" 2>&1 &
  watcher=$!
  ends_with_test $watcher
  until_line "$work/report" armed
  tell "recurse 99" recursed
  end_watch
  grep -qE '^missed 84 \(--slots 32 begins with more\)' "$work/report"
  "$PINPRICK" latency -p $ticker -d 0.01 ticker:recurse | grep -qE '^missed 0  left'
  end_ticker
}
