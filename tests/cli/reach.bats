# Which kinds of programs can be probed, and how far: docs/reach.md, cell by cell.
load helpers

# What a record of count or latency says of the calls of its function.
hits_of() { field "sum(x.get('hits', 0) + x.get('count', 0) for x in r if x['type'] in ('count', 'latency') and x['final'] and $1)"; }

# reaches PROGRAM [FUNCTION]: all columns of the table, with the program's own tick(), which is a few
# instructions without a branch.
reaches() {
  local program=$1 function=${2:-tick} verb
  [ -x "$TARGETS/$program" ] || skip "its compiler is not installed"
  for verb in count latency; do
    echo "$program: $verb --"
    "$PINPRICK" $verb --json -o "$work/records" "$program:$function" -- "$TARGETS/$program" \
      <<<$'ready\ntick 1000' >"$work/printed"
    [ "$(cat "$work/printed")" = $'ready\nticked' ]
    [ "$(hits_of True)" -eq 1000 ]
    echo "$program: $verb -p"
    TICKER=$program start_ticker
    watch $verb -p $ticker "$program:$function"
    tell "tick 1000" ticked
    end_watch
    [ "$(hits_of True)" -eq 1000 ]
    no_trace $ticker
    tell "tick 10" ticked
    end_ticker
    rm "$work/in" "$work/out"
  done
  echo "$program: every instruction"
  "$PINPRICK" count --instructions --json -o "$work/records" "$program:$function" -- \
    "$TARGETS/$program" <<<'tick 1000' >"$work/printed"
  [ "$(cat "$work/printed")" = ticked ]
  [ "$(field '{x["hits"] for x in r if x["type"] == "count" and x["final"]}')" = "{1000}" ]
  [ "$(field 'len([x for x in r if x["type"] == "count" and x["final"]])')" -gt 1 ]
}

@test "C, position-independent" { reaches ticker; }
@test "C, at a fixed address" { reaches ticker_nopie; }
@test "C++" { reaches ticker_cpp; }
@test "static" { reaches ticker_static; }
@test "static-PIE" { reaches ticker_static_pie; }
@test "musl, static" { reaches ticker_musl; }
@test "musl, shared" { reaches ticker_musl_dynamic; }
@test "Rust" { reaches ticker_rust; }

@test "stripped" {
  # Its functions have addresses for names.
  local at
  at=$(nm "$TARGETS/ticker" | awk '$3 == "tick" { print $1 }')
  reaches ticker_stripped "$(printf 0x%x "0x$at")"
}

@test "without section headers" {
  command -v llvm-objcopy >/dev/null || skip "llvm-objcopy is not installed"
  local at TARGETS=$TARGETS
  at=$(nm "$TARGETS/ticker" | awk '$3 == "tick" { print $1 }')
  llvm-objcopy --strip-sections "$TARGETS/ticker" "$work/ticker_bare"
  TARGETS=$work
  reaches ticker_bare "$(printf 0x%x "0x$at")"
}

@test "Rust: panics pass timed functions, and are counted apart" {
  [ -x "$TARGETS/ticker_rust" ] || skip "Rust's compiler is not installed"
  "$PINPRICK" latency --allow-missing --json -o "$work/records" '*' -- "$TARGETS/ticker_rust" \
    <<<'panic 50' >"$work/out"
  [ "$(cat "$work/out")" = panicked ]
  [ "$(field '[(x["count"], x["unwound"]) for x in r if x["type"] == "latency" and x["final"] and x["function"] == "panics"]')" = "[(0, 50)]" ]
}

# works_on PID PROGRAM: count and latency, attached.
works_on() {
  local verb
  for verb in count latency; do
    watch $verb -p "$1" "$2:tick"
    tell "tick 1000" ticked
    end_watch
    [ "$(hits_of True)" -eq 1000 ]
    "$PINPRICK" status -p "$1" --json >"$work/status"
    [ ! -s "$work/status" ]
  done
}

