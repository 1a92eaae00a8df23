# pinprick trace --event-file: lines of the kernel's tracing; and --format=ftrace.
load helpers

fetched() {
  start_fed fetched
  tell ready ready
}

# start_trace OPTIONS...: into $work/traced, until Ctrl-C.
start_trace() {
  : >"$work/traced"
  # In the background, there would be no input otherwise.
  "$PINPRICK" trace "$@" -o "$work/traced" <&0 2>"$work/notes" 3>&- 7>&- &
  tracer=$!
  ends_with_test $tracer
  patiently is_armed
}
is_armed() { has_line "$work/notes" '^armed ' || has_line "$work/traced" '"type":"(files_)?armed"'; }
end_trace() {
  kill -INT $tracer
  wait $tracer
}

# in_file SYMBOL: where it is in the file of the program.
in_file() {
  local address begin offset
  address=0x$(nm "$TARGETS/fetched" | awk -v name="$1" '$3 == name { print $1 }')
  while read -r offset begin size; do
    ! ((address >= begin && address < begin + size)) || printf '0x%x\n' $((address - begin + offset))
  done < <(readelf -lW "$TARGETS/fetched" | awk '$1 == "LOAD" { print $2, $3, $5 }')
}

# as_code SYMBOL: an offset that leads to the data from where the code is, as the kernel takes it.
as_code() {
  local data code
  data=0x$(nm "$TARGETS/fetched" | awk -v name="$1" '$3 == name { print $1 }')
  code=0x$(nm "$TARGETS/fetched" | awk '$3 == "handed" { print $1 }')
  printf '0x%x\n' $((data - code + $(in_file handed)))
}

# The figures are those of tests/targets/fetched.c.
@test "each line becomes an event with its name, and fetches what the kernel would" {
  fetched
  cat >"$work/lines" <<'END'
# a comment, and an empty line

p:mine/in fetched:handed two=%si:s32 tag=+0(%di):char flags=+4(%di):u32 bits=+4(%di):b4@4/32 word=+8(%di):x32
p numbers=+8(%di):s16[3]
END
  sed -i 's/^p numbers/p fetched:handed numbers/' "$work/lines"
  cat >>"$work/lines" <<'END'
r:mine/out fetched:handed ret=$retval:s32 name=+0(+16($arg1)):string names=+24($arg1):string[2]
p:memory fetched:handed letters=+40(%di):char[4] tag=+0(+48(%di)):x8 level=@level:u32 five=\5 below=\-7:s16
p:stack fetched:handed seven=$arg7:s64 eight=+16(%sp) third=$arg3:u8 first=+0($stack1):u8 who=$comm none=+0(%si):u8
END
  start_trace -p $fed --event-file "$work/lines" --json
  tell hand handed
  end_trace
  cp "$work/traced" "$work/records"
  told() { field "[list(x['values'].values()) for x in r if x['type'] == 'event' and x['event'] == '$1']"; }
  [ "$(told mine:in)" = "[[-2, 65, 181, 11, $((0xfffe0001))]]" ]
  [ "$(told p_handed_0)" = "[[{'size': 3, 'elements': [1, -2, 32767]}]]" ]
  [ "$(told memory)" = "[[{'size': 4, 'elements': [97, 98, 99, 0]}, 113, 4660, 5, -7]]" ]
  [ "$(told stack)" = "[[-7, 8, 3, None, 'fetched', None]]" ]
  [ "$(told mine:out)" = "[[17, 'last one', {'size': 2, 'elements': ['left', 'right']}]]" ]
  field "[x['unreadable'] for x in r if x.get('event') == 'stack' and 'unreadable' in x]" |
    grep -F "[['first', 'none']]"
  field "[x['function'] for x in r if x['type'] == 'event' and 'latency_ns' in x]" | grep -F "['handed']"
  no_trace $fed
  end_fed
}

@test "in text, an event has its name in place of the function, and the kernel's types" {
  fetched
  start_trace -p $fed --event-file - <<'END'
p:mine/in fetched:handed %si:x16 flags=+4(%di):x8 tag=+0(%di):char letters=+40(%di):char[4] bytes=+8(%di):x8[2]
END
  tell hand handed
  end_trace
  grep -F " mine:in(arg1=0xfffe, flags=0xb5, tag='A', letters=[4]{'a','b','c','\\x00'}, bytes=[2]{0x1,0})" \
    "$work/traced"
  end_fed
}

