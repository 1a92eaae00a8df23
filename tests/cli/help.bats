# What --help says, of all verbs, is in tests/cli/help.txt: to be read as a whole when it changes.
load helpers

@test "--help of every verb says what was read" {
  local verb now=$work/help.txt
  {
    "$PINPRICK" --help
    for verb in $("$PINPRICK" --help | sed -n '/^Subcommands:/,/^$/p' | awk 'NR > 1 && NF { print $1 }'); do
      printf '\n## pinprick %s --help\n\n' "$verb"
      "$PINPRICK" "$verb" --help
    done
  } >"$now"
  diff "$BATS_TEST_DIRNAME/help.txt" "$now"
}

@test "help prints the help of a verb, of the program, and the page for agents" {
  diff <("$PINPRICK" help) <("$PINPRICK" --help)
  diff <("$PINPRICK" help trace) <("$PINPRICK" trace --help)
  diff <("$PINPRICK" help agents) "$BATS_TEST_DIRNAME/../../docs/agents.md"
  run "$PINPRICK" help nosuch
  [ $status -eq 2 ]
  [[ $output == *"there is no verb 'nosuch'"* ]]
}
