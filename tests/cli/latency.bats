# pinprick latency: from entry to return.
load helpers

calls() { field "[x['count'] for x in r if x['type'] == 'latency' and x['final'] and x['function'] == '$1'][0]"; }
latency_field() { field "[x['$2'] for x in r if x['type'] == 'latency' and x['final'] and x['function'] == '$1'][0]"; }

@test "every call is in the histogram, and the totals agree" {
  start_ticker
  watch latency -p $ticker ticker:tick
  tell "tick 100000" ticked
  end_watch
  [ "$(calls tick)" -eq 100000 ]
  [ "$(field 'sum(s[1] for x in r if x["type"] == "latency" for s in x["slots"])')" -eq 100000 ]
  [ "$(latency_field tick missed)" -eq 0 ]
  no_trace $ticker
  end_ticker
}

@test "eight threads lose no call" {
  start_ticker 8
  watch latency -p $ticker ticker:tick
  tell "tick 2000000" ticked
  end_watch
  [ "$(calls tick)" -eq 2000000 ]
  no_trace $ticker
  end_ticker
}

@test "a call of 30 ms reads as 30 ms" {
  start_ticker
  watch latency -p $ticker --bits 5 ticker:nap
  # No call is longer than what has passed around it: a busy machine may wake the sleeper late.
  local before=${EPOCHREALTIME/./}
  tell "nap 30" napped
  local around=$(((${EPOCHREALTIME/./} - before) * 1000))
  end_watch
  [ "$(calls nap)" -eq 1 ]
  [ "$(field "[30e6 <= x['sum_ns'] <= $around for x in r if x['type'] == 'latency'][0]")" = True ]
  [ "$(field "[30e6 * 31 / 32 <= x['p50_ns'] <= $around * 33 / 32 for x in r if x['type'] == 'latency'][0]")" = True ]
  end_ticker
}

@test "recursion is measured frame by frame, and beyond the last slot it is counted as missed" {
  start_ticker
  watch latency -p $ticker --slots 100 ticker:recurse
  tell "recurse 49" recursed
  tell "recurse 149" recursed
  end_watch
  local all=$((50 + 150))
  [ $(($(calls recurse) + $(latency_field recurse missed))) -eq $all ]
  [ "$(latency_field recurse missed)" -gt 0 ]
  no_trace $ticker
  end_ticker
}

@test "--fail-on-loss tells of missed calls by its status" {
  start_ticker
  watch latency -p $ticker --slots 10 --fail-on-loss ticker:recurse
  tell "recurse 1000" recursed
  local status=0
  end_watch || status=$?
  [ "$status" -eq 5 ]
  end_ticker
}

@test "a call in flight at the end returns to its caller as if nothing had been" {
  start_ticker 2
  watch latency -p $ticker 'libc:read' 'ticker:tick'
  # The program waits in read() for its next command, and only now goes through the probe.
  tell "tick 10" ticked
  end_watch
  [ "$(field '[x["released"] for x in r if x["type"] == "detached"][0]')" -eq 1 ]
  no_trace $ticker
  tell "tick 10" ticked
  watch latency -p $ticker 'ticker:recurse' 'libc:nanosleep' 'ticker:nap'
  echo "nap 300" >&7
  until_line /proc/$ticker/task/$ticker/wchan 'nanosleep'
  end_watch
  [ "$(field '[x["released"] for x in r if x["type"] == "detached"][0]')" -eq 2 ]
  no_trace $ticker
  until_line "$work/out" napped
  tell "tick 10" ticked
  end_ticker
}

@test "what does not return as it was called is refused, by name and by what it is" {
  start_ticker
  watch latency -p $ticker --allow-missing -d 0.01 'libc:setjmp' 'libc:_setjmp' 'libc:__sigsetjmp' \
    'libc:vfork' 'libc:getcontext' 'libc:swapcontext' 'libc:dlsym' 'libc:clone' 'ticker:_start' \
    'ticker:tick'
  wait $watcher
  [ "$(field 'len([x for x in r if x["type"] == "latency"])')" -eq 1 ]
  [ "$(field '[x["reason"] for x in r if x["type"] == "skipped" and x["function"] == "vfork"][0]')" = returns_otherwise ]
  [ "$(field '[x["reason"] for x in r if x["type"] == "skipped" and x["function"] == "_start"][0]')" = not_called ]
  end_ticker
}

@test "calls that longjmp leaves keep their slots, and there are others for those that come" {
  start_ticker
  watch latency -i 0.05 -p $ticker ticker:leap ticker:tick
  tell "leap 10000" leapt
  measured() {
    tell "tick 1" ticked
    [ "$(field 'sum(x["count"] for x in r if x["type"] == "latency" and x["function"] == "tick")')" -gt 0 ]
  }
  patiently measured
  run end_watch
  [ "$(field '[x["calls_lost"] > 4096 and x["memory_left"] for x in r if x["type"] == "detached"]')" = '[True]' ]
  text_is_original $ticker
  tell "tick 100" ticked
  end_ticker
}