@test "an offset in the file means the same place as its name" {
  fetched
  {
    echo "p:entry $TARGETS/fetched:$(in_file handed) %si:s32"
    echo "r:back $TARGETS/fetched:$(in_file handed) \$retval:s32"
    echo "p:again $TARGETS/fetched:$(in_file handed)%return \$arg3"
    echo "p:data $TARGETS/fetched:$(in_file handed) level=@+$(as_code level):u16"
  } >"$work/lines"
  start_trace -p $fed --event-file "$work/lines" --json
  tell hand handed
  end_trace
  cp "$work/traced" "$work/records"
  [ "$(field "sorted([x['event'], x['function'], list(x['values'].values())] for x in r if x['type'] == 'event')")" = \
    "[['again', 'handed', [3]], ['back', 'handed', [17]], ['data', 'handed', [4660]], ['entry', 'handed', [-2]]]" ]
  end_fed
}

@test "lines go with patterns, limits, a command, and all processes of a file" {
  use_copy fetched
  printf 'p:in fetched:handed\np:%s %s\n' at "$TARGETS/fetched:$(in_file handed)" >"$work/lines"
  fetched
  start_trace -p $fed --event-file "$work/lines" 'out = fetched:handed%return $retval:s32' --limit 3 --json
  tell hand handed
  wait $tracer
  cp "$work/traced" "$work/records"
  [ "$(field "[x['event'] for x in r if x['type'] == 'event']")" = "['in', 'at', 'out']" ] ||
    [ "$(field "[x['event'] for x in r if x['type'] == 'event']")" = "['at', 'in', 'out']" ]
  start_trace --all "$TARGETS/fetched" --event-file "$work/lines"
  tell hand handed
  end_trace
  grep -E ' in\(\)$' "$work/traced"
  grep -E ' at\(\)$' "$work/traced"
  end_fed
  echo hand | "$PINPRICK" trace --event-file "$work/lines" --format=ftrace -o "$work/traced" -- "$TARGETS/fetched"
  grep -E ' fetched-[0-9]+ .*: in: \(0x[0-9a-f]+\)$' "$work/traced"
}

@test "--format=ftrace has the kernel's lines: thread, CPU, time since the start, event, place, values" {
  start_ticker
  taskset -pc 0 $ticker >/dev/null || skip "cannot bind a process to a CPU here"
  start_trace -p $ticker --format=ftrace 'io:in = ticker:tick x=$arg1' 'ticker:tick%return $retval' 'ticker:tick 7*$arg1'
  local before after
  before=$(cut -d' ' -f1 /proc/uptime)
  tell "tick 2" ticked
  after=$(cut -d' ' -f1 /proc/uptime)
  end_trace
  head -1 "$work/traced" | grep -x '# tracer: nop'
  local tick line='^ +ticker-'$ticker' +\[000\] \.\.\.\.\. +[0-9]+\.[0-9]{6}: '
  tick=$(printf '0x%x' $(($("$PINPRICK" list -p $ticker ticker:tick | awk '{ print $1 }') + \
    0x$(awk '/ticker$/ { print $1; exit }' /proc/$ticker/maps | cut -d- -f1))))
  grep -v '^#' "$work/traced" | sed -E "s/$line//" >"$work/told"
  sed -i -E 's/\(0x[0-9a-f]+ <-/(RETURN <-/' "$work/told"
  diff "$work/told" - <<END
in: ($tick) x=0
tick: ($tick) arg1=0
tick__return: (RETURN <- $tick) retval=1
in: ($tick) x=1
tick: ($tick) arg1=7
tick__return: (RETURN <- $tick) retval=4
END
  # Events are between the two looks at the clock, which has hundredths of seconds.
  grep -v '^#' "$work/traced" | grep -oE '[0-9]+\.[0-9]{6}' |
    awk -v before="$before" -v after="$after" '$1 < before - 0.01 || $1 > after + 0.02 { exit 1 }'
  end_ticker
}

@test "without rseq it is not known on which CPU a thread was, and the line says so" {
  export GLIBC_TUNABLES=glibc.pthread.rseq=0
  start_ticker
  unset GLIBC_TUNABLES
  start_trace -p $ticker --format=ftrace ticker:tick
  tell "tick 1" ticked
  end_trace
  cat "$work/traced"
  grep -E ' \[---\] \.\.\.\.\. ' "$work/traced"
  end_ticker
}

