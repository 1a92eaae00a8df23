# pinprick count, on programs that know how often they called what.
load helpers

@test "every hit is counted once, and the text is the file's again after detach" {
  start_ticker
  watch count -p $ticker ticker:tick
  tell "tick 100000" ticked
  tell "tick 23456" ticked
  end_watch
  [ "$(hits tick)" -eq 123456 ]
  no_trace $ticker
  tell "tick 10" ticked
  end_ticker
}

@test "eight threads lose no hit" {
  start_ticker 8
  watch count -p $ticker ticker:tick
  tell "tick 8000000" ticked
  end_watch
  [ "$(hits tick)" -eq 8000000 ]
  end_ticker
}

@test "a program without rseq (static, musl) is counted exactly, too" {
  for TICKER in ticker_static ticker_musl; do
    [ -x "$TARGETS/$TICKER" ] || continue
    rm -f "$work/in"
    start_ticker 4
    watch count -p $ticker "$TICKER:tick"
    tell "tick 400000" ticked
    end_watch
    [ "$(hits tick)" -eq 400000 ]
    no_trace $ticker
    end_ticker
  done
}

@test "-d ends the run by itself" {
  start_ticker
  watch count -p $ticker -d 0.2 ticker:tick
  wait $watcher
  [ "$(hits tick)" -eq 0 ]
  no_trace $ticker
  end_ticker
}

# reported: all of the reports so far, but not the whole at the end.
reported() { field 'sum(x["hits"] for x in r if x["type"] == "count" and not x["final"])'; }
# A record that is being written has no end yet.
have_reported() { [ "$(reported 2>/dev/null)" = "$1" ]; }

@test "-i reports what happened since the last report" {
  start_ticker
  watch count -p $ticker -i 0.1 ticker:tick
  # A report may come while these are made, and has only some of them.
  tell "tick 1000" ticked
  patiently have_reported 1000
  tell "tick 500" ticked
  patiently have_reported 1500
  end_watch
  [ "$(hits tick)" -eq 1500 ]
  [ "$(reported)" -eq 1500 ]
  end_ticker
}

@test "a target that ends by itself is reported to its end" {
  start_ticker
  watch count -p $ticker ticker:tick
  tell "tick 777" ticked
  end_ticker
  wait $watcher
  [ "$(hits tick)" -eq 777 ]
  [ "$(field '[x["target_gone"] for x in r if x["type"] == "detached"][0]')" = True ]
}

@test "a target that is killed leaves its counts" {
  start_ticker
  watch count -p $ticker ticker:tick
  tell "tick 888" ticked
  kill -KILL $ticker
  wait $watcher
  [ "$(hits tick)" -eq 888 ]
}

@test "several processes at once are told apart" {
  start_ticker
  local first=$ticker
  "$TARGETS/ticker" </dev/zero >/dev/null 3>&- 7>&- &
  local second=$!
  ends_with_test $second
  patiently has_begun $second "$TARGETS/ticker"
  watch count -p $first -p $second ticker:tick
  patiently grep -q "\"armed\",\"pid\":$second," "$work/records"
  tell "tick 50" ticked
  end_watch
  [ "$(field "[x['hits'] for x in r if x['type'] == 'count' and x['pid'] == $first][0]")" -eq 50 ]
  [ "$(field "[x['hits'] for x in r if x['type'] == 'count' and x['pid'] == $second][0]")" -eq 0 ]
}

@test "patterns choose: globs, exclusion, regular expressions, objects, aliases once" {
  start_ticker
  watch count -p $ticker 'ticker:*' -x 'ticker:re*' -d 0.01 --allow-missing
  wait $watcher
  [ "$(field 'len([x for x in r if x["type"] == "count" and x["function"] == "tick"])')" -eq 1 ]
  [ "$(field 'len([x for x in r if x["type"] == "count" and x["function"] == "recurse"])')" -eq 0 ]
  watch count -p $ticker -r 'ticker:(tick|nap)' -d 0.01
  wait $watcher
  [ "$(field 'sorted(x["function"] for x in r if x["type"] == "count")')" = "['nap', 'tick']" ]
  end_ticker
}

