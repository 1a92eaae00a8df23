# Children that were forked from a process with probes, and execute nothing: they have the probes as
# well, until those are taken out of the process.
load helpers

setup_file() { export BATS_TEST_TIMEOUT=120; }

# A process with as many children, as $fed. The PIDs of these are in $children.
start_forked() {
  start_fed forked
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
  [ "$(hits forked:probed)" -eq 10 ] || [ "$(hits probed)" -eq 10 ]
  [ "$(field '[x["forked"] for x in r if x["type"] == "detached"]')" = "[1]" ]
  nothing_left
  end_fed
}

@test "also if pinprick was killed, and the parent has ended" {
  start_fed forked leave
  mkfifo "$work/end"
  exec 9<>"$work/end"
  exec 7>&-
  wait "$fed"
  exec 9>&-
  skip "see below"
}
