# What no jump can be placed at, counted by breakpoints of the kernel: --trap.
load helpers

# Where they cannot be had, `doctor` says so.
needs_breakpoints() {
  local why
  why=$("$PINPRICK" doctor | grep '^note  breakpoints') || return 0
  skip "${why#note  breakpoints}"
}

@test "what no jump fits is counted by breakpoints, in all threads, and the program does the same" {
  needs_breakpoints
  local verb
  "$TARGETS/cramped" 4 1000 >"$work/bare"
  "$PINPRICK" count --instructions --json -o "$work/records" cramped:three cramped:four -- \
    "$TARGETS/cramped" 4 1000 >"$work/probed" || true
  [ "$(field '[x["skipped"] for x in r if x["type"] == "armed"]')" = '[2]' ]
  "$PINPRICK" count --trap --instructions --json -o "$work/records" cramped:three cramped:four -- \
    "$TARGETS/cramped" 4 1000 >"$work/trapped"
  cmp "$work/bare" "$work/probed"
  cmp "$work/bare" "$work/trapped"
  [ "$(field '[(x["armed"], x["skipped"], x["trapped"]) for x in r if x["type"] == "armed"]')" = '[(4, 0, 2)]' ]
  [ "$(field '[x["hits"] for x in r if x["type"] == "count"]')" = '[4000, 4000, 4000, 4000]' ]
}

@test "the kernel raises the semaphore of a point that it counts" {
  needs_breakpoints
  "$PINPRICK" count --trap --json -o "$work/records" 'usdt:cramped:back' -- \
    "$TARGETS/cramped" 4 1000 x >"$work/trapped"
  cat "$work/records" "$work/trapped"
  [ "$(field '[(x["armed"], x["trapped"]) for x in r if x["type"] == "armed"]')" = '[(1, 1)]' ]
  [ "$(field '[x["hits"] for x in r if x["type"] == "count" and x["final"]]')" = '[4000]' ]
  grep -q '^raised 4000 now 1$' "$work/trapped"
}

@test "no breakpoint among the bytes that another probe's jump ends in" {
  needs_breakpoints
  "$TARGETS/punned" 2 1000 >"$work/bare"
  "$PINPRICK" count --trap --json -o "$work/records" punned:paired+0x8 punned:paired+0x9 -- \
    "$TARGETS/punned" 2 1000 >"$work/trapped"
  cmp "$work/bare" "$work/trapped"
  [ "$(field '[(x["armed"], x["skipped"], x["trapped"]) for x in r if x["type"] == "armed"]')" = '[(1, 1, 0)]' ]
  # From n modulo 4 it counts down to 1, and goes there with each even number: of 0 to 3 two times.
  [ "$(field '[x["hits"] for x in r if x["type"] == "count" and x["final"]]')" = '[1000]' ]
}

@test "breakpoints go with Ctrl-C, and when pinprick is killed" {
  needs_breakpoints
  local cramped
  "$TARGETS/cramped" 2 1000000000000 >/dev/null 3>&- &
  cramped=$!
  ends_with_test $cramped
  patiently has_begun $cramped "$TARGETS/cramped"
  watch count --trap --instructions -p $cramped cramped:three cramped:four
  [ "$(field '[x["trapped"] for x in r if x["type"] == "armed"]')" = '[2]' ]
  end_watch
  no_trace $cramped
  watch count --trap --instructions -p $cramped cramped:three cramped:four
  kill -KILL $watcher
  wait $watcher || true
  # The kernel takes its own out by itself.
  "$PINPRICK" detach -p $cramped
  patiently text_is_original $cramped
  no_trace $cramped
  kill -0 $cramped
}

@test "every entry of CPython can be counted" {
  needs_breakpoints
  local python=/usr/bin/python3
  [ -x $python ] || skip "needs Debian's python3"
  "$PINPRICK" count --trap --json -o "$work/records" 'python3*:*' -- \
    $python -c 'import sys; print(sum(sys.getsizeof({}) for i in range(10)))' >"$work/out"
  [ "$(cat "$work/out")" = 640 ]
  [ "$(field '[x["skipped"] for x in r if x["type"] == "armed"]')" = '[0]' ]
}

@test "a user that may not ask the kernel for breakpoints is told so in one line" {
  become_nobody "$PINPRICK" "$TARGETS/cramped"
  run "${as_nobody[@]}" "$work/pinprick" count --trap --instructions cramped:three cramped:four -- \
    "$work/cramped" 1 1000
  echo "$output"
  [ "$(grep -c -- '--trap' <<<"$output")" -eq 1 ]
  [[ "$output" == *"warning: --trap: the kernel lets only root place breakpoints"* ]]
  [[ "$output" == *"armed 2 of 4 instructions"* ]]
}