# The kernel's own lines of the same calls. Only the columns before the event differ, as its flags are those
# of the kernel's own state.
@test "events of the same lines are those of the kernel" {
  fetched
  export GROUP=pinprick_$$_$RANDOM
  local place
  place=$TARGETS/fetched:$(in_file handed)
  {
    echo "p:$GROUP/in $place %di two=%si:s32 \$stack0 sp=\$stack seven=+8(%sp):s64 who=\$comm five=\\5 minus=\\-1:s8"
    echo "p:$GROUP/memory $place tag=+0(%di):char +4(%di):u8 +4(%di):x16 bits=+4(%di):b4@4/32 nested=+0(+48(%di)):u8"
    echo "p:$GROUP/texts $place name=+0(+16(%di)):string names=+24(%di):string[2] user=+u40(%di):ustring"
    echo "p:$GROUP/arrays $place n=+8(%di):s16[3] x=+8(%di):x16[3] c=+40(%di):char[3] u=@+$(as_code level):u8[2]"
    echo "r:$GROUP/out $place \$retval ret=\$retval:s32 sp=\$stack"
    echo "p:$GROUP/ $place"
  } >"$work/lines"
  local status=0
  hand() { tell hand handed; }
  export -f hand tell nap read_lines
  export work BATS_FILE_TMPDIR
  "$BATS_TEST_DIRNAME/in_tracefs.sh" "$work/lines" $fed bash -c hand >"$work/kernel" 2>"$work/errors" || status=$?
  [ $status -ne 77 ] || skip "$(cat "$work/kernel")"
  [ $status -eq 0 ] || { cat "$work/errors"; return 1; }
  start_trace -p $fed --event-file "$work/lines" --format=ftrace
  tell hand handed
  end_trace
  cat "$work/kernel" "$work/traced"
  [ "$(grep -vc '^#' "$work/kernel")" -eq 6 ]
  # Events at one place have no order.
  events() { grep -v '^#' "$1" | sed -E 's/^.*[0-9]+\.[0-9]{6}: //' | sort; }
  diff <(events "$work/kernel") <(events "$work/traced")
  threads() { grep -v '^#' "$1" | cut -c1-24; }
  diff <(threads "$work/kernel") <(threads "$work/traced")
  heading() { grep -E '^# {8}' "$1"; }
  diff <(heading "$work/kernel") <(heading "$work/traced")
  no_trace $fed
  end_fed
}

@test "a line that is wrong is said with its number and place, in the kernel's words" {
  expect() {
    run "$PINPRICK" trace -p $$ --event-file "$work/lines"
    echo "$output"
    [ "$status" -eq 2 ]
    [[ ${lines[0]} == *"$1"* ]]
    [ "${lines[1]}" = "  $(tail -1 "$work/lines")" ]
    [ "${lines[2]}" = "  $2" ]
    [ ${#lines[@]} -eq 3 ]
  }
  printf 'p:x libc:write\n\np:x libc:write +0(%%di\n' >"$work/lines"
  expect 'lines:3: Dereference brace is not closed' '                     ^'
  echo 'p:x libc:write n=%di:u9' >"$work/lines"
  expect 'lines:1: Unknown type is specified' '                     ^'
  echo 'p: libc:write' >"$work/lines"
  expect 'lines:1: Event name is not specified' '  ^'
  echo 'p:x vfs_read' >"$work/lines"
  expect 'lines:1: a symbol alone is one of the kernel, which pinprick does not probe; write OBJECT:SYMBOL' '    ^'
  echo "p:x $TARGETS:0x10" >"$work/lines"
  expect 'lines:1: Not a regular file' '    ^'
  echo '-:mine/x' >"$work/lines"
  expect 'lines:1: there is nothing to remove here' '^'
  run "$PINPRICK" trace -p $$ --event-file - <<<'p:x libc:write foo'
  [[ ${lines[0]} == *'(standard input):1: Invalid fetch argument'* ]]
  run "$PINPRICK" trace -p $$ --event-file "$work/none"
  [ "$status" -eq 2 ]
  [[ $output == *"cannot read $work/none"* ]]
  run "$PINPRICK" trace -p $$ --event-file - <<<'# nothing'
  [ "$status" -eq 2 ]
  [[ $output == *'no event in --event-file'* ]]
}

@test "what does not go together is refused" {
  while IFS='|' read -r options words; do
    # shellcheck disable=SC2086
    run "$PINPRICK" trace -p $$ $options </dev/null
    echo "$options: $output"
    [ "$status" -eq 2 ]
    [[ $output == *"$words"* ]]
  done <<'END'
--event-file - --tree libc:write|events of --event-file go without it
--event-file - -r libc:write|--regex and --instructions go without it
--event-file - --event-file - libc:write|the standard input is read once
--format=ftrace --json libc:write|--format=ftrace is another format than --json
--format=ftrace --tree libc:write|no tree
--format=ftrace -o x.csv libc:write|the end of the name says the format
--format=ftrace libc:read..libc:write|a span (START..END) goes without it
--format=perf libc:write|'perf' is not text, json or ftrace
END
  run "$PINPRICK" count -p $$ 'x = libc:write'
  [ "$status" -eq 2 ]
  [[ $output == *"only events have names, with \`trace\`"* ]]
}
