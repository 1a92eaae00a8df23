# pinprick measure: several measurements of one process at once, on programs whose calls are known.
load helpers

# records MEASURE FIELD: of all rows of the last report of that measure, as JSON.
records() {
  field "[x['$2'] for x in r if x.get('measure') == '$1' and x['final']]"
}

@test "one function is counted, timed and asked for its arguments, each for its own measure" {
  "$PINPRICK" measure --json -o "$work/records" 'writes = count libc:write' \
    'again = count libc:write' 'times = latency libc:write' 'more = latency libc:wri*' \
    'sizes = hist libc:write $arg3' 'where = hist libc:write $arg1' -- \
    dd if=/dev/zero of=/dev/null bs=4096 count=1000 status=none
  [ "$(records writes hits)" = "[1000]" ]
  [ "$(records again hits)" = "[1000]" ]
  [ "$(records times count)" = "[1000]" ]
  [ "$(field "[x['count'] for x in r if x.get('measure') == 'more' and x['final']
                and x['function'] == 'write'][0]")" = 1000 ]
  [ "$(records sizes slots)" = "[[[4096, 1000, 4096]]]" ]
  [ "$(records where slots)" = "[[[1, 1000, 1]]]" ]
}

@test "times of calls and of spans are taken beside counts of the same functions" {
  "$PINPRICK" measure --json -o "$work/records" 'rw = latency libc:read..libc:write' \
    'wr = latency libc:write..libc:read' 'count libc:read' 'latency libc:read' -- \
    dd if=/dev/zero of=/dev/null bs=1 count=500 status=none
  # dd reads what it writes, and its loader reads before.
  local reads
  reads=$(records 'count libc:read' hits)
  [ "$(records rw count)" = "[500]" ]
  [ "$(records wr count)" = "[499]" ]
  [ "$(records 'latency libc:read' count)" = "$reads" ]
  evaluate "import sys; sys.exit(not int(sys.argv[1].strip('[]')) >= 500)" "$reads"
}

@test "what is counted after a call of __fentry__ is counted once, beside the timing that begins there" {
  "$PINPRICK" measure --json -o "$work/records" 'times = latency middle' \
    'after = count middle+0x6' 'entries = count middle' 'sizes = hist middle+0x6 %rdi' -- \
    "$TARGETS/profiled_by_fentry" 200
  [ "$(records times count)" = "[100]" ]
  [ "$(records after hits)" = "[100]" ]
  [ "$(records entries hits)" = "[100]" ]
  [ "$(records sizes count)" = "[100]" ]
}

@test "a file has a measure in each line, and those with one name are one" {
  printf '%s\n' '# of dd' '' 'io = count libc:write' '  io = count libc:read' \
    'sizes = hist libc:write $arg3' >"$work/measures"
  "$PINPRICK" measure --json -o "$work/records" -f "$work/measures" 'latency libc:write' -- \
    dd if=/dev/zero of=/dev/null bs=4096 count=100 status=none
  [ "$(field "[x['hits'] for x in r if x.get('measure') == 'io' and x['function'] == 'write'
                and x['final']]")" = "[100]" ]
  [ "$(field "len([x for x in r if x.get('measure') == 'io' and x['final']])")" = 2 ]
  [ "$(records sizes count)" = "[100]" ]
  [ "$(records 'latency libc:write' count)" = "[100]" ]
}

@test "a running process is measured by all at once, and left without a trace" {
  start_ticker 4
  watch measure -p $ticker 'n = count ticker:tick' 'l = latency ticker:tick'
  [ "$(grep -c '"type":"armed"' "$work/records")" = 1 ]
  tell "tick 100000" ticked
  tell "tick 23456" ticked
  end_watch
  [ "$(records n hits)" = "[123456]" ]
  [ "$(records l count)" = "[123456]" ]
  no_trace $ticker
  tell "tick 10" ticked
  end_ticker
}

@test "what a killed pinprick has left is shown and taken out, with more spans than points" {
  start_ticker
  watch measure -p $ticker 's = latency ticker:tick..ticker:main' 's = latency ticker:main..ticker:tick' \
    's = latency ticker:tick..ticker:tick' 's = latency ticker:main..ticker:main' \
    'latency ticker:tick' 'count ticker:tick'
  tell "tick 1000" ticked
  kill -KILL "$watcher"
  wait "$watcher" || true
  "$PINPRICK" status -p $ticker --json >"$work/records"
  [ "$(field "[p['hits'] for x in r for p in x['probes'] if 'hits' in p]")" = "[1000]" ]
  [ "$(field "[p['count'] for x in r for p in x['probes'] if p['function'] == 'tick..tick'
                or p['function'] == 'ticker:tick..ticker:tick']")" = "[999]" ]
  "$PINPRICK" detach -p $ticker
  no_trace $ticker
  tell "tick 10" ticked
  end_ticker
}

@test "as text each measure is printed under its name, as its verb prints it" {
  "$PINPRICK" measure -o "$work/out" 'writes = count libc:write' 'latency libc:write' \
    'hist libc:write $arg3' -- dd if=/dev/zero of=/dev/null bs=4096 count=1000 status=none
  cat "$work/out"
  grep -q '^writes:$' "$work/out"
  grep -q '^latency libc:write:$' "$work/out"
  grep -q '^hist libc:write $arg3:$' "$work/out"
  grep -qE '^ +1,000 .* write$' "$work/out"
  grep -q '^write .* calls/s$' "$work/out"
  grep -q 'n=1,000$' "$work/out"
}

@test "processes of a file are measured together" {
  use_copy ticker
  start_ticker
  watch measure --all "$TARGETS/ticker" 'n = count ticker:tick' 'l = latency ticker:tick'
  tell "tick 321" ticked
  end_watch
  [ "$(records n hits)" = "[321]" ]
  [ "$(records l count)" = "[321]" ]
  end_ticker
}

@test "what is no measure, and a measure that matches nothing, are said to be" {
  run "$PINPRICK" measure -p $$ 'trace libc:write'
  [ "$status" = 2 ]
  [[ $output == *"'trace libc:write' is no measure: say count, latency or hist"* ]]
  run "$PINPRICK" measure -p $$
  [ "$status" = 2 ]
  [[ $output == *"no MEASURE"* ]]
  run "$PINPRICK" measure -p $$ -f "$work/none"
  [ "$status" = 2 ]
  [[ $output == *"cannot read $work/none"* ]]
  start_ticker
  run "$PINPRICK" measure -p $ticker 'count libc:write' 'latency no_such_function'
  [ "$status" = 3 ]
  [[ $output == *"no_such_function"* ]]
}
