# Whatever happens to the controller, the target runs on.
load helpers

@test "kill -9 of the controller: the target runs on, status shows the orphans, detach removes them" {
  start_ticker 4
  watch count -p $ticker ticker:tick ticker:nap
  tell "tick 4000" ticked
  kill -KILL $watcher
  wait $watcher || true
  tell "tick 4000" ticked
  "$PINPRICK" status -p $ticker --json >"$work/status"
  grep -q '"state":"orphaned"' "$work/status"
  grep -q '"function":"tick",.*"hits":8000' "$work/status"
  run "$PINPRICK" detach -p $ticker
  [ "$status" -eq 0 ]
  no_trace $ticker
  tell "tick 4000" ticked
  end_ticker
}

@test "orphaned latency probes go on measuring until they are detached" {
  start_ticker 2
  watch latency -p $ticker ticker:tick
  kill -KILL $watcher
  wait $watcher || true
  tell "tick 1000" ticked
  "$PINPRICK" status -p $ticker --json | grep -q '"function":"tick",.*"count":1000'
  "$PINPRICK" detach -p $ticker
  no_trace $ticker
  end_ticker
}

@test "detach leaves a controller that lives alone and names it, and reading verbs work beside it" {
  start_ticker
  watch count -p $ticker ticker:tick
  run "$PINPRICK" detach -p $ticker
  [ "$status" -eq 4 ]
  [[ "$output" == *"pinprick $watcher"* ]]
  "$PINPRICK" status -p $ticker --json | grep -q '"state":"live"'
  "$PINPRICK" list -p $ticker ticker:nap | grep -q nap
  tell "tick 5" ticked
  end_watch
  [ "$(hits tick)" -eq 5 ]
  end_ticker
}