@test "-- COMMAND is counted from its first instruction, and its status is passed on" {
  run "$PINPRICK" count --json -o "$work/records" 'ticker:main' 'ticker:tick' -- \
    "$TARGETS/ticker" <<<"tick 321"
  [ "$status" -eq 0 ]
  [ "$output" = "ticked" ]
  [ "$(hits main)" -eq 1 ]
  [ "$(hits tick)" -eq 321 ]
  run "$PINPRICK" count -o /dev/null 'libc:exit' -- sh -c 'exit 7'
  [ "$status" -eq 7 ]
  run "$PINPRICK" count -o /dev/null 'libc:exit' -- sh -c 'kill -TERM $$'
  [ "$status" -eq 143 ]
}

@test "with -- COMMAND the program takes signals as the caller had them" {
  cat >"$work/signals.py" <<'PYTHON'
import signal, subprocess, sys
pinprick = sys.argv[1:]
show = ['grep', '^Sig\(Blk\|Ign\|Cgt\|Pnd\):', '/proc/self/status']
def run(command, blocked, ignored, default):
    def prepare():
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        for number in ignored: signal.signal(number, signal.SIG_IGN)
        for number in default: signal.signal(number, signal.SIG_DFL)
    return subprocess.run(command, preexec_fn=prepare, restore_signals=False, check=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
s = signal.Signals
for blocked, ignored, default in [
    ([], [], [s.SIGPIPE, s.SIGXFSZ]),
    ([], [s.SIGPIPE, s.SIGINT, s.SIGQUIT], [s.SIGXFSZ]),
    ([s.SIGINT, s.SIGTERM, s.SIGUSR1, s.SIGTRAP, s.SIGRTMAX], [s.SIGXFSZ], [s.SIGPIPE]),
    ([s.SIGCHLD, s.SIGHUP], [s.SIGCHLD, s.SIGTSTP], [s.SIGPIPE, s.SIGXFSZ])]:
    bare, counted = (run(c, blocked, ignored, default) for c in (show, pinprick + show))
    print(bare, counted, sep='\n')
    assert bare == counted
PYTHON
  python3 "$work/signals.py" "$PINPRICK" count libc:read --
}

@test "-- COMMAND is waited for, and goes on, although a thread of it hung when it was to be detached" {
  mkfifo "$work/in" "$work/child"
  "$PINPRICK" count --json -o "$work/records" dlhost:call -- "$TARGETS/dlhost" \
    <"$work/in" >"$work/out" 2>"$work/errors" 3>&- &
  watcher=$!
  ends_with_test $watcher
  exec 7>"$work/in"
  tell "vfork $work/child" vfork
  kill -INT $watcher
  until_line "$work/records" 'does not stop'
  : >"$work/child"
  tell join join
  exec 7>&-
  wait $watcher && status=0 || status=$?
  [ $status -eq 125 ]
  "$PINPRICK" detach --all
}

@test "with -- COMMAND the program keeps its stdout, and the results go to stderr" {
  "$PINPRICK" count ticker:tick -- "$TARGETS/ticker" <<<"tick 5" >"$work/stdout" 2>"$work/stderr"
  [ "$(cat "$work/stdout")" = "ticked" ]
  grep -qE '^ +5 .* tick$' "$work/stderr"
}

@test "offset 0 of a function is its entry; other offsets count instructions" {
  start_ticker
  watch count -p $ticker 'ticker:tick+0' -d 0.01
  wait $watcher
  end_ticker
}

@test "a function that jumps back to its entry keeps what it has below the stack pointer" {
  local plain verb value
  plain=$("$TARGETS/entered_again")
  for verb in count hist latency; do
    value=
    [ $verb = hist ] && value=' $arg1'
    [ "$("$PINPRICK" $verb -o "$work/json" --json "entered_again:again$value" \
      "entered_again:marked$value" "main$value" -- "$TARGETS/entered_again" 2>/dev/null)" = "$plain" ]
  done
  [ "$(evaluate '
import json, sys
print([x["reason"] for x in map(json.loads, open(sys.argv[1])) if x["type"] == "skipped"])' "$work/json")" = \
    "['entered_again', 'entered_again']" ]
}
