# Programs that probe themselves with libpinprick, and pinprick attached to them. Each counts its own
# hits; a function that one of the two has is refused to the other.

load helpers

setup_file() { bats_require_minimum_version 1.5.0; }

start_probed() {
  [ -x "$TARGETS/probed" ] || skip "this build has no program with the library (sanitizers)"
  start_fed probed
}
refused_here() {
  run "$PINPRICK" "$@" -d 0.1
  [ "$status" -eq 3 ] || { echo "$output"; return 1; }
  [[ "$output" == *"the program has, or had, a probe of its own there"* ]]
}

@test "different functions are probed side by side, in whatever order they start and end" {
  for first in program pinprick; do
    for last in program pinprick; do
      for verb in count latency; do
        start_probed
        [ $first = pinprick ] || [ "$(answer "place rest")" = placed ]
        watch $verb probed:work -p "$fed"
        [ $first = program ] || [ "$(answer "place rest")" = placed ]
        [ "$(answer call)" = "called 0 2000" ]
        [ $last = pinprick ] || end_watch
        [ "$(answer "remove rest")" = removed ]
        [ "$(answer call)" = "called 0 2000" ]
        [ $last = program ] || end_watch
        local calls=$([ $last = program ] && echo 1000 || echo 2000)
        local field=$([ $verb = count ] && echo hits || echo count)
        [ "$(field "[x['$field'] for x in r if x.get('function') == 'work' and x.get('final')][0]")" -eq $calls ]
        no_trace "$fed"
        [ "$(answer call)" = "called 0 2000" ]
        end_fed
        rm "$work/in"
      done
    done
  done
}

@test "a function that the program probes is refused to pinprick, with the reason; others are not" {
  start_probed
  [ "$(answer place)" = placed ]
  for verb in count latency; do refused_here $verb probed:work -p "$fed"; done
  watch count probed:work probed:rest -p "$fed" --allow-missing
  [ "$(field "[x['reason'] for x in r if x['type'] == 'skipped'][0]")" = probed_by_program ]
  [ "$(answer call)" = "called 1000 0" ]
  [[ "$("$PINPRICK" list -p "$fed" 'probed:work')" == *" -       work  "*"program"* ]]
  [[ "$("$PINPRICK" list -p "$fed" 'probed:rest')" != *" -       "* ]]
  end_watch
  [ "$(hits rest)" -eq 2000 ]
  [ "$(answer call)" = "called 2000 0" ]
  run "$PINPRICK" doctor -p "$fed"
  [[ "$output" != *"libpinprick"* ]]
  [ "$(answer remove)" = removed ]
  no_trace "$fed"
  end_fed
}

@test "status names the program's own probes beside those of pinprick" {
  start_probed
  [ "$(answer "place rest")" = placed ]
  run "$PINPRICK" status -p "$fed"
  [[ "$output" == *"1 probe of its own, by libpinprick"*"probed:rest"* ]]
  watch count probed:work -p "$fed"
  "$PINPRICK" status --json >"$work/status"
  grep '"state":"live"' "$work/status" | grep -q '"function":"work"'
  grep '"state":"own"' "$work/status" | grep -q '"name":"probed:rest"'
  end_watch
  # The code of its probes is not taken for code that the program generates.
  [ "$(field '[x["kept_stub_bytes"] for x in r if x["type"] == "detached"][0]')" -eq 0 ]
  [ "$(answer "remove rest")" = removed ]
  [ "$("$PINPRICK" status -p "$fed" --json | wc -l)" -eq 0 ]
  end_fed
}

