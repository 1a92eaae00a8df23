# Patterns stay true while the program loads and unloads libraries.
load helpers

plugin=$TARGETS/plugin.so

start_host() { TICKER=dlhost start_ticker; }

@test "a library that is loaded later is counted from its constructors on" {
  start_host
  watch count --allow-missing -p "$ticker" 'plugin:plugin_*'
  [ "$(field 'r[-1]["armed"]')" -eq 0 ]
  tell "load $plugin" load
  tell 'call 100' call
  end_watch
  [ "$(hits plugin_begin)" -eq 1 ]
  [ "$(hits plugin_main)" -eq 1 ]
  [ "$(hits plugin_step)" -eq 105 ]
  [ "$(field '[x["objects"] for x in r if x["type"] == "loaded"]')" = "[['plugin.so']]" ]
  tell 'call 100' call
  no_trace "$ticker"
  end_ticker
}

@test "patterns for any object, and every instruction, go on into what is loaded" {
  start_host
  watch count --allow-missing --instructions -p "$ticker" plugin_step call
  tell "load $plugin" load
  tell 'call 100' call
  end_watch
  # Each instruction of a function without a branch runs as often as the function.
  [ "$(field '{x["hits"] for x in r if x["type"] == "count" and x["function"].startswith("plugin_step")}')" = '{105}' ]
  [ "$(field '[x["hits"] for x in r if x.get("final") and x["function"] == "call"]')" = "[1]" ]
  no_trace "$ticker"
  end_ticker
}

