# --dry-run: what would be probed, and what that would cost.
load helpers

@test "--dry-run says what would be armed and what not, as arming does, and changes nothing" {
  start_ticker
  local before
  before=$(cat /proc/$ticker/maps | md5sum)
  local verb
  for verb in count latency trace; do
    "$PINPRICK" $verb --dry-run --json -p $ticker 'ticker:t*' 'libc:*alloc' 'libc:setjmp' >"$work/planned"
    [ "$(cat /proc/$ticker/maps | md5sum)" = "$before" ]
    no_trace $ticker
    "$PINPRICK" $verb --json -d 0.1 -p $ticker 'ticker:t*' 'libc:*alloc' 'libc:setjmp' >"$work/records" || [ $? -eq 1 ]
    [ "$(field "[(x['armed'], x['skipped']) for x in r if x['type'] == 'armed']")" = \
      "$(evaluate 'import json, sys
r = [json.loads(line) for line in open(sys.argv[1])]
print([(x["would_arm"], x["skipped"]) for x in r if x["type"] == "dry_run"])' "$work/planned")" ]
    same_lines "$(grep -o '"function":"[^"]*","message":"[^"]*"' "$work/planned" | sort)" \
      "$(grep '"type":"skipped"' "$work/records" | grep -o '"function":"[^"]*","message":"[^"]*"' | sort)"
    before=$(cat /proc/$ticker/maps | md5sum)
  done
  (cd "$work" && "$PINPRICK" record --dry-run --tree -p $ticker ticker:tick) | grep '^would arm 2 functions of'
  [ ! -e "$work/pinprick.rec" ]
  "$PINPRICK" count --dry-run -p $ticker ticker:tick ticker:nap | grep -E "^would arm 2 functions of $ticker \(ticker\): "
  no_trace $ticker
  end_ticker
}

@test "--probe-rate counts the hits of 0.1 s, of a program that is hit all the time, and takes the probes out" {
  start_fed ticker
  echo "tick 2000000000" >&7
  "$PINPRICK" latency --dry-run --probe-rate --json -p $fed 'ticker:tick if $arg1>5' >"$work/records"
  field "[x['hits'] > 1000 and x['seconds'] >= 0.1 and x['cpu_share'] > 0 and x['ns_per_hit'] > 0
          for x in r if x['type'] == 'dry_run']" | grep -F '[True]'
  no_trace $fed
  "$PINPRICK" latency --dry-run --probe-rate -p $fed 'ticker:tick if $arg1>5' | grep -E 'hits/s in .*: about .*% of a CPU, at [0-9]+ ns a hit'
  kill $fed
}

@test "what --dry-run cannot do is said" {
  run "$PINPRICK" count --dry-run 'libc:malloc' -- true
  [ $status -eq 2 ]
  [[ $output == *"--dry-run looks at a process that runs: give -p PID"* ]]
  run "$PINPRICK" count --probe-rate -p $$ libc:malloc
  [ $status -eq 2 ]
  [[ $output == *"--probe-rate goes with --dry-run"* ]]
  run "$PINPRICK" count --dry-run -p $$ nothing_of_that_name
  [ $status -eq 3 ]
}
