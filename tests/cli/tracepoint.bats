# Tracepoints of a program that does not have libpinprick (tests/targets/orders.c). Those of one that
# does are in library.bats.
load helpers

setup_orders() { start_fed "${1:-orders}"; }
work_off() { answer "$1"; }

@test "a tracepoint is on while its hits are counted, and each is counted, in programs linked either way" {
  local program
  for program in orders orders_nopie; do
    setup_orders $program
    [ "$(work_off 10)" = "orders 10 order 0 mixed 0 first 0" ]
    watch count usdt:shop:order -p $fed
    [ "$(work_off 100)" = "orders 110 order 100 mixed 0 first 0" ]
    end_watch
    [ "$(hits shop:order)" -eq 100 ]
    [ "$(work_off 10)" = "orders 120 order 100 mixed 0 first 0" ]
    no_trace $fed
    end_fed
    rm "$work/in"
  done
}

@test "both forms of a point are turned on together" {
  setup_orders
  watch count usdt:shop:mixed -p $fed
  [ "$(work_off 50)" = "orders 50 order 0 mixed 100 first 0" ]
  end_watch
  [ "$(hits shop:mixed)" -eq 100 ]
  [ "$(work_off 50)" = "orders 100 order 0 mixed 100 first 0" ]
  no_trace $fed
}

@test "a point stays on until the last pinprick that counts its hits has left" {
  setup_orders
  watch count usdt:shop:order -p $fed
  local first=$watcher
  mv "$work/records" "$work/records.first"  # to which it goes on to write
  watch count 'usdt:shop:*' -p $fed
  kill -INT $first
  wait $first
  [ "$(work_off 50)" = "orders 50 order 50 mixed 100 first 50" ]
  end_watch
  [ "$(hits shop:order)" -eq 50 ]
  [ "$(work_off 50)" = "orders 100 order 50 mixed 100 first 50" ]
  no_trace $fed
}

@test "after the controller was killed, the point stays on until a detach turns it off" {
  setup_orders
  watch count usdt:shop:order -p $fed
  kill -KILL $watcher
  wait $watcher || true
  [ "$(work_off 50)" = "orders 50 order 50 mixed 0 first 0" ]
  "$PINPRICK" detach -p $fed
  [ "$(work_off 50)" = "orders 100 order 50 mixed 0 first 0" ]
  no_trace $fed
}

@test "a point is on from the program's first instruction on" {
  echo 30 | "$PINPRICK" count --json -o "$work/records" usdt:shop:order -- "$TARGETS/orders" >"$work/out"
  [ "$(cat "$work/out")" = "orders 30 order 30 mixed 0 first 0" ]
  [ "$(hits shop:order)" -eq 30 ]
}

@test "arguments of a point are recorded, though the program attaches nothing" {
  setup_orders
  watch hist -p $fed --bits 5 'usdt:shop:order $arg1'
  [ "$(work_off 100)" = "orders 100 order 100 mixed 0 first 0" ]
  end_watch
  [ "$(field "[(x['function'], x['count'], x['sum']) for x in r if x['type'] == 'hist' and x['final']]")" = \
    "[('shop:order', 100, 5050.0)]" ]
  no_trace $fed
}

@test "a nop that another probe has displaced is refused to its point, and the other way round" {
  setup_orders
  watch count orders:first_step -p $fed
  run "$PINPRICK" count usdt:shop:first -p $fed -d 0.1
  [ "$status" -eq 3 ]  # no library has come with such a point
  [[ "$output" == *"the jump of another probe lies there"* ]]
  [[ "$output" != *"--trap"* ]]
  run "$PINPRICK" count --trap usdt:shop:first -p $fed -d 0.1  # would miss hits: the point is off
  [ "$status" -eq 3 ]
  [[ "$output" == *"the jump of another probe lies there"* ]]
  [ "$(work_off 20)" = "orders 20 order 0 mixed 0 first 0" ]
  end_watch
  [ "$(hits first_step)" -eq 20 ]
  watch count usdt:shop:first -p $fed
  run "$PINPRICK" count orders:first_step -p $fed -d 0.1
  [ "$status" -eq 3 ]
  [[ "$output" == *"the jump of another probe lies there"* ]]
  [ "$(work_off 20)" = "orders 40 order 0 mixed 0 first 20" ]
  end_watch
  [ "$(hits shop:first)" -eq 20 ]
  no_trace $fed
}

@test "of a function that begins with a point, and the point, one run counts the point" {
  setup_orders
  watch count usdt:shop:first orders:first_step -p $fed --allow-missing
  [ "$(field "[(x['function'], x['reason']) for x in r if x['type'] == 'skipped'][0]")" = "('first_step', 'neighbour')" ]
  work_off 20
  end_watch
  [ "$(hits shop:first)" -eq 20 ]
  no_trace $fed
}

@test "perf lists a program's tracepoints as SDT events" {
  command -v perf >/dev/null || skip "perf is not installed"
  perf --buildid-dir "$work/perf" buildid-cache --add "$TARGETS/orders"
  perf --buildid-dir "$work/perf" list sdt >"$work/events" || skip "perf was built without SDT events"
  [ "$(grep -o 'sdt_shop:[a-z]*' "$work/events" | sort | tr '\n' ' ')" = \
    "sdt_shop:first sdt_shop:mixed sdt_shop:order " ]
}
