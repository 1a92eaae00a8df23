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