@test "status shows a library that came again in one row, and does not count the probes that went with it" {
  start_host
  tell "load $plugin" load
  watch count -p "$ticker" 'plugin:plugin_step' dlhost:call
  tell 'call 100' call
  tell unload unload
  tell "load $plugin" load
  tell 'call 100' call
  "$PINPRICK" status -p "$ticker" --json >"$work/status"
  cat "$work/status"
  [ "$(python3 -c 'import json, sys
row = json.loads(sys.stdin.read())
print(row["sites"], [p["hits"] for p in row["probes"] if p["function"] == "plugin_step"])' <"$work/status")" = "2 [205]" ]
  end_watch
  # The second one's constructor calls it five times; that of the first one did so before.
  [ "$(hits plugin_step)" -eq 205 ]
  no_trace "$ticker"
  end_ticker
}

@test "a library that comes and goes keeps one row, and all its hits" {
  local verb
  start_host
  for verb in count latency; do
    watch $verb --allow-missing -p "$ticker" 'plugin:plugin_*'
    tell "cycle $plugin 50" cycle
    end_watch
    [ "$(field 'len([x for x in r if x["type"] == "loaded"])')" -eq 50 ]
    [ "$(field 'len([x for x in r if x["type"] == "unloaded"])')" -eq 50 ]
    [ "$(field 'sorted((x["function"], x.get("hits", x.get("count"))) for x in r if x.get("final"))')" = \
      "[('plugin_begin', 50), ('plugin_main', 50), ('plugin_step', 750)]" ]
    [ "$(field '[x["foreign"] for x in r if x["type"] == "detached"]')" = '[0]' ]
    tell "cycle $plugin 2" cycle
    no_trace "$ticker"
  done
  end_ticker
}

@test "a forked child keeps a library, and may call it, when its parent has unloaded it" {
  local verb children
  for verb in count latency; do
    for children in count ignore follow; do
      # Loaded before, and so one of the first batch; and loaded later, as a batch of its own, which
      # is taken out when the library is unloaded.
      start_host
      tell "load $plugin" load
      watch $verb --children=$children -p "$ticker" 'plugin:plugin_*'
      tell stay stay
      tell unload unload
      end_watch
      tell 'come 100' come
      watch $verb --children=$children --allow-missing -p "$ticker" 'plugin:plugin_*'
      tell "load $plugin" load
      tell stay stay
      tell unload unload
      tell 'come 100' come
      end_watch
      no_trace "$ticker"
      end_ticker
      rm "$work/in"
    done
  done
}

has_own_probes() { "$PINPRICK" status -p "$1" --json | grep -q '"plugin_step"'; }

# Before the child has a session of its own, its parent's stands for it: the library that both load
# then lies at the same address in both.
@test "what a forked child and its parent load at the same time is counted in both" {
  local child
  start_host
  watch count --children=follow --allow-missing -p "$ticker" 'plugin:plugin_*'
  tell "both $plugin" both
  child=$(pgrep -P "$ticker")
  patiently has_own_probes "$child"
  tell 'come 1000' come
  end_watch
  [ "$(field 'sum(x["hits"] for x in r if x["type"] == "count" and x["final"] and x["function"] == "plugin_step")')" -ge 1005 ]
  no_trace "$ticker"
  end_ticker
}

@test "musl's loader is followed, too" {
  [ -x "$TARGETS/dlhost_musl" ] || skip "musl-gcc is not installed"
  TICKER=dlhost_musl start_ticker
  watch count --allow-missing -p "$ticker" 'plugin:plugin_*'
  tell "load $plugin" load
  tell 'call 100' call
  tell "fork $plugin 1" fork
  end_watch
  [ "$(hits plugin_begin)" -eq 1 ]
  [ "$(hits plugin_step)" -eq 115 ]
  no_trace "$ticker"
  end_ticker
}

@test "hundreds of libraries come and go, or stay, with few open files" {
  local i
  printf '#!/bin/sh\nulimit -n 100\nexec "%s" "$@"\n' "$PINPRICK" >"$work/few"
  chmod +x "$work/few"
  start_host
  PINPRICK=$work/few watch count --allow-missing -p "$ticker" 'plugin*:plugin_main'
  tell "cycle $plugin 300" cycle
  for i in {1..25}; do
    cp "$plugin" "$work/plugin$i.so"
    tell "load $work/plugin$i.so" load
    tell 'call 1' call
  done
  end_watch
  [ "$(field '[x for x in r if x["type"] in ("warning", "error")]')" = '[]' ]
  [ "$(field '[x["hits"] for x in r if x.get("final")]')" = "[300$(printf ', 1%.0s' {1..25})]" ]
  no_trace "$ticker"
  end_ticker
}

@test "exceptions pass through timed functions of what is loaded later, be it the first C++ in the process" {
  start_host
  watch latency --allow-missing -p "$ticker" 'plugin_thrower:plugin_*' 'libstdc++:__cxa_*' 'libc:strlen'
  tell "cycle $TARGETS/plugin_thrower.so 3" cycle
  tell "load $TARGETS/plugin_thrower.so" load
  tell "load $plugin" load
  tell "load $TARGETS/plugin_thrower.so" load
  tell 'call 100' call
  end_watch
  [ "$(field '[x["unwound"] for x in r if x.get("final") and x["function"] == "plugin_through"]')" = '[65]' ]
  tell 'call 100' call
  no_trace "$ticker"
  end_ticker
}

@test "exceptions pass through timed functions of what is loaded later with LLVM's libunwind" {
  local thrower=$TARGETS/plugin_thrower_llvm.so
  [ -e "$thrower" ] || skip "clang++ makes no libraries with LLVM's libunwind (see tests/cli/unwinding.bats)"
  start_host
  watch latency --allow-missing -p "$ticker" 'plugin_thrower_llvm:plugin_*' 'libc++abi:__cxa_*' \
    'libc:strlen'
  tell "cycle $thrower 3" cycle
  tell "load $thrower" load
  tell "load $plugin" load
  tell "load $thrower" load
  tell 'call 100' call
  end_watch
  [ "$(field '[x["unwound"] for x in r if x.get("final") and x["function"] == "plugin_through"]')" = '[65]' ]
  [ "$(field '[x for x in r if x["type"] in ("warning", "error")]')" = '[]' ]
  tell 'call 100' call
  no_trace "$ticker"
  end_ticker
}

@test "exceptions pass through timed functions of what is loaded into a namespace of its own" {
  start_host
  watch latency --allow-missing -p "$ticker" 'plugin_thrower:plugin_*' 'libc:strlen'
  tell "space $TARGETS/plugin_thrower.so" space
  tell 'call 100' call
  end_watch
  [ "$(field '[x["unwound"] for x in r if x.get("final") and x["function"] == "plugin_through"]')" = '[50]' ]
  tell 'call 100' call
  no_trace "$ticker"
  end_ticker
}

@test "a thread that hangs in the kernel while a library is loaded goes on later, as do later loads" {
  start_host
  mkfifo "$work/child"
  cp "$plugin" "$work/plugin_again.so"
  watch count --allow-missing -p "$ticker" 'plugin*:plugin_step'
  tell "vfork $work/child" vfork
  tell "load $plugin" load
  [[ "$(field '[x["message"] for x in r if x["type"] == "warning"]')" == *"does not stop"* ]]
  : >"$work/child"
  tell join join
  tell "load $work/plugin_again.so" load
  tell 'call 100' call
  end_watch || true
  [ "$(hits plugin_step)" -eq 105 ]
  [ "$(field '[x["objects"] for x in r if x["type"] == "loaded"][-1][-1]')" = plugin_again.so ]
  no_trace "$ticker"
  end_ticker
}

@test "a library into whose code the loader is about to write is left alone, with a warning" {
  readelf -d "$TARGETS/plugin_textrel.so" | grep -q TEXTREL
  start_host
  watch count --allow-missing -p "$ticker" 'plugin*:plugin_*'
  tell "load $TARGETS/plugin_textrel.so" load
  tell 'call 100' call
  tell unload unload
  tell "load $plugin" load
  tell 'call 100' call
  end_watch
  [ "$(field '[x["objects"] for x in r if x["type"] == "loaded"]')" = "[['plugin.so']]" ]
  [ "$(hits plugin_step)" -eq 105 ]
  [ "$(field 'len([x for x in r if x["type"] == "warning" and "plugin_textrel.so, which is not probed" in x["message"]])')" -eq 1 ]
  tell 'call 100' call
  no_trace "$ticker"
  end_ticker
}

@test "--fail-on-loss tells by its status of what was loaded and could not be probed" {
  local status=0 pid
  start_host
  watch count --allow-missing --fail-on-loss -p "$ticker" 'plugin*:plugin_*'
  tell "load $plugin" load
  end_watch
  tell unload unload
  watch latency --allow-missing --fail-on-loss -p "$ticker" 'plugin*:plugin_*'
  tell "load $TARGETS/plugin_textrel.so" load
  end_watch || status=$?
  [ "$status" -eq 5 ]
  tell unload unload
  # Nor was it there when the library's constructors ran.
  watch count --allow-missing --fail-on-loss -p "$ticker" 'plugin:plugin_*'
  kill -STOP "$watcher"
  tell "load $plugin" load
  kill -CONT "$watcher"
  patiently eval '[ "$(field "len([x for x in r if x[\"type\"] == \"loaded\"])")" -eq 1 ]'
  status=0
  end_watch || status=$?
  [ "$status" -eq 5 ]
  [ "$(field 'len([x for x in r if x["type"] == "warning" and "did not probe it in time" in x["message"]])')" -eq 1 ]
  end_ticker
  # With a command, instead of the command's own status.
  echo "load $TARGETS/plugin_textrel.so" >"$work/commands"
  run "$PINPRICK" count --allow-missing 'plugin*:plugin_*' -- "$TARGETS/dlhost" <"$work/commands"
  [ "$status" -eq 0 ]
  run "$PINPRICK" count --allow-missing --fail-on-loss 'plugin*:plugin_*' -- "$TARGETS/dlhost" \
    <"$work/commands"
  echo "$output"
  [ "$status" -eq 5 ]
}

@test "a namespace of its own is followed, too" {
  start_host
  watch count --allow-missing -p "$ticker" 'plugin:plugin_step'
  tell "space $plugin" space
  tell 'call 100' call
  end_watch
  [ "$(hits plugin_step)" -eq 105 ]
  tell 'call 100' call
  no_trace "$ticker"
  end_ticker
}

@test "no thread waits for a pinprick that is gone, nor for one that is stopped" {
  start_host
  watch count --allow-missing -p "$ticker" 'plugin:plugin_step'
  kill -STOP "$watcher"
  tell "load $plugin" load
  kill -CONT "$watcher"
  # What it has missed it finds now.
  patiently eval '[ "$(field "len([x for x in r if x[\"type\"] == \"loaded\"])")" -eq 1 ]'
  tell 'call 100' call
  kill -KILL "$watcher"
  wait "$watcher" || true
  tell unload unload
  tell "cycle $plugin 3" cycle
  "$PINPRICK" detach -p "$ticker"
  tell "cycle $plugin 3" cycle
  no_trace "$ticker"
  end_ticker
}

@test "a forked child loads libraries while its parent is watched, and after" {
  start_host
  watch count --allow-missing -p "$ticker" 'plugin:plugin_step'
  tell "fork $plugin 3" fork
  tell "load $plugin" load
  tell "fork $plugin 3" fork
  end_watch
  # The first child's own libraries are not probed. The second finds its parent's, with its probes.
  [ "$(hits plugin_step)" -eq 35 ]
  tell "fork $plugin 3" fork
  no_trace "$ticker"
  end_ticker
}

@test "what children do is counted, or not, as wished" {
  local verb expected
  start_host
  for verb in count latency; do
    for children in count ignore; do
      watch $verb --children=$children -p "$ticker" dlhost:call libc:strlen
      tell "fork $plugin 3" fork
      tell "cycle $plugin 2" cycle
      [ $children = count ] && expected=5 || expected=2
      end_watch
      [ "$(field '[x.get("hits", x.get("count")) for x in r if x.get("final") and x["function"] == "call"]')" = "[$expected]" ]
      no_trace "$ticker"
    done
  done
  end_ticker
}

@test "patterns that name the program and other objects go on into these" {
  local pattern
  for pattern in '*:plugin_step' '*l*:plugin_step' '??u*:plugin_step'; do
    rm -f "$work/in"
    start_host
    watch count --allow-missing -p "$ticker" "$pattern" 'd*t:call'
    tell "load $plugin" load
    tell 'call 100' call
    end_watch
    [ "$(hits plugin_step)" -eq 105 ]
    [ "$(hits call)" -eq 1 ]
    no_trace "$ticker"
    end_ticker
  done
}

@test "patterns for the program alone leave its loader alone" {
  start_host
  watch count -p "$ticker" dlhost:call
  run text_is_original "$ticker"
  # libc has the hook for unwinders.
  [[ "$output" =~ ^"text differs from the file: $(realpath "$TARGETS/dlhost")"(\ [^ ]*/libc\.so\.6)?$ ]]
  end_watch
  end_ticker
}

@test "with --follow-exec the patterns go on in each program that the process executes, without it that is the end" {
  local records
  mkfifo "$work/in"
  # Each shell holds the next program back until it is known.
  sh -c 'read x; exec sh -c "read x; exec \"\$0\"" "$0"' "$TARGETS/ticker" <"$work/in" >"$work/out" 3>&- &
  ticker=$!
  ends_with_test $ticker
  exec 7>"$work/in"
  patiently has_begun $ticker /bin/sh
  watch count --allow-missing --follow-exec -p "$ticker" libc:read ticker:tick
  echo abc >&7
  patiently eval '[ "$(field "len([x for x in r if x[\"type\"] == \"armed\"])")" -eq 2 ]'
  echo abc >&7
  # Its library is loaded when it is armed.
  patiently eval '[ "$(field "sum(x[\"armed\"] for x in r if x[\"type\"] in (\"armed\", \"loaded\"))")" -eq 4 ]'
  [ "$(field '[x["command"] for x in r if x["type"] == "executed"]')" = "['sh', 'ticker']" ]
  tell 'tick 100' ticked
  end_watch
  [ "$(hits tick)" -eq 100 ]
  # Shells read each character of a line; they may wait for the first when they are probed.
  [ "$(field 'sum(x["hits"] for x in r if x.get("final") and x["function"] == "read")')" -ge 6 ]
  no_trace "$ticker"
  end_ticker

  "$PINPRICK" count --json libc:read -- sh -c "exec $TARGETS/ticker" </dev/null 2>"$work/records"
  [ "$(field 'len([x for x in r if x["type"] == "armed"])')" -eq 1 ]
}

@test "with --follow-exec a program that ends gives rise to no warning" {
  # It takes a while from when it has no memory any more until it counts as ended.
  cat >"$work/large.py" <<'PYTHON'
import sys
memory = b'x' * (256 << 20)
print('ready', flush=True)
sys.stdin.readline()
PYTHON
  for _ in 1 2 3; do
    rm -f "$work/in" "$work/out"
    mkfifo "$work/in"
    python3 "$work/large.py" <"$work/in" >"$work/out" 3>&- &
    fed=$!
    ends_with_test $fed
    exec 7>"$work/in"
    until_line "$work/out" '^ready$'
    watch count --follow-exec -p "$fed" libc:read
    exec 7>&-
    wait "$watcher"
    [ "$(field '[x for x in r if x["type"] in ("warning", "error", "executed")]')" = '[]' ]
    wait "$fed"
  done
}

# told_of_exec NAME PROGRAM: in one line that says what to do.
told_of_exec() {
  echo "$output"
  [ "$(grep -c "warning: $1 has executed $2, which is not probed; with --follow-exec it is" <<<"$output")" -eq 1 ]
}

@test "a wrapper that executes another program is told of, with what to do" {
  local ticker=$TARGETS/ticker
  printf '#!/bin/sh\nexec "%s"\n' "$ticker" >"$work/wrapper"
  chmod +x "$work/wrapper"
  # It waits for what is never written, until this shell lets it go.
  mkfifo "$work/in"
  exec 7<>"$work/in"
  "$PINPRICK" count libc:read -- "$work/wrapper" <"$work/in" >"$work/out" 2>"$work/errors" 3>&- 7>&- &
  watcher=$!
  ends_with_test $watcher
  until_line "$work/errors" 'has executed'
  kill -INT $watcher
  exec 7>&-
  wait $watcher
  output=$(cat "$work/errors") told_of_exec wrapper "$(realpath "$ticker")"
  # Nor need the wrapper have what is meant.
  run "$PINPRICK" count ticker:tick -- "$work/wrapper" </dev/null
  echo "$output"
  [ "$status" -eq 125 ]
  [[ "$output" == *"no function matches 'ticker:tick'"*"--allow-missing --follow-exec" ]]
  run "$PINPRICK" count --json --allow-missing --follow-exec -o "$work/records" ticker:tick -- \
    "$work/wrapper" < <(patiently grep -q '"armed":1' "$work/records" && echo 'tick 100')
  [ "$(hits tick)" -eq 100 ]
  # One that was too short to be seen by its own name, and of which there is no hit.
  run "$PINPRICK" count --allow-missing libc:abort -- sh -c 'exec true'
  echo "$output"
  [ "$(grep -cE 'warning: sh has (probably )?executed [^ ]*true, which is not probed; with --follow-exec it is' <<<"$output")" -eq 1 ]
  # Nothing is said of a process that starts a child, or that executes no program.
  run "$PINPRICK" count libc:read -- sh -c 'true; exit 0'
  [[ "$output" != *executed* ]]
}

# An upgrade by hand: the old file gets another name, and the program runs on.
@test "a program that is renamed keeps its probes, and is not probed a second time" {
  cp "$TARGETS/dlhost" "$work/app"
  TARGETS=$work TICKER=app start_ticker
  watch count -p "$ticker" call
  mv "$work/app" "$work/app.old"
  tell "load $plugin" load
  tell 'call 1' call
  tell 'call 1' call
  end_watch
  [ "$(hits call)" -eq 2 ]
  no_trace "$ticker"
  end_ticker
}