@test "in another mount and PID namespace, from outside: its file is out of our sight, its PID another" {
  unshare --mount --pid --fork true 2>/dev/null || skip "no right to make namespaces"
  mkdir "$work/inside"
  mkfifo "$work/in"
  # The program lies on a file system that only it has.
  unshare --mount --pid --fork --kill-child bash -c '
    mount -t tmpfs none "$1" && cp "$2" "$1/hidden" && exec "$1/hidden"' \
    - "$work/inside" "$TARGETS/ticker" <"$work/in" >"$work/out" 3>&- &
  local unshare=$!
  ends_with_test $unshare
  exec 7>"$work/in"
  tell ready ready
  [ ! -e "$work/inside/hidden" ]
  ticker=$(pgrep -P $unshare)
  [ "$(awk '/^NSpid/ { print $3 }' /proc/$ticker/status)" -eq 1 ]
  works_on $ticker hidden
  exec 7>&-
  wait $unshare
}

@test "in another mount and PID namespace, from inside" {
  unshare --mount --pid --fork true 2>/dev/null || skip "no right to make namespaces"
  local verb
  for verb in count latency; do
    unshare --mount --pid --fork --kill-child --mount-proc "$PINPRICK" $verb --json \
      -o "$work/records" ticker:tick -- "$TARGETS/ticker" <<<'tick 1000' >"$work/out"
    [ "$(cat "$work/out")" = ticked ]
    [ "$(hits_of True)" -eq 1000 ]
  done
}

@test "one's own process, without being root" {
  local verb
  become_nobody "$PINPRICK" "$TARGETS/ticker"
  for verb in count latency "count --instructions"; do
    # shellcheck disable=SC2086  # words on purpose
    "${as_nobody[@]}" "$work/pinprick" $verb --json ticker:tick -- "$work/ticker" \
      <<<'tick 1000' >"$work/printed" 2>"$work/records"
    [ "$(cat "$work/printed")" = ticked ]
    [ "$(hits_of 'x["function"] == "tick"')" -eq 1000 ]
  done
  mkfifo -m 666 "$work/in"
  "${as_nobody[@]}" "$work/ticker" <"$work/in" >"$work/out" 3>&- &
  ticker=$!
  ends_with_test $ticker
  exec 7>"$work/in"
  tell ready ready
  ! grep -q CapEff.*[1-9a-f] /proc/$ticker/status
  PINPRICK=$work/as_nobody
  printf '#!/bin/sh\nexec %s "$@"\n' "${as_nobody[*]} $work/pinprick" >"$PINPRICK"
  chmod +x "$PINPRICK"
  works_on $ticker ticker
  end_ticker
}

