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

listed() { "$PINPRICK" list --json --file "$@" >"$work/records" && field 'sorted(x["function"] for x in r)'; }

@test "parts of functions are meant by their own names alone" {
  local all part
  # parts.S has three of them.
  all=$(listed "$TARGETS/parts")
  [[ "$all" == *"'leaf'"* ]]
  [[ "$all" != *.cold* ]]
  [ "$(listed "$TARGETS/parts" 'leaf*')" = "['leaf']" ]
  [ "$(listed "$TARGETS/parts" '*.cold*')" = "['leaf.cold', 'leaf.cold.1', 'table.cold']" ]
  [ "$(listed "$TARGETS/parts" table.cold)" = "['table.cold']" ]
  [ "$(listed "$TARGETS/parts" -r '.*\.cold')" = "['leaf.cold', 'table.cold']" ]
  [ "$(listed "$TARGETS/parts" '*.cold*' -x 'leaf*')" = "['table.cold']" ]
  # Their instructions are the functions'.
  [[ "$(listed "$TARGETS/parts" --instructions 'leaf*')" == *"'leaf.cold+0x"* ]]
  # Without symbols: what the unwind tables show not to be entered by a call, as the entry is not.
  part=parts_stripped+0x$(nm "$TARGETS/parts" | sed -n 's/^0*\([0-9a-f]*\) . _start$/\1/p')
  [[ "$(listed "$TARGETS/parts_stripped")" != *"'$part'"* ]]
  [ "$(listed "$TARGETS/parts_stripped" "$part")" = "['$part']" ]
}

@test "a name in a file cannot give a terminal commands, neither at once nor by way of a pipe" {
  # The same length, so that only the symbol's name changes.
  python3 -c 'import sys
bytes = open(sys.argv[1], "rb").read()
assert bytes.count(b"\0tick\0") > 0
open(sys.argv[2], "wb").write(bytes.replace(b"\0tick\0", b"\0t\x1b[m\0"))' \
    "$TARGETS/ticker" "$work/hostile"
  "$PINPRICK" list --file "$work/hostile" >"$work/piped"
  grep -q 't?\[m' "$work/piped"
  "$PINPRICK" list --json --file "$work/hostile" | grep -qF 't\u001b[m'
  script -qec "'$PINPRICK' list --color=never --file '$work/hostile'" /dev/null \
    </dev/null >"$work/shown"
  grep -q 't?\[m' "$work/shown"
  ! grep -q $'\033' "$work/shown"
}
