# Programs that write over the jumps of probes.

load helpers

@test "a site that was overwritten is said to be so, with its memory kept until it is ours again" {
  start_fed rewrites
  [ "$(answer call)" = 1000 ]
  "$PINPRICK" count work -p "$fed" >"$work/count" 2>&1 3>&- 7>&- &
  watcher=$!
  ends_with_test $watcher
  until_line "$work/count" 'armed|probe'
  [ "$(answer call)" = 1000 ]
  [ "$(answer "change 7")" = changed ]
  [ "$(answer call)" = 7000 ]
  status=0
  end_watch || status=$?
  cat "$work/count"
  [ "$status" -eq 1 ]
  [ "$(grep -c 'detached cleanly' "$work/count")" -eq 0 ]
  grep -q '1 site overwritten by another tool' "$work/count"
  [ "$(answer call)" = 7000 ]
  [ "$(answer restore)" = restored ]
  "$PINPRICK" detach -p "$fed"
  no_trace "$fed"
  [ "$(answer call)" = 1000 ]
  end_fed
}

@test "a site to which another tool has given its old bytes back is said to have been overwritten" {
  start_fed rewrites
  "$PINPRICK" count work -p "$fed" >"$work/count" 2>&1 3>&- 7>&- &
  watcher=$!
  ends_with_test $watcher
  until_line "$work/count" 'armed|probe'
  [ "$(answer restore)" = restored ]
  status=0
  end_watch || status=$?
  cat "$work/count"
  [ "$status" -eq 1 ]
  [ "$(grep -c 'detached cleanly' "$work/count")" -eq 0 ]
  grep -q '1 site overwritten by another tool' "$work/count"
  no_trace "$fed"
  [ "$(answer call)" = 1000 ]
  end_fed
}