# A table as libpinprick's, of a program that calls its probe what it likes.
misnamed='
import ctypes, mmap, struct, sys
at = lambda memory: ctypes.addressof(ctypes.c_char.from_buffer(memory))
sites = 4096 + 4096 * 16
table = mmap.mmap(-1, sites + 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
name = b"a\x1b[31mb\r\n\xff\0"
table[2048:2048 + len(name)] = name
table[:56] = struct.pack("<7Q", 0x324241544e574f50, 1, 0, 0, 0, 0, 0)
table[sites:sites + 40] = struct.pack("<3Q8s5B3x", 0x1000, at(table) + 2048, 0, b"", 1, 1, 0, 0, 2)
page = mmap.mmap(-1, 4096)
page[:16] = struct.pack("<2Q", 0x31464c4553505050, at(table))
print("ready", flush=True)
sys.stdin.read()
'

@test "status does not send a terminal what a program calls its probes" {
  mkfifo "$work/end"
  python3 -c "$misnamed" <>"$work/end" >"$work/out" 3>&- &
  local pid=$!
  ends_with_test $pid
  until_line "$work/out" ready
  run "$PINPRICK" status -p $pid
  echo "$output"
  [ "$status" -eq 0 ]
  [ "${lines[1]}" = 'a?[31mb???' ]
}

@test "what the program has probed once, and does not probe now, pinprick can count" {
  start_probed
  [ "$(answer place)" = placed ]
  [ "$(answer call)" = "called 1000 0" ]
  [ "$(answer remove)" = removed ]
  watch count probed:work -p "$fed"
  [[ "$(answer place)" == *"pinprick $watcher has a probe there; end it"* ]]
  [ "$(answer call)" = "called 1000 0" ]
  end_watch
  [ "$(hits work)" -eq 1000 ]
  [ "$(answer place)" = placed ]
  [ "$(answer call)" = "called 2000 0" ]
  end_fed
}

@test "a function that pinprick counts is refused to the program until it is free again" {
  start_probed
  watch count probed:work -p "$fed"
  refusal=$(answer place)
  [[ "$refusal" == *"pinprick $watcher has a probe there"* ]]
  [[ "$refusal" == *"pinprick detach -p $fed"* ]]
  [ "$(answer "place rest")" = placed ]
  [ "$(answer call)" = "called 0 2000" ]
  kill -KILL "$watcher"
  wait "$watcher" || true
  # The jump of a killed one stays in the text until someone takes it out.
  [[ "$(answer place)" == *"pinprick $watcher has a probe there"* ]]
  [ "$(answer call)" = "called 0 4000" ]
  "$PINPRICK" detach -p "$fed"
  [ "$(answer place)" = placed ]
  [ "$(answer call)" = "called 1000 6000" ]
  [ "$(answer remove)" = removed ]
  [ "$(answer "remove rest")" = removed ]
  text_is_original "$fed"
  end_fed
}

@test "of both that want one function at the same moment one has it at most, and the program is right" {
  [ -x "$TARGETS/probed" ] || skip "this build has no program with the library (sanitizers)"
  for round in $(seq "${ROUNDS:-8}"); do
    rm -f "$work/in"
    start_fed probed
    # On odd rounds the program has probes already.
    [ $((round % 2)) -eq 0 ] || [ "$(answer "place rest")" = placed ]
    : >"$work/count"
    "$PINPRICK" count probed:work -p "$fed" >"$work/count" 2>&1 3>&- 7>&- &
    watcher=$!
    ends_with_test $watcher
    placed=$(answer place)
    # It has the function, if it gets it, for longer than the program wants it.
    patiently has_decided
    kill -INT $watcher 2>/dev/null || true
    status=0
    wait $watcher || status=$?
    cat "$work/count"
    # Refused to pinprick (3, or 4 if it was looking while the program began), or counted.
    [[ $status =~ ^[034]$ ]]
    [ "$status" -ne 0 ] || [ "$placed" != placed ]
    [[ "$placed" == placed || "$placed" == *"pinprick"* ]]
    [[ "$(answer call)" == "called "* ]]
    [ "$(answer remove)" = removed ]
    [ "$(answer "remove rest")" = removed ]
    text_is_original "$fed"
    end_fed
  done
}

has_decided() { has_line "$work/count" '^armed 1 ' || has_ended $watcher; }

@test "the program's probes come and go under pinpricks that come, go and are killed, and threads that run" {
  start_probed
  [ "$(answer "place rest")" = placed ]
  echo "churn rest ${CHURN:-600}" >&7
  local round=0
  until grep -q '^churned\|WRONG' "$work/out"; do
    round=$((round + 1))
    local verb=$([ $((round % 2)) -eq 0 ] && echo count || echo latency)
    watch $verb probed:work -p "$fed"
    if [ $((round % 3)) -eq 0 ]; then
      kill -KILL "$watcher"
      wait "$watcher" || true
    else
      end_watch
    fi
  done
  tail -n 3 "$work/out"
  [ "$(tail -n 1 "$work/out")" = "churned ${CHURN:-600}" ]
  "$PINPRICK" detach -p "$fed" || [ $? -eq 3 ]
  [ "$(answer "remove rest")" = removed ]
  no_trace "$fed"
  end_fed
}

@test "pinprick and the program take turns on one function under running threads, and nothing is corrupted" {
  start_probed
  echo "churn work ${CHURN:-600}" >&7
  until grep -q '^churned\|WRONG' "$work/out"; do
    # Mostly one of the two is refused.
    "$PINPRICK" count probed:work -p "$fed" -d 0.01 >"$work/count" 2>&1 || [[ $? =~ ^[34]$ ]]
  done
  [[ "$(tail -n 1 "$work/out")" == churned* ]]
  cat "$work/count"
  # A thread may have been in a stub for longer than a detach waits.
  "$PINPRICK" detach -p "$fed" || [ $? -eq 3 ]
  no_trace "$fed"
  [[ "$(answer call)" == called* ]]
  end_fed
}

@test "a call that both time returns and unwinds through both, in whatever order they leave" {
  for first in program pinprick; do
    start_probed
    watch latency probed:work probed:nap -p "$fed"
    # work() ends with a jump to rest(), and nap() with one to wait_for_line().
    [ "$(answer "time rest")" = placed ]
    [ "$(answer "time wait_for_line")" = placed ]
    [ "$(answer throw)" = thrown ]
    echo nap >&7
    in_read() { [[ "$(cat /proc/$fed/syscall)" =~ ^0\  ]]; }
    patiently in_read
    if [ $first = pinprick ]; then
      end_watch
      in_read
      [ "$(answer "a line")" = napped ]
    else
      [ "$(answer "a line")" = napped ]
      [ "$(answer "remove rest")" = removed ]
      [ "$(answer throw)" = thrown ]
      end_watch
    fi
    [ "$(answer "remove rest")" = removed ]
    [ "$(answer "remove wait_for_line")" = removed ]
    no_trace "$fed"
    [ "$(answer throw)" = thrown ]
    end_fed
    rm "$work/in"
  done
}

@test "a tracepoint is on while the program or pinprick wants it, and each counts its hits" {
  start_probed
  watch count usdt:probed:fired probed:fire -p "$fed"
  [ "$(answer fire)" = "fired 0" ]
  [ "$(answer attach)" = attached ]
  [ "$(answer fire)" = "fired 1000" ]
  [ "$(answer detach)" = detached ]
  [ "$(answer fire)" = "fired 1000" ]
  [ "$(answer attach)" = attached ]
  end_watch
  [ "$(hits probed:fired)" -eq 3000 ]
  [ "$(hits fire)" -eq 3000 ]
  [ "$(answer fire)" = "fired 2000" ]
  run "$PINPRICK" status -p "$fed"
  [[ "$output" == *"tracepoint at 0x"* ]]
  watch count usdt:probed:fired -p "$fed"
  [ "$(answer fire)" = "fired 3000" ]
  [ "$(answer detach)" = detached ]
  [ "$(answer fire)" = "fired 3000" ]
  run "$PINPRICK" status -p "$fed"
  [[ "$output" != *"tracepoint at 0x"* ]]
  end_watch
  [ "$(hits probed:fired)" -eq 2000 ]
  no_trace "$fed"
  end_fed
}

@test "a tracepoint that a killed pinprick has turned on obeys the program, and ends with a detach" {
  start_probed
  watch count usdt:probed:fired -p "$fed"
  kill -KILL "$watcher"
  wait "$watcher" || true
  [ "$(answer attach)" = attached ]
  [ "$(answer fire)" = "fired 1000" ]
  [ "$(answer detach)" = detached ]
  [ "$(answer fire)" = "fired 1000" ]
  [ "$(answer attach)" = attached ]
  "$PINPRICK" detach -p "$fed"
  [ "$(answer fire)" = "fired 2000" ]
  [ "$(answer detach)" = detached ]
  no_trace "$fed"
  end_fed
}

@test "a tracepoint's nop, probed by its address, is refused to the one that comes second" {
  start_probed
  # The nop of the point.
  local site=probed:fire+0x9
  [ "$(answer attach)" = attached ]
  refused_here count $site -p "$fed"
  [ "$(answer fire)" = "fired 1000" ]
  [ "$(answer detach)" = detached ]
  watch count $site -p "$fed"
  refusal=$(answer attach)
  [[ "$refusal" == *"pinprick $watcher has a probe there"* ]]
  [ "$(answer fire)" = "fired 1000" ]
  end_watch
  [ "$(field "[x['hits'] for x in r if x['type'] == 'count' and x['final']][0]")" -eq 1000 ]
  [ "$(answer attach)" = attached ]
  [ "$(answer fire)" = "fired 2000" ]
  [ "$(answer detach)" = detached ]
  no_trace "$fed"
  end_fed
}

@test "functions are attached to a point and detached under eight threads and pinpricks that come and go" {
  start_probed
  echo "switch ${SWITCHES:-400}" >&7
  local round=0
  until grep -q '^switched\|WRONG' "$work/out"; do
    round=$((round + 1))
    local what=$([ $((round % 2)) -eq 0 ] && echo usdt:probed:fired || echo probed:fire)
    watch count $what probed:work -p "$fed"
    if [ $((round % 3)) -eq 0 ]; then
      kill -KILL "$watcher"
      wait "$watcher" || true
    else
      end_watch
    fi
  done
  [ "$(tail -n 1 "$work/out" | cut -d' ' -f1)" = switched ]
  "$PINPRICK" detach -p "$fed" || [ $? -eq 3 ]
  no_trace "$fed"
  end_fed
}

@test "libpinprick itself is not probed" {
  start_probed
  [ "$(answer place)" = placed ]
  run "$PINPRICK" count 'libpinprick:*' -p "$fed" -d 0.1
  echo "$output"
  [[ "$output" == *"armed 0 of"*"the program has, or had, a probe of its own there"* ]]
  end_fed
}

@test "a program that is started under pinprick is refused only what pinprick has" {
  [ -x "$TARGETS/probed" ] || skip "this build has no program with the library (sanitizers)"
  run "$PINPRICK" count --json -o "$work/records" probed:work -- "$TARGETS/probed" \
    <<<$'place work\nplace rest\ncall'
  [ "$status" -eq 0 ]
  [[ "$output" == *"has a probe there"*"placed"*"called 0 2000"* ]]
  [ "$(hits work)" -eq 1000 ]
}

@test "a child of a process that probes itself has the same probes, and so has pinprick on it" {
  start_probed
  [ "$(answer place)" = placed ]
  child=$(answer fork)
  refused_here count probed:work -p "$child"
  run "$PINPRICK" count probed:rest -p "$child" -d 0.1
  [ "$status" -eq 0 ]
  end_fed
}

@test "after an exec nothing of the program's probes is in the way" {
  start_probed
  [ "$(answer place)" = placed ]
  [ "$(answer exec)" = executed ]
  watch count probed:work -p "$fed"
  [ "$(answer call)" = "called 0 0" ]
  end_watch
  [ "$(hits work)" -eq 1000 ]
  end_fed
}
