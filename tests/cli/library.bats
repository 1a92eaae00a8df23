# Programs that probe themselves with libpinprick, and pinprick: one of the two at a time.

load helpers

start_probed() {
  [ -x "$TARGETS/probed" ] || skip "this build has no program with the library (sanitizers)"
  start_fed probed
}

@test "a process that probes itself is refused, and goes on" {
  start_probed
  [ "$(answer place)" = placed ]
  [ "$(answer call)" = "called 1000" ]
  for verb in count latency; do
    run "$PINPRICK" $verb work -p "$fed" -d 0.1
    [ "$status" -eq 4 ]
    [[ "$output" == *"libpinprick"* ]]
  done
  run "$PINPRICK" doctor -p "$fed"
  [[ "$output" == *"libpinprick"* ]]
  [ "$(answer call)" = "called 2000" ]
  [ "$(answer remove)" = removed ]
  [ "$(answer call)" = "called 2000" ]
  text_is_original "$fed"
  end_fed
}

@test "a process in which pinprick has probes is refused its own, until those are out" {
  start_probed
  watch count work -p "$fed"
  refusal=$(answer place)
  [[ "$refusal" == *"pinprick $watcher has probes in this process"* ]]
  [[ "$refusal" == *"pinprick detach -p $fed"* ]]
  [ "$(answer call)" = "called 0" ]
  end_watch
  [ "$(hits work)" -eq 1000 ]
  [ "$(answer place)" = placed ]
  [ "$(answer call)" = "called 1000" ]
  [ "$(answer remove)" = removed ]
  text_is_original "$fed"
  end_fed
}

@test "probes that a killed pinprick left are in the library's way until they are detached" {
  start_probed
  watch count work -p "$fed"
  kill -KILL "$watcher"
  wait "$watcher" || true
  [[ "$(answer place)" == *"has probes in this process"* ]]
  "$PINPRICK" detach -p "$fed"
  [ "$(answer place)" = placed ]
  [ "$(answer call)" = "called 1000" ]
  end_fed
}

@test "of both at the same moment one comes in at most, and the program is right" {
  [ -x "$TARGETS/probed" ] || skip "this build has no program with the library (sanitizers)"
  for round in 1 2 3 4 5; do
    rm -f "$work/in"
    start_fed probed
    "$PINPRICK" count work -p "$fed" -d 0.2 >"$work/count" 2>&1 3>&- 7>&- &
    watcher=$!
    placed=$(answer place)
    status=0
    wait $watcher || status=$?
    cat "$work/count"
    [ "$status" -eq 0 ] || [ "$status" -eq 4 ]
    [ "$status" -eq 4 ] || [ "$placed" != placed ]
    if [ "$placed" = placed ]; then
      [ "$(answer call)" = "called 1000" ]
      [ "$(answer remove)" = removed ]
    fi
    [[ "$(answer call)" == "called "* ]]
    text_is_original "$fed"
    end_fed
  done
}

@test "a program that is started under pinprick is refused its own probes" {
  [ -x "$TARGETS/probed" ] || skip "this build has no program with the library (sanitizers)"
  run "$PINPRICK" count --json -o "$work/records" work -- "$TARGETS/probed" <<<$'place\ncall'
  [ "$status" -eq 0 ]
  [[ "$output" == *"has probes in this process"*"called 0"* ]]
  [ "$(hits work)" -eq 1000 ]
}

@test "a child of a process that probes itself is refused, too" {
  start_probed
  [ "$(answer place)" = placed ]
  child=$(answer fork)
  run "$PINPRICK" count work -p "$child" -d 0.1
  [ "$status" -eq 4 ]
  [[ "$output" == *"libpinprick"* ]]
  end_fed
}