@test "the file of a session is not trusted if its owner could not write into the process" {
  [ "$(id -u)" -eq 0 ] || skip "needs root, to give a file away"
  start_ticker 2
  watch count -p $ticker ticker:tick
  kill -KILL $watcher
  wait $watcher || true
  local file
  file=$(echo "$runtime"/pinprick/*.session)
  chown 65534 "$file"
  run "$PINPRICK" detach -p $ticker
  echo "$output"
  [[ "$output" == *"its owner does not own the process"* ]]
  run text_is_original $ticker
  [ "$status" -ne 0 ]
  chown 0 "$file"
  "$PINPRICK" detach -p $ticker
  no_trace $ticker
  tell "tick 5" ticked
  end_ticker
}

@test "a user learns of the probes that root has in a process of that user" {
  [ "$(id -u)" -eq 0 ] || skip "needs root, to be another user"
  chmod 711 "$work"
  local as_user="setpriv --reuid=65534 --regid=65534 --clear-groups" sleeper
  $as_user sleep 60 3>&- &
  sleeper=$!
  ends_with_test $sleeper
  patiently has_begun $sleeper "$(command -v sleep)"
  watch count -p $sleeper libc:write
  local verb
  for verb in status detach; do
    run $as_user "$PINPRICK" $verb -p $sleeper
    echo "$output"
    [ "$status" -eq 4 ]
    [[ "$output" == *"has probes of pinprick $watcher, whose session file cannot be read"* ]]
  done
  end_watch
  run $as_user "$PINPRICK" status -p $sleeper
  [ "$status" -eq 0 ]
}

@test "of a process that runs another program since, detach does not say that it has ended" {
  mkfifo "$work/go"
  bash -c 'read -r _; exec sleep 60' <"$work/go" 3>&- &
  local shell=$!
  ends_with_test $shell
  exec 8>"$work/go"
  patiently has_begun $shell "$(command -v bash)"
  watch count -p $shell libc:write
  kill -KILL $watcher
  wait $watcher || true
  echo >&8
  exec 8>&-
  patiently has_begun $shell "$(command -v sleep)"
  run "$PINPRICK" detach -p $shell
  echo "$output"
  [ "$status" -eq 0 ]
  [[ "$output" == *"the process runs another program now"* ]]
  kill $shell
}

@test "no pinprick attaches beside a session that another version began" {
  start_ticker 2
  watch count -p $ticker ticker:tick
  kill -KILL $watcher
  wait $watcher || true
  local file version verb
  file=$(echo "$runtime"/pinprick/*.session)
  version=$(dd if="$file" bs=1 skip=8 count=1 status=none | od -An -tu1)
  printf '\xfe' | dd of="$file" bs=1 seek=8 conv=notrunc status=none
  run "$PINPRICK" count -p $ticker -d 1 ticker:nap
  echo "$output"
  [ "$status" -eq 4 ]
  [[ "$output" == *"another version of pinprick wrote it"* ]]
  # It may hide a statistic, or orphaned probes.
  for verb in "kstats list" keep; do
    # shellcheck disable=SC2086 # a verb and its command
    run "$PINPRICK" $verb -p $ticker
    [[ "$output" == *"warning: "*"another version of pinprick wrote it"* ]]
  done
  printf "\\x$(printf %x $version)" | dd of="$file" bs=1 seek=8 conv=notrunc status=none
  "$PINPRICK" detach -p $ticker
  no_trace $ticker
  tell "tick 5" ticked
  end_ticker
}

@test "no page is writable and executable at any time" {
  start_ticker 2
  (
    while kill -0 $ticker 2>/dev/null; do
      grep -E '^[0-9a-f-]+ .wx' /proc/$ticker/maps && echo found >"$work/wx"
    done
    true
  ) 3>&- 7>&- >"$work/samples" 2>/dev/null &
  local sampler=$!
  ends_with_test $sampler
  for verb in count latency; do
    for _ in 1 2 3; do
      watch $verb -p $ticker --allow-missing -d 0.05 'ticker:*' 'libc:str*'
      wait $watcher
    done
  done
  no_trace $ticker
  end_ticker
  wait $sampler
  [ ! -e "$work/wx" ]
}

@test "threads blocked in every kind of call see no EINTR and no wrong result" {
  start_fed blockers 6
  local blockers=$fed
  until_line "$work/out" '^ready 67 threads'
  for _ in 1 2 3 4 5 6; do
    watch count -p $blockers --allow-missing -d 0.03 'libc:*'
    wait $watcher
  done
  no_trace $blockers
  echo >&7
  wait $blockers || { cat "$work/out"; return 1; }
  grep -q '^ok$' "$work/out"
}

@test "a stopped process can be attached to, and stays stopped" {
  start_ticker
  kill -STOP $ticker
  watch count -p $ticker ticker:tick
  until_line /proc/$ticker/stat '^[0-9]+ \(ticker\) T '
  kill -CONT $ticker
  tell "tick 40" ticked
  kill -STOP $ticker
  end_watch
  [ "$(hits tick)" -eq 40 ]
  until_line /proc/$ticker/stat '^[0-9]+ \(ticker\) T '
  kill -CONT $ticker
  tell "tick 1" ticked
  no_trace $ticker
  end_ticker
}

@test "threads that come and go while attaching are all probed" {
  "$TARGETS/thread_storm" >"$work/out" 3>&- &
  local storm=$!
  ends_with_test $storm
  until_line "$work/out" '^ready'
  for _ in 1 2 3 4 5 6 7 8; do
    watch count -p $storm -i 0.02 thread_storm:work
    until_line "$work/records" '"hits":[1-9]'
    end_watch
  done
  no_trace $storm
  kill -TERM $storm
  wait $storm
  grep -q '^ok$' "$work/out"
}

@test "attaching a hundred times leaves maps, memory and descriptors as they were" {
  start_ticker 2
  local maps descriptors
  tell "tick 100" ticked
  maps=$(wc -l </proc/$ticker/maps)
  descriptors=$(ls /proc/$ticker/fd | wc -l)
  for _ in $(seq 100); do
    "$PINPRICK" latency -p $ticker -d 0.001 ticker:tick >/dev/null 2>&1
  done
  [ "$(wc -l </proc/$ticker/maps)" -eq "$maps" ]
  [ "$(ls /proc/$ticker/fd | wc -l)" -eq "$descriptors" ]
  tell "tick 100" ticked
  no_trace $ticker
  end_ticker
}

@test "results of a target that was killed stay until they are detached; empty sessions do not" {
  start_ticker
  watch count -p $ticker ticker:tick
  tell "tick 40" ticked
  kill -KILL $watcher
  wait $watcher || true
  kill -KILL $ticker
  wait $ticker || true
  "$PINPRICK" status -p $ticker --json >"$work/status"
  grep -q '"state":"target_gone".*"hits":40' "$work/status"
  "$PINPRICK" status -p $ticker --json | grep -q '"hits":40'
  "$PINPRICK" detach -p $ticker
  run "$PINPRICK" status -p $ticker
  [ "$status" -eq 4 ]
  [[ "$output" == *"no such process"* ]]
}

@test "a forked child keeps its probes, with calls under way, when its parent is detached" {
  local python=/usr/bin/python3 verb family
  [ -x $python ] || skip "needs Debian's python3"
  cat >"$work/family.py" <<'PYTHON'
import os, sys
def work(n): return sum(len(str(i)) for i in range(n))
read, write = os.pipe()
sys.stdin.readline()  # armed
child = os.fork()
if child == 0:
    os.read(read, 1)
    print('child', work(20000), flush=True)
    os._exit(3)
print('forked', flush=True)
sys.stdin.readline()  # detached
os.write(write, b'x')
print('parent', os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), work(20000), flush=True)
PYTHON
  for verb in count latency; do
    rm -f "$work/in"
    mkfifo "$work/in"
    $python "$work/family.py" <"$work/in" >"$work/out" 3>&- &
    family=$!
    ends_with_test $family
    exec 7>"$work/in"
    patiently has_begun $family $python
    watch $verb -p $family --allow-missing 'python3*:*' 'libc:*'
    echo >&7
    until_line "$work/out" '^forked$'
    end_watch || true
    no_trace $family
    echo >&7
    until_line "$work/out" '^parent'
    diff <(printf '%s\n' forked 'child 88890' 'parent 3 88890') "$work/out"
    exec 7>&-
    wait $family
  done
}

@test "memory that had to be left since a signal handler ran upon it goes with the next attach" {
  local held
  start_fed held
  held=$fed
  until_line "$work/out" '^ready$'
  # The signal finds it in a stub, most times.
  in_a_stub() {
    : >"$work/out"
    watch count --instructions -p $held held:spin
    kill -USR1 $held
    until_line "$work/out" '^held$'
    end_watch
    [ "$(field '[(x["threads_inside"], x["memory_left"]) for x in r if x["type"] == "detached"]')" = '[(1, True)]' ] ||
      { echo >&7; until_line "$work/out" '^on$'; return 1; }
  }
  patiently in_a_stub
  text_is_original $held
  # It has to stay as long as the handler runs, and as it is in no other's way, that is not waited for.
  watch count -p $held held:spin
  end_watch || true
  [ "$("$PINPRICK" status -p $held --json | wc -l)" -eq 1 ]
  run "$PINPRICK" detach -p $held
  [ "$status" -eq 1 ]
  [[ "$output" == *"some memory stays mapped: 1 thread inside a stub"* ]]
  echo >&7
  until_line "$work/out" '^on$'
  watch count -p $held held:spin
  end_watch
  no_trace $held
  exec 7>&-
  kill -USR1 $held
  wait $held
}

@test "workers of io_uring are left alone: they are at their reads and writes as without pinprick" {
  start_fed ringed
  until_line "$work/out" '^(ready|io_uring)'
  ! grep '^io_uring' "$work/out" || skip "$(grep '^io_uring' "$work/out")"
  local verb
  for verb in count latency count; do
    watch $verb --allow-missing -p $fed 'ringed:*' 'libc:*'
    [ "$(field '[x["rseq"] for x in r if x["type"] == "armed"]')" = '[True]' ]
    tell read right
    end_watch
    [ "$(field '[x for x in r if x["type"] == "error"]')" = '[]' ]
    tell read right
  done
  no_trace $fed
  exec 7>&-
  wait $fed
}

@test "memory of any size that may be executed keeps no attach waiting" {
  cat >"$work/large.py" <<'END'
import ctypes, time
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + 3 * [ctypes.c_int] + [ctypes.c_long]
READ_EXEC, PRIVATE_ANONYMOUS_NORESERVE = 5, 0x4022
print("mapped" if libc.mmap(None, 1 << 44, READ_EXEC, PRIVATE_ANONYMOUS_NORESERVE, -1, 0) !=
      ctypes.c_void_p(-1).value else "refused", flush=True)
time.sleep(600)
END
  python3 "$work/large.py" >"$work/out" 3>&- &
  local large=$!
  ends_with_test $large
  until_line "$work/out" '^(mapped|refused)$'
  grep -q mapped "$work/out" || skip "this system maps no 16 TiB"
  timeout 100 "$PINPRICK" count -p $large -d 0.1 libc:getpid
  no_trace $large
}

@test "a forked child that has mapped its parent's file once more keeps no detach waiting" {
  cat >"$work/again.py" <<'END'
import ctypes, os, sys
libc = ctypes.CDLL(None)
libc.mremap.restype = ctypes.c_void_p
libc.mremap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int]
MAY_MOVE = 1
print("ready", flush=True)
sys.stdin.readline()
if os.fork() == 0:
    for line in open("/proc/self/maps"):
        if ".session" in line:
            begin, end = (int(x, 16) for x in line.split()[0].split("-"))
            libc.mremap(begin, 0, end - begin, MAY_MOVE)
    print("forked", flush=True)
sys.stdin.readline()
END
  mkfifo "$work/in"
  python3 "$work/again.py" <"$work/in" >"$work/out" 3>&- &
  local parent=$!
  ends_with_test $parent
  exec 7>"$work/in"
  until_line "$work/out" '^ready'
  watch count -p $parent libc:getpid
  echo fork >&7
  until_line "$work/out" '^forked'
  kill -INT $watcher
  patiently has_ended $watcher
  wait $watcher
  no_trace $parent
  exec 7>&-
}
