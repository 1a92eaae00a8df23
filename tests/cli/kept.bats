# What stays in a process after its probes are out, as somebody may still come there; and what stays
# of processes that have ended.
load helpers

# Executable memory without a file, in bytes.
generated_code() {
  awk '$2 ~ /x/ && $5 == 0 && NF == 5 { split($1, a, "-"); sum += strtonum("0x" a[2]) - strtonum("0x" a[1]) }
       END { print sum + 0 }' "/proc/$1/maps"
}

# All its mappings, and those in memory; in KB.
sizes() { awk '/^VmSize|^VmRSS/ { print $2 }' "/proc/$1/status" | paste -sd ' '; }

start_follower() {
  start_fed follower
  follower=$fed
  tell bake baked
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

@test "a file that somebody has open is nobody's to remove" {
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
