# Children that were forked from a process with probes, and execute nothing: they have the probes as
# well, until those are taken out of the process.
load helpers

setup_file() { export BATS_TEST_TIMEOUT=120; }

# start_forked CHILDREN [ARGUMENT]: such a process, as $fed. The children's PIDs are in $children.
start_forked() {
  start_fed forked "${@:2}"
  children=()
  local i
  for ((i = 0; i < $1; ++i)); do fork_one; done
}
fork_one() {
  local line
  line=$(answer fork)
  children+=("${line#done }")
  ends_with_test "${line#done }"
}
nothing_left() {
  local pid
  for pid in $fed "${children[@]}"; do no_trace "$pid" || return; done
}

@test "are detached from with their parent, and go on" {
  for verb in count latency 'hist'; do
    local pattern=forked:probed
    [ "$verb" != hist ] || pattern='forked:probed $arg1'
    start_forked 2
    watch $verb "$pattern" -p $fed
    fork_one
    fork_one
    answer "call 10"
    end_watch
    [ "$(field '[x["forked"] for x in r if x["type"] == "detached"]')" = "[2]" ]
    nothing_left
    answer "call 10"
    end_fed
    rm "$work/in"
  done
}

@test "also if they do not count" {
  start_forked 0
  watch count --children=ignore forked:probed -p $fed
  fork_one
  answer "call 10"
  end_watch
  [ "$(hits probed)" -eq 10 ]
  [ "$(field '[x["forked"] for x in r if x["type"] == "detached"]')" = "[1]" ]
  nothing_left
  end_fed
}

@test "also if pinprick was killed and the parent has ended, which status says" {
  mkfifo "$work/end"
  exec 9<>"$work/end"
  start_fed forked leave
  watch count forked:probed -p $fed
  fork_one
  fork_one
  kill -KILL $watcher
  wait $watcher || true
  end_fed
  "$PINPRICK" status -p $fed | grep 'has ended, but 2 processes that it had forked have the probes'
  "$PINPRICK" detach -p $fed 2>&1 | grep 'detached from 2 processes'
  local pid
  for pid in "${children[@]}"; do no_trace "$pid"; done
  [ "$(find "$runtime" -name '*.session' | wc -l)" -eq 0 ]
  exec 9>&-
}

@test "one that is traced keeps the probes until a later detach, and status says so" {
  start_forked 1
  watch count forked:probed -p $fed
  fork_one
  "$TARGETS/tracer" "${children[1]}" >"$work/tracer" 3>&- 7>&- &
  local tracer=$!
  ends_with_test $tracer
  until_line "$work/tracer" '^traced'
  end_watch
  "$PINPRICK" status -p $fed | grep 'detached, but 1 process that it had forked has the probes'
  kill -KILL $tracer
  wait $tracer || true
  "$PINPRICK" detach -p $fed 2>&1 | grep 'detached from 1 process'
  nothing_left
  answer "call 10"
  end_fed
}

# The figures of each process, by PID, summed over what is recorded of it.
hits_of() {
  field "sum(x['hits'] for x in r if x['type'] == 'count' and x['final'] and x['pid'] == $1)"
}
# Has it a session of its own?
is_measured() { grep -q "/$1-[0-9-]*.session" "/proc/$1/maps"; }

@test "have figures of their own with --children=follow, and no call is lost or counts twice" {
  start_forked 0
  watch count --children=follow --by pid forked:probed -p $fed
  fork_one
  answer "call 1000"
  fork_one
  answer "call 1000"
  local pid
  for pid in "${children[@]}"; do patiently is_measured "$pid"; done
  answer "call 100"
  answer end
  answer "call 10"
  end_watch
  [ "$(hits_of "${children[0]}")" -ge 100 ]
  [ "$(hits_of "${children[1]}")" -ge 110 ]
  [ "$(hits_of 0)" -eq 5320 ]
  [ "$(field 'sum(x["hits"] for x in r if x["type"] == "count" and x["final"] and x["pid"])')" -eq 5320 ]
  no_trace "$fed"
  no_trace "${children[1]}"
  end_fed
}

@test "have figures of their own while calls are made all the time: none is lost" {
  start_forked 4
  watch latency --children=follow --by pid forked:probed -p $fed
  fork_one
  fork_one
  # Long enough that the two get their own meanwhile.
  local i
  for ((i = 0; i < 40; ++i)); do answer "call 100000" >"$work/answer"; done
  is_measured "${children[4]}"
  is_measured "${children[5]}"
  end_watch
  [ "$(field 'sum(x["count"] for x in r if x["type"] == "latency" and x["final"] and x["pid"] == 0)')" -eq 12000000 ]
  no_trace "${children[5]}"
  end_fed
}

@test "are detached from if they have several threads that are timed all the time" {
  for follow in '' --children=follow; do
    start_forked 0 hot
    watch latency $follow 'forked:probed' 'forked:busy' -p $fed
    fork_one
    fork_one
    answer "call 10"
    end_watch
    [ "$(field '[x["forked"] for x in r if x["type"] == "detached"]')" = "[2]" ] || [ -n "$follow" ]
    nothing_left
    answer "call 10"
    end_fed
    rm "$work/in"
  done
}

@test "have figures of their own if they have several threads, and no call is lost or counts twice" {
  start_forked 0 threads
  watch latency --children=follow --by pid forked:probed forked:busy -p $fed
  fork_one
  answer "call 1000"
  local pid=${children[0]}
  patiently is_measured "$pid"
  answer "call 100"
  end_watch
  local of='sum(x["count"] for x in r if x["type"] == "latency" and x["final"] and x["function"] == "probed" and x["pid"]'
  [ "$(field "$of == $pid)")" -ge 100 ]
  [ "$(field "$of == 0)")" -eq 2200 ]
  no_trace "$pid"
  end_fed
}

@test "have figures of their own with --all, also when their parent has ended" {
  [ "$(id -u)" -eq 0 ] || skip "needs root, to hold executions"
  use_copy forked
  mkfifo "$work/end"
  exec 9<>"$work/end"
  start_fed forked leave
  watch count --all "$TARGETS/forked" --by pid probed --exclude-pid 1
  children=()
  fork_one
  answer "call 7"
  patiently is_measured "${children[0]}"
  answer "call 100"
  end_fed
  is_measured "${children[0]}"
  end_watch
  [ "$(hits_of "${children[0]}")" -ge 100 ]
  [ "$(hits_of 0)" -eq 214 ]
  no_trace "${children[0]}"
  exec 9>&-
}
