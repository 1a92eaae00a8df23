# What `list` says there is, without a process.
load helpers

@test "--summary takes its file right after it, or as the first argument" {
  local order file=$TARGETS/ticker
  run "$PINPRICK" list --summary "$file" --instructions --together
  [ "$status" -eq 0 ]
  local whole=$output
  [ -n "$whole" ]
  for order in "--summary --instructions --together $file" "$file --instructions --together -s" \
    "--instructions --summary=$file --together" "--instructions -s $file --together"; do
    # shellcheck disable=SC2086
    run "$PINPRICK" list $order
    echo "$order: $output"
    [ "$status" -eq 0 ]
    [ "$output" = "$whole" ]
  done
  # What follows are patterns.
  run "$PINPRICK" list --json --summary "$file" tick
  [[ "$output" == *'"sites":1,'* ]]
  run "$PINPRICK" list --summary --json "$file" tick
  [[ "$output" == *'"sites":1,'* ]]
}