@test "a program whose code fills its last page" {
  local last
  last=$(readelf -lW "$TARGETS/ticker_full" | awk '$1 == "LOAD" && / R E / { print $3, $6 }')
  [ $(((${last% *} + ${last#* }) % 4096)) -eq 0 ]
  TICKER=ticker_full start_ticker
  watch count -p $ticker ticker_full:tick
  tell "tick 1000" ticked
  end_watch
  [ "$(hits tick)" -eq 1000 ]
  no_trace $ticker
  end_ticker
}

# Why functions cannot be probed, each reason once.
reasons() { field 'sorted({x["reason"] for x in r if x["type"] == "skipped"})'; }

@test "what Go has linked is known by its sections, symbols or not, and never timed" {
  local section
  for section in .gopclntab .go.buildinfo; do
    objcopy --add-section $section="$TARGETS/ticker" "$TARGETS/ticker_stripped" "$work/of_go"
    run "$PINPRICK" latency --allow-missing --json -o "$work/records" 'of_go:*' -- "$work/of_go" </dev/null
    [ "$status" -eq 125 ]
    [ "$(reasons)" = "['stack_moves']" ]
  done
}

@test "a runtime that looks at return addresses is known by its symbols, and none of its functions has slots" {
  local mark
  for mark in caml_frametable caml_system__frametable gHotSpotVMStructs JNI_CreateJavaVM \
    _ZN2v87Isolate3NewERKNS0_12CreateParamsE v8_Default_embedded_blob_ mono_jit_init \
    mono_aot_file_info mono_aot_module_corlib_info coreclr_initialize g_dacTable DotNetRuntimeInfo \
    DotNetRuntimeDebugHeader graal_create_isolate stg_upd_frame_info call_into_lisp; do
    objcopy --add-symbol $mark=.text:0,global "$TARGETS/ticker" "$work/marked"
    run "$PINPRICK" latency --ends=slots --allow-missing --json -o "$work/records" 'marked:*' -- "$work/marked" </dev/null
    echo "$mark: $output"
    [ "$status" -eq 125 ]
    [ "$(reasons)" = "['runtime_reads_stack']" ]
    "$PINPRICK" list --json -f "$work/marked" '*' >"$work/records"
    # With .NET's header, no function of the program is probed: its code could be methods.
    [ $mark = DotNetRuntimeDebugHeader ] ||
      [ "$(field "{x['timed_by'] for x in r if 'timed_by' in x}")" = "{'exits'}" ]
  done
}

@test "a runtime that looks at return addresses goes on under latency, symbols or not" {
  local program
  for program in stack_reader stack_reader_stripped; do
    "$PINPRICK" latency --allow-missing --json -o "$work/records" '*' -- "$TARGETS/$program" 5 >"$work/out"
    [ "$(cat "$work/out")" = 6 ]
    [ "$(field "len([x for x in r if x['type'] == 'latency' and x['object'] == '$program' and x['count'] > 0]) >= 2")" = True ]
    "$PINPRICK" latency --ends=slots --allow-missing --json -o "$work/records" '*' -- "$TARGETS/$program" 5 >"$work/out"
    [ "$(cat "$work/out")" = 6 ]
    [ "$(field 'sorted({x["message"] for x in r if x["type"] == "skipped" and x["reason"] == "runtime_reads_stack"})')" = \
      "['its language runtime looks at the return addresses on the stack (OCaml)']" ]
    [ "$(field "len([x for x in r if x['type'] == 'latency' and x['object'] == '$program'])")" -eq 0 ]
    [ "$(field 'len([x for x in r if x["type"] == "latency"]) > 100')" = True ]
  done
}

needs_go() { [ -x "$TARGETS/goroutines" ] || skip "Go's compiler is not installed"; }

@test "Go: functions are counted from the start, under preemption, collection and moving stacks" {
  needs_go
  "$PINPRICK" count --allow-missing --json -o "$work/records" 'goroutines:*' -- \
    "$TARGETS/goroutines" 3 >"$work/out"
  [ "$(cat "$work/out")" = "right 24000" ]
  # Where it finds its stack too small it begins again: once for a goroutine and size of stack.
  [ "$(field '24000 <= sum(x["hits"] for x in r if x["type"] == "count" and x["final"] and x["function"] == "main.tick") < 24200')" = True ]
  [ "$(reasons | grep -c goroutine)" -eq 1 ]
  "$PINPRICK" count --instructions --allow-missing --json -o "$work/records" 'goroutines:main.*' \
    'goroutines:runtime.*stack*' -- "$TARGETS/goroutines" 2 >"$work/out"
  [ "$(cat "$work/out")" = "right 16000" ]
  [ "$(field 'sum(x["hits"] for x in r if x["type"] == "count" and x["final"])')" -gt 16000 ]
}

@test "Go: probes come and go while it runs" {
  needs_go
  local went=0
  "$TARGETS/goroutines" 5 >"$work/out" 3>&- &
  local go=$!
  ends_with_test $go
  patiently has_begun $go "$TARGETS/goroutines"
  while ! has_ended $go; do
    "$PINPRICK" count -p $go --allow-missing -d 0.01 'goroutines:*' >/dev/null 2>"$work/errors" &&
      went=$((went + 1))
  done
  wait $go
  [ "$(cat "$work/out")" = "right 40000" ]
  [ $went -gt 2 ]
}

@test "Go: a function is not timed, and it says why" {
  needs_go
  run "$PINPRICK" latency 'goroutines:main.tick' -- "$TARGETS/goroutines" 1
  echo "$output"
  [ "$status" -eq 125 ]
  [[ "$output" == *"skipped main.tick: its stack may move during a call, as Go's do; \`count\` can probe it"* ]]
}

# start_filtered KIND: tests/targets/filtered.c; `calls` makes it call tick() 1000 times.
start_filtered() {
  [ "$(id -u)" -eq 0 ] || skip "needs root, to suspend filters"
  start_fed filtered "$1"
  filtered=$fed
  until_line "$work/out" ready
}
calls() {
  local before
  before=$(grep -c ticked "$work/out" || true)
  echo >&7
  patiently has_ticked $((before + 1))
}
has_ticked() { [ "$(grep -c ticked "$work/out" || true)" -ge "$1" ]; }
end_filtered() {
  exec 7>&-
  wait $filtered
}

@test "seccomp: filters that forbid us nothing, or answer with an error, are suspended" {
  local kind
  for kind in allow errno thread; do
    start_filtered $kind
    watch latency -p $filtered filtered:tick
    calls
    end_watch
    [ "$(field '[x["count"] for x in r if x["type"] == "latency" and x["final"]][0]')" -eq 1000 ]
    [[ "$("$PINPRICK" doctor -p $filtered)" == *"ok    process $filtered"* ]]
    no_trace $filtered
    calls
    end_filtered
    rm "$work/in" "$work/out"
  done
}

@test "seccomp: a filter that would end the program is left alone, and so is the program" {
  local kind call
  for kind in kill=mmap home=rt_sigprocmask strict=mmap; do
    call=${kind#*=}
    start_filtered ${kind%=*}
    run "$PINPRICK" count -p $filtered -d 0.01 filtered:tick
    echo "$output"
    [ "$status" -eq 4 ]
    [ "${#lines[@]}" -eq 1 ]
    [[ "$output" == *"its seccomp filter forbids $call, "*"start it with \`-- COMMAND\`"* ]]
    local why=$output
    # Before there is anything to plan; and `doctor` knows it, too.
    run "$PINPRICK" count -p $filtered -d 0.01 nothing_like_this
    [ "$output" = "$why" ]
    run "$PINPRICK" doctor -p $filtered
    [ "$status" -eq 1 ]
    [[ "$output" == *"BAD   process $filtered"*"${why#pinprick: }"* ]]
    text_is_original $filtered
    calls
    end_filtered
    rm "$work/in" "$work/out"
  done
}

@test "seccomp: a process that has installed a deadly filter after the probes keeps memory, not probes" {
  local kind
  for kind in kill strict; do
    mkfifo "$work/in"
    "$PINPRICK" count --json -o "$work/records" filtered:tick -- "$TARGETS/filtered" $kind \
      <"$work/in" >"$work/out" 2>"$work/errors" 3>&- &
    watcher=$!
    ends_with_test $watcher
    exec 7>"$work/in"
    until_line "$work/out" ready
    filtered=$(pgrep -P $watcher)
    calls
    kill -INT $watcher
    until_line "$work/records" '"type":"detached".*"is_filtered":true,"memory_left":true'
    [ "$(hits tick)" -eq 1000 ]
    text_is_original $filtered
    calls
    exec 7>&-
    wait $watcher
    rm "$work/in" "$work/out"
  done
}

@test "seccomp: without the right to suspend a filter it is refused in one line" {
  become_nobody "$PINPRICK" "$TARGETS/filtered"
  mkfifo -m 666 "$work/in"
  "${as_nobody[@]}" "$work/filtered" allow <"$work/in" >"$work/out" 3>&- &
  filtered=$!  # setpriv and env become the program
  ends_with_test $filtered
  exec 7>"$work/in"
  until_line "$work/out" ready
  run "${as_nobody[@]}" "$work/pinprick" count -p "$filtered" -d 0.01 filtered:tick
  echo "$output"
  [ "$status" -eq 4 ]
  [ "${#lines[@]}" -eq 1 ]
  [[ "$output" == *"its seccomp filter would see the system calls that pinprick makes in it; run pinprick as root"* ]]
  local why=$output
  run "${as_nobody[@]}" "$work/pinprick" doctor -p "$filtered"
  [ "$status" -eq 1 ]
  [[ "$output" == *"BAD   process $filtered"*"${why#pinprick: }"* ]]
  calls
}
